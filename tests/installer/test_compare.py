"""Comparing packages: what is the same is the same in a folder and in an archive, and differences are named."""

import subprocess
import sys
import tarfile
from pathlib import Path

import compare
import pytest

SCRIPT = Path(compare.__file__)


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "one"
    (made / "library").mkdir(parents=True)
    (made / "library" / "x").write_bytes(b"12345")
    (made / "link").symlink_to("library/x")
    return made


def packed(folder, target):
    with tarfile.open(target, "w:xz") as tar:
        for path in sorted(folder.rglob("*")):
            tar.add(path, path.relative_to(folder).as_posix(), recursive=False)
    return target


def test_a_folder_and_its_archive_hold_the_same(folder, tmp_path):
    first, second = compare.entries(folder), compare.entries(packed(folder, tmp_path / "one.tar.xz"))
    assert set(first) == {"library", "library/x", "link"}
    assert compare.differences(first, second) == []


def test_differences_are_named_with_what_differs(folder):
    before = compare.entries(folder)
    (folder / "library" / "x").write_bytes(b"54321")
    (folder / "library" / "x").chmod(0o600)
    (folder / "link").rename(folder / "other")
    lines = compare.differences(before, compare.entries(folder))
    assert any(line.startswith("library/x: another content, mode") for line in lines)
    assert {"link: only in the first", "other: only in the second"} <= set(lines)


def test_the_exit_status_tells_whether_they_are_the_same(folder, tmp_path):
    archive = packed(folder, tmp_path / "one.tar.xz")
    (folder / "new").touch()
    other = packed(folder, tmp_path / "other.tar.xz")

    def compared(first, second):
        command = [sys.executable, str(SCRIPT), str(first), str(second)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    assert compared(archive, archive).returncode == 0
    done = compared(archive, other)
    assert done.returncode == 1
    assert "new: only in the second" in done.stdout
