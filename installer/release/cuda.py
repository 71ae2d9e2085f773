"""Builds the engine's CUDA backend for Windows, on Windows with MSVC and CUDA's toolkit, and packs it as a component.

    python installer/release/cuda.py

in a shell that has both, and cmake and ninja. Only the backend is taken: it loads into the engine that the app brings,
whose source is the same archive with the same checksum.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "installer" / part) for part in ("checkout", "package", "release")]

import component  # noqa: E402 - found by the line above, as are the next ones
import engine_wheel  # noqa: E402
import project  # noqa: E402

BUILD = project.WORK / "cuda"
# From Turing (2018) on; the last one also as code that newer cards translate for themselves.
ARCHITECTURES = "75-real;80-real;86-real;89-real;89-virtual"
OPTIONS = (
    "-DCMAKE_BUILD_TYPE=Release",
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
"""What the backend needs of CUDA; NVIDIA's licence lets programs bring them along, with its text."""


def source() -> Path:
    """The llama.cpp inside the engine's source archive."""
    cache = engine_wheel.cache_folder() / "engine"
    cache.mkdir(parents=True, exist_ok=True)
    return engine_wheel.unpacked_source(cache, Path(sys.executable)) / "vendor" / "llama.cpp"


def main() -> None:
    """Build and pack it.

    Raises:
        SystemExit: the toolkit is missing, or a step failed.
    """
    toolkit = os.environ.get("CUDA_PATH")
    if not toolkit:
        raise SystemExit("release: CUDA_PATH names no toolkit")
    llama_cpp = source()
    for command in (
        ["cmake", "-S", str(llama_cpp), "-B", str(BUILD), "-G", "Ninja", *OPTIONS],
        ["cmake", "--build", str(BUILD), "--target", "ggml-cuda"],
    ):
        if subprocess.run(command, check=False).returncode != 0:
            raise SystemExit(f"release: failed: {' '.join(command)}")
    library = next(BUILD.rglob("ggml-cuda.dll"), None)
    needed = [path for pattern in LIBRARIES for path in sorted(Path(toolkit, "bin").glob(pattern))]
    licence = Path(toolkit, "EULA.txt")
    if library is None or len(needed) != len(LIBRARIES) or not licence.is_file():
        raise SystemExit("release: the backend, or a part of CUDA that it needs, was not found")
    arguments = ["--name", "cuda", "--library", str(library), "--source", str(llama_cpp)]
    component.main([*arguments, "--with", *map(str, needed), "--licence", str(licence), str(llama_cpp / "LICENSE")])


if __name__ == "__main__":
    main()
