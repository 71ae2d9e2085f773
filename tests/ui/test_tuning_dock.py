"""The tuning dock: pages behind tabs, made when they are seen, at rest while they are not."""

import subprocess
import sys
from pathlib import Path

import pytest
from controller_driver import PATIENCE, until
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QMainWindow

from app.ui.orders import Orders
from app.ui.tuning.dock import TuningDock

ROOT = Path(__file__).resolve().parents[2]
CURVE, KNOBS, AUTO_TUNE = range(3)


@pytest.fixture
def make_dock(theme, qtbot):
    """`make_dock(controller) -> TuningDock` in a window that is not shown yet."""
    made = []

    def make(controller):
        window = QMainWindow()
        qtbot.addWidget(window)
        dock = TuningDock(controller, theme, Orders(controller), window)
        window.addDockWidget(Qt.DockWidgetArea.RightDockWidgetArea, dock)
        window.resize(500, 700)
        made.append((dock, window))
        return dock

    yield make
    for dock, _window in made:
        dock.shutdown()


def test_importing_the_dock_brings_no_page_of_it():
    code = (
        "import sys; from app.ui.tuning.dock import TuningDock; "
        "print(sorted(name for name in sys.modules if name.startswith('app.ui.tuning')), "
        "sorted({'numpy', 'pyqtgraph'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "['app.ui.tuning', 'app.ui.tuning.dock'] []", done.stderr


def test_pages_are_made_when_they_are_first_seen(loaded_controller, make_dock, qtbot):
    dock = make_dock(loaded_controller())
    dock.window().show()
    until(qtbot, lambda: dock.widget() is not None)
    panel = dock.content
    assert [panel.tabs.tabText(place) for place in range(3)] == ["Curve", "Knobs", "Auto-tune"]
    assert [panel.page(place) is not None for place in range(3)] == [True, False, False]
    panel.tabs.setCurrentIndex(AUTO_TUNE)
    assert [panel.page(place) is not None for place in range(3)] == [True, False, True]
    panel.tabs.setCurrentIndex(KNOBS)
    assert all(panel.page(place) is not None for place in range(3))


def test_one_page_is_active_at_a_time_and_none_while_the_dock_is_hidden(loaded_controller, make_dock, qtbot):
    dock = make_dock(loaded_controller())
    dock.window().show()
    panel = dock.content
    panel.tabs.setCurrentIndex(AUTO_TUNE)
    panel.tabs.setCurrentIndex(KNOBS)

    def active():
        return [place for place in range(3) if panel.page(place)._active]

    assert active() == [KNOBS]
    panel.tabs.setCurrentIndex(AUTO_TUNE)
    assert active() == [AUTO_TUNE]
    dock.close()
    until(qtbot, lambda: active() == [])
    dock.show()
    until(qtbot, lambda: active() == [AUTO_TUNE])


def test_tabs_are_reached_by_keyboard_and_have_names(loaded_controller, make_dock, qtbot):
    dock = make_dock(loaded_controller())
    dock.window().show()
    tabs = dock.content.tabs
    tabs.tabBar().setFocus()
    qtbot.keyClick(tabs.tabBar(), Qt.Key.Key_Right)
    assert tabs.currentIndex() == KNOBS
    assert tabs.accessibleName()
    assert tabs.tabBar().accessibleName()


def test_the_window_may_go_while_a_search_runs(loaded_controller, make_dock, qtbot):
    from app.placement.evidence import NO_EVIDENCE
    from app.placement.tuner.held import Held

    controller = loaded_controller("--hold-measure")
    dock = make_dock(controller)
    dock.window().show()
    panel = dock.content
    panel.tabs.setCurrentIndex(AUTO_TUNE)
    tuning = panel.page(AUTO_TUNE).tuning
    tuning.start(1, Held(), NO_EVIDENCE)
    qtbot.waitUntil(lambda: tuning.fraction == 0.5, timeout=PATIENCE)
    dock.shutdown()
    controller.shutdown()
    assert not tuning.running
