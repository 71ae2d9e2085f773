"""What is taken out of the frozen folder: the building machine's own paths, and nothing of other makers."""

import shutil
import subprocess

import frozen_contents
import pytest
import tidy

TOOLS = ("cc", "patchelf", "objdump", "strip")
pytestmark = pytest.mark.skipif(
    any(shutil.which(tool) is None for tool in TOOLS), reason=f"not all of {', '.join(TOOLS)} are here"
)


def library(path, folder):
    path.parent.mkdir(parents=True)
    (path.parent / "code.c").write_text("int answer(void) { return 42; }\n")
    command = ["cc", "-g", "-shared", "-fPIC", f"-Wl,-rpath,{folder}", "-o", str(path), str(path.parent / "code.c")]
    subprocess.run(command, check=True)
    return path


def test_pythons_modules_forget_where_python_was_and_lose_the_tables_of_debuggers(tmp_path):
    path = library(tmp_path / "_internal/python3.11/lib-dynload/math.so", "/opt/python/lib")
    before = path.stat().st_size
    tidy.tidy(tmp_path)
    assert frozen_contents.needs_of(path).search == ()
    assert path.stat().st_size < before


def test_folders_beside_a_library_stay_where_it_looks(tmp_path):
    path = library(tmp_path / "_internal/numpy/core.so", "$ORIGIN/../numpy.libs")
    before = path.read_bytes()
    tidy.tidy(tmp_path)
    assert path.read_bytes() == before
    assert frozen_contents.needs_of(path).search == ("$ORIGIN/../numpy.libs",)


def test_another_makers_library_that_looks_into_this_machine_ends_the_build(tmp_path):
    library(tmp_path / "_internal/llama_cpp/lib/libggml-base.so", "/home/builder/lib")
    with pytest.raises(SystemExit, match="/home/builder/lib"):
        tidy.tidy(tmp_path)
