"""The rehearsal of the Windows installer: how it waits, and how it reads a desktop, conversations and what is left."""

import json
import os
import shutil
import sqlite3

import pytest
from desktop import Desktop, copy_windows, read_look
from hands import Hands, until, until_or_not
from rehearsal import Later, higher
from rehearsed_app import Message, read_messages
from screen import Screen
from traces import Traces, files, registry

HIVE = r"""WINE REGISTRY Version 2
;; All keys relative to \\User\\S-1-5-21

#arch=win64

[Software\\Classes\\.gguf\\OpenWithProgids] 1796034183
#time=1dd
"Expert\"Lanes"=""
@="C:\\Programme hier\\\x4e13"
"many"=hex:01,02,\
  03,04

[Software\\Wine\\Fonts] 1796034183
"Codepages"="1252,437"
"""


@pytest.fixture
def prefix(tmp_path):
    (tmp_path / "drive_c/users/root").mkdir(parents=True)
    (tmp_path / "drive_c/users/root/kept.txt").touch()
    (tmp_path / "user.reg").write_text(HIVE, "utf-8")
    (tmp_path / "system.reg").write_text("WINE REGISTRY Version 2\n", "utf-8")
    return tmp_path


def told(kind, handle, text, **more):
    usual = {"top": handle, "class": "Button", "box": [10, 20, 110, 40], "enabled": True, "checked": False}
    return json.dumps({"kind": kind, "handle": handle, "text": text, "program": "C:\\setup.exe"} | usual | more)


def test_a_desktop_is_read_with_the_parts_of_each_window_and_the_programs():
    lines = [
        told("window", 1, "Setup", **{"class": "#32770"}),
        told("control", 2, "&Next >", top=1),
        told("control", 3, "Back", top=1, enabled=False),
        told("window", 4, "", **{"class": "Progman"}),
        told("control", 5, "Save && go", top=4),
        json.dumps({"kind": "program", "program": "C:\\a\\b.exe", "process": 8}),
    ]
    look = read_look(lines)
    assert look.programs == ("C:\\a\\b.exe",)
    first, second = look.windows
    assert first.words == "Setup\nNext >\nBack"
    assert first.control("Next").box == (10, 20, 110, 40)
    assert first.control("Back") is None
    assert second.controls[0].text == "Save & go"


def test_a_part_of_a_window_that_is_gone_is_left_out():
    assert read_look([told("control", 2, "Next", top=1)]).windows == ()


def test_a_program_on_the_desktop_has_one_processor(prefix, tmp_path_factory, monkeypatch):
    programs = tmp_path_factory.mktemp("programs")
    (programs / "wine").write_text(
        '#!/bin/sh\nnproc > "$WINEPREFIX/processors"\nprintf "%s|" "$@" > "$WINEPREFIX/started"\n'
    )
    (programs / "wine").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    desktop = Desktop(prefix, programs, Hands(Screen(":1", prefix / "screen")))
    assert desktop.run(desktop.drive / "a b.exe", "/S") == 0
    assert (prefix / "processors").read_text() == "1\n"
    assert (prefix / "started").read_text() == "C:\\a b.exe|/S|"


def test_waiting_ends_with_what_was_found():
    found = iter(["", None, "window"])
    assert until(lambda: next(found), "a window", 5, pause=0.001) == "window"


def test_what_does_not_come_is_named():
    with pytest.raises(SystemExit, match="after 0 s still not: a window"):
        until(lambda: None, "a window", 0, pause=0.001)
    assert until_or_not(lambda: "", 0, pause=0.001) == ""


def test_a_picture_is_still_when_it_is_another_one_and_has_not_changed(tmp_path):
    memory = tmp_path / "screen"
    memory.write_bytes(b"first")
    hands = Hands(Screen(":1", memory))
    before = hands.seen()
    stays = hands.stillness(other_than=before, still=0.0)
    memory.write_bytes(b"second")
    assert stays() == hands.seen() != before
    memory.write_bytes(b"first")
    patient = hands.stillness(still=60)
    assert patient() is None


