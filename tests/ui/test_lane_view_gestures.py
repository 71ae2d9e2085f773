"""Every way to select, move and order in one lane, by mouse and by keyboard."""

import pytest
from controller_driver import seen
from lane_driver import (
    ALT,
    CTRL,
    SHIFT,
    click,
    header,
    key,
    menu_event,
    move,
    pinch,
    place,
    press,
    pull,
    release,
    shown_view,
    wheel,
)
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QContextMenuEvent
from PySide6.QtWidgets import QMenu
from told_board import ToldController

from app.ui.lanes.lane_layout import LARGEST

K = Qt.Key


@pytest.fixture
def view(qtbot, theme):
    """The CPU lane of 4 layers with 8 experts; 2 of layer 1 are in the pool."""
    controller = ToldController()
    controller.tell_layer(1, lanes="ccgcgccc", slots=2)
    return shown_view(qtbot, controller, theme)


def selected(view):
    return view.state.selection.cells()


# ---- mouse ---------------------------------------------------------------------------------------


def test_a_click_selects_one_expert_and_ctrl_adds_and_takes_away(view):
    click(view, place(view, 1, 3))
    assert selected(view) == {1: (3,)}
    click(view, place(view, 2, 0))
    assert selected(view) == {2: (0,)}
    click(view, place(view, 0, 7), CTRL)
    assert selected(view) == {0: (7,), 2: (0,)}
    click(view, place(view, 2, 0), CTRL)
    assert selected(view) == {0: (7,)}


def test_shift_selects_the_experts_here_between_two_of_one_or_more_layers(view):
    click(view, place(view, 0, 1))
    click(view, place(view, 2, 4), SHIFT)
    # Experts 2 and 4 of layer 1 are in another lane.
    assert selected(view) == {0: (1, 2, 3, 4), 1: (1, 3), 2: (1, 2, 3, 4)}
    click(view, place(view, 0, 0), SHIFT)
    assert selected(view) == {0: (0, 1)}
    click(view, place(view, 3, 0))
    click(view, place(view, 3, 1), SHIFT | CTRL)
    assert selected(view) == {3: (0, 1)}


def test_a_click_beside_the_cells_selects_nothing_and_with_ctrl_changes_nothing(view):
    click(view, place(view, 1, 3))
    beside = QPoint(view.viewport().width() - 5, view.viewport().height() - 5)
    click(view, beside, CTRL)
    assert selected(view) == {1: (3,)}
    click(view, beside)
    assert selected(view) == {}


def test_a_rubber_band_selects_what_it_touches_while_it_is_drawn(view):
    told = seen(view.state.selection.changed)
    start, end = place(view, 0, 1), place(view, 1, 3)
    press(view, start)
    move(view, end)
    assert view.mouse.banding
    assert view.mouse.band().isValid()
    # The second place of layer 1 is expert 1, the third expert 3.
    assert selected(view) == {0: (1, 2), 1: (1, 3)}
    move(view, place(view, 0, 3))
    assert selected(view) == {0: (1, 2, 3)}
    release(view, place(view, 0, 3))
    assert not view.mouse.banding
    assert view.mouse.band() is None
    assert selected(view) == {0: (1, 2, 3)}
    assert len(told) >= 3


def test_a_rubber_band_with_ctrl_turns_round_and_with_shift_adds(view):
    click(view, place(view, 0, 1))
    pull(view, place(view, 0, 0), place(view, 0, 2), CTRL)
    assert selected(view) == {0: (0, 2)}
    view.state.selection.set(view.state.board.mask({0: (1,)}))
    beside = QPoint(view.viewport().width() - 5, place(view, 3, 0).y())
    pull(view, beside, place(view, 3, 6), SHIFT)
    assert selected(view) == {0: (1,), 3: (6, 7)}
    pull(view, beside, place(view, 3, 5), CTRL)
    assert selected(view) == {0: (1,), 3: (5,)}


