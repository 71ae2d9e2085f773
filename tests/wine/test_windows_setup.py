"""The Windows installer under Wine, with small stand-ins for the app: what it lays, keeps, refuses and removes.

Skipped where NSIS, Wine, MinGW or Xvfb is missing. Exit codes are never believed alone: every test looks at the files.
"""

import shutil
import subprocess

import nsis
import pytest
from windows_setups import DATE, OTHER_FILES, files_below, shortcut_leads_to, until

BESIDE, OLD_WINDOWS, NO_ROOM, LONG_PATH, BAD_FOLDER, NOT_LAID, NOT_REMOVED = 10, 11, 12, 13, 14, 15, 16
CHINESE = "C:\\Programme hier\\中文 路径"
PROGID = r"HKCU\Software\Classes\ExpertLanes.gguf"
GGUF = r"HKCU\Software\Classes\.gguf"


def laid(tree):
    """What is to lie in a version's folder."""
    return files_below(tree) | {nsis.LIST_NAME}


def versions(windows):
    """The versions that lie there."""
    return {path.name for path in windows.installed.iterdir() if path.is_dir()}


def test_it_is_installed_into_a_path_with_blanks_and_chinese_characters(windows, setups, trees):
    assert windows.install(setups["0.1.0"], folder=CHINESE) == 0
    folder = windows.drive / "Programme hier" / "中文 路径"
    assert files_below(folder) == {"uninstall.exe", *(f"0.1.0/{name}" for name in laid(trees["0.1.0"]))}
    for name in laid(trees["0.1.0"]) - {nsis.LIST_NAME}:
        there, ours = folder / "0.1.0" / name, trees["0.1.0"] / name
        assert there.read_bytes() == ours.read_bytes()
        assert there.stat().st_mtime == DATE
    assert shortcut_leads_to(windows.menu / "Expert Lanes.lnk", CHINESE, "0.1.0", "expert-lanes-window.exe")
    assert not list(windows.desktop.glob("*.lnk"))
    told = windows.registered()
    size = sum(path.stat().st_size for path in (folder / "0.1.0").rglob("*") if path.is_file())
    assert told.pop("Expert Lanes|EstimatedSize") == size // 1024
    assert told == {
        f"Expert Lanes|{name}": value
        for name, value in {
            "DisplayName": "Expert Lanes",
            "DisplayVersion": "0.1.0",
            "DisplayIcon": rf"{CHINESE}\0.1.0\expert-lanes-window.exe,0",
            "Publisher": "Expert Lanes contributors",
            "InstallLocation": CHINESE,
            "UninstallString": rf'"{CHINESE}\uninstall.exe"',
            "QuietUninstallString": rf'"{CHINESE}\uninstall.exe" /S',
            "Folder": "0.1.0",
            "PreviousFolder": "",
            "NoModify": 1,
            "NoRepair": 1,
        }.items()
    }
    assert windows.registered(PROGID) == {}
    # As Windows' own settings would run it: it copies itself away, and the first process ends before its work does.
    (folder / "mine.txt").write_text("not of the installer")
    (folder / "0.1.0" / "_internal" / "mine.txt").write_text("not of the installer")
    windows.run(folder / "uninstall.exe", "/S")
    until(lambda: windows.registered() == {}, "uninstalled")
    assert files_below(folder) == {"mine.txt", "0.1.0/_internal/mine.txt"}
    assert not list(windows.menu.glob("Expert Lanes*"))


def test_an_update_keeps_the_version_before_it_as_a_way_back_and_no_older_one(windows, setups, trees):
    assert windows.install(setups["0.1.0"], "/DESKTOP=1") == 0
    assert windows.install(setups["0.2.0"]) == 0
    assert versions(windows) == {"0.1.0", "0.2.0"}
    assert windows.install(setups["0.3.0"]) == 0
    assert versions(windows) == {"0.2.0", "0.3.0"}
    for version in versions(windows):
        assert files_below(windows.installed / version) == laid(trees[version])
    for shortcut in (windows.menu / "Expert Lanes.lnk", windows.desktop / "Expert Lanes.lnk"):
        assert shortcut_leads_to(shortcut, "0.3.0", "expert-lanes-window.exe")
    back = windows.menu / "Expert Lanes (previous version).lnk"
    assert shortcut_leads_to(back, "0.2.0", "expert-lanes-window.exe")
    told = windows.registered()
    assert told["Expert Lanes|DisplayVersion"] == "0.3.0"
    assert told["Expert Lanes|PreviousFolder"] == "0.2.0"
    size = sum(path.stat().st_size for path in windows.installed.glob("0*/**/*") if path.is_file())
    assert told["Expert Lanes|EstimatedSize"] == size // 1024
    assert windows.uninstall() == 0
    assert not windows.installed.exists()
    assert not [path for folder in (windows.menu, windows.desktop) for path in folder.glob("Expert Lanes*")]


