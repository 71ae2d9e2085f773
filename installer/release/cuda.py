"""Builds the engine's CUDA backend for Windows, on Windows with MSVC and CUDA's toolkit, and packs it as a component.

    python installer/release/cuda.py

in a shell that has both, and cmake and ninja (cuda-tools.txt). Only the backend is taken: it loads into the engine that
the app brings, whose source is the same archive with the same checksum. What it needs of CUDA is taken from NVIDIA's
own packages of the same release, which are pinned (cuda-pins.txt) and hold the licence.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "installer" / part) for part in ("checkout", "package", "release", "windows")]

import component  # noqa: E402 - found by the line above, as are the next ones
import engine_wheel  # noqa: E402
import pinned  # noqa: E402
import pins  # noqa: E402
import project  # noqa: E402

BUILD = project.WORK / "cuda"
FETCHED = project.WORK / "cuda-libraries"
PINS = Path(__file__).with_name("cuda-pins.txt")
TERMS = Path(__file__).with_name("cuda-terms.txt")
# From Turing (2018) on; the last one also as code that newer cards translate for themselves.
ARCHITECTURES = "75-real;80-real;86-real;89-real;89-virtual"
OPTIONS = (
    "-DCMAKE_BUILD_TYPE=Release",
    # The compiler's runtime within the backend: Windows has none, and the app brings no such one. Nothing that one side
    # allocates is freed by the other, which MinGW compiled: ggml's backends are asked through functions of C alone.
    "-DCMAKE_MSVC_RUNTIME_LIBRARY=MultiThreaded",
    "-DBUILD_SHARED_LIBS=ON",
    "-DGGML_BACKEND_DL=ON",
    "-DGGML_NATIVE=OFF",
    "-DGGML_CUDA=ON",
    f"-DCMAKE_CUDA_ARCHITECTURES={ARCHITECTURES}",
    "-DLLAMA_CURL=OFF",
    "-DLLAMA_BUILD_TESTS=OFF",
    "-DLLAMA_BUILD_TOOLS=OFF",
    "-DLLAMA_BUILD_EXAMPLES=OFF",
    "-DLLAMA_BUILD_SERVER=OFF",
)
LIBRARIES = ("cudart64_*.dll", "cublas64_*.dll", "cublasLt64_*.dll")
"""What the backend needs of CUDA. All three are in Attachment A of the toolkit's licence (EULA.txt, 2.6 in CUDA 12.6):
it lets programs bring them along for their own use, under terms that agree with it (1.1.2). So the component says those
terms (cuda-terms.txt) and holds the whole text, which also has the notices of what NVIDIA took from others."""


def source() -> Path:
    """The llama.cpp inside the engine's source archive."""
    cache = engine_wheel.cache_folder() / "engine"
    cache.mkdir(parents=True, exist_ok=True)
    return engine_wheel.unpacked_source(cache, Path(sys.executable)) / "vendor" / "llama.cpp"


def brought_along(folder: Path) -> tuple[list[Path], Path]:
    """The libraries of CUDA that are packed too, and their licence; fetched into `folder`.

    Raises:
        SystemExit: they could not be fetched, or one of them is not there once.
    """
    pinned.pip(PINS, "install", "--no-deps", "--no-compile", "--target", str(folder), *pins.FOR_WINDOWS)
    found = {pattern: sorted(folder.rglob(pattern)) for pattern in LIBRARIES}
    lacking = [pattern for pattern, files in found.items() if len(files) != 1]
    texts = {file.read_bytes() for file in folder.glob("*.dist-info/License.txt")}
    if lacking or len(texts) != 1:
        raise SystemExit(f"release: of CUDA, this is not there once: {', '.join(lacking) or 'the licence'}")
    licence = folder / "EULA.txt"
    licence.write_bytes(texts.pop())
    return [file for files in found.values() for file in files], licence


def main(arguments: Sequence[str] | None = None) -> None:
    """Build and pack it.

    Raises:
        SystemExit: the toolkit is missing, or a step failed.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args(arguments)
    if not os.environ.get("CUDA_PATH"):
        raise SystemExit("release: CUDA_PATH names no toolkit")
    shutil.rmtree(FETCHED, ignore_errors=True)
    needed, licence = brought_along(FETCHED)  # before what takes an hour
    llama_cpp = source()
    for command in (
        ["cmake", "-S", str(llama_cpp), "-B", str(BUILD), "-G", "Ninja", *OPTIONS],
        ["cmake", "--build", str(BUILD), "--target", "ggml-cuda"],
    ):
        if subprocess.run(command, check=False).returncode != 0:
            raise SystemExit(f"release: failed: {' '.join(command)}")
    library = next(BUILD.rglob("ggml-cuda.dll"), None)
    if library is None:
        raise SystemExit(f"release: no ggml-cuda.dll was built in {BUILD}")
    told = ["--name", "cuda", "--library", str(library), "--source", str(llama_cpp), "--terms", str(TERMS)]
    component.main([*told, "--with", *map(str, needed), "--licence", str(licence), str(llama_cpp / "LICENSE")])


if __name__ == "__main__":
    main()
