"""With letters twice as large the window still fits a screen of 960 pixels, and no page loses its right edge."""

import pytest
from controller_driver import PATIENCE, until
from knobs_driver import FACTS
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDockWidget, QScrollArea
from ui_factories import make_machine

from app.placement.planner import Wishes
from app.ui import theme as theme_module
from app.ui.main_window import build_window
from app.ui.settings_dialog import SettingsDialog
from app.ui.theme import Theme

POINTS, WIDTH, HEIGHT = 20.0, 960, 860


@pytest.fixture
def large_theme(qapp, monkeypatch):
    """The light look in a large font, as a system may ask for."""
    usual = theme_module._interface_font

    def large():
        font = usual()
        font.setPointSizeF(POINTS)
        return font

    before, sheet = qapp.font(), qapp.styleSheet()
    monkeypatch.setattr(theme_module, "_interface_font", large)
    made = Theme(forced="light")
    made.apply(qapp)
    yield made
    qapp.setStyleSheet("")  # see `Theme._dress`
    qapp.setStyleSheet(sheet)
    qapp.setFont(before)


@pytest.fixture
def window(qtbot, make_controller, large_theme, settings):
    """The whole window on a small screen, nothing loaded."""
    controller = make_controller(facts=FACTS, machine=make_machine())
    made = build_window(controller, large_theme, settings)
    made.resize(WIDTH, HEIGHT)
    made.show()
    qtbot.waitExposed(made)
    yield made
    made.close()
    made.deleteLater()


def fits(qtbot, window):
    """Wait until layouts are settled, then look at the window and at everything in it that scrolls downwards only."""
    until(qtbot, lambda: not window._controller.background.busy)

    def looks_whole():
        assert window.width() == WIDTH
        assert window.minimumSizeHint().width() <= WIDTH
        assert [
            (type(area.parent()).__name__, area.widget().width(), area.viewport().width())
            for area in window.findChildren(QScrollArea)
            if area.isVisible() and area.widget() is not None and area.widget().width() > area.viewport().width()
        ] == []

    qtbot.waitUntil(looks_whole)


def test_every_page_of_the_wizard_fits(qtbot, window):
    wizard, controller = window.wizard, window._controller
    fits(qtbot, window)
    with qtbot.waitSignals([controller.machine_changed, controller.model_changed], timeout=PATIENCE):
        controller.probe()
        controller.choose_model("model.gguf")
    for _page in range(2):
        wizard.go_on()
        fits(qtbot, window)
    with qtbot.waitSignal(controller.loaded, timeout=PATIENCE):
        wizard.go_on()
    fits(qtbot, window)


def test_chat_docks_and_settings_fit(qtbot, window, settings):
    controller = window._controller
    with qtbot.waitSignals([controller.machine_changed, controller.model_changed], timeout=PATIENCE):
        controller.probe()
        controller.choose_model("model.gguf")
    controller.set_plan(controller.propose_plan(Wishes(whole_layers=0, pool_bytes=64 * 2**20)))
    with qtbot.waitSignal(controller.loaded, timeout=PATIENCE):
        controller.load()
    window.show_chat()
    docks = window.findChildren(QDockWidget)
    qtbot.waitUntil(lambda: all(not dock.isHidden() for dock in docks), timeout=PATIENCE)
    for dock in docks:
        dock.raise_()
        fits(qtbot, window)
    tuning = window.findChild(QDockWidget, "tuning")
    tuning.raise_()
    qtbot.waitUntil(lambda: hasattr(tuning, "content") and tuning.content is not None)
    for tab in range(tuning.content.tabs.count()):
        tuning.content.tabs.setCurrentIndex(tab)
        fits(qtbot, window)
    dialog = SettingsDialog(settings, window)
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    dialog.show()
    assert dialog.width() <= WIDTH
    dialog.close()