def test_a_running_app_is_asked_to_close_and_then_updated(windows, setups, run_app):
    assert windows.install(setups["0.1.0"]) == 0
    app = run_app(windows.installed / "0.1.0" / "expert-lanes-window.exe")
    assert windows.install(setups["0.2.0"]) == 0
    assert app.told == ["opened", "asked", "ended"]
    assert versions(windows) == {"0.1.0", "0.2.0"}
    assert shortcut_leads_to(windows.menu / "Expert Lanes.lnk", "0.2.0", "expert-lanes-window.exe")


def test_an_app_that_did_not_hear_it_behind_a_message_is_asked_once_more(windows, setups, run_app):
    assert windows.install(setups["0.1.0"]) == 0
    app = run_app(windows.installed / "0.1.0" / "expert-lanes-window.exe", REFUSES="once")
    assert windows.install(setups["0.2.0"]) == 0
    assert app.told == ["opened", "asked", "asked", "ended"]


def test_an_app_that_does_not_close_and_a_running_command_stay_and_the_new_version_is_laid_beside_them(
    windows, setups, trees, run_app
):
    assert windows.install(setups["0.1.0"]) == 0
    app = run_app(windows.installed / "0.1.0" / "expert-lanes-window.exe", REFUSES="1")
    command = run_app(windows.installed / "0.1.0" / "expert-lanes.exe")
    assert windows.install(setups["0.2.0"], "/WAIT=1") == BESIDE
    assert app.told == ["opened", "asked"]
    assert command.told == ["opened"]
    assert files_below(windows.installed / "0.2.0") == laid(trees["0.2.0"])
    assert shortcut_leads_to(windows.menu / "Expert Lanes.lnk", "0.2.0", "expert-lanes-window.exe")
    # One more: the version in use is no longer the one before, and is left all the same.
    assert windows.install(setups["0.3.0"], "/WAIT=1") == BESIDE
    assert versions(windows) == {"0.1.0", "0.2.0", "0.3.0"}
    assert files_below(windows.installed / "0.1.0") == laid(trees["0.1.0"])
    # The uninstaller waits in vain too, and takes nothing away under a running program.
    before = files_below(windows.installed)
    assert windows.uninstall(None, "/WAIT=1") == BESIDE
    assert files_below(windows.installed) == before
    assert windows.registered()["Expert Lanes|DisplayVersion"] == "0.3.0"
    app.end()
    command.end()
    assert command.told == ["opened", "ended"]
    assert windows.uninstall() == 0
    assert not windows.installed.exists()


def test_the_running_version_itself_is_never_written_over(windows, setups, trees, run_app):
    assert windows.install(setups["0.1.0"]) == 0
    run_app(windows.installed / "0.1.0" / "expert-lanes-window.exe", REFUSES="1")
    assert windows.install(setups["0.1.0"], "/WAIT=0") == BESIDE
    assert versions(windows) == {"0.1.0", "0.1.0-2"}
    for version in versions(windows):
        assert files_below(windows.installed / version) == laid(trees["0.1.0"])
    assert shortcut_leads_to(windows.menu / "Expert Lanes.lnk", "0.1.0-2", "expert-lanes-window.exe")


def test_the_same_version_again_repairs_it_in_its_place(windows, setups, trees):
    assert windows.install(setups["0.1.0"]) == 0
    (windows.installed / "0.1.0" / "_internal" / "app" / "text.txt").write_text("changed")
    (windows.installed / "0.1.0" / "licenses" / "NOTICES.txt").unlink()
    assert windows.install(setups["0.1.0"]) == 0
    assert versions(windows) == {"0.1.0"}
    assert files_below(windows.installed / "0.1.0") == laid(trees["0.1.0"])
    assert (windows.installed / "0.1.0/_internal/app/text.txt").read_text() == OTHER_FILES["_internal/app/text.txt"]
    assert not (windows.menu / "Expert Lanes (previous version).lnk").exists()


