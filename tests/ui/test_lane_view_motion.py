"""Experts that move between lanes are seen moving: flights, flashes, and stillness where it is asked for."""

import pytest
from controller_driver import seen
from lane_driver import hang, leave, picture, shown_view
from PySide6.QtCore import QPoint, QRect, QRectF, Qt
from PySide6.QtWidgets import QWidget
from told_board import POOL_DEVICE, ToldController, routed_model, told_state
from ui_factories import make_experts

from app.ui.lanes import motion
from app.ui.lanes.flights import MOST, Flights
from app.ui.lanes.lane_flash import AWAY, TO_GPU, TO_MEMORY, board_kind, change_color, ways_of
from app.ui.lanes.lane_overlay import offer_strip
from app.ui.lanes.lane_view import LaneView
from app.ui.lanes.mime import pack_cells


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


def swap(controller, layer=0, lanes="gccccccc"):
    controller.tell_layer(layer, lanes=lanes, slots=2)


@pytest.fixture
def moving(monkeypatch):
    """The desktop shows animations, long ones: a busy machine has time to look at them."""
    for module in ("app.ui.lanes.lane_flash", "app.ui.lanes.flights"):
        monkeypatch.setattr(f"{module}.motion_wanted", lambda _widget: True)
        monkeypatch.setattr(f"{module}.MILLISECONDS", 1000)


@pytest.fixture
def lanes(qtbot, theme, state):
    """GPU and CPU lane beside each other, under the layer for flights."""
    both = QWidget()
    qtbot.addWidget(both)
    both.resize(700, 300)
    views = []
    for info in state.lanes[:2]:
        view = LaneView(state, info, theme, both)
        view.setGeometry(350 * len(views), 0, 340, 300)
        views.append(view)
    flights = Flights(both, theme)
    both.show()
    yield flights, views
    both.close()


def changed(state, controller, told):
    """The change that the board tells after the engine said this of layer 0."""
    changes = seen(state.changed)
    told()
    state.refresh()
    return changes[-1]


def test_a_few_experts_fly_from_where_they_were_to_where_they_are(lanes, state, controller, moving, qtbot):
    flights, (gpu, cpu) = lanes
    swap(controller)
    state.refresh()
    assert not flights.active  # nobody told it
    before = cpu.cell_rect(0, 1)
    change = changed(state, controller, lambda: swap(controller, lanes="cgcccccc"))
    flights.fly(change, (gpu, cpu))
    assert flights.active
    assert flights.isVisible()
    by_way = {ghost.going: ghost for ghost in flights.ghosts}
    assert set(by_way) == {TO_GPU, AWAY}
    assert by_way[TO_GPU].start.topLeft().toPoint() == before.topLeft() + QPoint(350, 0)
    assert by_way[TO_GPU].end.topLeft().toPoint() == gpu.cell_rect(0, 1).topLeft()
    assert by_way[AWAY].end.topLeft().toPoint() == cpu.cell_rect(0, 0).topLeft() + QPoint(350, 0)
    flights.parentWidget().grab()
    qtbot.waitUntil(lambda: not flights.active)
    assert flights.isHidden()
    assert flights.ghosts == ()


def test_a_ghost_goes_all_the_way_and_slows_down(lanes, state, controller, moving):
    flights, views = lanes
    change = changed(state, controller, lambda: swap(controller))
    flights.fly(change, views)
    (ghost,) = flights.ghosts
    assert ghost.at(0.0).center() == ghost.start.center()
    assert ghost.at(1.0).center() == ghost.end.center()
    way = abs(ghost.end.center().x() - ghost.start.center().x())
    assert abs(ghost.at(0.5).center().x() - ghost.start.center().x()) > way / 2


def test_an_expert_that_is_scrolled_away_flies_to_the_lanes_edge(lanes, state, controller, moving):
    flights, (gpu, cpu) = lanes
    cpu.set_zoom(110)
    cpu.verticalScrollBar().setValue(cpu.verticalScrollBar().maximum())
    change = changed(state, controller, lambda: swap(controller))
    flights.fly(change, (gpu, cpu))
    (ghost,) = flights.ghosts
    assert flights.parentWidget().rect().adjusted(-1, -60, 1, 1).contains(ghost.start.center().toPoint())


