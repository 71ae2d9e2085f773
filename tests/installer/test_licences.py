"""Licences: whose each frozen file is, and that nothing goes out without the text of its licence."""

import dataclasses
from pathlib import Path

import licences
import pytest
from licences import Part, Places

SITE = "venv/lib/python3.11/site-packages"


def lay(folder, *files):
    for name, content in files:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, "utf-8")


def distribution(site, name, *files, licence="MIT"):
    info = f"{name}-1.0.dist-info"
    listed = [*files, (f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\nLicense: {licence}\n")]
    record = "".join(f"{file},,\n" for file, _ in listed)
    lay(site, *listed, (f"{info}/RECORD", record))


@pytest.fixture
def places(tmp_path):
    found = Places(
        packages=tmp_path / SITE,
        stdlib=tmp_path / "python",
        ours=tmp_path,
        llama_cpp=tmp_path / "llama.cpp",
        common=tmp_path / "common-licenses",
        documents=tmp_path / "doc",
    )
    text = ("pyinstaller-1.0.dist-info/licenses/COPYING.txt", "the GPL with an exception")
    distribution(found.packages, "pyinstaller", text, licence="GPL")
    lay(found.stdlib, ("LICENSE.txt", "Python's"), ("enum.py", ""))
    lay(found.common, ("LGPL-3", "the LGPL"), ("GPL-3", "the GPL"))
    lay(found.documents, ("libicu72/copyright", "ICU's"))
    return found


def parts(places, *origins):
    return {part.name: part for part in licences.parts([(name, str(path)) for name, path in origins], places)}


def test_a_distributions_files_are_its_own_and_its_texts_keep_their_folders(places):
    inner = "numbers-1.0.dist-info/licenses/random/LICENSE.md"
    texts = (("numbers-1.0.dist-info/LICENSE", "of all"), (inner, "of a part"))
    distribution(places.packages, "numbers", ("numbers/core.so", ""), *texts, licence="BSD")
    found = parts(places, ("numbers/core.so", places.packages / "numbers/core.so"))["numbers"]
    assert (found.version, found.licence, found.files) == ("1.0", "BSD", ("numbers/core.so",))
    assert found.texts == {"LICENSE": "of all", "random/LICENSE.md": "of a part"}


def test_python_and_the_program_that_starts_everything_are_always_told_of(places):
    found = parts(places, ("enum", places.stdlib / "enum.py"))
    assert found["Python"].texts == {"LICENSE.txt": "Python's"}
    assert found["pyinstaller"].texts == {"COPYING.txt": "the GPL with an exception"}


def test_qt_comes_with_both_licences_that_the_lgpl_consists_of_and_icu_with_its_own(places):
    files = [("PySide6/Qt/lib/libQt6Core.so.6", ""), ("PySide6/Qt/lib/libicuuc.so.73", "")]
    distribution(places.packages, "PySide6_Essentials", *files, licence="LGPL")
    found = parts(places, *((name, places.packages / name) for name, _ in files))
    assert set(found["PySide6_Essentials"].texts) == {"LGPL-3", "GPL-3"}
    assert found["PySide6_Essentials"].files == ("PySide6/Qt/lib/libQt6Core.so.6",)
    assert (found["ICU"].texts, found["ICU"].files) == ({"copyright": "ICU's"}, ("PySide6/Qt/lib/libicuuc.so.73",))


def test_the_engine_brings_the_licences_of_llama_cpp_too(places):
    files = [("llama_cpp/lib/libllama.so", ""), ("llama_cpp_python-1.0.dist-info/LICENSE.md", "the binding")]
    distribution(places.packages, "llama_cpp_python", *files)
    sgemm = "ggml/src/ggml-cpu/llamafile/sgemm.cpp"
    lay(places.llama_cpp, ("LICENSE", "llama.cpp's"), (sgemm, "// Somebody's\n// own.\n\n// Code\nint x;\n"))
    found = parts(places, ("llama_cpp/lib/libllama.so", places.packages / "llama_cpp/lib/libllama.so"))
    assert found["llama.cpp"].texts == {"LICENSE": "llama.cpp's", "tinyBLAS.txt": "Somebody's\nown.\n"}


def test_headers_that_are_compiled_into_the_vulkan_backend_are_told_of_where_that_is_frozen(places, tmp_path):
    lay(tmp_path / "unpacked", ("libvulkan-dev/copyright", "Khronos', see /usr/share/common-licenses/Apache-2.0."))
    lay(places.documents, ("spirv-headers/copyright", "the Khronos Group's"))
    lay(places.common, ("Apache-2.0", "the Apache License"))
    both = dataclasses.replace(places, headers=(tmp_path / "unpacked", places.documents))
    (found,) = licences.compiled_in(["llama_cpp/lib/libggml-vulkan.so"], both)
    assert set(found.texts) == {
        "libvulkan-dev/copyright", "libvulkan-dev/Apache-2.0", "spirv-headers/copyright",
    }  # fmt: skip
    assert licences.compiled_in(["llama_cpp/lib/libggml.so"], both) == []
    with pytest.raises(SystemExit, match="no text of a licence for Debian's spirv-headers"):
        licences.compiled_in(["ggml-vulkan.dll"], dataclasses.replace(places, headers=(tmp_path / "unpacked",)))


def test_our_own_files_are_no_part_of_others(places, tmp_path):
    lay(tmp_path, ("app/cli.py", ""))
    assert set(parts(places, ("app.cli", tmp_path / "app/cli.py"))) == {"Python", "pyinstaller"}


def test_a_file_of_which_nobody_knows_whose_it_is_ends_the_build(places):
    lay(places.packages, ("stray.so", ""))
    with pytest.raises(SystemExit, match=r"stray\.so"):
        parts(places, ("stray.so", places.packages / "stray.so"))


def test_a_file_that_another_packages_was_put_aside_for_is_its_own_packages(tmp_path, monkeypatch):
    program = tmp_path / "dpkg-query"
    program.write_text(
        '#!/bin/sh\necho "diversion by other from: $2"; echo "diversion by other to: $2.aside"; echo "own:amd64: $2"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    assert licences.package_of(Path("/usr/lib/liba.so")) == "own"
    program.write_text("#!/bin/sh\nexit 1\n")
    assert licences.package_of(Path("/usr/lib/liba.so")) is None


def test_a_part_without_a_licences_text_ends_the_build_by_its_name(places, tmp_path):
    distribution(places.packages, "bare", ("bare.py", ""))
    found = parts(places, ("bare", places.packages / "bare.py")).values()
    with pytest.raises(SystemExit, match="bare"):
        licences.lay(found, tmp_path / "licenses")
    with pytest.raises(SystemExit, match="empty"):
        licences.check([Part("empty", "", "MIT", {"LICENSE": " \n"})])


def test_every_text_is_laid_in_a_folder_of_its_parts_name_and_listed(tmp_path):
    found = [
        Part("numbers", "2.0", "BSD-3-Clause", {"LICENSE": "text", "random/LICENSE.md": "other"}),
        Part("shiboken6", "6.11.3", "LGPL-3.0-only", {"LGPL-3": "the LGPL"}),
    ]
    licences.lay(found, tmp_path)
    assert (tmp_path / "numbers/random/LICENSE.md").read_text() == "other"
    told = (tmp_path / "NOTICES.txt").read_text()
    assert "numbers 2.0: BSD-3-Clause\n" in told
    assert "6.11.3 are used under the GNU Lesser General Public License" in told
    assert licences.qt_sources("6.11.3") in told


def test_the_source_of_qt_is_that_of_the_version_in_the_package():
    told = licences.qt_sources("6.8.1.1")
    assert "https://download.qt.io/archive/qt/6.8/6.8.1/" in told
    assert "https://download.qt.io/official_releases/QtForPython/pyside6/PySide6-6.8.1.1-src/" in told


def test_nobody_is_promised_what_only_others_could_give(tmp_path):
    licences.lay([Part("shiboken6", "6.11.3", "LGPL-3.0-only", {"LGPL-3": "the LGPL"})], tmp_path)
    told = (tmp_path / "NOTICES.txt").read_text()
    assert "years" not in told
    assert max(map(len, told.splitlines())) <= 120