def test_an_older_version_can_be_installed_again_and_the_newer_one_is_the_way_back(windows, setups, trees):
    assert windows.install(setups["0.1.0"]) == 0
    assert windows.install(setups["0.2.0"]) == 0
    assert windows.install(setups["0.1.0"]) == 0
    assert versions(windows) == {"0.1.0", "0.2.0"}
    assert files_below(windows.installed / "0.1.0") == laid(trees["0.1.0"])
    assert shortcut_leads_to(windows.menu / "Expert Lanes.lnk", "0.1.0", "expert-lanes-window.exe")
    assert shortcut_leads_to(windows.menu / "Expert Lanes (previous version).lnk", "0.2.0", "expert-lanes-window.exe")
    assert windows.registered()["Expert Lanes|DisplayVersion"] == "0.1.0"


def test_gguf_files_are_offered_only_when_wished_and_the_users_own_choice_stays(windows, setups):
    windows.set_value(GGUF, "", "Another.program")
    assert windows.install(setups["0.1.0"], "/ASSOCIATE=1") == 0
    program = windows.name_of(windows.installed / "0.1.0" / "expert-lanes-window.exe")
    told = windows.registered(PROGID)
    assert told["command|"] == f'"{program}" "%1"'
    assert told["DefaultIcon|"] == f"{program},0"
    told = windows.registered(GGUF)
    assert told[".gguf|"] == "Another.program"
    assert "OpenWithProgids|ExpertLanes.gguf" in told
    # An update that is told nothing keeps what was chosen, and leads to the new version.
    assert windows.install(setups["0.2.0"]) == 0
    assert "0.2.0" in windows.registered(PROGID)["command|"]
    assert windows.install(setups["0.2.0"], "/ASSOCIATE=0") == 0
    assert windows.registered(PROGID) == {}
    assert windows.registered(GGUF) == {".gguf|": "Another.program"}
    assert windows.install(setups["0.2.0"], "/ASSOCIATE=1") == 0
    assert windows.uninstall() == 0
    assert windows.registered(PROGID) == {}
    assert windows.registered(GGUF) == {".gguf|": "Another.program"}


@pytest.mark.parametrize(
    ("folder", "code"),
    [
        ("folder", BAD_FOLDER),
        ("C:\\", BAD_FOLDER),
        ("Z:\\proc\\nothing can be made here", BAD_FOLDER),
        ("C:\\Programme hier\\" + "x" * 220, LONG_PATH),
    ],
)
def test_a_folder_that_cannot_be_is_refused_before_anything_is_laid(windows, setups, folder, code):
    before = files_below(windows.drive / "users") | {path.name for path in windows.drive.iterdir()}
    assert windows.install(setups["0.1.0"], folder=folder) == code
    assert not windows.menu.joinpath("Expert Lanes.lnk").exists()
    assert not windows.installed.exists()
    after = files_below(windows.drive / "users") | {path.name for path in windows.drive.iterdir()}
    assert after - before <= {"Programme hier"}


def test_the_longest_path_that_fits_is_taken(windows, setups, trees):
    longest = max(len(name) for name in laid(trees["0.1.0"]))
    folder = CHINESE + "x" * (259 - longest - len("\\0.1.0-9\\") - len(CHINESE))
    assert windows.install(setups["0.1.0"], folder=folder + "x") == LONG_PATH
    assert windows.install(setups["0.1.0"], folder=folder) == 0
    (there,) = (windows.drive / "Programme hier").iterdir()
    assert files_below(there / "0.1.0") == laid(trees["0.1.0"])
    assert windows.uninstall(there) == 0
    assert not there.exists()


def test_a_second_folder_is_refused_while_it_is_installed_in_another(windows, setups):
    assert windows.install(setups["0.1.0"]) == 0
    assert windows.install(setups["0.2.0"], folder=CHINESE) == BAD_FOLDER
    assert not (windows.drive / "Programme hier").exists()
    assert versions(windows) == {"0.1.0"}


