"""The Windows installer's pure parts: which files it lays, the list by which it deletes them, its words and names."""

import re
import shutil
from pathlib import Path

import nsis
import pytest

from app.library import folders
from app.ui.application import SETTINGS_FILE, STORE_FILE

SOURCES = Path(nsis.__file__).parent


@pytest.fixture
def frozen(tmp_path):
    for name in (*nsis.PROGRAMS, "_internal/a/b.dll", "_internal/a/a.txt", "_internal/c.dll"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"12345")
    return tmp_path


def test_files_are_laid_in_one_order_with_like_ones_together(frozen):
    names = nsis.laid_names(frozen)
    assert names == [
        "expert-lanes-window.exe",
        "expert-lanes.exe",
        "_internal/c.dll",
        "_internal/a/b.dll",
        "_internal/a/a.txt",
    ]


def test_a_folder_without_a_program_is_refused(frozen):
    (frozen / nsis.PROGRAMS[0]).unlink()
    with pytest.raises(SystemExit, match=r"holds no expert-lanes-window\.exe"):
        nsis.laid_names(frozen)


@pytest.mark.parametrize(
    "name", ["a:b", "what?", 'a"b', "ends with a dot.", "ends with a blank ", "back\\slash", "two..dots"]
)
def test_names_that_windows_or_the_uninstaller_cannot_take_are_refused(frozen, name):
    (frozen / name).touch()
    with pytest.raises(SystemExit, match="can lay no file"):
        nsis.laid_names(frozen)


def test_names_that_differ_only_in_capitals_are_refused(frozen):
    (frozen / "_internal" / "C.DLL").touch()
    with pytest.raises(SystemExit, match="the same file"):
        nsis.laid_names(frozen)


def test_a_file_named_like_the_list_is_refused(frozen):
    (frozen / nsis.LIST_NAME).touch()
    with pytest.raises(SystemExit, match="the list of the files"):
        nsis.laid_names(frozen)


def test_links_are_refused(frozen):
    (frozen / "link").symlink_to("expert-lanes.exe")
    with pytest.raises(SystemExit, match="is a link"):
        nsis.laid_names(frozen)


def test_the_list_names_the_programs_first_and_folders_after_what_lies_in_them(frozen):
    lines = nsis.file_list(nsis.laid_names(frozen)).split("\r\n")
    assert lines == [
        nsis.LIST_HEADER,
        "expert-lanes-window.exe",
        "expert-lanes.exe",
        "_internal\\a\\a.txt",
        "_internal\\a\\b.dll",
        "_internal\\c.dll",
        "_internal\\a\\",
        "_internal\\",
        "",
    ]


def test_every_file_is_laid_by_its_name_and_a_dollar_is_no_variable(frozen):
    (frozen / "_internal" / "$HOME.txt").touch()
    script = nsis.laying_script("../frozen", nsis.laid_names(frozen))
    assert 'SetOutPath "$Laid"\nFile "../frozen/expert-lanes-window.exe"\nFile "../frozen/expert-lanes.exe"' in script
    assert 'File "/oname=$$HOME.txt" "../frozen/_internal/$HOME.txt"' in script
    assert script.count("File ") == 6


def test_the_room_needed_is_rounded_up_with_some_to_spare(frozen):
    names = nsis.laid_names(frozen)
    small = nsis.needed_mebibytes(frozen, names)
    with (frozen / "_internal" / "c.dll").open("r+b") as file:
        file.truncate(3 << 20)
    assert (small, nsis.needed_mebibytes(frozen, names)) == (17, 20)


def test_without_nsis_it_is_told_what_to_install(frozen, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SystemExit, match="Debian"):
        nsis.make_setup(frozen, "0.1.0", 0, tmp_path / "Setup.exe")


@pytest.mark.skipif(shutil.which("makensis") is None, reason="there is no makensis here")
def test_any_name_is_laid_whatever_the_locale_of_who_makes_the_setup(frozen, tmp_path_factory, monkeypatch):
    monkeypatch.setenv("LC_ALL", "C")
    (frozen / "_internal" / "模型 é.dll").write_bytes(b"12345")
    target = tmp_path_factory.mktemp("made") / "made.exe"
    assert nsis.make_setup(frozen, "0.1.0", 1_800_000_000, target, quick=True).is_file()


def test_the_script_says_the_same_of_the_list_as_what_writes_it():
    script = (SOURCES / "trees.nsh").read_text("utf-8")
    assert f'!define LIST_NAME "{nsis.LIST_NAME}"' in script


def test_the_uninstaller_names_the_folders_and_files_that_the_app_writes(monkeypatch):
    monkeypatch.delenv(folders.HOME_VARIABLE, raising=False)
    script = (SOURCES / "data.nsh").read_text("utf-8")
    assert f'!define DATA "$LOCALAPPDATA\\{folders.data_folder().name}"' in script
    assert f'!define MODELS "${{DATA}}\\{folders.models_folder().name}"' in script
    assert f'!define CONVERSATIONS "${{DATA}}\\{Path(STORE_FILE).stem}.*"' in script
    for name in (SETTINGS_FILE, "settings.*.new", "settings.unreadable.json"):
        assert f'Delete "${{DATA}}\\{name}"' in script
    for name in ("Logs", "Cache", "machine", "profiles", folders.components_folder().name):
        assert f'Push "${{DATA}}\\{name}"' in script


def test_every_word_is_said_in_both_languages_with_the_same_blanks():
    said = re.findall(
        r'^!insertmacro SAY (\w+) "((?:[^"\\]|\\.)*)" "((?:[^"\\]|\\.)*)"$',
        (SOURCES / "words.nsh").read_text("utf-8"),
        re.MULTILINE,
    )
    assert len(said) == (SOURCES / "words.nsh").read_text("utf-8").count("!insertmacro SAY")
    for name, english, german in said:
        blanks = [sorted(re.findall(r"\$(?:\{\w+\}|\w+)", text)) for text in (english, german)]
        assert blanks[0] == blanks[1], name
        assert english
        assert german