def test_the_first_picture_again_is_no_other_picture(tmp_path):
    memory = tmp_path / "screen"
    memory.write_bytes(b"first")
    hands = Hands(Screen(":1", memory))
    stays = hands.stillness(other_than=hands.seen(), still=0.001)
    assert until_or_not(stays, 0.05, pause=0.005) is None


def test_what_the_app_kept_where_it_was_tried_is_not_in_the_windows_of_the_rehearsal(prefix, tmp_path_factory):
    kept = prefix / "drive_c/users/root/AppData/Local/expert-lanes/models/demo.gguf"
    kept.parent.mkdir(parents=True)
    kept.touch()
    (prefix / "expert-lanes-shims").touch()
    copy = tmp_path_factory.mktemp("copies") / "windows"
    copy_windows(prefix, copy)
    assert "users/root/kept.txt" in files(copy)
    assert not any("expert-lanes" in name for name in files(copy))
    assert (copy / "expert-lanes-shims").is_file()


def test_conversations_are_read_while_the_app_has_them_open(tmp_path):
    connection = sqlite3.connect(tmp_path / "conversations.db")
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("CREATE TABLE messages (id INTEGER PRIMARY KEY, role TEXT, content TEXT, state TEXT)")
    connection.execute("INSERT INTO messages (role, content, state) VALUES ('user', 'Say hi.', 'complete')")
    connection.commit()
    assert read_messages(tmp_path) == [Message("user", "Say hi.", "complete")]
    connection.close()


def test_without_conversations_there_are_no_messages(tmp_path):
    assert read_messages(tmp_path) == []


def test_files_folders_and_values_that_came_are_told_and_what_wine_writes_of_itself_is_not(prefix):
    before = Traces.of(prefix)
    (prefix / "drive_c/users/root/new").mkdir()
    (prefix / "drive_c/users/root/new/file.txt").touch()
    (prefix / "drive_c/users/root/Temp/~nsu1.tmp").mkdir(parents=True)
    (prefix / "drive_c/users/root/Temp/~nsu1.tmp/Un.exe").touch()
    hive = HIVE.replace('"1252,437"', '"932"') + '\n[Software\\\\Ours] 1\n"name"=dword:00000001\n'
    (prefix / "user.reg").write_text(hive.replace("x4e13", "x8eca"), "utf-8")
    assert Traces.of(prefix).since(before) == [
        "users/root/Temp/",
        "users/root/Temp/~nsu1.tmp/Un.exe",
        "users/root/new/",
        "users/root/new/file.txt",
        r"HKCU\Software\Classes\.gguf\OpenWithProgids|@",
        r"HKCU\Software\Ours|",
        r"HKCU\Software\Ours|name",
    ]
    assert Traces.of(prefix).since(Traces.of(prefix)) == []


def test_the_registry_is_read_with_any_character_and_long_values(prefix):
    key = r"HKCU\Software\Classes\.gguf\OpenWithProgids|"
    found = registry(prefix)
    assert found[key] == ""
    assert found[f'{key}Expert"Lanes'] == '""'
    assert found[f"{key}many"] == "hex:01,02,  03,04"
    assert files(prefix) == {"users/", "users/root/", "users/root/kept.txt"}


@pytest.mark.parametrize(("version", "later"), [("0.1.9", "0.1.11"), ("1.2", "1.2.2"), ("0.2.0.dev1", "0.2.2")])
def test_a_higher_version_counts_up_its_third_number(version, later):
    assert higher(version, 2) == later


def test_what_is_made_meanwhile_is_given_and_a_failure_is_one(tmp_path):
    with Later(lambda: tmp_path) as made:
        assert made.result() == tmp_path


def test_what_could_not_be_made_meanwhile_ends_the_rehearsal(tmp_path):
    def fail():
        raise SystemExit("no room")

    with Later(fail) as made, pytest.raises(SystemExit, match="could not be made: no room"):
        made.result()


@pytest.mark.skipif(shutil.which("x86_64-w64-mingw32-gcc") is None, reason="MinGW is not installed.")
def test_the_reader_of_the_desktop_compiles_without_a_warning(tmp_path):
    import desktop

    desktop.make_reader(tmp_path / "reader.exe", "-Wall", "-Wextra", "-Werror")
    assert (tmp_path / "reader.exe").is_file()