def test_a_folder_with_another_programs_uninstaller_is_refused_and_one_with_ours_is_taken(windows, setups):
    folder = windows.drive / "Programme hier" / "Tools"
    (folder / "inner").mkdir(parents=True)
    (folder / "uninstall.exe").write_text("another program's")
    assert windows.install(setups["0.1.0"], folder="C:\\Programme hier\\Tools") == BAD_FOLDER
    assert files_below(folder) == {"uninstall.exe"}
    assert (folder / "uninstall.exe").read_text() == "another program's"
    assert not windows.menu.joinpath("Expert Lanes.lnk").exists()
    # What Windows knew of it is lost, but a version of ours lies there.
    (folder / "inner" / nsis.LIST_NAME).touch()
    assert windows.install(setups["0.1.0"], folder="C:\\Programme hier\\Tools") == 0
    assert windows.uninstall(folder) == 0


def test_a_disk_without_room_is_refused_before_anything_is_laid(windows, trees, tmp_path, monkeypatch):
    monkeypatch.setattr(nsis, "needed_mebibytes", lambda *_: 1 << 29)
    setup = nsis.make_setup(trees["0.1.0"], "0.1.0", DATE, tmp_path / "large.exe")
    assert windows.install(setup) == NO_ROOM
    assert not windows.installed.exists()


def test_a_windows_that_is_too_old_is_refused(windows, setups):
    key = rf"HKCU\Software\Wine\AppDefaults\{setups['0.3.0'].name}"
    windows.set_value(key, "Version", "win81")
    assert windows.install(setups["0.3.0"]) == OLD_WINDOWS
    windows.set_value(key, "Version", "win10")
    assert not windows.installed.exists()


def test_a_file_that_cannot_be_written_leaves_the_version_in_use_as_it_is(windows, setups, trees):
    assert windows.install(setups["0.1.0"]) == 0
    # A folder of ours, as a broken installation leaves it, in which a folder stands where a file belongs.
    (windows.installed / "0.2.0" / "_internal" / "app" / "text.txt").mkdir(parents=True)
    listed = windows.installed / "0.2.0" / nsis.LIST_NAME
    listed.write_bytes(f"{nsis.LIST_HEADER}\r\n".encode("utf-16-le"))
    assert windows.install(setups["0.2.0"]) == NOT_LAID
    assert files_below(windows.installed / "0.1.0") == laid(trees["0.1.0"])
    assert windows.registered()["Expert Lanes|DisplayVersion"] == "0.1.0"
    assert shortcut_leads_to(windows.menu / "Expert Lanes.lnk", "0.1.0", "expert-lanes-window.exe")


def test_a_version_whose_list_is_damaged_stays_and_the_rest_is_uninstalled(windows, setups, trees):
    assert windows.install(setups["0.1.0"]) == 0
    assert windows.install(setups["0.2.0"]) == 0
    (windows.installed / "0.1.0" / nsis.LIST_NAME).write_bytes(b"damaged")
    assert windows.uninstall() == 0
    assert files_below(windows.installed) - {"uninstall.exe"} == {f"0.1.0/{name}" for name in laid(trees["0.1.0"])}
    assert windows.registered() == {}


def lay_data(windows):
    """What the app writes for its user, and something that is not its own."""
    names = (
        *("models/big one.gguf", "models/maker/other.gguf", "conversations.db", "conversations.db-wal"),
        *("conversations.damaged-20260101.db", "settings.json", "machine/speed/x.json", "profiles/y.bin"),
        *("components/cuda/ggml-cuda.dll", "settings.4711.new"),
        *("Logs/window.log", "Cache/z", "mine.txt"),
    )
    for name in names:
        (windows.data / name).parent.mkdir(parents=True, exist_ok=True)
        (windows.data / name).write_bytes(b"x" * 5000)
    return set(names)


MODELS = {"models/big one.gguf", "models/maker/other.gguf"}
CHATS = {"conversations.db", "conversations.db-wal", "conversations.damaged-20260101.db"}


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ((), MODELS | CHATS),
        (("/MODELS=delete",), CHATS),
        (("/MODELS=delete", "/CHATS=delete"), set()),
    ],
)
def test_models_and_conversations_stay_unless_their_deletion_is_asked_for(windows, setups, options, kept):
    assert windows.install(setups["0.1.0"]) == 0
    lay_data(windows)
    assert windows.uninstall(None, *options) == 0
    assert files_below(windows.data) == {"mine.txt", *kept}
    assert not windows.installed.exists()


