"""Dragging experts and whole layers out of a lane and dropping them on one, with the words that go with it."""

import msgspec
import pytest
from controller_driver import seen
from lane_driver import drop, hang, header, leave, move, place, press, pull, release, shown_view
from PySide6.QtCore import QMimeData, QPoint, Qt
from PySide6.QtWidgets import QApplication
from told_board import POOL_DEVICE, ToldController, told_state
from ui_factories import make_facts

from app.ui.lanes import lane_chip
from app.ui.lanes.lane_info import GPU, LaneInfo
from app.ui.lanes.lane_scroll import EdgeScroll
from app.ui.lanes.mime import CELLS_TYPE, MIME_TYPE, Dragged, pack, pack_cells, unpack, unpack_cells

MODEL = "5c21"


@pytest.fixture
def drags(monkeypatch):
    """What was dragged: data, actions, and whether something hung under the pointer."""
    started = []

    class Drag(lane_chip.QDrag):
        def exec(self, actions):
            started.append((self.mimeData(), actions, self.pixmap()))
            return actions

    monkeypatch.setattr(lane_chip, "QDrag", Drag)
    return started


@pytest.fixture
def chips(monkeypatch):
    """What the chips under the pointer said."""
    said = []
    made = lane_chip.chip
    monkeypatch.setattr(lane_chip, "chip", lambda source, text, theme: said.append(text) or made(source, text, theme))
    return said


@pytest.fixture
def state(qapp):
    """4 layers with 8 experts: layer 3 wholly on the GPU, experts 2 and 4 of layer 1 in the pool, loaded."""
    controller = ToldController(whole=(3,))
    controller.tell_layer(0, slots=2)
    controller.tell_layer(1, lanes="ccgcgccc", slots=2)
    return told_state(controller)


@pytest.fixture
def view(qtbot, theme, state):
    return shown_view(qtbot, None, theme, state=state)


@pytest.fixture
def gpu(qtbot, theme, state):
    return shown_view(qtbot, None, theme, lane=POOL_DEVICE, state=state)


# ---- out of a lane -------------------------------------------------------------------------------


def test_selected_experts_are_dragged_under_a_chip_with_how_many_and_how_much(view, drags, chips):
    ended = seen(view.drag_ended)
    view.state.selection.set(view.state.board.mask({0: (0, 1, 2), 2: (5,)}))
    pull(view, place(view, 0, 1), place(view, 2, 5) + QPoint(100, 0))
    ((data, actions, chip),) = drags
    assert unpack_cells(data, MODEL) == {0: (0, 1, 2), 2: (5,)}
    assert unpack(data, MODEL) == ()
    assert actions == Qt.DropAction.MoveAction
    assert not chip.isNull()
    assert chips == ["4 experts · 4.0 MiB"]
    assert view.state.selection.count == 4
    assert not view.dragging
    assert len(ended) == 1


def test_a_small_movement_is_no_drag(view, drags):
    view.state.selection.set(view.state.board.mask({0: (0, 1)}))
    start = place(view, 0, 1)
    press(view, start)
    move(view, start + QPoint(2, 1))
    release(view, start + QPoint(2, 1))
    assert drags == []


def test_a_card_is_dragged_at_once_and_a_small_cell_begins_a_rubber_band(view, drags, chips):
    pull(view, place(view, 0, 1), place(view, 0, 3))
    assert drags == []
    view.state.selection.clear()
    view.set_zoom(70)
    view.horizontalScrollBar().setValue(0)
    pull(view, place(view, 0, 1), place(view, 0, 3))
    assert len(drags) == 1
    assert chips == ["1 expert · 1.0 MiB"]


def test_a_layers_name_drags_the_whole_layer_and_more_that_are_wholly_selected(view, drags, chips):
    pull(view, header(view, 1), header(view, 0) + QPoint(0, 90))
    data, _, _ = drags[0]
    assert unpack(data, MODEL) == (1,)
    assert unpack_cells(data, MODEL) == {}
    view.state.selection.set(view.mouse.row_mask(0, 1))
    pull(view, header(view, 0), header(view, 0) + QPoint(0, 90))
    assert unpack(drags[1][0], MODEL) == (0, 1)
    assert chips == ["1 layer · 8.0 MiB", "2 layers · 16.0 MiB"]


@pytest.mark.parametrize(
    "text", [b"", b"{", b"\xff\xfe", b'{"model": "\xff"}', b'{"more": ' + b"[" * 100_000, b'{"model": 5}']
)
@pytest.mark.parametrize("kind", [MIME_TYPE, CELLS_TYPE])
def test_what_another_program_calls_ours_and_is_not_holds_nothing(text, kind):
    data = QMimeData()
    data.setData(kind, text)
    assert unpack(data, MODEL) == ()
    assert unpack_cells(data, MODEL) == {}


