"""What the button of hints opens stands right at it, as high as its hints, wherever the button is on the screen."""

import pytest
from hint_driver import SLOW_RAM, hints_button, wait_for
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import QPoint, QRect, QSize, Qt
from ui_factories import make_machine

from app.doctor.hints import PROBLEM, Hint
from app.ui.hint_place import place
from app.ui.theme import GRID

GAP = GRID // 2
SCREEN = QRect(100, 50, 1280, 720)


def at(left, top, width=90, height=28):
    return QRect(left, top, width, height)


@pytest.mark.parametrize("height", [60, 200, 400])
def test_whatever_its_height_it_ends_just_above_a_button_at_the_bottom(height):
    button = at(1200, 740)
    stands = place(QSize(520, height), button, SCREEN, GAP)
    assert stands.top() + stands.height() + GAP == button.top()
    assert stands.left() + stands.width() == button.left() + button.width()
    assert stands.size() == QSize(520, height)


def test_below_a_button_at_the_top_it_begins_just_there():
    button = at(1200, 60)
    stands = place(QSize(520, 400), button, SCREEN, GAP)
    assert stands.top() == button.top() + button.height() + GAP
    assert stands.height() == 400


def test_at_the_left_edge_it_stays_on_the_screen():
    assert place(QSize(520, 200), at(100, 700), SCREEN, GAP).left() == SCREEN.left()


def test_where_neither_side_has_room_it_takes_what_the_larger_one_has():
    low = QRect(0, 0, 800, 300)
    stands = place(QSize(520, 400), at(600, 250), low, GAP)
    assert (stands.top(), stands.height()) == (0, 250 - GAP)


@given(
    st.integers(1, 3000), st.integers(1, 3000), st.integers(-500, 2500), st.integers(-500, 2500), st.integers(1, 400)
)
def test_it_is_always_wholly_on_the_screen_and_never_on_a_button_that_is(width, height, left, top, wide):
    button = at(left, top, wide)
    stands = place(QSize(width, height), button, SCREEN, GAP)
    assert SCREEN.contains(stands) or stands.isEmpty()
    if SCREEN.contains(button):
        assert not stands.intersects(button)
        assert GAP in (
            button.top() - stands.top() - stands.height(),
            stands.top() - button.top() - button.height(),
        )


# ---- the real one -------------------------------------------------------------------------------


@pytest.fixture
def opened(make_controller, settings, qtbot, theme):
    """`opened(right, bottom) -> (button, panel)` of one hint, with the button in that corner of the screen."""
    controller = make_controller(machine=make_machine(ram=SLOW_RAM))
    button = hints_button(controller, settings)
    qtbot.addWidget(button)
    controller.probe()
    wait_for(qtbot, button, "single-channel")

    def open_at(right, bottom):
        screen = button.screen().availableGeometry()
        button.resize(button.sizeHint())
        left = screen.left() + (screen.width() - button.width() if right else 0)
        top = screen.top() + (screen.height() - button.height() if bottom else 0)
        button.setWindowFlag(Qt.WindowType.FramelessWindowHint)
        button.show()
        button.move(left, top)
        button.open_panel()
        return button, button.panel

    yield open_at
    button.shutdown()


def gap_of(button, panel):
    """Pixels between button and panel, whichever is above."""
    place_of, stands = QRect(button.mapToGlobal(QPoint()), button.size()), panel.geometry()
    if stands.top() < place_of.top():
        return place_of.top() - stands.top() - stands.height()
    return stands.top() - place_of.top() - place_of.height()


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("bottom", [False, True])
def test_one_hint_stands_right_at_its_button_at_every_corner_of_the_screen(opened, right, bottom):
    button, panel = opened(right, bottom)
    assert gap_of(button, panel) == GAP
    assert button.screen().availableGeometry().contains(panel.geometry())


def test_it_is_as_high_as_its_one_hint_and_has_nothing_to_scroll(opened, qtbot):
    _, panel = opened(True, True)
    (card,) = panel.cards.values()
    qtbot.waitUntil(lambda: card.height() > 0 and card.isVisible())
    bar = panel._scroll.verticalScrollBar()
    assert bar.maximum() == 0
    below = panel._page.height() - card.geometry().bottom() - 1
    assert below <= 2 * GRID + panel._column.spacing(), "blank under the hint"


def test_with_more_hints_it_grows_and_stays_at_its_button(opened, qtbot):
    button, panel = opened(True, True)
    before = panel.height()
    more = Hint(rule="x", title="Another", evidence="Of much text. " * 20, action="Do it.", severity=PROBLEM)
    button.watch.hints = (*button.watch.hints, more)
    button.watch.changed.emit()
    qtbot.waitUntil(lambda: panel.height() > before)
    assert gap_of(button, panel) == GAP
    assert panel._scroll.verticalScrollBar().maximum() == 0
