"""The Windows installer under Wine where something is in its way: what lies there, what breaks, what ends early.

Skipped where the installer's other tests are. Exit codes are never believed alone: every test looks at the files.
"""

import shutil
import subprocess

import nsis
import pytest
from windows_setups import DATE, files_below, make_tree, shortcut_leads_to, until

BESIDE, BAD_FOLDER, NOT_LAID, NOT_REMOVED = 10, 14, 15, 16
WINDOW = "expert-lanes-window.exe"


def laid(tree):
    """What is to lie in a version's folder."""
    return files_below(tree) | {nsis.LIST_NAME}


def versions(windows):
    """What lies in the folder of versions."""
    return {path.name for path in windows.installed.iterdir()} - {"uninstall.exe"}


def list_of(*lines):
    """The content of a list of installed files."""
    return "".join(f"{line}\r\n" for line in (nsis.LIST_HEADER, *lines)).encode("utf-16-le")


# ---- what lies there already --------------------------------------------------------------------


def test_a_file_named_like_the_versions_folder_stays_and_the_version_is_laid_beside_it(windows, setups, trees):
    windows.installed.mkdir(parents=True)
    (windows.installed / "0.1.0").write_text("mine")
    assert windows.install(setups["0.1.0"]) == 0
    assert (windows.installed / "0.1.0").read_text() == "mine"
    assert files_below(windows.installed / "0.1.0-2") == laid(trees["0.1.0"])
    assert windows.uninstall() == 0
    assert files_below(windows.installed) - {"uninstall.exe"} == {"0.1.0"}


def test_a_folder_named_like_the_versions_that_is_not_ours_stays_and_an_empty_one_is_taken(windows, setups, trees):
    (windows.installed / "0.1.0").mkdir(parents=True)
    (windows.installed / "0.2.0").mkdir()
    (windows.installed / "0.2.0" / WINDOW).write_text("mine")
    assert windows.install(setups["0.1.0"]) == 0
    assert windows.install(setups["0.2.0"]) == 0
    assert versions(windows) == {"0.1.0", "0.2.0", "0.2.0-2"}
    assert (windows.installed / "0.2.0" / WINDOW).read_text() == "mine"
    assert files_below(windows.installed / "0.1.0") == laid(trees["0.1.0"])


def test_a_folder_that_is_told_and_is_a_file_is_refused(windows, setups):
    file = windows.drive / "Programme hier" / "a file"
    file.parent.mkdir()
    file.write_text("mine")
    assert windows.install(setups["0.1.0"], folder=windows.name_of(file)) == BAD_FOLDER
    assert file.read_text() == "mine"
    assert not windows.menu.joinpath("Expert Lanes.lnk").exists()


def test_files_that_may_only_be_read_hold_neither_repair_nor_update_nor_removal_up(windows, setups, trees):
    def lock():
        for version in [path for path in windows.installed.iterdir() if path.is_dir()]:
            for name in files_below(version):
                assert windows.run("attrib", "+r", windows.name_of(version / name)) == 0
        assert windows.run("attrib", "+r", windows.name_of(windows.installed / "uninstall.exe")) == 0

    assert windows.install(setups["0.1.0"]) == 0
    lock()
    assert windows.install(setups["0.1.0"]) == 0
    assert files_below(windows.installed / "0.1.0") == laid(trees["0.1.0"])
    assert windows.install(setups["0.2.0"]) == 0
    lock()
    before = (windows.installed / "uninstall.exe").read_bytes()
    assert windows.install(setups["0.3.0"]) == 0
    assert (windows.installed / "uninstall.exe").read_bytes() != before
    assert versions(windows) == {"0.2.0", "0.3.0"}
    lock()
    assert windows.uninstall() == 0
    assert not windows.installed.exists()


