"""The compiler of the graphics card's programs (shaders): this system's glslc, or a newer one that is not installed.

ggml leaves out the shaders that its compiler does not know the language for, among them those for matrix cores. So each
compiler is asked with the engine's own feature tests; where this system's lacks something, a newer Debian release's is
unpacked below the cache and run with its own C library. Standard library only.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import debian_release

NEEDED = {
    "GL_KHR_cooperative_matrix": "matrix cores of every maker",
    "GL_NV_cooperative_matrix2": "matrix cores of newer NVIDIA cards",
    "GL_EXT_integer_dot_product": "products of quantized numbers",
    "GL_EXT_bfloat16": "models in BF16",
}
"""What a compiler must know so that no graphics card is slower than need be, with what it is for."""
# The first has all that the engine asks for; Debian 13's, the newest that was released when this was written, lacks
# GL_EXT_bfloat16 and serves where the first cannot be had.
RELEASES = ("forky", "trixie")
_TESTS = Path("ggml", "src", "ggml-vulkan", "vulkan-shaders", "feature-tests")
_EXTENSION = re.compile(r"^#extension (GL_(?:KHR|NV|EXT)_\w+) : require", re.MULTILINE)
_LOADERS = "usr/lib/*/ld-linux*.so.[0-9]"
_REFUSED = "not-available-today.json"
_EXAMINED = "shader-compilers.json"


@dataclass(frozen=True)
class ShaderCompiler:
    """A glslc, and what it can do.

    Attributes:
        path: The program.
        version: Its release and those of its parts, in one line.
        known: Names of the extensions whose feature tests it passes, sorted.
        origin: Whose it is, for messages.
    """

    path: Path
    version: str
    known: tuple[str, ...]
    origin: str

    @property
    def lacking(self) -> tuple[str, ...]:
        """Those of NEEDED that it does not know."""
        return tuple(name for name in NEEDED if name not in self.known)

    @property
    def identity(self) -> str:
        """What the engine's key has to hold of it: another release gives other shaders."""
        return json.dumps([self.version, self.known])


def feature_tests(llama_cpp: Path) -> dict[str, Path]:
    """The engine's own tests of the compiler.

    Args:
        llama_cpp: llama.cpp's source.

    Returns:
        Extensions of the language, each with a shader that needs it.
    """
    found = {}
    for path in sorted((llama_cpp / _TESTS).glob("*.comp")):
        told = _EXTENSION.findall(path.read_text("utf-8"))
        if told:
            found[told[-1]] = path
    return found


def examine(glslc: Path, tests: Mapping[str, Path], origin: str, memory: Path) -> ShaderCompiler | None:
    """Ask a compiler; None where it does not run.

    Args:
        glslc: The program.
        tests: `feature_tests`.
        origin: Whose it is.
        memory: File in which it is kept what each release of a compiler knows: asking takes a second.
    """
    try:
        told = subprocess.run([str(glslc), "--version"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    version = ", ".join(line.strip() for line in told.splitlines() if line.strip())
    asked = json.dumps([str(glslc), version, {name: path.read_text("utf-8") for name, path in tests.items()}])
    key = hashlib.sha256(asked.encode()).hexdigest()
    remembered = _read(memory)
    if key not in remembered:
        known = sorted(name for name, path in tests.items() if _compiles(glslc, path))
        remembered[key] = known
        memory.parent.mkdir(parents=True, exist_ok=True)
        memory.write_text(json.dumps(remembered))
    return ShaderCompiler(glslc, version, tuple(remembered[key]), origin)


def _compiles(glslc: Path, shader: Path) -> bool:
    options = ["-fshader-stage=compute", "--target-env=vulkan1.3", "-o", os.devnull]
    return subprocess.run([str(glslc), *options, str(shader)], capture_output=True, check=False).returncode == 0


def _read(memory: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(memory.read_text()))
    except (OSError, ValueError):
        return {}


def choose(llama_cpp: Path, cache: Path) -> ShaderCompiler | None:
    """This system's compiler where it knows all of NEEDED, else a newer one; None where there is none at all.

    What the one that is taken lacks is printed, with the reason why there is no better one.

    Args:
        llama_cpp: llama.cpp's source.
        cache: Folder below which a newer one is unpacked.
    """
    tests = feature_tests(llama_cpp)
    if absent := [name for name in NEEDED if name not in tests]:
        raise SystemExit(f"setup: the engine has no feature test for {', '.join(absent)}")
    path, memory = shutil.which("glslc"), cache / _EXAMINED
    best = examine(Path(path), tests, "this system's glslc", memory) if path else None
    reasons = []
    for release in RELEASES:
        if best is not None and not best.lacking:
            break
        try:
            glslc = newer(release, cache / f"glslc-{release}")
        except debian_release.NotAvailableError as error:
            reasons.append(f"Debian {release}'s is not available: {error}")
            continue
        found = examine(glslc, tests, f"glslc of Debian {release}", memory)
        if found is None:
            reasons.append(f"Debian {release}'s does not run here")
        elif best is None or len(found.lacking) < len(best.lacking):
            best = found
    if best is not None and best.lacking:
        print(f"setup: shaders are compiled by {best.origin} and lack {words(best.lacking)}")
        print("setup: graphics cards that have these will be slower than they could be")
    if best is None or best.lacking:
        for reason in reasons:
            print(f"setup: {reason}")
    return best


def words(features: Iterable[str]) -> str:
    """Names of extensions with what they are for."""
    return ", ".join(f"{name} ({NEEDED[name]})" for name in features)


def newer(release: str, folder: Path) -> Path:
    """The glslc of a Debian release with every library that it needs, unpacked into `folder`.

    What could not be had is not tried again on the same day, so that a set-up which changes nothing costs nothing.

    Raises:
        debian_release.NotAvailableError: it could not be had, today or when it was tried today.
    """
    program = folder / "glslc"
    if program.exists():
        return program
    folder.parent.mkdir(parents=True, exist_ok=True)
    memory, today = folder.parent / _REFUSED, datetime.date.today().isoformat()
    refused = dict(_read(memory).get(today, {}))
    if release in refused:
        raise debian_release.NotAvailableError(refused[release])
    print(f"setup: fetching a newer shader compiler, glslc of Debian {release}", flush=True)
    try:
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            made = Path(scratch, "made")
            made.mkdir()
            debian_release.unpack(release, ["glslc"], made, dependencies=True)
            _write_start(made)
            shutil.rmtree(folder, ignore_errors=True)
            made.rename(folder)
    except debian_release.NotAvailableError as error:
        memory.write_text(json.dumps({today: refused | {release: str(error)}}))
        raise
    return program


def _write_start(unpacked: Path) -> None:
    """Write the program `glslc`, which starts the unpacked one with the loader and libraries of its own release."""
    loader = next(iter(sorted(unpacked.glob(_LOADERS))), None)
    if loader is None or not (unpacked / "usr" / "bin" / "glslc").is_file():
        raise debian_release.NotAvailableError("its packages hold no glslc, or no loader of libraries")
    place = loader.relative_to(unpacked)
    start = unpacked / "glslc"
    start.write_text(
        "#!/bin/sh\nhere=${0%/*}\n"
        f'exec "$here/{place}" --library-path "$here/{place.parent}" "$here/usr/bin/glslc" "$@"\n'
    )
    start.chmod(0o755)
