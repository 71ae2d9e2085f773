"""The docks' first layout by the window's size, and what of it is kept."""

import pytest
from controller_driver import PATIENCE
from PySide6.QtCore import QByteArray
from PySide6.QtWidgets import QDockWidget, QLabel, QMainWindow

from app.ui.dock_area import BELOW_HEIGHT, MOST_OF_WINDOW, DockArea

NAMES = ("lanes", "tuning", "graphs")


@pytest.fixture
def make_area(qtbot):
    """`make_area(width, height, layout) -> (window, area)` with three docks, shown."""

    def make(width, height, layout=QByteArray()):  # noqa: B008 - an empty one
        window = QMainWindow()
        qtbot.addWidget(window)
        window.setCentralWidget(QLabel("chat"))
        docks = []
        for name in NAMES:
            dock = QDockWidget(name)
            dock.setObjectName(name)
            dock.setWidget(QLabel(name))
            docks.append(dock)
        window.resize(width, height)
        area = DockArea(window, docks)
        area.restore(layout)
        window.show()
        assert all(dock.isHidden() for dock in docks), "they wait for the chat"
        area.show(True)
        qtbot.waitUntil(lambda: not any(dock.isHidden() for dock in docks) and not area._fresh, timeout=PATIENCE)
        return window, area

    return make


def tabs_of(window, area, name):
    dock = next(dock for dock in area.docks if dock.objectName() == name)
    return {its.objectName() for its in window.tabifiedDockWidgets(dock)}


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (1000, 700), (800, 600)])
def test_in_a_laptops_window_all_are_tabs_and_none_is_cramped(make_area, width, height):
    window, area = make_area(width, height)
    assert tabs_of(window, area, "lanes") == {"tuning", "graphs"}
    front = area.docks[0]
    assert not front.visibleRegion().isEmpty(), "the lanes are in front"
    assert front.height() > height * 0.8
    assert front.width() <= width * MOST_OF_WINDOW + 2


def test_in_a_high_window_the_graphs_stand_below(make_area, qtbot):
    window, area = make_area(1600, 1000)
    assert tabs_of(window, area, "lanes") == {"tuning"}
    lanes, _, graphs = area.docks
    qtbot.waitUntil(lambda: graphs.y() > lanes.y() + 200, timeout=PATIENCE)
    qtbot.waitUntil(lambda: abs(graphs.height() - BELOW_HEIGHT) < 60, timeout=PATIENCE)


def test_the_users_layout_is_kept_and_comes_back(make_area):
    _, area = make_area(1280, 800)
    area.docks[1].close()
    kept = area.kept()
    window = QMainWindow()
    docks = []
    for name in NAMES:
        dock = QDockWidget(name, window)
        dock.setObjectName(name)
        docks.append(dock)
    again = DockArea(window, docks)
    again.restore(kept)
    assert not again._fresh
    assert again._open == (True, False, True)


def test_nothing_is_kept_of_docks_that_are_hidden_with_the_wizard(make_area):
    _, area = make_area(1280, 800)
    area.show(False)
    assert area.kept() is None
