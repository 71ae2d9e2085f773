"""The engine's wheel: llama-cpp-python built once for this machine and kept in a per-user cache.

The wheel is keyed by everything that changes its content, so a changed flag builds a new one and an
unchanged one is reused by every checkout. Beside it lie the ggml headers of the same source, which
the native expert device is compiled against. Standard library only.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shlex
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

import debian
import shader_compiler

LLAMA_CPP_PYTHON = "0.3.36"
SDIST_SHA256 = "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e"

# ggml's CMake option for each x86 instruction set, by the flag name of /proc/cpuinfo. A dynamically
# loaded CPU backend refuses GGML_NATIVE, so the set of this processor is spelled out.
_X86_OPTIONS = {
    "sse4_2": "GGML_SSE42",
    "avx": "GGML_AVX",
    "avx2": "GGML_AVX2",
    "bmi2": "GGML_BMI2",
    "fma": "GGML_FMA",
    "f16c": "GGML_F16C",
    "avx_vnni": "GGML_AVX_VNNI",
    "avx512f": "GGML_AVX512",
    "avx512vbmi": "GGML_AVX512_VBMI",
    "avx512_vnni": "GGML_AVX512_VNNI",
    "avx512_bf16": "GGML_AVX512_BF16",
}


@dataclass(frozen=True)
class EngineBuild:
    """One engine build: where its wheel and headers are and which GPU backends it holds.

    Attributes:
        wheel: llama-cpp-python with its libraries.
        headers: ggml's folder in the source.
        backends: What it computes on.
        key: Stands for everything that it was made from.
        lacking: Those of `shader_compiler.NEEDED` that its Vulkan backend was compiled without.
    """

    wheel: Path
    headers: Path
    backends: tuple[str, ...]
    key: str
    lacking: tuple[str, ...] = ()


def cache_folder() -> Path:
    """The per-user cache, outside any checkout (XDG rules)."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "expert-lanes"


def _cpu_options() -> list[str]:
    machine = platform.machine().lower()
    if machine in ("x86_64", "amd64"):
        flags: set[str] = set()
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("flags"):
                flags = set(line.split(":", 1)[1].split())
                break
        return [f"-D{option}={'ON' if flag in flags else 'OFF'}" for flag, option in _X86_OPTIONS.items()]
    if machine in ("aarch64", "arm64"):
        return ["-DGGML_CPU_ARM_ARCH=native"]
    return []


def package_memory() -> Path:
    """Where it is kept which system packages could not be installed today."""
    return cache_folder() / "packages-not-available.json"


def _vulkan_options(cache: Path, compiler: shader_compiler.ShaderCompiler | None) -> list[str]:
    """CMake options for Vulkan, or none with the reason printed."""

    def for_cpu(reason: str) -> list[str]:
        print(f"setup: engine for CPU only: {reason}")
        return []

    if compiler is None:
        return for_cpu("glslc missing")
    options = ["-DGGML_VULKAN=ON", f"-DVulkan_GLSLC_EXECUTABLE={compiler.path}"]
    if not debian.is_debian_like():
        return options if _new_headers_here() else for_cpu("Vulkan headers missing or too old")
    libraries = sorted(Path("/usr/lib").glob("*/libvulkan.so.1"))
    if not libraries:
        return for_cpu("libvulkan.so.1 not found")
    options.append(f"-DVulkan_LIBRARY={libraries[0]}")
    if not _new_headers_here() and debian.release_has_new_vulkan_headers():
        debian.install(debian.VULKAN_HEADER_PACKAGES, package_memory())
    if _new_headers_here():
        return options
    usr = debian.newer_vulkan_headers(cache / "vulkan-headers")
    if usr is None:
        return for_cpu("Vulkan headers are too old and newer ones not available")
    configs = sorted(usr.glob("**/SPIRV-HeadersConfig.cmake"))
    if not configs:
        return for_cpu("SPIR-V headers incomplete")
    return [*options, f"-DVulkan_INCLUDE_DIR={usr / 'include'}", f"-DSPIRV-Headers_DIR={configs[0].parent}"]


def header_documents() -> tuple[Path, ...]:
    """Folders in one of which the packages of these headers tell of their licences."""
    return cache_folder() / "engine" / "vulkan-headers" / "usr" / "share" / "doc", Path("/usr/share/doc")