def test_what_windows_knows_of_a_folder_that_was_deleted_by_hand_is_no_installation(windows, setups, trees):
    chinese = "C:\\Programme hier\\中文"
    assert windows.install(setups["0.1.0"], folder=chinese) == 0
    assert windows.install(setups["0.2.0"]) == 0
    assert (windows.menu / "Expert Lanes (previous version).lnk").exists()
    shutil.rmtree(windows.drive / "Programme hier")
    assert windows.install(setups["0.3.0"]) == 0
    assert versions(windows) == {"0.3.0"}
    assert not (windows.menu / "Expert Lanes (previous version).lnk").exists()
    told = windows.registered()
    assert told["Expert Lanes|InstallLocation"] == windows.name_of(windows.installed)
    assert told["Expert Lanes|PreviousFolder"] == ""


def test_a_list_that_names_files_elsewhere_or_many_at_once_deletes_none_of_them(windows, setups):
    assert windows.install(setups["0.1.0"]) == 0
    for name in ("mine.txt", "models/mine.gguf"):
        (windows.data / name).parent.mkdir(parents=True, exist_ok=True)
        (windows.data / name).write_text("mine")
    (windows.installed / "mine.txt").write_text("mine")
    (windows.installed / "0.1.0" / "mine.txt").write_text("mine")
    elsewhere = r"..\..\..\expert-lanes"
    lines = (r"..\mine.txt", rf"{elsewhere}\mine.txt", rf"{elsewhere}\models\mine.gguf", "*.*", "m?ne.txt", "..\\")
    (windows.installed / "0.1.0" / nsis.LIST_NAME).write_bytes(list_of(*lines, WINDOW))
    assert windows.uninstall() == 0
    assert files_below(windows.data) == {"mine.txt", "models/mine.gguf"}
    there = files_below(windows.installed)
    assert {"mine.txt", "0.1.0/mine.txt", "0.1.0/expert-lanes.exe"} <= there
    assert f"0.1.0/{WINDOW}" not in there


# ---- in use by somebody whose programs are not ours to see --------------------------------------


def test_a_version_that_another_user_runs_is_never_written_over_nor_removed(
    windows, setups, trees, shortcuts, tmp_path
):
    assert windows.install(setups["0.1.0"]) == 0
    held = windows.installed / "0.1.0"
    with shortcuts.holding(held / WINDOW, tmp_path):
        assert windows.install(setups["0.1.0"]) == 0
        assert versions(windows) == {"0.1.0", "0.1.0-2"}
        assert windows.install(setups["0.2.0"]) == 0
        assert windows.install(setups["0.3.0"]) == 0
        assert versions(windows) == {"0.1.0", "0.2.0", "0.3.0"}
        assert files_below(held) == laid(trees["0.1.0"])
        assert windows.uninstall() == NOT_REMOVED
        assert versions(windows) == {"0.1.0"}
        assert files_below(held) == laid(trees["0.1.0"])
        assert windows.registered()
    assert windows.uninstall() == 0
    assert not windows.installed.exists()


# ---- what breaks in the middle ------------------------------------------------------------------


def block(folder):
    """A folder stands where a file belongs, with something in it."""
    file = folder / "_internal" / "app" / "text.txt"
    file.unlink(missing_ok=True)
    file.mkdir(parents=True)
    (file / "mine.txt").write_text("mine")


def test_of_a_version_that_could_not_be_laid_whole_nothing_stays(windows, setups, trees):
    assert windows.install(setups["0.1.0"]) == 0
    block(windows.installed / "0.2.0")
    (windows.installed / "0.2.0" / nsis.LIST_NAME).write_bytes(list_of())
    uninstaller = (windows.installed / "uninstall.exe").read_bytes()
    assert windows.install(setups["0.2.0"]) == NOT_LAID
    assert files_below(windows.installed / "0.2.0") == {"_internal/app/text.txt/mine.txt"}
    assert files_below(windows.installed / "0.1.0") == laid(trees["0.1.0"])
    assert (windows.installed / "uninstall.exe").read_bytes() == uninstaller
    shutil.rmtree(windows.installed / "0.2.0" / "_internal")
    assert windows.install(setups["0.2.0"]) == 0
    assert files_below(windows.installed / "0.2.0") == laid(trees["0.2.0"])