def lay_linked(windows, tmp_path, name):
    """A folder elsewhere with a file, to which the data's folder of this name is a link; Wine shows it as one."""
    elsewhere = tmp_path / f"elsewhere {name}"
    elsewhere.mkdir()
    (elsewhere / "of another.gguf").write_text("stays")
    windows.data.mkdir(parents=True, exist_ok=True)
    (windows.data / name).symlink_to(elsewhere)


@pytest.mark.parametrize("options", [(), ("/MODELS=delete",)])
def test_what_a_linked_folder_of_the_data_leads_to_stays(windows, setups, tmp_path, options):
    assert windows.install(setups["0.1.0"]) == 0
    for name in ("models", "Cache", "components"):
        lay_linked(windows, tmp_path, name)
    code = windows.uninstall(None, *options)
    for name in ("models", "Cache", "components"):
        assert files_below(tmp_path / f"elsewhere {name}") == {"of another.gguf"}
    # Windows removes the link alone; a Wine that cannot leaves it, which is told where it was asked for.
    left = (windows.data / "models").is_symlink()
    assert left or options
    assert code == (NOT_REMOVED if left and options else 0)


def test_a_link_to_the_folder_of_versions_stays_through_updates_and_the_removal(windows, setups, tmp_path):
    elsewhere = tmp_path / "other disk"
    elsewhere.mkdir()
    windows.installed.parent.mkdir(parents=True, exist_ok=True)
    windows.installed.symlink_to(elsewhere)
    assert windows.install(setups["0.1.0"]) == 0
    assert windows.install(setups["0.2.0"]) == 0
    assert windows.installed.is_symlink()
    assert versions(windows) == {"0.1.0", "0.2.0"}
    windows.run(windows.installed / "uninstall.exe", "/S")
    until(lambda: windows.registered() == {}, "uninstalled")
    assert windows.installed.is_symlink()
    assert not list(elsewhere.iterdir())


@pytest.mark.parametrize(
    ("name", "option"), [("models/m.gguf", "/MODELS=delete"), ("conversations.db", "/CHATS=delete")]
)
def test_a_deletion_that_was_asked_for_and_failed_is_told_and_can_be_tried_again(
    windows, setups, trees, run_app, name, option
):
    assert windows.install(setups["0.1.0"]) == 0
    # A program that runs cannot be deleted; it stands for a file that another one holds open.
    held = windows.data / name
    held.parent.mkdir(parents=True)
    shutil.copy(trees["0.1.0"] / "expert-lanes.exe", held)
    app = run_app(held)
    assert windows.uninstall(None, option) == NOT_REMOVED
    assert held.is_file()
    assert files_below(windows.installed) == {"uninstall.exe"}
    assert windows.registered()["Expert Lanes|DisplayVersion"] == "0.1.0"
    app.end()
    assert windows.uninstall(None, option) == 0
    assert not windows.data.exists()
    assert not windows.installed.exists()
    assert windows.registered() == {}


def test_a_folder_named_like_the_conversations_is_not_the_apps_and_holds_nothing_up(windows, setups):
    assert windows.install(setups["0.1.0"]) == 0
    (windows.data / "conversations.copies").mkdir(parents=True)
    (windows.data / "conversations.copies" / "mine.db").touch()
    (windows.data / "conversations.db").touch()
    assert windows.uninstall(None, "/CHATS=delete") == 0
    assert files_below(windows.data) == {"conversations.copies/mine.db"}


def test_the_same_files_give_the_same_installer(trees, setups, tmp_path):
    again = nsis.make_setup(trees["0.1.0"], "0.1.0", DATE, tmp_path / "again.exe")
    assert again.read_bytes() == setups["0.1.0"].read_bytes()


def test_the_installer_is_a_64_bit_program_that_asks_for_no_administrator(setups):
    command = ["x86_64-w64-mingw32-objdump", "-f", setups["0.1.0"]]
    told = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "pei-x86-64" in told.stdout
    assert b'level="asInvoker"' in setups["0.1.0"].read_bytes()