def _new_headers_here() -> bool:
    system = debian.vulkan_header_version(Path("/usr/include")) or (0, 0, 0)
    spirv = list(Path("/usr").glob("*/cmake/SPIRV-Headers")) + list(Path("/usr").glob("*/*/cmake/SPIRV-Headers"))
    return system >= debian.VULKAN_HEADERS_NEEDED and bool(spirv)


def unpacked_source(cache: Path, python: Path) -> Path:
    """The unpacked source of the pinned release.

    Raises:
        SystemExit: its archive could not be fetched, or has another checksum.
    """
    folder = cache / f"llama_cpp_python-{LLAMA_CPP_PYTHON}"
    if (folder / "pyproject.toml").exists():
        return folder
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        # pip runs what is in the archive for its metadata: it has to compare the checksum itself, before.
        pin = Path(scratch) / "pin.txt"
        pin.write_text(f"llama-cpp-python=={LLAMA_CPP_PYTHON} --hash=sha256:{SDIST_SHA256}\n", "ascii")
        command = [str(python), "-m", "pip", "download", "-q", "--no-deps", "--no-binary", "llama-cpp-python"]
        done = subprocess.run([*command, "--require-hashes", "-r", str(pin), "-d", scratch], check=False)
        if done.returncode != 0:
            raise SystemExit(
                f"setup: pip could not fetch llama-cpp-python {LLAMA_CPP_PYTHON} with checksum {SDIST_SHA256}"
            )
        archive = next(Path(scratch).glob("llama_cpp_python-*.tar.gz"))
        with tarfile.open(archive) as tar:
            tar.extractall(scratch)  # its checksum was right; Debian 12's Python knows no extraction filters
        (Path(scratch) / folder.name).rename(folder)
    return folder


def engine_wheel(python: Path) -> EngineBuild:
    """Return the engine for this machine, building it when the cache has none (minutes on two cores).

    Raises:
        SystemExit: the compiler failed or a download's checksum is wrong.
    """
    cache = cache_folder() / "engine"
    cache.mkdir(parents=True, exist_ok=True)
    source = unpacked_source(cache, python)
    if debian.is_debian_like():
        debian.install(debian.VULKAN_PACKAGES, package_memory())
    compiler = shader_compiler.choose(source / "vendor" / "llama.cpp", cache)
    vulkan = _vulkan_options(cache, compiler)
    options = [
        "-DGGML_BACKEND_DL=ON",
        "-DGGML_NATIVE=OFF",
        "-DLLAVA_BUILD=OFF",
        *_cpu_options(),
        *vulkan,
    ]
    shaders = compiler.identity if compiler and vulkan else ""
    content = json.dumps([LLAMA_CPP_PYTHON, SDIST_SHA256, platform.machine(), sorted(options), shaders])
    key = f"{LLAMA_CPP_PYTHON}-{'vulkan' if vulkan else 'cpu'}-{hashlib.sha256(content.encode()).hexdigest()[:12]}"
    target = cache / key
    if not list(target.glob("*.whl")):
        _build(python, source, options, target, shaders)
    return EngineBuild(
        wheel=next(target.glob("*.whl")),
        headers=source / "vendor" / "llama.cpp" / "ggml",
        backends=("CPU", "Vulkan") if vulkan else ("CPU",),
        key=key,
        lacking=compiler.lacking if compiler and vulkan else (),
    )


def _build(python: Path, source: Path, options: list[str], target: Path, shaders: str) -> None:
    print(
        f"setup: building the engine ({'CPU + Vulkan' if shaders else 'CPU only'}); "
        "once per machine, about 10 minutes on two cores",
        flush=True,
    )
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        log = target.parent / f"{target.name}.log"
        environment = dict(os.environ, CMAKE_ARGS=shlex.join(options))  # paths may hold blanks
        environment.setdefault("CMAKE_BUILD_PARALLEL_LEVEL", str(os.cpu_count() or 1))
        with log.open("w") as output:
            done = subprocess.run(
                [str(python), "-m", "pip", "wheel", "-v", "--no-deps", "-w", scratch, str(source)],
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
            )
        if done.returncode != 0:
            tail = "\n".join(log.read_text(errors="replace").splitlines()[-30:])
            raise SystemExit(f"{tail}\nsetup: the engine did not build; the whole log is {log}")
        target.mkdir(parents=True, exist_ok=True)
        wheel = next(Path(scratch).glob("*.whl"))
        (target / "build.json").write_text(json.dumps({"options": options, "shaders": shaders}, indent=1))
        wheel.replace(target / wheel.name)


if __name__ == "__main__":
    print(engine_wheel(Path(sys.executable)))
