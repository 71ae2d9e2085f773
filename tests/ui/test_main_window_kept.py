"""How the window begins and ends: layout and model kept, parts made when they are seen, a clean end."""

from PySide6.QtCore import QPoint
from PySide6.QtWidgets import QDockWidget
from window_driver import ask, chat_with_docks

from app.ui.chat.page import ChatPage
from app.ui.lazy_dock import LazyDock
from app.ui.main_window import FRAME_HEIGHT, MainWindow, build_window
from app.ui.settings import LAST_MODEL


def test_geometry_docks_and_the_last_model_are_kept(loaded_controller, make_window, settings, qtbot):
    window = make_window(loaded_controller(), docks=2)
    chat_with_docks(qtbot, window, visible=[True, True])
    window.resize(770, 640)
    window.findChild(QDockWidget, "dock1").close()
    window.close()
    assert not window.isVisible()

    controller = loaded_controller()
    again = make_window(controller, docks=2)
    assert again.size() == window.size()
    chat_with_docks(qtbot, again, visible=[True, False])
    with qtbot.waitSignal(controller.loaded, timeout=10000):
        controller.load()
    assert settings.get(LAST_MODEL) == controller.facts.files[0]


def test_a_window_that_is_put_back_is_not_moved_for_a_move_counts_in_its_frame(
    make_controller, make_window, monkeypatch
):
    moves = []
    monkeypatch.setattr(MainWindow, "move", lambda _window, place: moves.append(place))
    first = make_window(make_controller())
    assert moves, "a first window is placed"
    moves.clear()
    first.setGeometry(10, 30, 740, 600)
    first.close()
    again = make_window(make_controller())
    assert (moves, again.geometry().topLeft()) == ([], QPoint(10, 30))


def test_closing_in_the_wizard_keeps_the_docks_for_the_chat(make_controller, make_window, qtbot):
    make_window(make_controller(), docks=1).close()
    again = make_window(make_controller(), docks=1)
    chat_with_docks(qtbot, again, visible=[True])


def test_nothing_of_the_chat_is_made_before_the_chat_is_seen(make_controller, theme, settings, store, qtbot):
    conversation = store.new_conversation()
    store.add_message(conversation, None, "user", "Hello?")
    controller = make_controller()
    window = build_window(controller, theme, settings)
    qtbot.addWidget(window)
    with qtbot.waitSignal(controller.machine_changed, timeout=10000):
        window.show()
    docks = window.findChildren(LazyDock)
    assert len(docks) == 3
    window.close()
    assert all(dock.widget() is None for dock in docks)
    assert window.findChildren(ChatPage) == []


def test_closing_ends_the_engine(loaded_controller, make_window):
    controller = loaded_controller()
    window = make_window(controller)
    assert controller.engine.running
    window.close()
    assert not controller.engine.running


def test_damaged_layout_settings_open_a_usual_window(make_controller, make_window, settings):
    from app.ui.settings import GEOMETRY, LAYOUT

    settings.set(GEOMETRY, "no base64 ⚠")
    settings.set(LAYOUT, "AAAA")
    window = make_window(make_controller(), docks=1)
    assert window.isVisible()
    assert window.width() >= window.minimumWidth()


def test_the_whole_window_is_built_with_its_real_parts(loaded_controller, theme, settings, qtbot):
    controller = loaded_controller("--tokens", 5)
    window = build_window(controller, theme, settings)
    qtbot.addWidget(window)
    window.show()
    qtbot.waitExposed(window)
    window.show_chat()
    ask(qtbot, window, controller)
    assert {dock.objectName() for dock in window.findChildren(QDockWidget)} == {"lanes", "tuning", "graphs"}
    lanes, tuning, graphs = (window.findChild(QDockWidget, name) for name in ("lanes", "tuning", "graphs"))
    qtbot.waitUntil(lambda: lanes.widget() is not None and not graphs.isHidden(), timeout=10000)
    assert (tuning.widget(), graphs.widget()) == (None, None), "what is behind another tab is not made"
    for dock in (tuning, graphs):
        dock.raise_()
        qtbot.waitUntil(lambda dock=dock: dock.widget() is not None, timeout=10000)
    window.close()


def test_the_window_fits_a_laptops_screen_with_its_frame(make_window, make_controller):
    window = make_window(make_controller())
    room = window.screen().availableGeometry()
    assert window.height() + FRAME_HEIGHT <= room.height()
    assert window.width() <= room.width()
    assert window.minimumHeight() + FRAME_HEIGHT <= room.height()
