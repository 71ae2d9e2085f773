"""Which compiler of shaders is taken, what is said of it, and how a newer release's is laid and started."""

import json
import os
import re
import stat
import subprocess
from pathlib import Path

import cpu_variants
import debian_release
import engine_wheel
import pytest
import shader_compiler

ALL = (*shader_compiler.NEEDED, "GL_EXT_float_e2m1")


def program(path, text):
    """Write a program for the shell."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def compiler(path, known, version="shaderc 1"):
    """A program that tells a version, and compiles only shaders that ask for nothing but `known`."""
    told = "|".join(known) or "nothing"
    return program(
        path,
        f'[ "$1" = --version ] && {{ echo "{version}"; echo; echo "  glslang 2"; exit; }}\n'
        f'for file; do :; done\ngrep -qE "({told}) : require" "$file"',
    )


@pytest.fixture
def llama_cpp(tmp_path):
    """A source with one feature test an extension."""
    folder = tmp_path / "llama.cpp" / "ggml" / "src" / "ggml-vulkan" / "vulkan-shaders" / "feature-tests"
    folder.mkdir(parents=True)
    for name in ALL:
        (folder / f"{name}.comp").write_text(f"#version 460\n\n#extension {name} : require\n\nvoid main()\n{{\n}}\n")
    return tmp_path / "llama.cpp"


@pytest.fixture
def system(tmp_path, monkeypatch):
    """Sets what this system's glslc knows; without a call there is none."""
    monkeypatch.setattr(shader_compiler.shutil, "which", lambda name: None)

    def set_known(known):
        path = compiler(tmp_path / "system" / "glslc", known)
        monkeypatch.setattr(shader_compiler.shutil, "which", lambda name: str(path))
        return path

    return set_known


@pytest.fixture
def releases(monkeypatch):
    """What the glslc of each Debian release knows, or None where it cannot be had; and which were asked for."""
    told, asked = {}, []

    def unpack(release, packages, folder, *, dependencies):
        assert (packages, dependencies) == (["glslc"], True)
        asked.append(release)
        if told.get(release) is None:
            raise debian_release.NotAvailableError(f"no way to {release}")
        compiler(folder / "usr" / "bin" / "glslc", told[release], f"shaderc of {release}")
        # Stands for the loader: it starts what comes after the option for libraries.
        program(folder / "usr" / "lib" / "x86_64-linux-gnu" / "ld-linux-x86-64.so.2", 'shift 2\nexec "$@"')
        return []

    monkeypatch.setattr(debian_release, "unpack", unpack)
    monkeypatch.setattr(shader_compiler, "RELEASES", ("new", "older"))
    return told, asked


def test_what_a_compiler_knows_is_asked_with_the_engines_own_tests(tmp_path, llama_cpp):
    path = compiler(tmp_path / "glslc", ["GL_EXT_bfloat16", "GL_EXT_float_e2m1"])
    memory = tmp_path / "memory.json"
    found = shader_compiler.examine(path, shader_compiler.feature_tests(llama_cpp), "ours", memory)
    assert found.known == ("GL_EXT_bfloat16", "GL_EXT_float_e2m1")
    assert found.lacking == tuple(name for name in shader_compiler.NEEDED if name != "GL_EXT_bfloat16")
    assert found.version == "shaderc 1, glslang 2"


def test_what_a_release_of_a_compiler_knows_is_remembered(tmp_path, llama_cpp):
    tests, memory = shader_compiler.feature_tests(llama_cpp), tmp_path / "memory.json"
    memory.write_text("[not what is kept")
    first = shader_compiler.examine(compiler(tmp_path / "glslc", ALL), tests, "ours", memory)
    again = shader_compiler.examine(compiler(tmp_path / "glslc", []), tests, "ours", memory)
    assert first.known == again.known == tuple(sorted(ALL))
    newer = shader_compiler.examine(compiler(tmp_path / "glslc", [], "shaderc 2"), tests, "ours", memory)
    assert newer.known == ()
    tests["GL_EXT_bfloat16"].write_text("#extension GL_EXT_bfloat16 : require\n// another test\n")
    asked_again = shader_compiler.examine(compiler(tmp_path / "glslc", []), tests, "ours", memory)
    assert asked_again.known == ()


def test_a_compiler_that_does_not_run_is_none(tmp_path, llama_cpp):
    tests, memory = shader_compiler.feature_tests(llama_cpp), tmp_path / "memory.json"
    assert shader_compiler.examine(program(tmp_path / "glslc", "exit 127"), tests, "ours", memory) is None
    assert shader_compiler.examine(tmp_path / "missing", tests, "ours", memory) is None
    assert not memory.exists()


def test_this_systems_compiler_is_taken_where_it_knows_all_that_is_needed(
    llama_cpp, tmp_path, system, releases, capsys
):
    path = system(shader_compiler.NEEDED)
    assert shader_compiler.choose(llama_cpp, tmp_path / "cache").path == path
    assert releases[1] == []
    assert capsys.readouterr().out == ""


