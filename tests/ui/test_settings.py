"""Settings are typed, kept, and never stop the window from opening."""

import json
import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PySide6.QtWidgets import QComboBox, QDoubleSpinBox, QSpinBox

from app.ui.settings import LAST_MODEL, MAX_TOKENS, SETTINGS, TEMPERATURE, THEME, Settings
from app.ui.settings_dialog import SettingsDialog


@pytest.fixture
def path(home):
    return home / "data" / "settings.json"


def test_what_was_chosen_is_there_again(qapp, path):
    first = Settings(path)
    assert first.get(TEMPERATURE) == TEMPERATURE.default
    first.set(TEMPERATURE, 0.3)
    first.set(LAST_MODEL, "/models/模型 一.gguf")
    again = Settings(path)
    assert again.get(TEMPERATURE) == 0.3
    assert again.get(LAST_MODEL) == "/models/模型 一.gguf"


def test_a_change_is_told_and_the_same_value_is_not(qtbot, path):
    made = Settings(path)
    with qtbot.waitSignal(made.changed) as told:
        made.set(THEME, "dark")
    assert told.args == ["theme"]
    with qtbot.assertNotEmitted(made.changed):
        made.set(THEME, "dark")


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        (THEME, "pink"),
        (TEMPERATURE, 2.5),
        (TEMPERATURE, "hot"),
        (MAX_TOKENS, 0),
        (MAX_TOKENS, True),
        (MAX_TOKENS, 20.5),
    ],
)
def test_a_value_out_of_range_is_refused(qapp, path, setting, value):
    with pytest.raises(ValueError, match=setting.key):
        Settings(path).set(setting, value)
    assert not path.exists()


def test_a_wrong_value_in_the_file_is_replaced_by_the_default_alone(qapp, path):
    path.parent.mkdir()
    path.write_text(json.dumps({"theme": 3, "temperature": 1, "max_tokens": 64, "unknown": 1}), "utf-8")
    made = Settings(path)
    assert (made.get(THEME), made.get(TEMPERATURE), made.get(MAX_TOKENS)) == ("system", 1.0, 64)
    assert isinstance(made.get(TEMPERATURE), float)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_any_file_gives_usable_settings(qapp, home, content):
    path = home / "any.json"
    path.write_bytes(content)
    made = Settings(path)
    for setting in SETTINGS:
        assert setting.accepts(made.get(setting))


@pytest.mark.parametrize("content", ["{half", "[" * 100_000], ids=["half", "deep"])
def test_an_unreadable_file_is_kept_aside(qapp, path, content):
    path.parent.mkdir()
    path.write_text(content, "utf-8")
    Settings(path).set(THEME, "dark")
    assert path.with_suffix(".unreadable.json").read_text("utf-8") == content
    assert Settings(path).get(THEME) == "dark"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes among its files")
def test_a_pipe_in_the_place_of_the_file_is_not_waited_for(qapp, path):
    path.parent.mkdir()
    os.mkfifo(path)
    made = Settings(path)
    assert made.kept_aside is not None
    assert made.kept_aside.is_fifo()
    made.set(THEME, "dark")
    assert Settings(path).get(THEME) == "dark"


def test_half_a_surrogate_pair_in_the_file_does_not_stop_what_is_written_later(qapp, path):
    path.parent.mkdir()
    path.write_text('{"last_model": "/models/\\ud800.gguf", "theme": "dark"}', "utf-8")
    made = Settings(path)
    made.set(TEMPERATURE, 0.3)
    again = Settings(path)
    assert (again.get(LAST_MODEL), again.get(THEME), again.get(TEMPERATURE)) == ("", "dark", 0.3)


def test_every_default_is_accepted():
    for setting in SETTINGS:
        assert setting.accepts(setting.default), setting.key


def test_the_dialog_edits_every_setting_that_has_a_text(qtbot, path):
    made = Settings(path)
    dialog = SettingsDialog(made)
    qtbot.addWidget(dialog)
    look, temperature, longest = (dialog.editor(setting) for setting in (THEME, TEMPERATURE, MAX_TOKENS))
    assert isinstance(look, QComboBox)
    look.setCurrentIndex(look.findData("dark"))
    assert isinstance(temperature, QDoubleSpinBox)
    temperature.setValue(0.0)
    assert isinstance(longest, QSpinBox)
    longest.setValue(4096)
    again = Settings(path)
    assert (again.get(THEME), again.get(TEMPERATURE), again.get(MAX_TOKENS)) == ("dark", 0.0, 4096)
    assert all(editor.accessibleName() for editor in (look, temperature, longest))


def test_two_windows_keep_what_the_other_chose(qapp, path):
    first, second = Settings(path), Settings(path)
    first.set(THEME, "dark")
    second.set(TEMPERATURE, 0.3)
    first.set(MAX_TOKENS, 64)
    again = Settings(path)
    assert (again.get(THEME), again.get(TEMPERATURE), again.get(MAX_TOKENS)) == ("dark", 0.3, 64)
    assert [file.name for file in path.parent.iterdir()] == [path.name], "no draft is left"


WRITER = """
import sys
from pathlib import Path
from PySide6.QtCore import QCoreApplication
from app.ui.settings import LAST_MODEL, GEOMETRY, Settings
application = QCoreApplication([])
settings = Settings(Path(sys.argv[1]))
mine = {"model": LAST_MODEL, "geometry": GEOMETRY}[sys.argv[2]]
for number in range(200):
    settings.set(mine, str(number) * 200)
"""


def test_two_windows_that_write_at_once_leave_a_whole_file(path):
    import subprocess
    import sys
    from pathlib import Path

    root = Path(__file__).resolve().parents[2]
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(path), name], env={"PYTHONPATH": str(root)}, cwd=root)
        for name in ("model", "geometry")
    ]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    told = json.loads(path.read_text("utf-8"))
    assert set(told) <= {"last_model", "window_geometry"}
    assert [file.name for file in path.parent.iterdir()] == [path.name], "neither was taken for unreadable"
