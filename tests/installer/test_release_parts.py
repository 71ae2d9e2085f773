"""The release's other parts: the component for CUDA, and the AppImage."""

import os
import re
import shutil
import subprocess
import zipfile

import appimage
import component
import cuda
import msgspec
import pe
import pinned
import project
import pytest

from app.engine.components import Manifest

LLAMA_CPP = """
set(GGML_VERSION_MAJOR 0)
set(GGML_VERSION_MINOR 25)
set(GGML_VERSION_PATCH 3)
"""

# ---- component ---------------------------------------------------------------------------------------


@pytest.fixture
def parts(tmp_path):
    """A backend, a library that it needs, a licence and the source it comes from."""
    (tmp_path / "ggml").mkdir()
    (tmp_path / "ggml" / "CMakeLists.txt").write_text(LLAMA_CPP)
    for name in ("ggml-cuda.dll", "cudart64_12.dll", "EULA.txt"):
        (tmp_path / name).write_bytes(name.encode() * 100)
    return tmp_path


@pytest.fixture
def imports(monkeypatch):
    """What each library asks for; to be changed by the test."""
    told = {
        "ggml-cuda.dll": {
            "ggml-base.dll": ("ggml_nbytes",),
            "cudart64_12.dll": ("cudaMalloc",),
            "KERNEL32.dll".lower(): (),
        },
        "cudart64_12.dll": {"kernel32.dll": ("CreateFileW",)},
    }
    monkeypatch.setattr(pe, "imports", lambda path: told[path.name])
    return told


def pack(parts, out, *more):
    component.main(
        [
            *("--name", "cuda", "--library", str(parts / "ggml-cuda.dll"), "--source", str(parts)),
            *("--with", str(parts / "cudart64_12.dll"), "--licence", str(parts / "EULA.txt"), "--out", str(out)),
            *more,
        ]
    )
    (made,) = out.iterdir()
    return made


@pytest.mark.usefixtures("imports")
def test_a_component_holds_what_the_engine_reads(parts, tmp_path):
    made = pack(parts, tmp_path / "out")
    version = project.project()["version"]
    assert made.name == f"expert-lanes-cuda-{version}-windows-x86_64.zip"
    with zipfile.ZipFile(made) as packed:
        assert set(packed.namelist()) == {
            "cuda/component.json", "cuda/README.txt", "cuda/ggml-cuda.dll", "cuda/cudart64_12.dll",
            "cuda/licenses/EULA.txt",
        }  # fmt: skip
        told = msgspec.json.decode(packed.read("cuda/component.json"), type=Manifest)
        assert (told.name, told.ggml, told.library) == ("cuda", "0.25.3", "ggml-cuda.dll")
        assert told.files == {"ggml-cuda.dll": 1300, "cudart64_12.dll": 1500}
        assert "components" in packed.read("cuda/README.txt").decode()


@pytest.mark.usefixtures("imports")
def test_the_same_files_make_the_same_component(parts, tmp_path):
    assert pack(parts, tmp_path / "one").read_bytes() == pack(parts, tmp_path / "two").read_bytes()


def test_a_backend_that_asks_for_cpp_functions_is_refused(parts, imports):
    imports["ggml-cuda.dll"]["ggml-base.dll"] = ("ggml_nbytes", "?name@ggml@@YAHXZ")
    with pytest.raises(SystemExit, match="no function of C"):
        component.check_imports(parts / "ggml-cuda.dll", [parts / "cudart64_12.dll"])


def test_a_library_that_is_not_packed_is_missed(parts, imports):
    imports["ggml-cuda.dll"]["cublas64_12.dll"] = ()
    with pytest.raises(SystemExit, match=r"cublas64_12\.dll, which is not packed"):
        component.check_imports(parts / "ggml-cuda.dll", [parts / "cudart64_12.dll"])


@pytest.mark.parametrize("runtime", ["msvcp140.dll", "vcruntime140.dll", "vcruntime140_1.dll", "vcomp140.dll"])
def test_a_backend_whose_compilers_runtime_is_not_within_it_is_refused(parts, imports, runtime):
    imports["ggml-cuda.dll"][runtime] = ()
    with pytest.raises(SystemExit, match=rf"{runtime}, which is not packed"):
        component.check_imports(parts / "ggml-cuda.dll", [parts / "cudart64_12.dll"])
    assert "-DCMAKE_MSVC_RUNTIME_LIBRARY=MultiThreaded" in cuda.OPTIONS


