"""Backends that are installed apart from the app, such as CUDA: found in the user's folder, checked, then loaded.

A component is a folder with the backend's library, the libraries that this needs, and `component.json`::

    {
      "format": 1,
      "name": "cuda",
      "platform": "windows-x86_64",
      "ggml": "0.25.3",
      "library": "ggml-cuda.dll",
      "files": {"ggml-cuda.dll": 123456, "cudart64_12.dll": 567890}
    }

with every library's size in bytes. ggml itself only compares the number of its backend interface, which stays the same
while its operations change: a backend of another version would compute something else. So the version must be the very
one that this engine has. `installer/release/component.py` makes them.
"""

import ctypes
import logging
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from app.engine.ggml import Ggml
from app.native_library import why_not_loaded
from app.platform_name import this_platform

log = logging.getLogger(__name__)

MANIFEST = "component.json"
FORMAT = 1
_MANIFEST_BYTES = 1 << 16
_NAME = r"^[A-Za-z0-9][A-Za-z0-9._+-]{0,119}\Z"

FileName = Annotated[str, Meta(pattern=_NAME)]


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What `component.json` says; see the module."""

    format: int
    name: Annotated[str, Meta(min_length=1, max_length=60)]
    platform: str
    ggml: str
    library: FileName
    files: Annotated[dict[FileName, int], Meta(min_length=1, max_length=60)]


class _RefusedError(Exception):
    """Why a component is not loaded, as a sentence."""


def load_components(ggml: Ggml, folder: Path) -> tuple[str, ...]:
    """Load every component below `folder`; call it before the engine's own backends are loaded.

    Like that the faster way to a graphics card comes first, as in a build that has both.

    Returns:
        One sentence for each component that is not loaded; a single one where it cannot be found out which there are.
    """
    notes: list[str] = []
    try:
        places = _folders(folder)
    except OSError as error:
        places = ()
        notes.append(f"The components in {folder} are left out: they cannot be looked for ({error}).")
        log.warning(notes[-1])
    for place in places:
        try:
            manifest = _checked(place, ggml.version)
            _load(ggml, place, manifest)
        except _RefusedError as refused:
            note = f"The component in {place} is left out: {refused}"
            log.warning(note)
            notes.append(note)
        else:
            log.info("component %s loaded from %s", manifest.name, place)
    return tuple(notes)


def _folders(folder: Path) -> tuple[Path, ...]:
    """Those below `folder` that hold a component; none where there is no such folder."""
    try:
        return tuple(sorted(place for place in folder.iterdir() if (place / MANIFEST).is_file()))
    except FileNotFoundError:
        return ()


def _checked(place: Path, version: str) -> Manifest:
    """The manifest of the component in `place`, which fits this engine and is whole."""
    try:
        with (place / MANIFEST).open("rb") as file:
            manifest = msgspec.json.decode(file.read(_MANIFEST_BYTES), type=Manifest)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _RefusedError(f"its {MANIFEST} cannot be read ({error}).") from error
    if manifest.format != FORMAT:
        raise _RefusedError(f"it is of format {manifest.format}; this app knows format {FORMAT}.")
    if manifest.platform != this_platform():
        raise _RefusedError(f"it is made for {manifest.platform}, and this is {this_platform()}.")
    if manifest.ggml != version:
        raise _RefusedError(f"it is made for ggml {manifest.ggml}, and this engine has {version}: get the one for it.")
    if manifest.library not in manifest.files:
        raise _RefusedError(f"{manifest.library} is not among its files.")
    for name, size in manifest.files.items():
        try:
            there = (place / name).stat().st_size
        except OSError as error:
            raise _RefusedError(f"{name} is missing.") from error
        if there != size:
            raise _RefusedError(f"{name} has {there} bytes in place of {size}: unpack it again.")
    return manifest


def _load(ggml: Ggml, place: Path, manifest: Manifest) -> None:
    path = place / manifest.library
    try:
        # By its whole path, so that on Windows what it needs is found beside it.
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise _RefusedError(f"{manifest.library} cannot be loaded: {why_not_loaded(error)}.") from error
    reason = ggml.register_backend(library)
    if reason:
        raise _RefusedError(reason)