def test_many_experts_flash_where_they_came_and_where_they_left(qtbot, theme, moving):
    controller = ToldController(8, 64)
    state = told_state(controller)
    gpu, cpu = (shown_view(qtbot, None, theme, lane=lane, state=state, zoom=12) for lane in (POOL_DEVICE, "CPU"))
    both = QWidget()
    qtbot.addWidget(both)
    both.show()
    flights = Flights(both, theme)
    still = picture(cpu)
    controller.tell(routed_model(8, 64, slots=16))
    change = changed(state, controller, lambda: None)
    assert change.moved > MOST
    flights.fly(change, (gpu, cpu))
    assert not flights.active
    assert gpu.moving
    assert cpu.moving
    flashing = picture(gpu)
    qtbot.waitUntil(lambda: not gpu.moving and not cpu.moving)
    assert picture(gpu) != flashing
    assert picture(cpu) != still


def test_where_the_desktop_asks_for_stillness_nothing_moves(lanes, state, controller, monkeypatch):
    for module in ("app.ui.lanes.lane_flash", "app.ui.lanes.flights"):
        monkeypatch.setattr(f"{module}.motion_wanted", lambda _widget: False)
    flights, views = lanes
    change = changed(state, controller, lambda: swap(controller))
    flights.fly(change, views)
    views[0].flash(change)
    assert not flights.active
    assert not views[0].moving
    assert views[0].cell_rect(0, 0) is not None


def test_stillness_is_the_styles_word(view):
    class Still(type(view.style())):
        def styleHint(self, hint, option=None, widget=None, data=None):  # noqa: N802 - Qt's own name
            return 0

    assert motion.motion_wanted(view) == (
        view.style().styleHint(view.style().StyleHint.SH_Widget_Animation_Duration, None, view) > 0
    )
    still = Still()
    view.setStyle(still)
    assert not motion.motion_wanted(view)
    view.setStyle(None)


def test_flights_let_the_mouse_through_and_are_as_large_as_the_lanes(lanes, state, controller, moving):
    flights, views = lanes
    assert flights.testAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
    flights.fly(changed(state, controller, lambda: swap(controller)), views)
    flights.parentWidget().resize(900, 400)
    assert flights.size() == flights.parentWidget().size()


def test_no_ghost_flies_over_the_words_of_a_drop(lanes, state, controller, moving):
    flights, (gpu, cpu) = lanes
    both = flights.parentWidget()
    flights.fly(changed(state, controller, lambda: swap(controller)), (gpu, cpu))
    flights._timer.stop()
    assert hang(gpu, pack_cells(state.model, {0: (1, 2)}))
    strip = offer_strip(gpu, gpu.drops.offer)
    there = QRect(gpu.viewport().mapTo(both, strip.topLeft()), strip.size())
    flights._places = [(QRectF(there.adjusted(-9, -9, 9, 9)), TO_GPU)]
    seen_over = both.grab(there).toImage()
    around = both.grab(there.adjusted(-6, -6, 6, 6)).toImage()
    flights.hide()
    assert both.grab(there).toImage() == seen_over
    assert both.grab(there.adjusted(-6, -6, 6, 6)).toImage() != around
    leave(gpu)
    assert flights.kept_clear().isEmpty()


def test_what_a_plan_calls_a_lane_tells_its_kind():
    assert [board_kind(lane) for lane in ("CUDA0", "CPU", "disk")] == ["gpu", "cpu", "disk"]


def test_an_expert_that_is_read_from_disk_has_the_colour_of_memory_and_not_that_of_the_gpu(theme):
    controller = ToldController()
    controller.tell({0: make_experts((0,) * 8, memory="ddddrrrr")})
    state = told_state(controller)
    told = make_experts((0,) * 8, lanes="gccccccg", slots=2, memory="drddrrdr")
    change = changed(state, controller, lambda: controller.tell({0: told}))
    ways = dict(zip(change.experts.tolist(), ways_of(state.board, change).tolist(), strict=True))
    # 0: from the disk to the GPU, 1: into memory, 6: out of memory, 7: from memory to the GPU.
    assert ways == {0: TO_GPU, 1: TO_MEMORY, 6: AWAY, 7: TO_GPU}
    colors = theme.colors
    shown = [change_color(colors, going) for going in (TO_GPU, TO_MEMORY, AWAY)]
    assert shown == [colors.gpu, colors.cpu, colors.warning]
