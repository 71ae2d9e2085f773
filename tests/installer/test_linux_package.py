"""The Linux packages' pure parts: what is frozen, what is asked of the system, and the files beside the app."""

import configparser
import shutil
import subprocess
import tarfile
from pathlib import Path
from xml.etree import ElementTree

import archive
import checks
import desktop_files
import frozen_contents
import linux
import project
import pytest

ROOT = Path(__file__).resolve().parents[2]
OBJDUMP = """
Dynamic Section:
  NEEDED               libggml-base.so.0
  NEEDED               libc.so.6
  SONAME               libggml.so.0

Version References:
  required from libc.so.6:
    0x0d696914 0x00 04 GLIBC_2.4
    0x06969194 0x00 05 GLIBC_2.34
    0x09691a75 0x00 03 GLIBC_2.2.5
  required from libstdc++.so.6:
    0x0297f861 0x00 07 GLIBCXX_3.4.11
    0x02297f89 0x00 06 GLIBCXX_3.4.9
    0x056bafd3 0x00 02 CXXABI_1.3
"""


@pytest.mark.parametrize(
    "name",
    [
        "PySide6/Qt/plugins/platforms/libqxcb.so",
        "PySide6/Qt/plugins/platforms/libqoffscreen.so",
        "PySide6/Qt/lib/libQt6Core.so.6",
        "llama_cpp/lib/libggml-vulkan.so",
        "app/engine/libexpert_device.so",
        "libgomp.so.1",
        "libxcb-cursor.so.0",
        "numpy-2.4.dist-info/METADATA",
    ],
)
def test_what_the_app_uses_is_frozen(name):
    assert frozen_contents.is_wanted(name)


@pytest.mark.parametrize(
    "name",
    [
        "PySide6/Qt/plugins/platforms/libqeglfs.so",
        "PySide6/Qt/plugins/sqldrivers/libqsqlite.so",
        "PySide6/Qt/translations/qt_de.qm",
        "libstdc++.so.6",
        "libz.so.1",
        "libfontconfig.so.1",
        "numpy-2.4.dist-info/licenses/LICENSE.txt",
        "numpy-2.4.dist-info/direct_url.json",
        "pyqtgraph/Qt/QtCore/__init__.pyi",
        "libvulkan.so.1",
    ],
)
def test_what_the_system_brings_or_nothing_uses_is_left_out(name):
    assert not frozen_contents.is_wanted(name)


def test_the_engines_libraries_are_laid_under_the_names_they_are_asked_for_by():
    names = [f"lib{name}.so{end}" for name in ("llama", "ggml", "ggml-base") for end in ("", ".0", ".0.5.0")]
    kept = {name for name in [*names, "libggml-cpu.so", "libggml-vulkan.so"] if frozen_contents.is_engine_library(name)}
    assert kept == {
        *("libllama.so", "libggml.so", "libggml.so.0", "libggml-base.so.0", "libggml-cpu.so", "libggml-vulkan.so")
    }


def test_a_library_that_only_left_out_files_needed_goes_with_them():
    needs = {
        "PySide6/QtCore.abi3.so": ["libQt6Core.so.6"],
        "libQt6Core.so.6": [],
        "PySide6/Qt/lib/libQt6Core.so.6": ["libicu.so.73"],
        "libicu.so.73": [],
        "libgtk-3.so.0": ["libgdk-3.so.0"],
        "libgdk-3.so.0": ["libgtk-3.so.0"],
        "app/engine/libexpert_device.so": [],
        "libpython3.11.so.1.0": [],
    }
    assert frozen_contents.used(needs) == set(needs) - {"libgtk-3.so.0", "libgdk-3.so.0"}


def test_needs_are_read_from_objdump():
    needs = frozen_contents.needs_told(OBJDUMP)
    assert needs.libraries == {"libggml-base.so.0", "libc.so.6"}
    assert needs.versions == {"GLIBC": (2, 34), "GLIBCXX": (3, 4, 11), "CXXABI": (1, 3)}


