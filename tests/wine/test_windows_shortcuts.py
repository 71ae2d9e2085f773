"""Shortcuts that a user made of the app, as on the taskbar: updates lead them on, the uninstaller removes them.

Made and read under Wine by Windows' own interface for shortcuts (shortcuts.c). Skipped where the installer's tests are.
"""

from windows_shortcuts import Shortcut

WINDOW, TERMINAL = "expert-lanes-window.exe", "expert-lanes.exe"
APPLICATIONS = r"HKCU\Software\Classes\Applications"
CONTROL_ALT_E = 0x0645


def program(windows, version, name=WINDOW):
    """The name of a program that is, or was, installed, as programs there see it."""
    return windows.name_of(windows.installed / version / name)


def test_a_pin_leads_to_the_new_version_after_every_update(windows, setups, shortcuts):
    assert windows.install(setups["0.1.0"]) == 0
    pin = shortcuts.write(shortcuts.taskbar / "Expert Lanes.lnk", program(windows, "0.1.0"))
    for version in ("0.2.0", "0.3.0"):
        assert windows.install(setups[version]) == 0
        assert shortcuts.target(pin) == program(windows, version)
    assert not (windows.installed / "0.1.0").exists()
    # And back again, as one goes back to an older version.
    assert windows.install(setups["0.2.0"]) == 0
    assert shortcuts.target(pin) == program(windows, "0.2.0")


def test_a_pin_to_a_version_that_is_gone_already_leads_to_the_new_one(windows, setups, shortcuts):
    assert windows.install(setups["0.2.0"]) == 0
    pin = shortcuts.write(shortcuts.taskbar / "Old.lnk", program(windows, "0.0.9"))
    assert windows.install(setups["0.2.0"]) == 0
    assert shortcuts.target(pin) == program(windows, "0.2.0")


def test_what_else_a_shortcut_says_stays_and_what_lay_in_the_old_version_is_led_on_with_it(windows, setups, shortcuts):
    assert windows.install(setups["0.1.0"]) == 0
    old, old_command = program(windows, "0.1.0"), program(windows, "0.1.0", TERMINAL)
    in_old = windows.name_of(windows.installed / "0.1.0")
    model = r'"C:\my models\a.gguf"'
    on_desktop = shortcuts.write(windows.desktop / "Model a.lnk", old, model, in_old, old, CONTROL_ALT_E)
    in_menu = shortcuts.write(windows.menu / "My own" / "Deeper" / "Lanes.lnk", old, "", r"C:\windows")
    startup = shortcuts.write(
        windows.menu / "Startup" / "Lanes.lnk", old_command, "serve", "", r"C:\windows\regedit.exe"
    )
    sent_to = shortcuts.write(shortcuts.send_to / "Lanes.lnk", old)
    assert windows.install(setups["0.2.0"]) == 0
    new, new_command = program(windows, "0.2.0"), program(windows, "0.2.0", TERMINAL)
    in_new = windows.name_of(windows.installed / "0.2.0")
    assert shortcuts.read(on_desktop, in_menu, startup, sent_to) == {
        on_desktop: Shortcut(new, model, in_new, f"{new},3", CONTROL_ALT_E),
        in_menu: Shortcut(new, "", r"C:\windows"),
        startup: Shortcut(new_command, "serve", "", r"C:\windows\regedit.exe,3"),
        sent_to: Shortcut(new),
    }


def test_a_pin_of_the_way_back_stays_one_of_the_way_back(windows, setups, shortcuts):
    assert windows.install(setups["0.1.0"]) == 0
    assert windows.install(setups["0.2.0"]) == 0
    back = shortcuts.write(shortcuts.taskbar / "Expert Lanes (previous version).lnk", program(windows, "0.1.0"))
    assert windows.install(setups["0.2.0"]) == 0
    assert shortcuts.target(back) == program(windows, "0.1.0")
    assert windows.install(setups["0.3.0"]) == 0
    assert shortcuts.target(back) == program(windows, "0.2.0")


def lay_foreign(windows, shortcuts):
    """Shortcuts that are not to programs of ours, however much they look like it."""
    elsewhere = windows.drive / "Programme hier" / "0.1.0"
    ours = windows.installed
    (ours / "tools").mkdir(parents=True, exist_ok=True)
    (ours / "tools" / WINDOW).write_text("another program, without a list of ours")
    targets = {
        shortcuts.taskbar / "Expert Lanes.lnk": r"C:\windows\notepad.exe",
        shortcuts.taskbar / "Other.lnk": windows.name_of(elsewhere / WINDOW),
        windows.desktop / "Tool.lnk": windows.name_of(ours / "tools" / WINDOW),
        windows.desktop / "Text.lnk": windows.name_of(ours / "0.1.0" / "licenses" / "NOTICES.txt"),
        windows.desktop / "Deeper.lnk": windows.name_of(ours / "0.1.0" / "_internal" / WINDOW),
        windows.desktop / "Uninstall.lnk": windows.name_of(ours / "uninstall.exe"),
        windows.desktop / "Alike.lnk": windows.name_of(ours.parent / "Expert Lanes 2" / "0.1.0" / WINDOW),
    }
    for file, target in targets.items():
        shortcuts.write(file, target, "/x", r"C:\windows")
    (windows.desktop / "Broken.lnk").write_bytes(b"no shortcut at all")
    inside = windows.desktop / "work"
    inside.mkdir(exist_ok=True)
    # A folder on the desktop is the user's work, and is not looked through.
    targets[inside / "Lanes.lnk"] = program(windows, "0.1.0")
    shortcuts.write(inside / "Lanes.lnk", program(windows, "0.1.0"))
    return [*targets, windows.desktop / "Broken.lnk"]


