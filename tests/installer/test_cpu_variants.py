"""The engine for every processor: which CPU backends are compiled, and the wheel that they are put into."""

import base64
import hashlib
import shutil
import zipfile

import cpu_variants
import pytest

CONFIGURED = """
-- x86 detected
-- Adding CPU backend variant ggml-cpu-x64:\x20\x20
-- Adding CPU backend variant ggml-cpu-haswell: -msse4.2;-mf16c;-mavx2 GGML_SSE42;GGML_F16C;GGML_AVX2
-- Including Vulkan backend
"""


def test_the_backends_and_their_flags_are_read_from_what_cmake_says():
    assert cpu_variants.offered_variants(CONFIGURED) == {
        "ggml-cpu-x64": [],
        "ggml-cpu-haswell": ["-msse4.2", "-mf16c", "-mavx2"],
    }


@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler")
def test_flags_that_the_compiler_refuses_are_named():
    assert cpu_variants.unknown_flags(["-mno-such-instructions", "-O2"], "c++") == ["-mno-such-instructions"]


@pytest.fixture
def wheel(tmp_path):
    path = tmp_path / "engine.whl"
    with zipfile.ZipFile(path, "w") as file:
        for name in (
            "bin/libggml-cpu.so",
            "lib/cmake/llama/llama-config.cmake",
            "llama_cpp/__init__.py",
            "llama_cpp/lib/libggml-base.so.0",
            "llama_cpp/lib/libggml-cpu.so",
            "engine-1.0.dist-info/METADATA",
            "engine-1.0.dist-info/RECORD",
        ):
            file.writestr(name, f"old {name}")
    return path


@pytest.fixture
def grafted(wheel, tmp_path):
    libraries = {}
    for name in ("libggml-cpu-x64.so", "libggml-cpu-haswell.so"):
        libraries[name] = tmp_path / name
        libraries[name].write_bytes(f"new {name}".encode())
    target = tmp_path / "portable.whl"
    cpu_variants.graft(wheel, libraries, target)
    return target


def test_the_variants_take_the_place_of_the_code_for_one_processor(grafted):
    with zipfile.ZipFile(grafted) as file:
        assert set(file.namelist()) == {
            "llama_cpp/__init__.py",
            "llama_cpp/lib/libggml-base.so.0",
            "llama_cpp/lib/libggml-cpu-x64.so",
            "llama_cpp/lib/libggml-cpu-haswell.so",
            "engine-1.0.dist-info/METADATA",
            "engine-1.0.dist-info/RECORD",
        }
        assert file.read("llama_cpp/lib/libggml-cpu-haswell.so") == b"new libggml-cpu-haswell.so"
        assert file.read("llama_cpp/__init__.py") == b"old llama_cpp/__init__.py"


def test_the_record_of_the_wheel_tells_of_every_file_in_it(grafted):
    with zipfile.ZipFile(grafted) as file:
        lines = file.read("engine-1.0.dist-info/RECORD").decode().splitlines()
        told = {name: (digest, size) for name, digest, size in (line.split(",") for line in lines)}
        assert set(told) == set(file.namelist())
        assert told.pop("engine-1.0.dist-info/RECORD") == ("", "")
        for name, (digest, size) in told.items():
            content = file.read(name)
            wanted = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            assert (digest, size) == (f"sha256={wanted}", str(len(content)))


def test_the_same_wheel_and_variants_give_the_same_bytes(wheel, grafted, tmp_path):
    libraries = {path.name: path for path in sorted(tmp_path.glob("libggml-cpu-*.so"), reverse=True)}
    again = tmp_path / "again.whl"
    cpu_variants.graft(wheel, {name: libraries[name] for name in sorted(libraries, reverse=True)}, again)
    assert again.read_bytes() == grafted.read_bytes()