def test_a_file_of_a_form_that_old_c_libraries_cannot_load_needs_the_one_that_can():
    told = OBJDUMP.replace("GLIBC_2.34", "GLIBC_ABI_DT_RELR")
    assert frozen_contents.needs_told(told).versions["GLIBC"] == (2, 36)


def test_what_the_package_holds_itself_is_not_asked_of_the_system():
    needs = {
        "llama_cpp/lib/libggml.so.0": frozen_contents.Needs(
            frozenset({"libggml-base.so.0", "libm.so.6"}), {"GLIBC": (2, 4), "GLIBCXX": (3, 4, 11)}
        ),
        "llama_cpp/lib/libggml-base.so.0": frozen_contents.Needs(
            frozenset({"libm.so.6"}), {"GLIBC": (2, 36), "GLIBCXX": (3, 4, 9)}
        ),
    }
    outside, versions = linux.asked_of_the_system(needs)
    assert outside == {"libm.so.6": "llama_cpp/lib/libggml-base.so.0"}
    assert versions == {"GLIBC": (2, 36), "GLIBCXX": (3, 4, 11)}


def test_every_module_of_the_app_is_frozen_also_those_imported_by_name():
    modules = frozen_contents.own_modules(ROOT)
    assert {"app", "app.cli", "app.ui.tuning.curve_page", "app.engine.process"} <= set(modules)
    assert "app.__main__" not in modules


def test_the_record_tells_of_a_library_as_the_doctor_reads_it(tmp_path):
    library = tmp_path / "libexpert_device.so"
    library.write_bytes(b"some code")
    info = tmp_path / "expert_lanes-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(frozen_contents.metadata("expert-lanes", "1.0"))
    (info / "RECORD").write_text(frozen_contents.record({library.name: library}))

    from importlib.metadata import PathDistribution

    distribution = PathDistribution(info)
    (file,) = distribution.files
    assert distribution.version == "1.0"
    assert (str(file), file.size, file.hash.mode) == (library.name, len(b"some code"), "sha256")
    assert str(info) not in (info / "METADATA").read_text() + (info / "RECORD").read_text()


def test_files_are_listed_in_one_order_with_their_sizes(tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "x").write_bytes(b"12345")
    (tmp_path / "a").write_bytes(b"1")
    (tmp_path / "link").symlink_to("a")
    assert project.file_list(tmp_path) == [("a", 1), ("b/x", 5), ("link", 0)]


def test_libraries_are_not_run_whatever_their_makers_permit(tmp_path):
    for name in ("libpython3.11.so.1.0", "x.abi3.so", "expert-lanes"):
        (tmp_path / name).touch(0o755)
    project.settle(tmp_path, 0)
    assert [path.name for path in tmp_path.iterdir() if path.stat().st_mode & 0o111] == ["expert-lanes"]


def test_times_and_modes_are_the_same_whoever_built_it(tmp_path):
    file, program = tmp_path / "file", tmp_path / "program"
    file.touch(0o600)
    program.touch(0o700)
    project.settle(tmp_path, 1_000_000)
    assert [(p.stat().st_mode & 0o777, p.stat().st_mtime) for p in (file, program, tmp_path)] == [
        (0o644, 1_000_000),
        (0o755, 1_000_000),
        (0o755, 1_000_000),
    ]


@pytest.fixture
def usr(tmp_path):
    desktop_files.lay_shared(tmp_path, 86_400)
    return tmp_path