def test_while_a_drag_runs_the_view_says_so(view, monkeypatch):
    told = []

    class Drag(lane_chip.QDrag):
        def exec(self, actions):
            told.append(view.dragging)
            return actions

    monkeypatch.setattr(lane_chip, "QDrag", Drag)
    view.state.selection.set(view.state.board.mask({0: (0, 1)}))
    pull(view, place(view, 0, 1), place(view, 0, 1) + QPoint(90, 0))
    assert told == [True]


# ---- onto a lane ---------------------------------------------------------------------------------


def test_experts_over_the_pools_lane_are_told_what_a_drop_does_and_dropped_after_the_drag(gpu, qtbot):
    over, wanted = seen(gpu.drag_over), []
    gpu.cells_wanted.connect(lambda cells, lane: wanted.append((cells, lane)))
    cells = {0: (1, 2), 1: (0,)}
    assert hang(gpu, pack_cells(MODEL, cells))
    assert gpu.drops.offer.text == "Keep 3 experts on the GPU: takes effect with the next token"
    assert over == [cells]
    gpu.grab()  # the words are painted
    leave(gpu)
    assert gpu.drops.offer is None
    assert over == [cells, None]
    assert drop(gpu, pack_cells(MODEL, cells))
    assert wanted == []  # the drag's own event loop runs still
    qtbot.waitUntil(lambda: wanted == [(cells, POOL_DEVICE)])
    assert over == [cells, None, cells, None]


def test_experts_of_the_pool_can_be_dropped_on_the_cpu(view, qtbot):
    with qtbot.waitSignal(view.cells_wanted) as wanted:
        assert drop(view, pack_cells(MODEL, {1: (2,)}))
    assert wanted.args == [{1: (2,)}, "CPU"]
    hang(view, pack_cells(MODEL, {1: (2,)}))
    assert view.drops.offer.text == "Keep 1 expert on the CPU: takes effect with the next token"


def test_experts_that_are_here_already_are_not_taken(view, gpu):
    assert not drop(view, pack_cells(MODEL, {0: (1,), 1: (0, 3)}))
    hang(view, pack_cells(MODEL, {0: (1,)}))
    assert "Here already" in view.drops.offer.text
    view.grab()
    # Some of these are elsewhere.
    assert hang(gpu, pack_cells(MODEL, {1: (1, 2)}))


def test_with_nothing_loaded_a_drop_changes_the_plan_and_says_so(qtbot, theme):
    view = shown_view(qtbot, ToldController(loaded=False), theme, lane=POOL_DEVICE)
    assert hang(view, pack_cells(MODEL, {0: (1,)}))
    assert view.drops.offer.text == "Keep 1 expert on the GPU: from the next load on"
    assert hang(view, pack(Dragged(model=MODEL, layers=(2,))))
    assert view.drops.offer.text == "Move layer 2 whole to Vulkan0: from the next load on"


def test_experts_for_which_the_pool_has_no_slot_are_taken_with_a_warning(gpu):
    assert hang(gpu, pack_cells(MODEL, {2: (1, 3)}))
    assert gpu.drops.offer.text == "Keep 2 experts on the GPU: the pool needs room first"


def test_the_pointer_shows_what_can_be_dragged(view, qtbot):
    def shape(point):
        qtbot.mouseMove(view.viewport(), point + QPoint(1, 0))
        qtbot.mouseMove(view.viewport(), point)
        return view.viewport().cursor().shape()

    hand, arrow = Qt.CursorShape.OpenHandCursor, Qt.CursorShape.ArrowCursor
    assert shape(header(view, 0)) == hand
    assert shape(place(view, 0, 1)) == arrow
    view.state.selection.set(view.state.board.mask({0: (1,)}))
    assert shape(place(view, 0, 1)) == hand
    assert shape(QPoint(view.viewport().width() - 5, view.viewport().height() - 5)) == arrow


def test_the_disk_lane_takes_neither_experts_nor_layers_and_says_what_to_do_instead(qtbot, theme, state):
    view = shown_view(qtbot, None, theme, lane="disk", state=state)
    over = seen(view.drag_over)
    assert not drop(view, pack_cells(MODEL, {0: (1,)}))
    hang(view, pack_cells(MODEL, {0: (1,)}))
    assert "Keep it on the CPU instead" in view.drops.offer.text
    assert not hang(view, pack(Dragged(model=MODEL, layers=(2,))))
    assert "by themselves" in view.drops.offer.text
    assert over == []


def test_another_gpu_than_the_pools_takes_layers_alone(qtbot, theme, state):
    view = shown_view(qtbot, None, theme, lane=POOL_DEVICE, state=state)
    view.set_info(LaneInfo(key="CUDA1", kind=GPU, title="GPU · CUDA1", words=""))
    assert not hang(view, pack_cells(MODEL, {0: (1,)}))
    assert view.drops.offer.text == "Vulkan0 has the pool for single experts. Whole layers can be moved here."
    assert hang(view, pack(Dragged(model=MODEL, layers=(2,))))


