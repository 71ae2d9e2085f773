"""One lane on screen: what it paints and says, and how it follows the board."""

import numpy as np
import pytest
from lane_driver import header, key, picture, place, shown_view
from PySide6.QtCore import QEvent, QPoint, Qt
from PySide6.QtGui import QHelpEvent
from PySide6.QtWidgets import QApplication, QToolTip
from told_board import POOL_DEVICE, ToldController, next_token, routed_model, told_state
from ui_factories import make_experts

from app.engine import protocol
from app.ui.lanes import lane_view as lane_view_module
from app.ui.lanes.lane_paint import LanePainter
from app.ui.lanes.lane_pixels import HEAT_STEPS
from app.ui.theme import Theme


@pytest.fixture
def controller(qapp):
    """4 layers with 8 experts, layer 3 wholly on the GPU; layer 0 was routed to."""
    made = ToldController(whole=(3,))
    made.tell_layer(0, routed=(40, 30, 20, 6, 2, 1, 1, 0), slots=2)
    return made


@pytest.fixture
def state(controller):
    return told_state(controller)


@pytest.fixture
def view(qtbot, theme, state):
    return shown_view(qtbot, None, theme, state=state, zoom=30)


@pytest.fixture
def gpu(qtbot, theme, state):
    return shown_view(qtbot, None, theme, lane=POOL_DEVICE, state=state, zoom=30)


def color_of(view, layer, expert):
    """The colour in the middle of a cell's lower edge, where nothing is drawn."""
    rect = view.cell_rect(layer, expert)
    return picture(view).pixelColor(QPoint(rect.left() + 3, rect.bottom() - 4)).name()


def swap(controller, layer=0, lanes="gccccccc"):
    controller.tell_layer(layer, lanes=lanes, slots=2)


# ---- what is painted -----------------------------------------------------------------------------


def test_cells_have_the_colour_of_their_heat(view, theme):
    assert color_of(view, 0, 0) == theme.heat_color(1.0).name()
    assert color_of(view, 0, 7) == theme.heat_color(0.0).name()
    board = view.state.board
    exact, shown = theme.heat_color(float(board.fraction[0, 2])), picture(view)
    rect = view.cell_rect(0, 2)
    painted = shown.pixelColor(rect.left() + 3, rect.bottom() - 4)
    assert max(abs(painted.red() - exact.red()), abs(painted.blue() - exact.blue())) <= 3


@pytest.mark.parametrize("look", ["light", "dark"])
def test_words_can_be_read_on_cells_of_any_heat(qapp, look):
    theme = Theme(forced=look)
    painter = LanePainter(theme, qapp.font())
    inks = painter.inks(np.arange(HEAT_STEPS)[None, :])
    for step in range(HEAT_STEPS):
        ground, ink = theme.heat_color(step / (HEAT_STEPS - 1)), inks.dark if inks.pale[0, step] else inks.light
        darker, lighter = sorted((luminance(ground), luminance(ink)))
        assert (lighter + 0.05) / (darker + 0.05) >= 4.5  # WCAG's AA


def luminance(color):
    """Relative luminance as WCAG 2 defines it."""
    parts = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in color.getRgbF()[:3]]
    return float(np.dot(parts, (0.2126, 0.7152, 0.0722)))


def test_new_routings_are_painted(view, controller, theme):
    controller.tell_layer(0, routed=(0, 0, 0, 0, 0, 0, 0, 9))
    view.state.refresh()
    assert color_of(view, 0, 7) == theme.heat_color(1.0).name()


def test_another_look_is_painted_in_its_colours(view, theme):
    before = picture(view)
    theme.force("dark")
    assert picture(view) != before
    assert color_of(view, 0, 0) == theme.heat_color(1.0).name()