def test_escape_gives_a_rubber_band_up_and_later_the_selection(view):
    view.state.selection.set(view.state.board.mask({3: (3,)}))
    beside = QPoint(view.viewport().width() - 5, place(view, 0, 0).y())
    press(view, beside, CTRL)
    move(view, place(view, 0, 4))
    assert selected(view) == {0: (4, 5, 6, 7), 3: (3,)}
    key(view, K.Key_Escape)
    assert selected(view) == {3: (3,)}
    move(view, place(view, 1, 0))
    assert selected(view) == {3: (3,)}
    release(view, place(view, 1, 0))
    key(view, K.Key_Escape)
    assert selected(view) == {}


def test_a_click_on_one_of_several_selected_experts_selects_it_alone_when_the_button_goes_up(view):
    view.state.selection.set(view.state.board.mask({0: (0, 1, 2)}))
    press(view, place(view, 0, 1))
    assert selected(view) == {0: (0, 1, 2)}
    release(view, place(view, 0, 1))
    assert selected(view) == {0: (1,)}


def test_a_layers_name_selects_its_experts_here(view):
    click(view, header(view, 1))
    assert selected(view) == {1: (0, 1, 3, 5, 6, 7)}
    click(view, header(view, 3), SHIFT)
    assert list(selected(view)) == [1, 2, 3]
    click(view, header(view, 2), CTRL)
    assert list(selected(view)) == [1, 3]
    click(view, header(view, 2), CTRL)
    assert list(selected(view)) == [1, 2, 3]


def test_a_click_on_the_name_of_one_of_several_selected_layers_selects_it_alone_when_the_button_goes_up(view):
    click(view, header(view, 0))
    click(view, header(view, 2), SHIFT)
    press(view, header(view, 1))
    assert list(selected(view)) == [0, 1, 2]
    release(view, header(view, 1))
    assert list(selected(view)) == [1]


def test_other_buttons_select_nothing(view, qtbot):
    qtbot.mouseClick(view.viewport(), Qt.MouseButton.MiddleButton, pos=place(view, 0, 0))
    assert selected(view) == {}


def test_a_right_click_asks_for_the_menu_of_the_selection_or_of_what_is_there(view):
    asked = seen(view.menu_wanted)
    view.state.selection.set(view.state.board.mask({0: (0, 1)}))
    menu_event(view, place(view, 0, 1))
    assert selected(view) == {0: (0, 1)}
    menu_event(view, place(view, 2, 5))
    assert selected(view) == {2: (5,)}
    menu_event(view, header(view, 3))
    assert list(selected(view)) == [3]
    assert asked[1] == view.viewport().mapToGlobal(place(view, 2, 5))
    assert len(asked) == 3


# ---- keyboard ------------------------------------------------------------------------------------


def test_arrows_move_the_keyboards_cell_and_leave_the_selection_alone(view):
    view.state.selection.set(view.state.board.mask({3: (3,)}))
    key(view, K.Key_Right)
    assert view.current == (0, 0)
    key(view, K.Key_Right, K.Key_Down)
    assert view.current == (1, 1)
    key(view, K.Key_Right, K.Key_Right)
    assert view.current == (1, 5)  # the third and fourth place: 3, and then 5 for 4 is elsewhere
    key(view, K.Key_Up, K.Key_Left)
    assert view.current == (0, 2)
    assert selected(view) == {3: (3,)}


def test_home_end_and_the_page_keys_go_far(view):
    key(view, K.Key_Down, K.Key_End)
    assert view.current == (0, 7)
    key(view, K.Key_Home)
    assert view.current == (0, 0)
    key(view, K.Key_End, modifiers=CTRL)
    assert view.current == (3, 7)
    key(view, K.Key_Home, modifiers=CTRL)
    assert view.current == (0, 0)
    key(view, K.Key_PageDown)
    assert view.current == (3, 0)
    key(view, K.Key_PageUp)
    assert view.current == (0, 0)
    key(view, K.Key_Left)
    assert view.current == (0, 0)
    key(view, K.Key_End, K.Key_Right)
    assert view.current == (1, 0)