def test_a_newer_one_is_fetched_once_where_this_systems_lacks_something(llama_cpp, tmp_path, system, releases, capsys):
    told, asked = releases
    system(["GL_KHR_cooperative_matrix"])
    told["new"] = ALL
    for _ in range(2):
        found = shader_compiler.choose(llama_cpp, tmp_path / "cache")
        assert found.path == tmp_path / "cache" / "glslc-new" / "glslc"
        assert found.lacking == ()
        assert found.version.startswith("shaderc of new")
    assert asked == ["new"]
    assert capsys.readouterr().out.splitlines() == ["setup: fetching a newer shader compiler, glslc of Debian new"]
    assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == ["glslc-new", "shader-compilers.json"]


def test_the_one_that_lacks_least_is_taken_and_what_it_lacks_is_said(llama_cpp, tmp_path, system, releases, capsys):
    told, _ = releases
    system([])
    told["older"] = [name for name in ALL if name != "GL_EXT_bfloat16"]
    found = shader_compiler.choose(llama_cpp, tmp_path / "cache")
    assert (found.lacking, found.origin) == (("GL_EXT_bfloat16",), "glslc of Debian older")
    said = capsys.readouterr().out
    assert "setup: shaders are compiled by glslc of Debian older and lack GL_EXT_bfloat16 (models in BF16)" in said
    assert "setup: Debian new's is not available: no way to new" in said


def test_falling_back_to_this_systems_compiler_is_said_each_time_but_tried_once_a_day(
    llama_cpp, tmp_path, system, releases, capsys
):
    path = system(["GL_EXT_bfloat16"])
    for _ in range(2):
        assert shader_compiler.choose(llama_cpp, tmp_path / "cache").path == path
        said = capsys.readouterr().out
        assert "this system's glslc and lack GL_KHR_cooperative_matrix" in said
        assert "no way to new" in said
        assert "no way to older" in said
    assert releases[1] == ["new", "older"]
    memory = tmp_path / "cache" / "not-available-today.json"
    memory.write_text(json.dumps({"2020-02-02": {"new": "no way", "older": "no way"}}))
    shader_compiler.choose(llama_cpp, tmp_path / "cache")
    assert releases[1] == ["new", "older"] * 2


def test_without_any_compiler_the_reasons_are_said(llama_cpp, tmp_path, system, releases, capsys):
    assert shader_compiler.choose(llama_cpp, tmp_path / "cache") is None
    assert "no way to older" in capsys.readouterr().out


def test_an_engine_that_has_no_test_for_what_is_needed_is_refused(llama_cpp, tmp_path, system):
    next(llama_cpp.rglob("GL_EXT_bfloat16.comp")).unlink()
    with pytest.raises(SystemExit, match="no feature test for GL_EXT_bfloat16"):
        shader_compiler.choose(llama_cpp, tmp_path / "cache")


