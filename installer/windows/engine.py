"""The engine for Windows: the pinned llama.cpp and our native libraries, compiled here and kept in the per-user cache.

Like the engine of this machine (installer/checkout/engine_wheel.py), it is kept under a key of everything that changes
its content. ggml loads one library for the processor it finds and those of the graphics cards when it runs, so one
build serves every laptop.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import debian
import engine_wheel
import keys
import mingw

ROOT = Path(__file__).resolve().parents[2]
NATIVE = ROOT / "app" / "engine" / "native"
WAVES = (
    ("ggml-cpu-haswell",),
    ("ggml-vulkan", "ggml-cpu-x64"),
    ("ggml-cpu-alderlake", "ggml-cpu-zen4", "ggml-cpu-icelake"),
    (
        *("ggml-cpu-sse42", "ggml-cpu-sandybridge", "ggml-cpu-ivybridge", "ggml-cpu-piledriver"),
        *("ggml-cpu-skylakex", "ggml-cpu-cannonlake", "ggml-cpu-cascadelake", "ggml-cpu-cooperlake"),
    ),
)
"""What ggml loads when it runs, by the names of CMake's targets; what most laptops use is compiled first.

The processors are those of ggml's own list but for Sapphire Rapids: for Windows, GCC 12 writes its tile instructions
with strides of 32 bits, which the assembler refuses. Zen 4's library serves it, which lacks only these.
"""
MODULES = tuple(module for wave in WAVES for module in wave)
CORE = ("libllama", "ggml", "ggml-base")
_CORE_TARGETS = ("llama", "ggml", "ggml-base")
NATIVE_LIBRARIES = {"expert_device": "engine", "expert_simulator": "placement"}
"""Our own libraries, each with the package of `app` that it lies in."""
_OPTIONS = (
    "-DGGML_BACKEND_DL=ON",
    "-DGGML_CPU_ALL_VARIANTS=ON",
    "-DGGML_NATIVE=OFF",
    # One library less to ship (libgomp): ggml has threads of its own.
    "-DGGML_OPENMP=OFF",
    "-DGGML_CCACHE=OFF",
    "-DGGML_VULKAN=ON",
    "-DLLAMA_BUILD_COMMON=OFF",
    "-DCMAKE_BUILD_TYPE=Release",
)
# Ours stand alone: their own copy of the compiler's libraries, so that they load wherever they lie.
_NATIVE_LINK = "-DCMAKE_SHARED_LINKER_FLAGS=-static -s -Wl,--no-insert-timestamp"


@dataclass(frozen=True)
class Engine:
    """The engine as it was built.

    Attributes:
        key: Names everything it was made from.
        libraries: Folder of what belongs into `llama_cpp/lib`.
        native: Folder of our own libraries.
        source: The unpacked source of llama-cpp-python.
    """

    key: str
    libraries: Path
    native: Path
    source: Path


def engine_key(release: str, shader_compiler: str, headers: Iterable[int]) -> str:
    """The engine's key.

    Args:
        release: That of the compiler (`mingw.release`).
        shader_compiler: What glslc tells as its version.
        headers: Version of the Vulkan headers.
    """
    parts = (engine_wheel.LLAMA_CPP_PYTHON, engine_wheel.SDIST_SHA256, release, shader_compiler)
    version = ".".join(str(part) for part in headers)
    # Which functions a library is linked to is known from the source: their list has to hold them, or nothing is made.
    recipe = [path for path in _files_in(mingw.FILES) if path.suffix != ".def"]
    return f"{engine_wheel.LLAMA_CPP_PYTHON}-{keys.digest(*parts, version, *_OPTIONS, files=recipe)}"


def native_key(engine: str) -> str:
    """The key of our own libraries, made for the engine with the key given."""
    return keys.digest(engine, _NATIVE_LINK, files=_files_in(NATIVE))


def _files_in(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.is_file()]


def vulkan_headers() -> Path:
    """A folder with the Vulkan and SPIR-V headers, and with no others: this system's are not Windows'.

    Raises:
        SystemExit: there are none that are new enough.
    """
    if (debian.vulkan_header_version(Path("/usr/include")) or (0, 0, 0)) >= debian.VULKAN_HEADERS_NEEDED:
        folder = _cache() / "vulkan-headers"
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("vulkan", "vk_video", "spirv"):
            if not (folder / name).exists():
                (folder / name).symlink_to(Path("/usr/include") / name)
        return folder
    usr = debian.newer_vulkan_headers(engine_wheel.cache_folder() / "engine" / "vulkan-headers")
    if usr is None:
        raise SystemExit("windows: no Vulkan headers that are new enough")
    return usr / "include"


def _spirv_configuration(headers: Path) -> Path:
    """The folder of the CMake file that comes with the SPIR-V headers."""
    for folder in (headers.parent, Path("/usr/share/cmake"), Path("/usr/lib")):
        for path in sorted(folder.glob("**/SPIRV-HeadersConfig.cmake")):
            return path.parent
    raise SystemExit("windows: the SPIR-V headers have no CMake file")


def _cache() -> Path:
    return engine_wheel.cache_folder() / "windows-engine"


def build(python: Path, modules: Sequence[str] = MODULES) -> Engine:
    """Return the engine, building what the cache lacks of it (half an hour on two cores for all).

    Args:
        python: A Python with pip, which gets the source where it is not there.
        modules: Which of MODULES it is to hold; fewer are for trying out.

    Raises:
        SystemExit: a tool is missing or the compiler failed.
    """
    unknown = sorted(set(modules) - set(MODULES))
    if unknown:
        raise SystemExit(f"windows: the engine has no {', '.join(unknown)}")
    glslc = shutil.which("glslc")
    if glslc is None:
        raise SystemExit("windows: glslc is not installed")
    shader_compiler = subprocess.run([glslc, "--version"], capture_output=True, text=True, check=True).stdout
    headers = vulkan_headers()
    version = debian.vulkan_header_version(headers)
    assert version is not None
    key = engine_key(mingw.release(), shader_compiler, version)
    sources = engine_wheel.cache_folder() / "engine"
    sources.mkdir(parents=True, exist_ok=True)
    source = engine_wheel.unpacked_source(sources, python)
    made = (_cache() / key).resolve()
    libraries = made / f"lib-{keys.digest(*sorted(modules))}"
    if not libraries.is_dir():
        _build_engine(source, headers, glslc, made, modules, libraries)
    native = _cache() / f"native-{native_key(key)}"
    if not native.is_dir():
        _build_native(source, made / "import", native)
    return Engine(key=key, libraries=libraries, native=native, source=source)


def _build_engine(source: Path, headers: Path, glslc: str, made: Path, modules: Sequence[str], libraries: Path) -> None:
    """Build into the folder `build`, which a run that was ended leaves for the next, and lay the libraries out."""
    folder, log = made / "build", made.parent / f"{made.name}.log"
    folder.mkdir(parents=True, exist_ok=True)
    # A copy: a build that was ended may be gone on with from another checkout.
    recipe = shutil.copytree(mingw.FILES, made / "recipe", dirs_exist_ok=True)
    vulkan = made / "libvulkan-1.dll.a"
    mingw.import_library(mingw.FILES / "vulkan-1.def", vulkan)
    log.write_text("")
    configure = [
        *("cmake", "-S", str(recipe), "-B", str(folder), "-G", "Ninja"),
        *(f"-DCMAKE_TOOLCHAIN_FILE={recipe / mingw.TOOLCHAIN.name}", f"-DLLAMA_CPP={source / 'vendor' / 'llama.cpp'}"),
        *(f"-DVulkan_INCLUDE_DIR={headers}", f"-DVulkan_LIBRARY={vulkan}", f"-DVulkan_GLSLC_EXECUTABLE={glslc}"),
        *(f"-DSPIRV-Headers_DIR={_spirv_configuration(headers)}", *_OPTIONS),
    ]
    _run(configure, log)
    for wave in filter(None, ([module for module in wave if module in modules] for wave in WAVES)):
        names = [*_CORE_TARGETS, *wave]
        started = time.monotonic()
        _run(["cmake", "--build", str(folder), "--target", *names], log)
        print(f"windows: {', '.join(names)} built in {time.monotonic() - started:.0f} s", flush=True)
    with tempfile.TemporaryDirectory(dir=made) as scratch:
        laid = Path(scratch) / "laid"
        laid.mkdir()
        for name in (*CORE, *modules):
            shutil.copyfile(folder / "bin" / f"{name}.dll", laid / f"{name}.dll")
        mingw.lay_runtime(laid)
        shutil.copytree(folder / "import", made / "import", dirs_exist_ok=True)
        laid.rename(libraries)
    if set(modules) == set(MODULES):
        for tried in made.glob("lib-*"):
            if tried != libraries:
                shutil.rmtree(tried)
        shutil.rmtree(folder)


def _build_native(source: Path, import_libraries: Path, native: Path) -> None:
    with tempfile.TemporaryDirectory(dir=_cache()) as scratch:
        folder, log = Path(scratch) / "build", native.parent / f"{native.name}.log"
        log.write_text("")
        configure = [
            *("cmake", "-S", str(NATIVE), "-B", str(folder), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release"),
            *(f"-DCMAKE_TOOLCHAIN_FILE={mingw.TOOLCHAIN}", f"-DGGML_LIBRARY_DIR={import_libraries}"),
            *(f"-DGGML_SOURCE_DIR={source / 'vendor' / 'llama.cpp' / 'ggml'}", _NATIVE_LINK),
        ]
        _run(configure, log)
        _run(["cmake", "--build", str(folder)], log)
        laid = Path(scratch) / "laid"
        laid.mkdir()
        for name in NATIVE_LIBRARIES:
            (built,) = (path for path in folder.glob("*.dll") if path.stem in (name, f"lib{name}"))
            shutil.copyfile(built, laid / f"{name}.dll")
        laid.rename(native)


def _run(command: list[str], log: Path) -> None:
    environment = dict(os.environ)
    environment.setdefault("CMAKE_BUILD_PARALLEL_LEVEL", str(os.cpu_count() or 1))
    with log.open("a") as output:
        done = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, env=environment, check=False)
    if done.returncode != 0:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-30:])
        raise SystemExit(f"{tail}\nwindows: the engine did not build; the whole log is {log}")