def test_the_menu_entry_starts_the_window_with_our_icon(usr):
    path = usr / "share/applications/expert-lanes.desktop"
    entry = configparser.ConfigParser(interpolation=None)
    entry.read(path, "utf-8")
    assert entry["Desktop Entry"]["Exec"] == "expert-lanes-window %f"
    assert (usr / f"share/icons/hicolor/scalable/apps/{entry['Desktop Entry']['Icon']}.svg").is_file()
    checker = shutil.which("desktop-file-validate")
    if checker:
        done = subprocess.run([checker, str(path)], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (0, "")


def test_the_description_for_software_centres_names_this_version_and_the_menu_entry(usr):
    root = ElementTree.parse(usr / "share/metainfo/org.expertlanes.ExpertLanes.metainfo.xml").getroot()
    release = root.find("releases/release")
    assert release.attrib == {"version": project.project()["version"], "date": "1970-01-02"}
    assert (usr / "share/applications" / root.findtext("launchable")).is_file()


def test_gguf_files_have_a_type_told_by_name_and_content(usr):
    text = (usr / "share/mime/packages/expert-lanes.xml").read_text()
    kind = ElementTree.fromstring(text).find("{*}mime-type")
    assert kind.find("{*}glob").get("pattern") == "*.gguf"
    assert kind.find("{*}magic/{*}match").get("value") == "GGUF"


def test_the_menu_entry_opens_the_files_whose_type_is_described(usr):
    entry = configparser.ConfigParser(interpolation=None)
    entry.read(usr / "share/applications/expert-lanes.desktop", "utf-8")
    kind = ElementTree.parse(usr / "share/mime/packages/expert-lanes.xml").getroot().find("{*}mime-type").get("type")
    assert entry["Desktop Entry"]["MimeType"] == f"{kind};"


def test_debians_python_is_frozen_with_a_library_that_it_runs_without():
    assert "libpython3.11" in checks.needed("/usr", "3.11.2")
    assert not any(name.startswith("libpython") for name in checks.needed("/opt/python", "3.11.7"))


@pytest.mark.parametrize("library", linux.OLDEST)
def test_a_file_that_needs_a_newer_library_of_the_compiler_than_is_told_ends_the_build(library):
    allowed = frozen_contents.Needs(versions=linux.OLDEST)
    linux.check_versions({"program": allowed})
    *before, last = linux.OLDEST[library]
    newer = frozen_contents.Needs(versions={library: (*before, last + 1)})
    with pytest.raises(SystemExit, match=rf"(?m)^library\.so needs {library}_"):
        linux.check_versions({"program": allowed, "library.so": newer})


def test_the_readme_tells_the_same_oldest_libraries():
    told = (ROOT / "README.md").read_text("utf-8")
    assert f"GNU C library {'.'.join(map(str, linux.OLDEST['GLIBC']))}" in told
    assert f"GLIBCXX_{'.'.join(map(str, linux.OLDEST['GLIBCXX']))}" in told


def test_the_c_plus_plus_library_is_the_systems_so_that_its_version_is_what_counts():
    assert not any(map(frozen_contents.is_wanted, ("libstdc++.so.6", "libgcc_s.so.1", "numpy.libs/libstdc++.so.6")))


def test_the_archives_text_names_libraries_and_packages_in_lines_of_readable_length():
    libraries = [f"libnumber{index}.so.1" for index in range(30)]
    text = archive.readme("1.2", {"GLIBC": (2, 36), "GLIBCXX": (3, 4, 30)}, libraries, ["libegl1"])
    assert text.startswith("Expert Lanes 1.2\n")
    assert all(name in text for name in [*libraries, "libegl1", "2.36", "GLIBCXX_3.4.30"])
    assert max(map(len, text.splitlines())) <= 120


def test_runs_that_gave_other_files_end_the_build(tmp_path):
    for name, content in (("before", "1"), ("now", "2")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(content)
        with tarfile.open(tmp_path / name / "app.tar.xz", "w:xz") as tar:
            tar.add(tmp_path / name / "file", "file")
    linux.compare_runs([tmp_path / "now/app.tar.xz"], tmp_path / "now")
    with pytest.raises(SystemExit, match="file: another content"):
        linux.compare_runs([tmp_path / "now/app.tar.xz"], tmp_path / "before")
