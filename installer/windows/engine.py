"""The engine for Windows: the pinned llama.cpp and our native libraries, compiled here and kept in the per-user cache.

Like the engine of this machine (installer/checkout/engine_wheel.py), it is kept under a key of everything that changes
its content. ggml loads one library for the processor it finds and those of the graphics cards when it runs, so one
build serves every laptop. The library for graphics cards is built and kept apart: another compiler of shaders, or other
Vulkan headers, change no other one.
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
import shader_compiler
import shaders

ROOT = Path(__file__).resolve().parents[2]
NATIVE = ROOT / "app" / "engine" / "native"
VULKAN = "ggml-vulkan"
WAVES = (
    ("ggml-cpu-haswell",),
    (VULKAN, "ggml-cpu-x64"),
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
_TARGETS = {"libllama": "llama"}
"""CMake's targets that are not named as what they make."""
NATIVE_LIBRARIES = {"expert_device": "engine", "expert_simulator": "placement"}
"""Our own libraries, each with the package of `app` that it lies in."""
_OPTIONS = (
    "-DGGML_BACKEND_DL=ON",
    "-DGGML_CPU_ALL_VARIANTS=ON",
    "-DGGML_NATIVE=OFF",
    # One library less to ship (libgomp): ggml has threads of its own.
    "-DGGML_OPENMP=OFF",
    "-DGGML_CCACHE=OFF",
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


def engine_key(release: str) -> str:
    """The key of all but the library for graphics cards.

    Args:
        release: That of the compiler (`mingw.release`).
    """
    parts = (engine_wheel.LLAMA_CPP_PYTHON, engine_wheel.SDIST_SHA256, release)
    # Which functions a library is linked to is known from the source: their list has to hold them, or nothing is made.
    recipe = [path for path in _files_in(mingw.FILES) if path.suffix != ".def"]
    return f"{engine_wheel.LLAMA_CPP_PYTHON}-{keys.digest(*parts, *_OPTIONS, files=recipe)}"


def vulkan_key(engine: str, glslc: str, headers: Iterable[int]) -> str:
    """The key of the library for graphics cards, made for the engine with the key given.

    Args:
        engine: `engine_key`.
        glslc: What compiles the shaders (`shader_compiler.ShaderCompiler.identity`).
        headers: Version of the Vulkan headers.
    """
    return f"{engine}-vulkan-{keys.digest(glslc, '.'.join(str(part) for part in headers))}"


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


def build(python: Path, modules: Sequence[str] = MODULES, *, any_shaders: bool = False) -> Engine:
    """Return the engine, building what the cache lacks of it (half an hour on two cores for all).

    Args:
        python: A Python with pip, which gets the source where it is not there.
        modules: Which of MODULES it is to hold; fewer are for trying out.
        any_shaders: Also where the shaders will lack what makes graphics cards fast.

    Raises:
        SystemExit: a tool is missing, the compiler failed, or the shaders would lack something.
    """
    unknown = sorted(set(modules) - set(MODULES))
    if unknown:
        raise SystemExit(f"windows: the engine has no {', '.join(unknown)}")
    sources = engine_wheel.cache_folder() / "engine"
    sources.mkdir(parents=True, exist_ok=True)
    source = engine_wheel.unpacked_source(sources, python)
    key = engine_key(mingw.release())
    made = (_cache() / key).resolve()
    parts = [made]
    if VULKAN in modules:
        # First, for it may refuse.
        parts.append(_build_vulkan(source, key, any_shaders=any_shaders))
    _build_part(source, made, [*CORE, *(name for name in modules if name != VULKAN)], ["-DGGML_VULKAN=OFF"])
    libraries = _lay(parts, modules)
    native = _cache() / f"native-{native_key(key)}"
    if not native.is_dir():
        _build_native(source, made / "import", native)
    return Engine(key=f"{key}-{libraries.name}", libraries=libraries, native=native, source=source)


def _build_vulkan(source: Path, key: str, *, any_shaders: bool) -> Path:
    """Build the library for graphics cards; returns its folder."""
    compiler = shader_compiler.choose(source / "vendor" / "llama.cpp", engine_wheel.cache_folder() / "engine")
    if compiler is None:
        raise SystemExit("windows: glslc is not installed")
    shaders.refuse(compiler.lacking, anyway=any_shaders)
    headers = vulkan_headers()
    version = debian.vulkan_header_version(headers)
    assert version is not None
    made = (_cache() / vulkan_key(key, compiler.identity, version)).resolve()
    made.mkdir(parents=True, exist_ok=True)
    loader = made / "libvulkan-1.dll.a"
    mingw.import_library(mingw.FILES / "vulkan-1.def", loader)
    options = [
        *("-DGGML_VULKAN=ON", f"-DVulkan_INCLUDE_DIR={headers}", f"-DVulkan_LIBRARY={loader}"),
        *(f"-DVulkan_GLSLC_EXECUTABLE={compiler.path}", f"-DSPIRV-Headers_DIR={_spirv_configuration(headers)}"),
    ]
    _build_part(source, made, [VULKAN], options)
    return made


def _build_part(source: Path, made: Path, names: Sequence[str], options: Sequence[str]) -> None:
    """Build those of the libraries named that do not lie in `made`/dll, and lay them there.

    What is compiled lies in `made`/build, which a run that was ended leaves for the next.
    """
    done, folder, log = made / "dll", made / "build", made.parent / f"{made.name}.log"
    done.mkdir(parents=True, exist_ok=True)
    lacking = [name for name in names if not (done / f"{name}.dll").exists()]
    if not lacking:
        return
    folder.mkdir(exist_ok=True)
    # A copy: a build that was ended may be gone on with from another checkout.
    recipe = shutil.copytree(mingw.FILES, made / "recipe", dirs_exist_ok=True)
    log.write_text("")
    configure = [
        *("cmake", "-S", str(recipe), "-B", str(folder), "-G", "Ninja"),
        *(f"-DCMAKE_TOOLCHAIN_FILE={recipe / mingw.TOOLCHAIN.name}", f"-DLLAMA_CPP={source / 'vendor' / 'llama.cpp'}"),
        *(*_OPTIONS, *options),
    ]
    _run(configure, log)
    for wave in (CORE, *WAVES):
        wanted = [name for name in wave if name in lacking]
        if not wanted:
            continue
        started = time.monotonic()
        targets = [_TARGETS.get(name, name) for name in wanted]
        _run(["cmake", "--build", str(folder), "--target", *targets], log)
        if set(wanted) & set(CORE):
            shutil.copytree(folder / "import", made / "import", dirs_exist_ok=True)
        for name in wanted:
            shutil.copyfile(folder / "bin" / f"{name}.dll", done / f"{name}.unfinished")
            (done / f"{name}.unfinished").rename(done / f"{name}.dll")
        print(f"windows: {', '.join(wanted)} built in {time.monotonic() - started:.0f} s", flush=True)
    shutil.rmtree(folder)


def _lay(parts: Sequence[Path], modules: Sequence[str]) -> Path:
    """Lay the libraries of all parts into one folder, with those of the compiler; returns it."""
    names = "".join(part.name for part in parts)
    libraries = parts[0] / f"lib-{keys.digest(names, *sorted(modules))}"
    if not libraries.is_dir():
        with tempfile.TemporaryDirectory(dir=parts[0]) as scratch:
            laid = Path(scratch) / "laid"
            laid.mkdir()
            for name in (*CORE, *modules):
                part = parts[-1] if name == VULKAN else parts[0]
                shutil.copyfile(part / "dll" / f"{name}.dll", laid / f"{name}.dll")
            mingw.lay_runtime(laid)
            laid.rename(libraries)
    if set(modules) == set(MODULES):
        for tried in parts[0].glob("lib-*"):
            if tried != libraries:
                shutil.rmtree(tried)
    return libraries


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