def test_whole_layers_need_a_reload_and_go_where_the_plan_does_not_have_them_yet(view, gpu, qtbot):
    over = seen(gpu.layers_over)
    assert not hang(gpu, pack(Dragged(model=MODEL, layers=(3,))))
    assert gpu.drops.offer.text == "Here already."
    leave(gpu)
    assert hang(gpu, pack(Dragged(model=MODEL, layers=(1, 2))))
    assert gpu.drops.offer.text == "Move layers 1–2 whole to Vulkan0: needs a reload"
    with qtbot.waitSignal(gpu.layers_wanted) as wanted:
        assert drop(gpu, pack(Dragged(model=MODEL, layers=(1, 2))))
    assert wanted.args == [(1, 2), POOL_DEVICE]
    assert over[-2:] == [(1, 2), ()]
    # The experts of layer 1 in the pool belong to a layer of the CPU lane.
    assert not hang(view, pack(Dragged(model=MODEL, layers=(1,))))


def test_drags_of_other_models_and_of_other_programs_are_let_through(view):
    foreign = QMimeData()
    foreign.setText("layer 1")
    broken = QMimeData()
    broken.setData(CELLS_TYPE, b"{")
    wrong = QMimeData()
    wrong.setData(CELLS_TYPE, msgspec.json.encode({"model": MODEL, "cells": {"zero": [1]}}))
    for data in (foreign, broken, wrong, pack_cells("another", {0: (1,)}), pack(Dragged(model="another", layers=(1,)))):
        assert not hang(view, data)
        assert view.drops.offer is None


def test_a_refused_drop_changes_nothing(view, qtbot):
    wanted = seen(view.layers_wanted)
    view.cells_wanted.connect(lambda cells, lane: wanted.append(cells))
    assert not drop(view, pack_cells(MODEL, {0: (1,)}))
    QApplication.processEvents()
    assert wanted == []
    assert view.drops.offer is None


def test_experts_and_layers_that_the_model_has_not_are_not_taken(gpu):
    assert not hang(gpu, pack_cells(MODEL, {99: (0,), 0: (-1, 999), -5: (1,)}))
    assert not hang(gpu, pack(Dragged(model=MODEL, layers=(99, -1, 10**30))))
    layers = seen(gpu.layers_over)
    assert hang(gpu, pack(Dragged(model=MODEL, layers=(0, 99, 0, 1))))
    assert layers == [(0, 1)]
    leave(gpu)
    cells = seen(gpu.drag_over)
    assert hang(gpu, pack_cells(MODEL, {0: (1, 999), 99: (0,)}))
    assert cells == [{0: (1,)}]


@pytest.mark.parametrize("data", [pack_cells(MODEL, {1: (2,)}), pack(Dragged(model=MODEL, layers=(3,)))])
def test_what_was_dragged_of_a_model_is_not_dropped_on_another_one(view, state, qtbot, data):
    wanted = seen(view.layers_wanted)
    view.cells_wanted.connect(lambda cells, lane: wanted.append(cells))
    assert hang(view, data)
    state._controller.facts = make_facts(fingerprint="another")  # a file was read while it hung in the air
    drop(view, data)
    QApplication.processEvents()
    assert wanted == []


# ---- scrolling on the way ------------------------------------------------------------------------


def test_a_drag_near_an_edge_scrolls_until_it_leaves_or_nothing_is_left(view, qtbot):
    view.set_zoom(110)
    bar = view.verticalScrollBar()
    edge = QPoint(view.viewport().width() // 2, view.viewport().height() - 3)
    assert hang(view, pack_cells(MODEL, {1: (2,)}), edge)
    qtbot.waitUntil(lambda: bar.value() == bar.maximum())
    assert not hang(view, pack_cells("another", {1: (2,)}), edge)
    leave(view)
    assert not any(scroll.active for scroll in view.findChildren(EdgeScroll))


def test_a_rubber_band_beyond_the_edge_scrolls_and_selects_what_comes_up(view, qtbot):
    view.set_zoom(100)
    view.horizontalScrollBar().setValue(0)
    bar = view.verticalScrollBar()
    bar.setValue(0)
    start = QPoint(place(view, 0, 1).x(), 1)
    press(view, start)
    move(view, QPoint(start.x() + 30, view.viewport().height() + 60))
    qtbot.waitUntil(lambda: bar.value() == bar.maximum())
    assert 2 in view.state.selection.cells()
    assert 0 in view.state.selection.cells()
    release(view, QPoint(start.x() + 30, view.viewport().height() + 60))
    assert not any(scroll.active for scroll in view.findChildren(EdgeScroll))
