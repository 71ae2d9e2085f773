"""A wide and low lane in panes side by side: painted, and under every gesture, as it is in one piece."""

import numpy as np
import pytest
from lane_driver import CTRL, SHIFT, click, header, key, picture, place, pull, shown_view, wheel
from PySide6.QtCore import QPoint, Qt
from told_board import ToldController, told_state
from ui_factories import make_experts

from app.ui.lanes import lane_chip
from app.ui.lanes.lane_paint import Tint
from app.ui.lanes.mime import unpack

K = Qt.Key
LAYERS, EXPERTS = 30, 22


@pytest.fixture
def state(qapp):
    """A model whose experts are as hot as they happen to be, all on the CPU."""
    controller = ToldController(LAYERS, EXPERTS)
    routed = np.random.default_rng(3).integers(0, 1000, (LAYERS, EXPERTS)).tolist()
    controller.tell({layer: make_experts(tuple(its)) for layer, its in enumerate(routed)})
    return told_state(controller)


@pytest.fixture
def view(qtbot, theme, state):
    """The overview of its CPU lane, wide and low."""
    made = shown_view(qtbot, None, theme, state=state, size=(700, 90), zoom=0)
    assert made.panes.count > 1
    return made


@pytest.fixture
def first(view):
    """The first layer of the second pane."""
    return view.panes.firsts[1]


def selected(view):
    return view.state.selection.cells()


def colors(view):
    """The colour in the middle of every cell."""
    image = picture(view)
    return [[image.pixel(place(view, layer, expert)) for expert in range(EXPERTS)] for layer in range(LAYERS)]


def test_every_cell_is_painted_where_it_is_found_and_nothing_is_scrolled(qtbot, theme, state, view, first):
    whole = shown_view(qtbot, None, theme, state=state, size=(700, 700), zoom=12)
    assert whole.panes.count == 1
    assert colors(view) == colors(whole)
    assert (view.horizontalScrollBar().maximum(), view.verticalScrollBar().maximum()) == (0, 0)
    for layer in range(LAYERS):
        for expert in (0, EXPERTS - 1):
            assert view.viewport().rect().contains(view.cell_rect(layer, expert))
            assert view.cell_at(place(view, layer, expert)) == (layer, expert)
    assert view.cell_rect(first, 0).left() >= view.cell_rect(0, EXPERTS - 1).right() + view.header_width


def test_each_pane_has_the_names_of_its_own_layers(view, first):
    image, left = picture(view), header(view, first).x() - view.header_width // 2
    names = image.copy(left, 0, view.header_width, image.height())
    assert len({names.pixel(x, y) for x in range(names.width()) for y in range(names.height())}) > 2
    assert names != image.copy(0, 0, view.header_width, image.height())
    assert view.in_header(header(view, first))
    assert not view.in_header(place(view, 0, EXPERTS - 1))
    assert f"Layer {first}" in view.tip_at(header(view, first))
    assert view.row_at(header(view, first)) == first
    assert view.row_at(header(view, 0)) == 0


def test_clicks_select_in_both_panes_and_shift_all_between_two(view, first):
    click(view, place(view, first, 3))
    assert selected(view) == {first: (3,)}
    before = picture(view).copy(view.cell_rect(29, 21))
    click(view, place(view, 29, 21), CTRL)
    assert selected(view) == {first: (3,), 29: (21,)}
    assert picture(view).copy(view.cell_rect(29, 21)) != before
    click(view, place(view, first - 1, 20))
    click(view, place(view, first, 21), SHIFT)
    assert selected(view) == {first - 1: (20, 21), first: (20, 21)}
    between = QPoint(header(view, first).x() - view.header_width // 2 - 3, place(view, 1, 0).y())
    assert not view.in_header(between)
    click(view, between)
    assert selected(view) == {}


def test_a_layers_name_in_the_second_pane_selects_and_drags_that_layer(view, first, monkeypatch):
    dragged = []

    class Drag(lane_chip.QDrag):
        def exec(self, actions):
            dragged.append(unpack(self.mimeData(), view.state.board.model))
            return actions

    monkeypatch.setattr(lane_chip, "QDrag", Drag)
    click(view, header(view, first))
    assert selected(view) == {first: tuple(range(EXPERTS))}
    click(view, header(view, first - 1), SHIFT)
    assert list(selected(view)) == [first - 1, first]
    pull(view, header(view, first), header(view, first) + QPoint(0, 200))
    pull(view, header(view, first + 2), header(view, first + 2) + QPoint(0, 200))
    assert dragged == [(first - 1, first), (first + 2,)]


def test_a_rubber_band_over_two_panes_selects_what_it_touches_in_both(view, first):
    start, end = place(view, 1, 20), place(view, first + 2, 1)
    both = {1: (20, 21), 2: (20, 21), first + 1: (0, 1), first + 2: (0, 1)}
    pull(view, start, end)
    assert selected(view) == both
    click(view, place(view, 0, 0))
    pull(view, end, start, CTRL)
    assert selected(view) == {0: (0,), **both}


def test_arrows_go_down_a_pane_and_then_to_the_top_of_the_one_on_its_right(view, first):
    click(view, place(view, first - 1, 4))
    key(view, K.Key_Down)
    assert view.current == (first, 4)
    assert view.accessibleDescription().startswith(f"Layer {first}, expert 4")
    key(view, K.Key_Up, modifiers=SHIFT)
    assert selected(view) == {first - 1: (4,), first: (4,)}
    key(view, K.Key_End, K.Key_Right)
    assert view.current == (first, 0)
    key(view, K.Key_Left)
    assert view.current == (first - 1, EXPERTS - 1)
    key(view, K.Key_End, modifiers=CTRL)
    assert view.current == (LAYERS - 1, EXPERTS - 1)


def test_zooming_in_keeps_the_layer_under_the_pointer_and_zooming_out_brings_the_panes_back(view, first):
    point = place(view, first + 3, 10)
    wheel(view, 4, CTRL, point)
    assert view.panes.count == 1
    assert view.verticalScrollBar().maximum() > 0
    assert view.row_at(point) == first + 3
    wheel(view, -6, CTRL, point)
    assert view.zoom == 0.0
    assert view.panes.count > 1
    assert place(view, first + 3, 10) == point


def test_a_flash_shows_in_the_pane_of_what_came(view, first, monkeypatch):
    before = np.array(colors(view))
    lines, columns = np.array([first, first]), np.array([0, 5])
    monkeypatch.setattr(view._flash, "tints", lambda: (Tint(lines, columns, 0xFF0000FF, 1.0),))
    view.repaint_cells()
    assert np.argwhere(np.array(colors(view)) != before).tolist() == [[first, 0], [first, 5]]
