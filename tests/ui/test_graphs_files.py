"""What leaves the graphs dock as a file: the table and the picture of the last hour, and what keeps them from it."""

import csv
import math
from pathlib import Path

import pytest
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QApplication, QFileDialog
from ui_factories import make_machine

from app.ui.graphs.recorder import CAPACITY
from app.ui.graphs.specs import DECODE, GPU, RAM


@pytest.fixture
def choose(monkeypatch):
    """Answer the next file dialog with a path."""

    def answer(path):
        monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(path), ""))

    return answer


def test_the_last_hour_is_saved_with_every_figure_shown_or_not(hour, choose, tmp_path, qtbot):
    hour.toolbar.actions_of[RAM].setChecked(False)
    choose(tmp_path / "hour")
    hour.toolbar.csv_action.trigger()
    path = tmp_path / "hour.csv"
    qtbot.waitUntil(hour.saved.isVisible, timeout=20000)
    assert str(path) in hour.saved.text()
    head, *rows = csv.reader(path.read_text("utf-8").splitlines())
    assert len(rows) == CAPACITY
    history = hour.recorder.history
    assert len(head) == 2 + len(history.keys)
    assert head[:2] == ["time (s)", "clock"]
    assert "Main memory: engine (GiB)" in head
    assert "GPU memory · Vulkan0: expert pool (GiB)" in head
    column = history.column(DECODE)
    place = head.index("Decoding speed (tokens/s)")
    for row in (0, 4000, 17_999):
        assert (
            rows[row][place] == "" if math.isnan(column[row]) else float(rows[row][place]) == pytest.approx(column[row])
        )


def test_a_gpu_that_is_gone_stays_in_graphs_and_table_with_gaps_since_then(hour, choose, tmp_path, qtbot):
    recorder, controller = hour.recorder, hour._controller
    with qtbot.waitSignal(recorder.gpus_changed):
        controller._set_machine(make_machine(gpus=()))
    recorder.time += 0.2
    recorder.history.append(recorder.time, {DECODE: 20.0})
    recorder.recorded.emit()
    assert f"{GPU}.Vulkan0" in [plot.spec.key for plot in hour.plots], "its past is still in the picture"
    assert "does not list this GPU any more" in hour.plot(f"{GPU}.Vulkan0").text
    choose(tmp_path / "hour.csv")
    hour.toolbar.csv_action.trigger()
    qtbot.waitUntil(hour.saved.isVisible, timeout=20000)
    head, *rows = csv.reader((tmp_path / "hour.csv").read_text("utf-8").splitlines())
    place = head.index("GPU memory · Vulkan0: other programs (GiB)")
    assert float(rows[-2][place]) > 0
    assert rows[-1][place] == "", "missing, and no zero"


def test_the_picture_holds_every_shown_graph_also_those_out_of_sight(hour, choose, tmp_path, qtbot):
    hour.resize(420, 500)
    QApplication.processEvents()
    choose(tmp_path / "graphs.png")
    hour.toolbar.png_action.trigger()
    qtbot.waitUntil(hour.saved.isVisible, timeout=20000)
    image = QImage(str(tmp_path / "graphs.png"))
    assert image.height() > 10 * 84
    assert image.width() >= 380
    last = hour.plots[-1].spec.lines[0].color(hour._theme.colors).rgb()
    found = {image.pixel(x, y) for x in range(image.width()) for y in range(image.height() - 90, image.height())}
    assert last in found, "the lowest graph is drawn although nobody scrolled to it"


@pytest.mark.parametrize("action", ["csv_action", "png_action"])
def test_a_file_that_cannot_be_written_is_told_and_nothing_is_lost(hour, choose, tmp_path, qtbot, action):
    rows = len(hour.recorder.history)
    choose(tmp_path / "gone" / "file.out")
    getattr(hour.toolbar, action).trigger()
    qtbot.waitUntil(hour.banner.isVisible, timeout=20000)
    assert "could not be written" in hour.banner.text
    assert hour.saved.isHidden()
    assert len(hour.recorder.history) == rows
    choose(tmp_path / "file.out")
    getattr(hour.toolbar, action).trigger()
    qtbot.waitUntil(hour.saved.isVisible, timeout=20000)
    assert hour.banner.isHidden()
    assert Path(tmp_path / "file.out").stat().st_size > 1000


def test_a_dialog_that_is_closed_writes_nothing(hour, choose):
    choose("")
    hour.toolbar.csv_action.trigger()
    hour.toolbar.png_action.trigger()
    assert hour.saved.isHidden()
    assert hour.banner.isHidden()