def test_the_unpacked_compiler_starts_with_its_own_loader_and_libraries_from_any_folder(tmp_path, monkeypatch):
    def unpack(release, packages, folder, *, dependencies):
        program(folder / "usr" / "bin" / "glslc", "exit 1")
        program(folder / "usr" / "lib" / "some-linux-gnu" / "ld-linux-some.so.1", 'printf "%s\\n" "$@"')

    monkeypatch.setattr(debian_release, "unpack", unpack)
    shader_compiler.newer("new", tmp_path / "glslc-new")
    moved = tmp_path / "a b" / "專家"
    moved.parent.mkdir()
    (tmp_path / "glslc-new").rename(moved)
    command = [str(moved / "glslc"), "-o", "x y.spv"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    folder = moved / "usr" / "lib" / "some-linux-gnu"
    assert told == ["--library-path", str(folder), str(moved / "usr" / "bin" / "glslc"), "-o", "x y.spv"]


def test_packages_without_a_loader_are_refused_and_leave_nothing(tmp_path, monkeypatch):
    def unpack(release, packages, folder, *, dependencies):
        program(folder / "usr" / "bin" / "glslc", "exit 1")

    monkeypatch.setattr(debian_release, "unpack", unpack)
    with pytest.raises(debian_release.NotAvailableError, match="no loader"):
        shader_compiler.newer("new", tmp_path / "cache" / "glslc-new")
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["not-available-today.json"]


# ---- apt ----------------------------------------------------------------------------------------


@pytest.fixture
def apt(tmp_path, monkeypatch):
    """Lets a program of the shell be apt-get."""

    def set_text(text):
        program(tmp_path / "bin" / "apt-get", text)
        monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")

    return set_text


def test_without_a_mirror_of_debians_nothing_is_fetched(apt, tmp_path):
    apt('[ "$1" = indextargets ] || touch "$0.asked"')
    (tmp_path / "made").mkdir()
    with pytest.raises(debian_release.NotAvailableError, match="no mirror"):
        debian_release.unpack("new", ["glslc"], tmp_path / "made", dependencies=True)
    assert not (tmp_path / "bin" / "apt-get.asked").exists()


def test_what_apt_says_is_the_reason_and_its_folders_are_taken_away(apt, tmp_path):
    apt('[ "$1" = indextargets ] && { echo http://mirror.example/one; exit; }\necho "E: not signed" >&2; exit 100')
    (tmp_path / "made").mkdir()
    with pytest.raises(debian_release.NotAvailableError, match="apt-get update: E: not signed"):
        debian_release.unpack("new", ["glslc"], tmp_path / "made", dependencies=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bin", "made"]


def test_apt_compares_with_debians_signature_and_knows_of_no_other_source(apt, tmp_path):
    apt(
        '[ "$1" = indextargets ] && { echo http://mirror.example/one http://mirror.example/one-security; exit; }\n'
        'for word; do case "$word" in -oDir::Etc::sourcelist=*) cat "${word#*=}" >> "$0.sources";; esac; done\n'
        'echo "$@" >> "$0.asked"'
    )
    (tmp_path / "made").mkdir()
    assert debian_release.unpack("new", ["a", "b"], tmp_path / "made", dependencies=False) == []
    source = "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://mirror.example/one new main"
    assert set((tmp_path / "bin" / "apt-get.sources").read_text().splitlines()) == {source}
    updated, downloaded = (tmp_path / "bin" / "apt-get.asked").read_text().splitlines()
    assert updated.endswith(" update")
    assert downloaded.endswith(" download a b")
    assert "-oDir::Etc::sourceparts=-" in downloaded


# ---- what is kept under which key ---------------------------------------------------------------


@pytest.fixture
def built(tmp_path, monkeypatch):
    """Makes the engine's keys with a compiler given, and builds nothing."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(engine_wheel.debian, "is_debian_like", lambda: False)
    monkeypatch.setattr(engine_wheel, "_new_headers_here", lambda: True)
    monkeypatch.setattr(engine_wheel, "unpacked_source", lambda cache, python: tmp_path)

    def lay(python, source, options, target, shaders):
        target.mkdir(parents=True)
        (target / "engine.whl").touch()

    monkeypatch.setattr(engine_wheel, "_build", lay)

    def make(version, known=tuple(shader_compiler.NEEDED)):
        found = shader_compiler.ShaderCompiler(Path("glslc"), version, known, "ours")
        monkeypatch.setattr(shader_compiler, "choose", lambda source, cache: found)
        return engine_wheel.engine_wheel(Path("python"))

    return make


def test_another_compiler_of_shaders_makes_another_engine(built):
    first = built("1")
    assert first.backends == ("CPU", "Vulkan")
    assert built("1").key == first.key
    assert len({first.key, built("2").key, built("1", ("GL_EXT_bfloat16",)).key}) == 3


def test_the_engine_tells_what_its_shaders_lack(built):
    assert built("1").lacking == ()
    assert built("1", ("GL_EXT_bfloat16",)).lacking == tuple(
        name for name in shader_compiler.NEEDED if name != "GL_EXT_bfloat16"
    )


def test_code_for_processors_is_compiled_once_for_all_compilers_of_shaders(built, tmp_path, monkeypatch):
    compiled = []

    def compile_variants(source, target):
        compiled.append(target)
        (target / "build").mkdir(parents=True)
        (target / "build" / "libggml-cpu-x64.so").touch()
        return {"libggml-cpu-x64.so": target / "build" / "libggml-cpu-x64.so"}

    def write(wheel, libraries, target):
        assert list(libraries) == ["libggml-cpu-x64.so"]
        target.touch()

    monkeypatch.setattr(cpu_variants, "_build", compile_variants)
    monkeypatch.setattr(cpu_variants, "_compiler_version", lambda: "c++ 1")
    monkeypatch.setattr(cpu_variants, "graft", write)
    keys = []
    for version in ("1", "2"):
        built(version)
        made = cpu_variants.portable_engine(Path("python"))
        assert made.wheel.exists()
        keys.append(made.key)
    assert keys[0] != keys[1]
    assert len(compiled) == 1
    assert not (compiled[0] / "build").exists()

    def write_otherwise(wheel, libraries, target):
        target.write_text("other")

    monkeypatch.setattr(cpu_variants, "graft", write_otherwise)
    assert cpu_variants.portable_engine(Path("python")).key not in keys, "the wheel also changes with how it is written"
    assert len(compiled) == 1


def test_the_engines_own_recipe_asks_for_every_extension_that_is_asked_for_here():
    cached = engine_wheel.cache_folder() / "engine" / f"llama_cpp_python-{engine_wheel.LLAMA_CPP_PYTHON}"
    source = cached / "vendor" / "llama.cpp"
    recipe = source / "ggml" / "src" / "ggml-vulkan" / "CMakeLists.txt"
    if not recipe.is_file():
        pytest.skip("the engine's source is not in the cache")
    asked = re.findall(r'test_shader_extension_support\(\s+"(\w+)"', recipe.read_text())
    assert set(shader_compiler.feature_tests(source)) == set(asked)
    assert set(shader_compiler.NEEDED) <= set(asked)