@pytest.fixture
def cuda_wheels(tmp_path, monkeypatch):
    """What NVIDIA's packages hold, laid out as pip does it; returns the folder."""
    folder = tmp_path / "fetched"
    names = ("cuda_runtime/bin/cudart64_12.dll", "cublas/bin/cublas64_12.dll", "cublas/bin/cublasLt64_12.dll")
    texts = [f"nvidia_{name}_cu12-12.6.dist-info/License.txt" for name in ("cuda_runtime", "cublas")]
    for name in (*texts, *(f"nvidia/{name}" for name in (*names, "cublas/bin/nvblas64_12.dll"))):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("the licence" if name.endswith(".txt") else name)
    monkeypatch.setattr(cuda.pinned, "pip", lambda path, *_arguments: pinned.read(path))
    return folder


def test_of_cuda_comes_along_what_its_licence_permits_and_that_licence(cuda_wheels):
    libraries, licence = cuda.brought_along(cuda_wheels)
    assert [path.name for path in libraries] == ["cudart64_12.dll", "cublas64_12.dll", "cublasLt64_12.dll"]
    assert (licence.name, licence.read_text()) == ("EULA.txt", "the licence")


@pytest.mark.parametrize("pattern", ["License.txt", *cuda.LIBRARIES])
def test_without_a_part_of_that_nothing_is_built(cuda_wheels, monkeypatch, pattern):
    for path in cuda_wheels.rglob(pattern):
        path.unlink()
    monkeypatch.setenv("CUDA_PATH", "/a/toolkit")
    monkeypatch.setattr(cuda, "FETCHED", cuda_wheels)
    monkeypatch.setattr(cuda.shutil, "rmtree", lambda *_arguments, **_keywords: None)
    monkeypatch.setattr(cuda, "source", lambda: pytest.fail("it went on"))
    with pytest.raises(SystemExit, match="not there once"):
        cuda.main([])


@pytest.mark.usefixtures("imports")
def test_the_component_says_under_which_terms_cuda_is_in_it(parts, tmp_path):
    with zipfile.ZipFile(pack(parts, tmp_path / "out", "--terms", str(cuda.TERMS))) as packed:
        told = packed.read("cuda/README.txt").decode()
    assert "licenses/EULA.txt" in told
    assert all(pattern.partition("_")[0] in told for pattern in cuda.LIBRARIES)


def test_a_source_without_a_version_is_told(tmp_path):
    (tmp_path / "ggml").mkdir()
    (tmp_path / "ggml" / "CMakeLists.txt").write_text("project(ggml)")
    with pytest.raises(SystemExit, match="does not tell"):
        component.ggml_version(tmp_path)


# ---- AppImage ----------------------------------------------------------------------------------------


@pytest.fixture
def frozen(tmp_path):
    folder = tmp_path / "frozen"
    (folder / "_internal").mkdir(parents=True)
    for name in project.PROGRAMS:
        (folder / name).write_text("#!/bin/sh\necho started\n")
        (folder / name).chmod(0o755)
    (folder / "_internal" / "library.so").write_bytes(b"library")
    return folder


@pytest.fixture
def runtime(tmp_path):
    """What a runtime begins with, and no more."""
    path = tmp_path / "runtime"
    path.write_bytes(b"\x7fELF\x02\x01\x01\x00AI\x02" + bytes(5000))
    return path


def test_an_appimages_folder_starts_the_window_and_has_what_desktops_look_for(frozen, tmp_path):
    folder = tmp_path / "AppDir"
    appimage.lay_folder(frozen, folder, 1_800_000_000)
    assert (folder / "AppRun").resolve() == folder / "usr/lib/expert-lanes/expert-lanes-window"
    assert subprocess.run([folder / "AppRun"], capture_output=True, text=True, check=True).stdout == "started\n"
    assert (folder / "usr/bin/expert-lanes").resolve() == folder / "usr/lib/expert-lanes/expert-lanes"
    entry = (folder / "expert-lanes.desktop").read_text("utf-8")
    icon = re.search(r"^Icon=(.+)$", entry, re.MULTILINE)[1]
    assert (folder / f"{icon}.svg").is_file()
    assert (folder / ".DirIcon").resolve() == folder / f"{icon}.svg"
    assert list((folder / "usr/share/metainfo").iterdir())


