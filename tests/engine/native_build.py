"""Compiles what tests need in C++ against the very ggml of the engine; skips where compiler or headers are missing."""

import importlib
import shutil
import subprocess
from pathlib import Path

import llama_cpp
import pytest

ROOT = Path(__file__).resolve().parents[2]
NATIVE = ROOT / "app" / "engine" / "native"
SOURCES = Path(__file__).parent / "native"


def ggml_source() -> Path:
    """The ggml folder that the engine and the native library were built from."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "installer" / "checkout"))
        wheel = importlib.import_module("engine_wheel")
    unpacked = wheel.cache_folder() / "engine" / f"llama_cpp_python-{wheel.LLAMA_CPP_PYTHON}"
    return Path(unpacked / "vendor" / "llama.cpp" / "ggml")


def compile_with_ggml(path: Path, *arguments: str) -> None:
    """Compile what `arguments` name to `path`, with the project's native folder and ggml's headers."""
    compiler, source = shutil.which("g++") or shutil.which("clang++"), ggml_source()
    if compiler is None or not source.is_dir():
        pytest.skip("no C++ compiler, or no ggml headers of this engine")
    subprocess.run(
        [compiler, "-std=c++17", "-Wall", "-Wextra", "-Werror", f"-I{NATIVE}",
         "-isystem", str(source / "include"), "-isystem", str(source / "src"), *arguments, "-o", str(path)],
        check=True,
    )  # fmt: skip


def faulty_device(folder: Path) -> Path:
    """The device that fails when told to, compiled to a library in `folder`."""
    path = folder / "libfaulty_device.so"
    libraries = Path(llama_cpp.__file__).parent / "lib"
    source = SOURCES / "faulty_device.cpp"
    compile_with_ggml(path, "-O1", "-shared", "-fPIC", str(source), f"-L{libraries}", "-lggml", "-lggml-base")
    return path
