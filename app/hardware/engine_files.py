"""Whether the engine's own files are as they were installed: virus scanners take libraries away."""

import base64
import hashlib
import importlib.metadata
import json
from pathlib import Path

import msgspec

_ENGINE = (("llama_cpp_python", "llama_cpp/"), ("expert-lanes", "app/"))
"""Packages whose records list them, and the folder in which they count."""
_LIBRARIES = (".so", ".dll", ".pyd", ".dylib")


class EngineFiles(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the engine's libraries.

    Attributes:
        checked: How many the records of the installation list.
        missing: Those that are not there.
        changed: Those of another size or other contents; of a package built where it is developed only empty ones.
        why_not: Why none could be looked at; else empty.
    """

    checked: int = 0
    missing: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    why_not: str = ""


def read_engine_files(*, contents: bool) -> EngineFiles:
    """Compare the engine's libraries with the records of their installation.

    Args:
        contents: Read them whole, some tens of megabytes; else only their sizes are compared.
    """
    files = [
        (path, _developed(package))
        for package, folder in _ENGINE
        for path in _listed(package)
        if path.as_posix().startswith(folder) and path.suffix in _LIBRARIES
    ]
    if not files:
        return EngineFiles(why_not="This installation keeps no record of the engine's files to compare them with.")
    missing, changed = [], []
    for path, developed in files:
        place = Path(str(path.locate()))
        try:
            size = place.stat().st_size
            same = bool(size) if developed else size == path.size and (not contents or _same_contents(place, path))
        except OSError:
            missing.append(path.name)
            continue
        if not same:
            changed.append(path.name)
    return EngineFiles(checked=len(files), missing=tuple(missing), changed=tuple(changed))


def _listed(package: str) -> list[importlib.metadata.PackagePath]:
    try:
        return importlib.metadata.files(package) or []
    except importlib.metadata.PackageNotFoundError:
        return []


def _developed(package: str) -> bool:
    """Whether it was installed from a source tree to work on: then libraries are built anew without a new record."""
    told = importlib.metadata.distribution(package).read_text("direct_url.json")
    return bool(json.loads(told).get("dir_info", {}).get("editable", False)) if told else False


def _same_contents(place: Path, path: importlib.metadata.PackagePath) -> bool:
    if path.hash is None or path.hash.mode not in hashlib.algorithms_available:
        return True  # nothing to compare with
    with place.open("rb") as file:
        digest = hashlib.file_digest(file, path.hash.mode).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == path.hash.value