def test_shift_and_an_arrow_extend_the_selection_and_space_toggles(view):
    key(view, K.Key_Right, K.Key_Right)
    key(view, K.Key_Right, K.Key_Down, modifiers=SHIFT)
    assert selected(view) == {0: (1, 2, 3), 1: (1, 3)}
    key(view, K.Key_Home, modifiers=CTRL)
    before = selected(view)
    key(view, K.Key_Space)
    assert selected(view) == before | {0: tuple(sorted({0, *before[0]}))}
    key(view, K.Key_Space)
    assert selected(view) == before


def test_ctrl_a_selects_all_experts_of_this_lane(view):
    key(view, K.Key_A, modifiers=CTRL)
    assert view.state.selection.count == 30
    assert 2 not in selected(view)[1]


def test_g_c_and_a_order_where_the_selection_is_kept(view):
    wanted = seen(view.pin_wanted)
    key(view, K.Key_G)
    assert wanted == []  # nothing is selected, and the keyboard is nowhere yet
    key(view, K.Key_Right)
    key(view, K.Key_G)
    assert wanted == ["gpu"]
    assert selected(view) == {0: (0,)}
    key(view, K.Key_C, K.Key_A)
    assert wanted == ["gpu", "cpu", "auto"]


def test_alt_and_an_arrow_want_the_lane_beside(view):
    wanted = seen(view.step_wanted)
    key(view, K.Key_Left, modifiers=ALT)
    assert wanted == []
    click(view, place(view, 0, 0))
    key(view, K.Key_Left, K.Key_Right, K.Key_Up, K.Key_Down, modifiers=ALT)
    assert wanted == [-1, 1, -1, 1]


def test_the_menu_keys_ask_for_the_menu_at_the_keyboards_cell_once(view):
    asked = seen(view.menu_wanted)
    key(view, K.Key_Right, K.Key_Right)
    for press_it in (
        lambda: key(view, K.Key_Menu),
        lambda: key(view, K.Key_F10, modifiers=SHIFT),
        lambda: menu_event(view, QPoint(), QContextMenuEvent.Reason.Keyboard),
    ):
        press_it()
    assert asked == [view.viewport().mapToGlobal(place(view, 0, 1))] * 3


def test_a_menu_that_is_open_is_not_asked_for_again(view, qtbot):
    menu = QMenu(view)
    menu.addAction("Keep on GPU")
    menu.popup(view.mapToGlobal(QPoint(5, 5)))
    asked = seen(view.menu_wanted)
    menu_event(view, QPoint(), QContextMenuEvent.Reason.Keyboard)
    assert asked == []
    menu.close()


def test_keys_of_the_view_are_kept_from_the_windows_shortcuts(view, qtbot):
    from PySide6.QtGui import QKeySequence, QShortcut

    taken = []
    shortcuts = []
    for sequence in ("G", "Ctrl+A", "Alt+Left", "Ctrl++", "Ctrl+Z"):
        shortcut = QShortcut(QKeySequence(sequence), view)
        shortcut.setContext(Qt.ShortcutContext.WindowShortcut)
        shortcut.activated.connect(lambda sequence=sequence: taken.append(sequence))
        shortcuts.append(shortcut)
    qtbot.waitUntil(view.isActiveWindow)
    wanted = seen(view.pin_wanted)
    key(view, K.Key_Right, K.Key_G)
    key(view, K.Key_A, modifiers=CTRL)
    key(view, K.Key_Z, modifiers=CTRL)
    assert taken == ["Ctrl+Z"]
    assert wanted == ["gpu"]
    assert view.state.selection.count == 30


def test_a_key_that_means_nothing_here_goes_on_to_the_window(view):
    from PySide6.QtGui import QKeyEvent
    from PySide6.QtWidgets import QApplication

    event = QKeyEvent(QKeyEvent.Type.KeyPress, K.Key_F5, Qt.KeyboardModifier.NoModifier)
    QApplication.sendEvent(view, event)
    assert not event.isAccepted()