def test_a_way_back_that_could_not_be_laid_again_is_none_and_the_version_in_use_stays(windows, setups, trees):
    assert windows.install(setups["0.1.0"]) == 0
    assert windows.install(setups["0.2.0"]) == 0
    block(windows.installed / "0.1.0")
    assert windows.install(setups["0.1.0"]) == NOT_LAID
    assert files_below(windows.installed / "0.2.0") == laid(trees["0.2.0"])
    assert shortcut_leads_to(windows.menu / "Expert Lanes.lnk", "0.2.0", WINDOW)
    assert not (windows.menu / "Expert Lanes (previous version).lnk").exists()
    told = windows.registered()
    assert (told["Expert Lanes|DisplayVersion"], told["Expert Lanes|PreviousFolder"]) == ("0.2.0", "")


def test_an_uninstaller_that_cannot_be_written_leaves_the_one_there_is(windows, setups, trees):
    assert windows.install(setups["0.1.0"]) == 0
    before = (windows.installed / "uninstall.exe").read_bytes()
    (windows.installed / "uninstall.new").mkdir()
    assert windows.install(setups["0.2.0"]) == NOT_LAID
    assert (windows.installed / "uninstall.exe").read_bytes() == before
    assert versions(windows) == {"0.1.0", "uninstall.new"}
    (windows.installed / "uninstall.new").rmdir()
    assert windows.uninstall() == 0
    assert not windows.installed.exists()


@pytest.fixture
def full_disk(tmp_path):
    """A disk of one MiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("No disk can be mounted here.")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


@pytest.fixture
def large_setup(trees, tmp_path, monkeypatch):
    """A setup of many files, some MiB together, that does not look at the room there is."""
    monkeypatch.setattr(nsis, "needed_mebibytes", lambda *_: 0)
    more = {f"_internal/many/{number}.txt": f"{number}\n" * 30_000 for number in range(100, 200)}
    tree = make_tree(tmp_path / "large", trees["0.3.0"], "0.3.0", more)
    return tree, nsis.make_setup(tree, "0.3.0", DATE, tmp_path / "large.exe", quick=True)


def test_a_disk_that_becomes_full_is_told_and_holds_nothing_of_it_afterwards(windows, large_setup, full_disk):
    _, setup = large_setup
    assert windows.install(setup, folder=windows.name_of(full_disk / "Lanes")) == NOT_LAID
    assert not files_below(full_disk)
    assert not windows.menu.joinpath("Expert Lanes.lnk").exists()


def test_a_setup_that_was_killed_in_the_middle_is_run_once_more_and_all_is_there(windows, setups, large_setup):
    tree, setup = large_setup
    assert windows.install(setups["0.1.0"]) == 0
    folder = windows.installed / "0.3.0"
    process = windows.start(setup, "/S")
    try:
        until((folder / "_internal" / "many" / "110.txt").is_file, "some files are laid")
    finally:
        process.kill()
        process.communicate()
    there = files_below(folder)
    assert there
    assert there < laid(tree)
    assert windows.registered()["Expert Lanes|DisplayVersion"] == "0.1.0"
    assert shortcut_leads_to(windows.menu / "Expert Lanes.lnk", "0.1.0", WINDOW)
    assert windows.install(setup) == 0
    assert versions(windows) == {"0.1.0", "0.3.0"}
    assert files_below(folder) == laid(tree)
    assert windows.uninstall() == 0
    assert not windows.installed.exists()


def test_a_first_setup_that_was_killed_before_windows_knew_of_it_is_run_once_more(windows, setups, trees):
    folder = windows.drive / "Programme hier" / "Lanes"
    shutil.copytree(trees["0.1.0"], folder / "0.1.0")
    (folder / "0.1.0" / WINDOW).unlink()
    (folder / "0.1.0" / nsis.LIST_NAME).write_bytes(nsis.file_list(nsis.laid_names(trees["0.1.0"])).encode("utf-16-le"))
    (folder / "uninstall.new").write_bytes(b"half of one")
    assert windows.install(setups["0.1.0"], folder=windows.name_of(folder)) == 0
    assert files_below(folder) == {"uninstall.exe", *(f"0.1.0/{name}" for name in laid(trees["0.1.0"]))}
    assert windows.uninstall(folder) == 0
    assert not folder.exists()