@pytest.mark.parametrize("zoom", [0, 9, 18, 30, 60, 100])
def test_what_is_selected_pinned_and_copied_looks_different_at_every_size(qtbot, theme, zoom):
    looks = {}
    for name, fields in {
        "plain": {},
        "gpu": {"pins": "aaagaaaa"},
        "cpu": {"pins": "aaacaaaa"},
        "copying": {"lanes": "cccmcccc"},
    }.items():
        controller = ToldController(layers=40, experts=8, loaded=True)
        controller.tell_layer(0, slots=2, **fields)
        view = shown_view(qtbot, controller, theme, size=(600, 260), zoom=zoom)
        looks[name] = picture(view).copy(view.cell_rect(0, 3)).convertToFormat(picture(view).format())
    view.state.selection.set(view.state.board.mask({0: (3,)}))
    looks["selected and copying"] = picture(view).copy(view.cell_rect(0, 3))
    names = list(looks)
    for index, first in enumerate(names):
        for second in names[index + 1 :]:
            assert looks[first] != looks[second], (first, second)


def test_layers_that_nobody_counts_are_hatched_while_a_model_is_loaded_and_flat_before(qtbot, theme, gpu):
    rect = gpu.cell_rect(3, 2)
    hatched = picture(gpu).copy(rect)
    assert len({hatched.pixel(x, rect.height() - 4) for x in range(2, rect.width() - 2)}) > 1
    before = shown_view(qtbot, ToldController(loaded=False), theme, zoom=30)
    rect = before.cell_rect(2, 2)
    flat = picture(before).copy(rect)
    assert len({flat.pixel(x, rect.height() - 4) for x in range(2, rect.width() - 2)}) == 1


def test_the_overview_shows_the_whole_lane_and_follows_the_views_size(qtbot, theme):
    controller = ToldController(48, 512)
    view = shown_view(qtbot, controller, theme, size=(900, 600), zoom=0)
    assert (view.horizontalScrollBar().maximum(), view.verticalScrollBar().maximum()) == (0, 0)
    assert view.viewport().rect().contains(view.cell_rect(47, 511))
    pitch = view.pitch
    view.resize(1800, 1200)
    assert view.pitch > pitch
    assert view.viewport().rect().contains(view.cell_rect(47, 511))


def test_a_lane_without_experts_says_so(qtbot, theme, state, controller):
    view = shown_view(qtbot, None, theme, lane="disk", state=state)
    assert view.cell_rect(0, 0) is None
    assert view.cell_at(QPoint(100, 50)) is None
    key(view, Qt.Key.Key_Right, Qt.Key.Key_Space, Qt.Key.Key_G)
    assert view.current is None
    before = picture(view)
    controller.plan = None
    state.refresh()
    assert picture(view).size() == before.size()


def test_a_board_without_a_model_is_an_empty_lane(qtbot, theme):
    controller = ToldController()
    controller.plan = None
    view = shown_view(qtbot, controller, theme)
    picture(view)
    key(view, Qt.Key.Key_Down)
    assert view.current is None


# ---- what it says --------------------------------------------------------------------------------


def test_the_tip_of_a_cell_tells_where_it_is_how_often_it_was_routed_and_who_pinned_it(view, controller):
    controller.tell_layer(0, pins="caaaaaaa")
    view.state.refresh()
    tip = view.tip_at(place(view, 0, 0))
    assert tip == "Layer 0, expert 0: routed 40 times, 40 % of this layer, 1.0 MiB, CPU lane, kept on the CPU by you."


def test_the_tip_of_a_layer_that_is_not_counted_says_why(gpu, controller):
    assert "Loaded on Vulkan0 as a whole" in gpu.tip_at(place(gpu, 3, 1))
    assert "Loaded on Vulkan0 as a whole" in gpu.tip_at(header(gpu, 3))
    report = controller.loaded_report
    controller.loaded_report = protocol.Loaded(
        id=1,
        seconds=1.0,
        n_ctx=512,
        buffers=(),
        expert_layers=dict.fromkeys(range(4), "CPU"),
        differences=(),
        expert_device=False,
        reason="no native library",
    )
    assert "Routings are not counted: no native library" in gpu.tip_at(place(gpu, 3, 1))
    assert report.expert_device


def test_the_tip_of_a_name_tells_how_much_of_the_layer_is_here(view, controller):
    swap(controller)
    view.state.refresh()
    tip = view.tip_at(header(view, 0))
    assert tip.startswith("Layer 0: 7 of 8 experts in the CPU lane, 7.0 MiB.")
    assert "drag" in tip
    assert view.tip_at(QPoint(view.viewport().width() - 3, view.viewport().height() - 3)) == ""
    assert view.tip_at(QPoint(5, view.viewport().height() - 3)) == ""


