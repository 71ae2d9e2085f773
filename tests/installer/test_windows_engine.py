"""The engine for Windows: what it is compiled from, when it is compiled again, and when it is refused.

What needs the compiler for Windows is skipped where that is not there; nothing is built here that takes longer than a
second.
"""

import re
import subprocess
from pathlib import Path
from types import SimpleNamespace

import engine
import engine_wheel
import imports
import keys
import mingw
import pe
import pytest
import shader_compiler

NOT_COMPILED = "no compiler for Windows here"


def test_keys_change_with_every_part_and_file(tmp_path):
    file = tmp_path / "a.cpp"
    file.write_text("1")
    before = keys.digest("x", "y", files=[file])
    file.write_text("2")
    assert (
        len({before, keys.digest("x", "y", files=[file]), keys.digest("xy", files=[file]), keys.digest("x", "y")}) == 4
    )


def test_the_engines_keys_change_with_compilers_and_headers():
    first, other = engine.engine_key("gcc 12"), engine.engine_key("gcc 13")
    assert first != other
    assert first.startswith(engine_wheel.LLAMA_CPP_PYTHON)
    base = (first, "shaderc 2022", (1, 3, 270))
    others = [(other, *base[1:]), (base[0], "shaderc 2023", base[2]), (*base[:2], (1, 4, 309))]
    assert len({engine.vulkan_key(*parts) for parts in (base, *others)}) == 4
    assert engine.native_key("one") != engine.native_key("other")


@pytest.fixture
def compiled(tmp_path, monkeypatch):
    """What is compiled is told, with the options, and is a file that names it; the compiler of shaders can be set."""
    told = SimpleNamespace(built=[], options=[], known=tuple(shader_compiler.NEEDED), version="shaderc 1")

    def run(command, log):
        folder = Path(command[command.index("--build" if "--build" in command else "-B") + 1])
        if "--target" not in command:
            told.options.append(command)
            return
        (folder / "bin").mkdir(exist_ok=True)
        (folder / "import").mkdir(exist_ok=True)
        for target in command[command.index("--target") + 1 :]:
            name = "libllama" if target == "llama" else target
            told.built.append(name)
            (folder / "bin" / f"{name}.dll").write_text(f"{name} {told.version}")

    def choose(source, cache):
        return shader_compiler.ShaderCompiler(Path("/a/glslc"), told.version, told.known, "ours")

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(engine, "_run", run)
    monkeypatch.setattr(engine, "_build_native", lambda source, imports, native: native.mkdir())
    monkeypatch.setattr(engine, "_spirv_configuration", lambda headers: headers)
    monkeypatch.setattr(engine, "vulkan_headers", lambda: tmp_path)
    monkeypatch.setattr(engine.debian, "vulkan_header_version", lambda headers: (1, 4, 309))
    monkeypatch.setattr(engine.engine_wheel, "unpacked_source", lambda cache, python: tmp_path / "source")
    monkeypatch.setattr(engine.shader_compiler, "choose", choose)
    monkeypatch.setattr(mingw, "release", lambda: "gcc 12")
    monkeypatch.setattr(mingw, "import_library", lambda definition, target: target.touch())
    monkeypatch.setattr(mingw, "lay_runtime", lambda folder: (folder / "libstdc++-6.dll").touch())
    return told


def test_another_compiler_of_shaders_builds_the_library_for_graphics_cards_again_and_no_other(compiled):
    first = engine.build(Path("python"))
    assert sorted(compiled.built) == sorted((*engine.CORE, *engine.MODULES))
    assert {path.stem for path in first.libraries.iterdir()} == {*engine.CORE, *engine.MODULES, "libstdc++-6"}
    compiled.built.clear()
    assert engine.build(Path("python")) == first
    assert compiled.built == []
    compiled.version = "shaderc 2"
    second = engine.build(Path("python"))
    assert compiled.built == [engine.VULKAN]
    assert (second.libraries / "ggml-vulkan.dll").read_text() == "ggml-vulkan shaderc 2"
    assert (second.libraries / "ggml-cpu-x64.dll").read_text() == "ggml-cpu-x64 shaderc 1"
    assert second.key != first.key
    assert second.native == first.native
    assert not first.libraries.exists(), "what is not asked for any more is not kept"


def test_the_shaders_are_compiled_with_the_compiler_that_was_chosen(compiled):
    engine.build(Path("python"), [engine.VULKAN])
    given = [option for command in compiled.options for option in command if "GLSLC" in option]
    assert given == ["-DVulkan_GLSLC_EXECUTABLE=/a/glslc"]


def test_an_engine_whose_shaders_would_lack_something_is_refused_before_anything_is_compiled(compiled, capsys):
    compiled.known = tuple(name for name in shader_compiler.NEEDED if name != "GL_KHR_cooperative_matrix")
    with pytest.raises(SystemExit, match="GL_KHR_cooperative_matrix"):
        engine.build(Path("python"))
    assert compiled.built == []
    engine.build(Path("python"), any_shaders=True)
    assert engine.VULKAN in compiled.built
    assert "its shaders lack GL_KHR_cooperative_matrix" in capsys.readouterr().out


def test_a_module_that_the_engine_does_not_have_is_refused():
    with pytest.raises(SystemExit, match="ggml-cpu-z80"):
        engine.build(Path("python"), ["ggml-cpu-x64", "ggml-cpu-z80"])


def test_the_processors_are_those_of_ggmls_own_list_but_the_one_that_does_not_compile():
    listed = engine_wheel.cache_folder() / "engine" / f"llama_cpp_python-{engine_wheel.LLAMA_CPP_PYTHON}"
    path = listed / "vendor" / "llama.cpp" / "ggml" / "src" / "CMakeLists.txt"
    if not path.is_file():
        pytest.skip("the engine's source is not in the cache")
    x86 = path.read_text().partition('if (GGML_SYSTEM_ARCH STREQUAL "x86")\n        ggml_add_cpu_backend_variant')[2]
    found = re.findall(r"variant\((\w+)", "variant" + x86.partition('STREQUAL "ARM"')[0])
    assert sorted(found) == sorted(
        (*(name.removeprefix("ggml-cpu-") for name in engine.MODULES if "-cpu-" in name), "sapphirerapids")
    )


def test_the_compilers_libraries_lie_beside_the_engine_without_names_for_debuggers(tmp_path):
    if not mingw.is_here():
        pytest.skip(NOT_COMPILED)
    mingw.lay_runtime(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == set(mingw.RUNTIME)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 4 << 20
    outside = imports.compare(imports.read(tmp_path))
    assert not outside.missing


def test_what_stands_in_for_the_vulkan_loader_is_asked_by_its_windows_name(tmp_path):
    if not mingw.is_here():
        pytest.skip(NOT_COMPILED)
    stand_in, source, library = tmp_path / "libvulkan-1.dll.a", tmp_path / "a.c", tmp_path / "a.dll"
    mingw.import_library(mingw.FILES / "vulkan-1.def", stand_in)
    source.write_text(
        "void *vkGetInstanceProcAddr(void *, char *);\nvoid *f(void) { return vkGetInstanceProcAddr(0, 0); }\n"
    )
    subprocess.run([mingw.tool("gcc"), "-shared", "-o", str(library), str(source), str(stand_in)], check=True)
    assert pe.imports(library)["vulkan-1.dll"] == ("vkGetInstanceProcAddr",)
