"""The engine for every processor: the checkout's wheel with ggml's CPU backend once for each generation of processors.

Only the CPU backend is compiled for certain instructions; all other libraries of the engine run on any processor of
the architecture. So the wheel for packages is the checkout's own with that one library replaced by variants, of which
ggml loads the best that the processor has. Standard library only.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import inspect
import json
import os
import platform
import re
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

import engine_wheel

_OPTIONS = (
    "-DCMAKE_BUILD_TYPE=Release",
    "-DBUILD_SHARED_LIBS=ON",
    "-DGGML_BACKEND_DL=ON",
    "-DGGML_NATIVE=OFF",
    "-DGGML_CPU_ALL_VARIANTS=ON",
    *(f"-DLLAMA_BUILD_{part}=OFF" for part in ("COMMON", "TESTS", "TOOLS", "EXAMPLES", "SERVER", "APP")),
    "-DLLAMA_CURL=OFF",
    "-DCMAKE_BUILD_WITH_INSTALL_RPATH=ON",
    "-DCMAKE_INSTALL_RPATH=$ORIGIN",
)
_ONE_CPU = re.compile(r"^llama_cpp/lib/libggml-cpu[^/]*\.so$")
_EPOCH = (1980, 1, 1, 0, 0, 0)


def portable_engine(python: Path) -> engine_wheel.EngineBuild:
    """Return the engine that runs on every processor of this architecture, building it when the cache has none.

    Raises:
        SystemExit: the compiler failed.
    """
    base = engine_wheel.engine_wheel(python)
    variants = cpu_backends(base.headers.parent)
    # The wheel also changes with how it is written.
    how = [inspect.getsource(graft), _ONE_CPU.pattern, _EPOCH]
    key = f"{base.key}-portable-{_short_digest(base.key, variants.parent.name, how)}"
    target = engine_wheel.cache_folder() / "engine" / key
    wheel = target / base.wheel.name
    if not wheel.exists():
        target.mkdir(parents=True, exist_ok=True)
        graft(base.wheel, {path.name: path for path in variants.iterdir()}, target / "unfinished.zip")
        (target / "unfinished.zip").replace(wheel)
    return dataclasses.replace(base, wheel=wheel, key=key)


def cpu_backends(source: Path) -> Path:
    """Return the folder of the CPU backends, building them when the cache has none.

    They are kept apart from the wheels that they are put into: another compiler of shaders changes no code for
    processors.

    Args:
        source: llama.cpp's folder.

    Raises:
        SystemExit: the compiler failed.
    """
    made_of = (engine_wheel.SDIST_SHA256, platform.machine(), sorted(_OPTIONS), _compiler_version())
    key = f"{engine_wheel.LLAMA_CPP_PYTHON}-processors-{_short_digest(*made_of)}"
    target = engine_wheel.cache_folder() / "engine" / key
    libraries = target / "lib"
    if not libraries.exists():
        built = _build(source, target)
        with tempfile.TemporaryDirectory(dir=target) as scratch:
            laid = Path(scratch) / "lib"
            laid.mkdir()
            for name, path in built.items():
                shutil.copy(path, laid / name)
            laid.rename(libraries)
        shutil.rmtree(target / "build")
    return libraries


def _short_digest(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:12]


def offered_variants(configured: str) -> dict[str, list[str]]:
    """The CPU backends that CMake's output says it would build, each with the compiler flags it needs."""
    found = re.findall(r"Adding CPU backend variant (\S+):(.*)", configured)
    return {name: [word for word in re.split(r"[;\s]+", rest) if word.startswith("-m")] for name, rest in found}


def unknown_flags(flags: Iterable[str], compiler: str) -> list[str]:
    """Those of `flags` that the compiler refuses."""
    return [
        flag
        for flag in flags
        if subprocess.run(
            [compiler, flag, "-fsyntax-only", "-x", "c++", os.devnull], capture_output=True, check=False
        ).returncode
        != 0
    ]


def graft(wheel: Path, libraries: Mapping[str, Path], target: Path) -> None:
    """Write a wheel again with other CPU backends, and without what CMake put beside its packages.

    Args:
        wheel: llama-cpp-python's.
        libraries: File names to the CPU backends that take the place of its own.
        target: The wheel to write.
    """
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as new:
        contents = {
            name: old.read(name)
            for name in old.namelist()
            if not name.endswith("/")
            and (name.startswith("llama_cpp/") or ".dist-info/" in name)
            and not _ONE_CPU.match(name)
        }
        contents |= {f"llama_cpp/lib/{name}": path.read_bytes() for name, path in libraries.items()}
        record = next(name for name in contents if name.endswith(".dist-info/RECORD"))
        del contents[record]
        lines = [f"{name},sha256={_digest(content)},{len(content)}\n" for name, content in sorted(contents.items())]
        contents[record] = "".join([*lines, f"{record},,\n"]).encode()
        for name, content in sorted(contents.items()):
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.external_attr = 0o100644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            new.writestr(entry, content)


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def _compiler() -> str:
    return os.environ.get("CXX") or "c++"


def _compiler_version() -> str:
    told = subprocess.run([_compiler(), "--version"], capture_output=True, text=True, check=True).stdout
    return told.partition("\n")[0]


def _build(source: Path, target: Path) -> dict[str, Path]:
    """Compile the variants; those that the compiler has no flags for are left out, with the reason printed.

    Args:
        source: llama.cpp's folder.
        target: The folder `build` in it is gone on with after an interruption.

    Raises:
        SystemExit: CMake or the compiler failed.
    """
    folder, log = target / "build", target / "build.log"
    folder.mkdir(parents=True, exist_ok=True)
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    log.unlink(missing_ok=True)
    configured = _logged(["cmake", "-S", str(source), "-B", str(folder), *generator, *_OPTIONS], log)
    wanted = []
    for name, flags in offered_variants(configured).items():
        unknown = unknown_flags(flags, _compiler())
        if unknown:
            print(f"package: no {name}: {_compiler_version()} does not know {' '.join(unknown)}")
        else:
            wanted.append(name)
    if not wanted:
        raise SystemExit(f"package: no CPU backend to build; the whole log is {log}")
    print(f"package: building {len(wanted)} CPU backends; once per machine, 15 minutes on two cores", flush=True)
    at_once = os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL") or str(os.cpu_count() or 1)
    _logged(["cmake", "--build", str(folder), "--parallel", at_once, "--target", *wanted], log)
    libraries = {f"lib{name}.so": folder / "bin" / f"lib{name}.so" for name in wanted}
    for path in libraries.values():
        subprocess.run(["strip", "--strip-unneeded", str(path)], check=True)
    return libraries


def _logged(command: list[str], log: Path) -> str:
    """Run a command and return its output, which is also kept in `log`."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    with log.open("a") as output:
        output.write(done.stdout)
    if done.returncode != 0:
        tail = "\n".join(done.stdout.splitlines()[-30:])
        raise SystemExit(f"{tail}\npackage: the CPU backends did not build; the whole log is {log}")
    return done.stdout
