"""The Debian package's own documents, and what is read from dpkg's tools."""

import gzip
import shutil
import subprocess

import debian_documents as documents
import debian_package
import pytest
from licences import Part

PARTS = [
    Part(
        "numpy",
        "2.4",
        "BSD-3-Clause AND MIT",
        {"LICENSE.txt": "Copyright (c) 2005-2025, NumPy Developers.\nAll rights reserved.\n"},
        ("numpy/core/x.so", "numpy/fft/y.so", "numpy.fft"),
    ),
    Part("libffi8", "3.4", "see its copyright file", {"copyright": "some text"}, ("libffi.so.8",)),
    Part("mdurl", "0.1", "MIT", {"LICENSE": "text"}, ("mdurl",)),
]


def paragraphs(text):
    return [dict(line.split(": ", 1) for line in block.splitlines() if ": " in line) for block in text.split("\n\n")]


def test_the_control_file_has_what_dpkg_asks_for():
    text = documents.control("1.2-1", "amd64", 7, ["libc6 (>= 2.36)", "libegl1"], ["libvulkan1"])
    fields = dict(line.split(": ", 1) for line in text.splitlines() if not line.startswith(" "))
    assert {"Package", "Version", "Architecture", "Maintainer", "Description"} <= set(fields)
    assert fields["Depends"] == "libc6 (>= 2.36), libegl1"
    assert fields["Recommends"].startswith("libvulkan1, ")
    assert fields["Installed-Size"] == "7"


def test_fields_are_read_from_what_dpkg_shlibdeps_prints():
    told = "shlibs:Depends=libc6 (>= 2.36), libegl1\nshlibs:Recommends=libvulkan1 (>= 1.2.131.2)\n"
    assert debian_package.listed(told, "Depends") == ["libc6 (>= 2.36)", "libegl1"]
    assert debian_package.listed(told, "Recommends") == ["libvulkan1 (>= 1.2.131.2)"]
    assert debian_package.listed(told, "Suggests") == []


@pytest.mark.parametrize("entry", ["libgl1 (>= 1.6)", "libgl1", "libgl1 | libgl1-mesa", " libgl1"])
def test_a_packages_name_is_read_from_an_entry_of_a_field(entry):
    assert debian_package.plain(entry) == "libgl1"


def test_no_newer_library_is_asked_for_than_is_known_to_serve():
    asked = ["libzstd1 (>= 1.5.2)", "libx11-xcb1 (>= 2:1.8.4)", "libx11-6", "libc6 (>= 2.35)", "libzstd1"]
    assert [debian_package.as_old_as_serves(entry) for entry in asked] == [
        "libzstd1 (>= 1.4.8)",
        "libx11-xcb1 (>= 2:1.7.2)",
        "libx11-6",
        "libc6 (>= 2.35)",
        "libzstd1",
    ]


def test_the_copyright_file_names_every_part_with_files_of_its_own_and_where_its_texts_are():
    found = paragraphs(documents.copyright_file(PARTS, 2026))
    assert found[0]["Upstream-Name"] == "Expert Lanes"
    assert found[1]["Files"] == "*"
    files = {block["Files"]: block for block in found if "Files" in block}
    numpy = files["usr/lib/expert-lanes/_internal/numpy/core/x.so"]
    assert numpy["Copyright"] == "2005-2025, NumPy Developers"
    assert files["usr/lib/expert-lanes/_internal/libffi.so.8"]["License"] == "libffi8"
    # What is a module in the programs is no file of the package.
    assert not any("mdurl" in name for name in files)
    licences = {block["License"] for block in found if "Files" not in block and "License" in block}
    assert {block["License"] for block in files.values()} == licences


def test_the_changelog_has_the_form_that_dpkg_reads(tmp_path):
    text = documents.changelog("1.2-1", 0)
    assert text.startswith("expert-lanes (1.2-1) unstable; urgency=medium\n\n  * Release 1.2")
    assert text.endswith("  Thu, 01 Jan 1970 00:00:00 +0000\n")
    if shutil.which("dpkg-parsechangelog"):
        (tmp_path / "changelog").write_text(text)
        command = ["dpkg-parsechangelog", "-l", str(tmp_path / "changelog"), "-S", "Version"]
        assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == "1.2-1"


def test_the_manual_page_tells_of_every_command_of_the_program():
    commands = debian_package.commands()
    assert {"chat", "plan", "probe", "doctor"} <= {name for name, _ in commands}
    page = documents.manual_page("1.2", 0, commands)
    assert page.count("\n.TP\n") == len(commands) + 1
    assert all(line.startswith(".") or not line.startswith("'") for line in page.splitlines())


@pytest.mark.skipif(shutil.which("man") is None, reason="no man")
def test_man_formats_the_manual_page_without_a_warning(tmp_path):
    page = tmp_path / "expert-lanes.1.gz"
    page.write_bytes(gzip.compress(documents.manual_page("1.2", 0, debian_package.commands()).encode()))
    command = ["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", str(page)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "minimized" not in done.stdout:
        assert (done.returncode, done.stderr) == (0, "")
        assert "local chat with Mixture-of-Experts models" in " ".join(done.stdout.split())


def test_each_override_of_lintian_has_its_reason():
    lines = documents.overrides().splitlines()
    assert len(lines) == 2 * len(documents.OVERRIDES)
    assert all(line.startswith("# ") and len(line) > 20 for line in lines[::2])
    assert all(line.startswith("expert-lanes: ") for line in lines[1::2])
