"""Which shaders a built Vulkan backend holds, and that a package without the fast ones is refused."""

import argparse
import io
import json
import struct
import zipfile
from pathlib import Path

import engine_wheel
import pytest
import shader_compiler
import shaders

ROOT = Path(__file__).resolve().parents[2]
NEEDED = tuple(shader_compiler.NEEDED)
SHADER, FLOAT16, INTEGER_DOT, MATRIX, BLOCK_LOADS, BFLOAT16 = 1, 9, 6018, 6022, 5434, 5116


def spirv(*capabilities, version=0x00010300):
    """A shader that needs `capabilities`; what comes after them looks as in a real one."""
    words = [0x07230203, version, 13 << 16, 40, 0]
    for capability in (SHADER, *capabilities):
        words += [2 << 16 | 17, capability]
    words += [3 << 16 | 14, 0, 1, 2 << 16 | 18, MATRIX]
    return struct.pack(f"<{len(words)}I", *words)


def library(folder, *programs):
    path = folder / "libggml-vulkan.so"
    path.write_bytes(b"\x7fELF" + b"...".join(programs) + b"end")
    return path


def test_shaders_are_counted_by_what_they_need_of_the_card():
    found = shaders.count(b"x".join([spirv(FLOAT16), spirv(MATRIX), spirv(MATRIX, BLOCK_LOADS), spirv(INTEGER_DOT)]))
    assert found == {
        "all": 4,
        "GL_KHR_cooperative_matrix": 2,
        "GL_NV_cooperative_matrix2": 1,
        "GL_EXT_integer_dot_product": 1,
    }


def test_a_shader_with_two_capabilities_of_one_extension_counts_once():
    assert shaders.count(spirv(5432, 5433, BLOCK_LOADS))["GL_NV_cooperative_matrix2"] == 1


@pytest.mark.parametrize(
    "content",
    [b"", b"\x03\x02\x23\x07", spirv(MATRIX)[:16], spirv(MATRIX, version=0x01020304), b"a program without any"],
)
def test_what_is_no_shader_is_not_counted(content):
    assert shaders.count(content)["all"] == 0


def test_a_shader_that_is_cut_off_ends_the_count_without_an_error():
    assert shaders.count(spirv(MATRIX)[: 20 + 8 + 4]) == {"all": 1}


def test_a_library_with_all_of_them_is_good(tmp_path, capsys):
    shaders.check(library(tmp_path, spirv(MATRIX, BLOCK_LOADS), spirv(INTEGER_DOT), spirv(BFLOAT16)), anyway=False)
    assert capsys.readouterr().out == (
        "package: libggml-vulkan.so holds 3 shaders, 1 with GL_KHR_cooperative_matrix, 1 with "
        "GL_NV_cooperative_matrix2, 1 with GL_EXT_integer_dot_product, 1 with GL_EXT_bfloat16\n"
    )


def test_a_library_that_lacks_one_is_refused_unless_asked_for_and_then_it_is_said(tmp_path, capsys):
    path = library(tmp_path, spirv(MATRIX, BLOCK_LOADS), spirv(INTEGER_DOT))
    with pytest.raises(SystemExit, match=r"lack GL_EXT_bfloat16 \(models in BF16\); --any-shaders makes"):
        shaders.check(path, anyway=False)
    shaders.check(path, anyway=True)
    assert "its shaders lack GL_EXT_bfloat16 (models in BF16)" in capsys.readouterr().out


def test_a_package_without_a_vulkan_library_is_refused(tmp_path):
    with pytest.raises(SystemExit, match="GL_KHR_cooperative_matrix"):
        shaders.check(tmp_path / "libggml-vulkan.so", anyway=False)


def test_the_option_is_the_one_that_is_told_when_something_is_refused():
    parser = argparse.ArgumentParser()
    shaders.add_option(parser)
    assert parser.parse_args([]).any_shaders is False
    assert parser.parse_args([shaders.ANYWAY]).any_shaders is True


def test_what_its_compiler_knew_is_in_the_engine_of_this_checkout():
    try:
        key = json.loads((ROOT / ".venv" / "setup-stamp.json").read_text())["engine"]
        folder = engine_wheel.cache_folder() / "engine" / key
        told = json.loads((folder / "build.json").read_text()).get("shaders")
        wheel = next(folder.glob("*.whl"))
    except (OSError, ValueError, KeyError, StopIteration):
        pytest.skip("no engine of this checkout is in the cache")
    if not told:
        pytest.skip("it was built without Vulkan, or before its compiler was kept in its record")
    with zipfile.ZipFile(io.BytesIO(wheel.read_bytes())) as file:
        held = shaders.count(file.read("llama_cpp/lib/libggml-vulkan.so"))
    _, known = json.loads(told)
    assert held["all"] > 1000
    assert {name for name in NEEDED if held[name]} == set(NEEDED) & set(known)