def test_in_a_folded_lane_up_and_down_go_from_strip_to_strip(qtbot, theme):
    view = shown_view(qtbot, ToldController(2, 60), theme, size=(300, 300), zoom=0)
    fold, last = view.grid.fold, (60 - 1) // view.grid.fold * view.grid.fold
    assert fold < 60
    key(view, K.Key_Right, K.Key_Right, K.Key_Down)
    assert view.current == (0, fold + 1)
    key(view, *[K.Key_Down] * (last // fold))
    assert view.current == (1, 1)
    key(view, K.Key_Up)
    assert view.current == (0, min(last + 1, 59))
    pull(view, QPoint(view.viewport().width() - 2, place(view, 1, 0).y()), place(view, 1, fold + 1))
    assert selected(view) == {1: (*range(1, fold), *range(fold + 1, min(2 * fold, 60)))}


# ---- zoom ----------------------------------------------------------------------------------------


def test_plus_minus_and_0_zoom_and_tell(view):
    told = seen(view.zoom_changed)
    before = view.pitch
    key(view, K.Key_Plus)
    assert view.pitch > before
    key(view, K.Key_Minus)
    assert view.pitch < told[0]
    key(view, K.Key_Plus, modifiers=CTRL)
    key(view, K.Key_0)
    assert view.zoom == 0.0
    assert told[-1] == 0.0
    assert len(told) == 4


def test_ctrl_and_the_wheel_zoom_about_the_pointer(view):
    point = place(view, 2, 6)
    for notches in (1, 1, 3, 1, -2, 4):
        wheel(view, notches, CTRL, point)
    view.verticalScrollBar().setValue(view.verticalScrollBar().maximum() // 2)
    before = view.cell_at(view.viewport().rect().center())
    for _ in range(3):
        wheel(view, 0.4, CTRL)
    assert view.cell_at(view.viewport().rect().center()) == before


def test_two_fingers_on_a_touchpad_zoom_as_far_as_they_spread_and_back(view):
    before = view.pitch
    for _ in range(10):
        pinch(view, 0.05)
    assert view.zoom == pytest.approx(before * 1.05**10)
    for larger in (0.4, 0.4, 0.4, 0.4):
        pinch(view, larger, place(view, 2, 6))
    view.verticalScrollBar().setValue(view.verticalScrollBar().maximum() // 2)
    held = view.cell_at(view.viewport().rect().center())
    pinch(view, 0.1)
    assert view.cell_at(view.viewport().rect().center()) == held
    for _ in range(80):
        pinch(view, -0.05)
    assert view.zoom == 0.0


def test_zoom_goes_from_the_overview_to_cards_and_no_further(view):
    for _ in range(40):
        wheel(view, 1, CTRL)
    assert view.pitch == LARGEST
    assert view.cell_rect(0, 0).width() >= 56
    for _ in range(60):
        wheel(view, -1, CTRL)
    assert view.zoom == 0.0


def test_each_notch_of_the_wheel_is_seen_and_half_ones_add_up(view):
    view.set_zoom(0.0)
    for _ in range(6):
        before = view.pitch
        wheel(view, 1, CTRL)
        assert view.pitch > before
    before = view.pitch
    for _ in range(8):
        wheel(view, 0.125, CTRL)
    assert view.pitch > before


def test_the_wheel_scrolls_down_and_with_shift_across(view):
    view.set_zoom(LARGEST)
    wheel(view, -1)
    assert view.verticalScrollBar().value() > 0
    wheel(view, -1, SHIFT)
    assert view.horizontalScrollBar().value() > 0


def test_the_keyboards_cell_is_scrolled_into_view(view):
    view.set_zoom(LARGEST)
    key(view, K.Key_End, modifiers=CTRL)
    assert view.viewport().rect().contains(place(view, 3, 7))
    key(view, K.Key_Home, modifiers=CTRL)
    assert view.viewport().rect().contains(place(view, 0, 0))