@pytest.mark.skipif(shutil.which("mksquashfs") is None, reason="there is no mksquashfs here")
def test_an_appimage_is_the_runtime_and_the_folder_behind_it_and_always_the_same(frozen, runtime, tmp_path):
    folder = tmp_path / "AppDir"
    appimage.lay_folder(frozen, folder, 1_800_000_000)
    images = [tmp_path / "one.AppImage", tmp_path / "two.AppImage"]
    for image in images:
        appimage.make(runtime, folder, image, 1_800_000_000)
    content = images[0].read_bytes()
    assert content.startswith(runtime.read_bytes())
    assert content[runtime.stat().st_size :].startswith(b"hsqs")
    assert content == images[1].read_bytes()
    assert os.access(images[0], os.X_OK)
    offset = str(runtime.stat().st_size)
    listed = subprocess.run(["unsquashfs", "-o", offset, "-l", images[0]], capture_output=True, text=True, check=True)
    assert "squashfs-root/usr/lib/expert-lanes/_internal/library.so" in listed.stdout


RUNTIME_C = """/****
 *
 * Copyright (c) 2004-24 Somebody
 * Portions by another,
   modified by a third
 *
 * Permission is hereby granted, free of charge
 ****/

int main(void) { return 0; }
"""


@pytest.fixture
def debian(tmp_path):
    """Debian's folders of what its packages tell and of licences they refer to, for the parts of the runtime."""
    documents, common = tmp_path / "doc", tmp_path / "common-licenses"
    for part, package in appimage.RUNTIME_PARTS.items():
        (documents / package).mkdir(parents=True)
        (documents / package / "copyright").write_text(f"of {part}, in /usr/share/common-licenses/LGPL-2.1.\n")
    common.mkdir()
    (common / "LGPL-2.1").write_text("the LGPL")
    return documents, common


def test_an_appimage_says_whose_its_runtime_is_and_where_its_source_is(frozen, tmp_path, debian):
    folder, source = tmp_path / "AppDir", tmp_path / "runtime.c"
    source.write_text(RUNTIME_C)
    appimage.lay_folder(frozen, folder, 1_800_000_000)
    appimage.tell_of_runtime(folder, source, 1_800_000_000, *debian)
    place = folder / "usr/lib/expert-lanes/licenses/AppImage runtime"
    told = (place / "NOTICE.txt").read_text()
    assert told.endswith(
        "Copyright (c) 2004-24 Somebody\nPortions by another,\nmodified by a third\n\n"
        "Permission is hereby granted, free of charge\n"
    )
    for part in appimage.RUNTIME_PARTS:
        assert f"{part}" in told
        assert (place / part / "copyright").read_text().startswith(f"of {part},")
        assert (place / part / "LGPL-2.1").read_text() == "the LGPL"
    assert not (frozen / "licenses").exists(), "what is frozen stays as it is"
    assert f"https://github.com/AppImage/type2-runtime/tree/{appimage.RUNTIME_COMMIT}\n" in told
    assert appimage.RUNTIME_SOURCE in told
    assert max(map(len, told.splitlines())) <= 120


@pytest.mark.parametrize("part", appimage.RUNTIME_PARTS)
def test_a_part_of_the_runtime_without_its_licence_ends_the_build(frozen, tmp_path, debian, part):
    folder, source = tmp_path / "AppDir", tmp_path / "runtime.c"
    source.write_text(RUNTIME_C)
    appimage.lay_folder(frozen, folder, 1_800_000_000)
    (debian[0] / appimage.RUNTIME_PARTS[part] / "copyright").unlink()
    with pytest.raises(SystemExit, match=f"no text of a licence for {part}"):
        appimage.tell_of_runtime(folder, source, 1_800_000_000, *debian)


def test_a_source_of_the_runtime_without_its_licence_ends_the_build(frozen, tmp_path):
    folder, source = tmp_path / "AppDir", tmp_path / "runtime.c"
    source.write_text("/* Another licence. */\n")
    appimage.lay_folder(frozen, folder, 1_800_000_000)
    with pytest.raises(SystemExit, match="licence"):
        appimage.tell_of_runtime(folder, source, 1_800_000_000)


def test_something_else_is_taken_for_no_runtime(frozen, tmp_path):
    (tmp_path / "script").write_text("#!/bin/sh")
    with pytest.raises(SystemExit, match="no runtime"):
        appimage.make(tmp_path / "script", frozen, tmp_path / "x.AppImage", 0)