def test_a_tip_is_shown_for_the_cell_under_the_pointer(view, qtbot):
    point = place(view, 0, 1)
    QApplication.sendEvent(view.viewport(), QHelpEvent(QEvent.Type.ToolTip, point, view.viewport().mapToGlobal(point)))
    assert QToolTip.text().startswith("Layer 0, expert 1: routed 30 times")
    point = header(view, 2)
    QApplication.sendEvent(view.viewport(), QHelpEvent(QEvent.Type.ToolTip, point, view.viewport().mapToGlobal(point)))
    assert QToolTip.text().startswith("Layer 2: 8 of 8 experts")
    QToolTip.hideText()


def test_the_accessible_name_says_lane_and_selection(view, qtbot):
    assert view.accessibleName() == "Experts in the lane CPU: 24 of 32. Nothing selected."
    view.state.selection.set(view.state.board.mask({0: (1, 2, 3)}))
    qtbot.waitUntil(lambda: "3 experts of layer 0 selected" in view.accessibleName())


def test_the_keyboards_cell_is_read_out_with_whether_it_is_selected(view, monkeypatch):
    said = []
    monkeypatch.setattr(lane_view_module, "say", lambda widget, text: said.append(text))
    assert "Arrows move" in view.accessibleDescription()
    assert "Arrows move" in view.whatsThis()
    key(view, Qt.Key.Key_Right)
    key(view, Qt.Key.Key_Space)
    assert said[0].startswith("Layer 0, expert 0: routed 40 times")
    assert said[0].endswith("Not selected.")
    assert said[1].endswith(" Selected.")
    assert view.accessibleDescription().startswith("Layer 0, expert 0")


def test_a_probe_changes_the_words_and_nothing_else(view, qtbot, state):
    from dataclasses import replace

    key(view, Qt.Key.Key_Right)
    view.set_info(replace(view.lane, title="CPU again"))
    qtbot.waitUntil(lambda: "CPU again" in view.accessibleName())
    assert view.current == (0, 0)


# ---- following the board -------------------------------------------------------------------------


def test_an_expert_that_moved_is_in_the_other_lane(view, gpu, controller):
    assert gpu.cell_rect(0, 0) is None
    swap(controller)
    view.state.refresh()
    assert view.cell_rect(0, 0) is None
    assert gpu.cell_rect(0, 0) is not None
    assert view.cell_at(view.cell_rect(0, 1).center()) == (0, 1)


def test_the_keyboards_cell_that_left_hands_its_place_on(view, controller):
    key(view, Qt.Key.Key_Right)
    assert view.current == (0, 0)
    swap(controller)
    view.state.refresh()
    assert view.current == (0, 1)


def test_another_model_begins_anew(view, controller):
    key(view, Qt.Key.Key_Right)
    controller.facts = type(controller.facts)(
        **{**{name: getattr(controller.facts, name) for name in controller.facts.__struct_fields__}, "fingerprint": "x"}
    )
    controller.loaded_facts = controller.facts
    view.state.refresh()
    assert view.current is None
    assert view.mouse.anchor is None


def test_revealing_an_expert_scrolls_to_it_and_one_elsewhere_is_left_alone(view):
    view.set_zoom(110)
    view.reveal(2, 7)
    assert view.current == (2, 7)
    assert view.viewport().rect().contains(place(view, 2, 7))
    view.reveal(3, 0)  # in another lane
    view.reveal(99, 0)
    assert view.current == (2, 7)


def test_tokens_that_follow_each_other_move_few_experts():
    first = routed_model(4, 32, slots=6)
    second = next_token(first, swapped=2, seed=3)
    moved = sum(a != b for layer in first for a, b in zip(first[layer].lanes, second[layer].lanes, strict=True))
    assert 2 <= moved <= 4
    assert sum(second[0].routed) - sum(first[0].routed) == 10
    assert np.array(make_experts((1, 2)).routed).tolist() == [1, 2]