def test_shortcuts_that_lead_elsewhere_are_left_alone_by_update_and_removal(windows, setups, shortcuts):
    assert windows.install(setups["0.1.0"]) == 0
    files = lay_foreign(windows, shortcuts)
    before = {file: file.read_bytes() for file in files}
    assert windows.install(setups["0.2.0"]) == 0
    assert {file: file.read_bytes() for file in files} == before
    assert windows.uninstall() == 0
    assert {file: file.read_bytes() for file in files} == before
    (windows.desktop / "Broken.lnk").unlink()


def test_uninstalling_removes_the_shortcuts_that_lead_to_its_programs(windows, setups, shortcuts):
    assert windows.install(setups["0.1.0"]) == 0
    assert windows.install(setups["0.2.0"]) == 0
    files = [
        shortcuts.write(shortcuts.taskbar / "Expert Lanes.lnk", program(windows, "0.2.0")),
        shortcuts.write(shortcuts.taskbar / "Old.lnk", program(windows, "0.1.0")),
        shortcuts.write(shortcuts.taskbar / "Gone.lnk", program(windows, "0.0.9")),
        shortcuts.write(windows.menu / "My own" / "Command.lnk", program(windows, "0.2.0", TERMINAL), "serve"),
    ]
    assert windows.uninstall() == 0
    assert not [file for file in files if file.exists()]


def test_a_shortcut_that_another_program_holds_stays_as_it_is_and_holds_no_update_up(
    windows, setups, shortcuts, tmp_path
):
    assert windows.install(setups["0.1.0"]) == 0
    held = shortcuts.write(shortcuts.taskbar / "Held.lnk", program(windows, "0.1.0"))
    free = shortcuts.write(shortcuts.taskbar / "Not held.lnk", program(windows, "0.1.0"))
    with shortcuts.holding(held, tmp_path):
        assert windows.install(setups["0.2.0"]) == 0
    assert shortcuts.target(held) == program(windows, "0.1.0")
    assert shortcuts.target(free) == program(windows, "0.2.0")
    assert windows.registered()["Expert Lanes|DisplayVersion"] == "0.2.0"


def test_a_folder_of_shortcuts_that_is_a_link_is_not_followed(windows, setups, shortcuts, tmp_path):
    assert windows.install(setups["0.1.0"]) == 0
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    there = shortcuts.write(elsewhere / "Lanes.lnk", program(windows, "0.1.0"))
    before = there.read_bytes()
    link = windows.menu / "Linked"
    link.symlink_to(elsewhere)
    assert windows.install(setups["0.2.0"]) == 0
    assert windows.uninstall() == 0
    link.unlink()
    assert there.read_bytes() == before


def test_where_windows_knows_no_folder_of_shortcuts_the_disk_is_not_looked_through_for_them(
    windows, setups, shortcuts, request
):
    folders = r"HKCU\Software\Microsoft\Windows\CurrentVersion\Explorer\User Shell Folders"
    request.addfinalizer(lambda: windows.run("reg", "delete", folders, "/v", "SendTo", "/f"))
    windows.set_value(folders, "SendTo", r"Q:\nowhere")
    assert windows.install(setups["0.1.0"]) == 0
    on_disk = shortcuts.write(windows.drive / "Lanes.lnk", program(windows, "0.1.0"))
    before = on_disk.read_bytes()
    assert windows.install(setups["0.2.0"]) == 0
    assert windows.uninstall() == 0
    assert on_disk.read_bytes() == before


def test_the_app_picked_by_hand_to_open_models_stays_picked_and_is_forgotten_when_removed(windows, setups):
    assert windows.install(setups["0.1.0"]) == 0
    key = rf"{APPLICATIONS}\{WINDOW}"
    windows.set_value(rf"{key}\shell\open\command", "", f'"{program(windows, "0.1.0")}" "%1"')
    other = rf"{APPLICATIONS}\{TERMINAL}"
    others_command = r'"C:\Programme hier\expert-lanes.exe" "%1"'
    windows.set_value(rf"{other}\shell\open\command", "", others_command)
    before = windows.registered(other)
    assert windows.install(setups["0.2.0"]) == 0
    assert windows.registered(key)["command|"] == f'"{program(windows, "0.2.0")}" "%1"'
    assert windows.install(setups["0.3.0"]) == 0
    assert windows.registered(key)["command|"] == f'"{program(windows, "0.3.0")}" "%1"'
    assert windows.uninstall() == 0
    assert windows.registered(key) == {}
    assert windows.registered(other) == before
    assert before["command|"] == others_command
