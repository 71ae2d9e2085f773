"""One graph: what it draws, what it says, and what the pointer and the keyboard do to the time."""

from datetime import datetime

import numpy as np
import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QMouseEvent, QWheelEvent
from PySide6.QtWidgets import QApplication

from app.ui.graphs.history import History
from app.ui.graphs.plot import LivePlot
from app.ui.graphs.recorder import CAPACITY
from app.ui.graphs.shapes import shapes_of
from app.ui.graphs.specs import DECODE, RAM, GraphSpec, Line, device_specs, fixed_specs
from app.ui.graphs.time_window import TimeWindow

SPEC = GraphSpec(
    "test",
    "test",
    "GPU memory",
    "GiB",
    (Line("all", "all", lambda colors: colors.graph[0]), Line("engine", "engine", lambda colors: colors.graph[1])),
)
STACK = GraphSpec(
    "stack",
    "stack",
    "Parts",
    "GiB",
    (Line("plan", "plan (predicted)", lambda colors: colors.muted_text, dashed=True),),
    (Line("a", "weights", lambda colors: colors.graph[0]), Line("b", "pool", lambda colors: colors.graph[1])),
)


@pytest.fixture
def make_plot(theme, qtbot):
    def make(spec, history, size=(400, 220), **fields):
        made = LivePlot(spec, history, fields.pop("window", TimeWindow()), theme, **fields)
        qtbot.addWidget(made)
        made.resize(*size)
        made.show()
        return made

    return make


@pytest.fixture
def plot(make_plot):
    """Two lines, 30 seconds long; the second is empty from second 20 on."""
    history = History(100)
    for second in range(31):
        history.append(second, {"all": 2.0 + second / 10, "engine": 1.0 if second < 20 else None})
    made = make_plot(SPEC, history)
    made.redraw(30.0)
    return made


def move_to(plot, seconds_ago, buttons=Qt.MouseButton.NoButton):
    area = plot.canvas.area
    place = QPointF(area.right() - seconds_ago / plot._window.span * area.width(), area.center().y())
    event = QMouseEvent(
        QEvent.Type.MouseMove,
        place,
        QPointF(plot.canvas.mapToGlobal(place)),
        Qt.MouseButton.NoButton,
        buttons,
        Qt.KeyboardModifier.NoModifier,
    )
    QApplication.sendEvent(plot.canvas, event)


def turn_wheel(plot, x=0, y=120, keys=Qt.KeyboardModifier.NoModifier, fraction=1.0):
    area = plot.canvas.area
    place = QPointF(area.left() + fraction * area.width(), area.center().y())
    event = QWheelEvent(
        place,
        QPointF(plot.canvas.mapToGlobal(place)),
        QPoint(),
        QPoint(x, y),
        Qt.MouseButton.NoButton,
        keys,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    QApplication.sendEvent(plot.canvas, event)


def test_a_value_stands_in_text_with_its_unit_and_a_missing_one_does_not(plot):
    assert plot.text == "now all 5.00 GiB"


def test_a_gap_is_drawn_as_a_gap(plot):
    engine = plot.canvas.shapes[1]
    assert np.isnan(engine.upper[-1])
    assert engine.upper[0] == 1.0


def test_the_limit_is_the_full_height_and_is_said(plot):
    plot.redraw(30.0, limit=8.0)
    assert plot.text == "now all 5.00, of 8 GiB"
    assert plot.canvas.top == 8.0


@pytest.mark.parametrize("limit", [4.0, 8.0], ids=["exceeded", "kept"])
def test_the_limit_is_a_line_and_what_goes_beyond_it_is_shown_all_the_same(plot, limit):
    plot.redraw(30.0, limit=limit)
    assert plot.canvas.top > 5.0
    area = plot.canvas.area
    image = plot.canvas.grab().toImage()
    y = round(area.bottom() - limit / plot.canvas.top * area.height())
    strip = {image.pixel(round(area.left()) + 20, y + place) for place in (-1, 0, 1)}
    assert plot._theme.colors.text.rgb() in strip


def test_why_nothing_is_measured_stands_where_the_lines_would_be(make_plot):
    made = make_plot(SPEC, History(5))
    made.redraw(0.0, "The driver says nothing.")
    assert made.text == made.canvas.words == "The driver says nothing."


def test_why_a_value_stopped_is_said_beside_the_older_line(plot):
    plot.redraw(30.0, "The engine has ended.")
    assert plot.text == "now all 5.00 GiB The engine has ended."
    assert plot.canvas.words == ""
    assert plot._note.isVisibleTo(plot)


def test_the_pointer_shows_the_values_of_its_time(plot):
    move_to(plot, 15)
    assert plot.text == "15 s ago all 3.50, engine 1.00 GiB"
    QApplication.sendEvent(plot.canvas, QEvent(QEvent.Type.Leave))
    assert plot.text == "now all 5.00 GiB"


def test_all_graphs_show_the_moment_under_the_pointer_of_one(plot, make_plot):
    other = make_plot(SPEC, plot._history, window=plot._window)
    other.redraw(30.0)
    before = other.canvas.grab().toImage()
    move_to(plot, 20)
    assert other.text == "20 s ago all 3.00, engine 1.00 GiB"
    assert other.canvas.grab().toImage() != before, "the moment is marked"


def test_bands_are_stacked_and_a_part_that_is_nothing_is_not_named(make_plot):
    history = History(20)
    for second in range(10):
        history.append(second, {"a": 2.0, "b": 1.0 if second < 5 else 0.0, "plan": 4.0})
    made = make_plot(STACK, history)
    made.redraw(9.0, limit=8.0)
    lower, upper = made.canvas.shapes[0], made.canvas.shapes[1]
    assert lower.upper[0] == 2.0
    assert (upper.lower[0], upper.upper[0]) == (2.0, 3.0)
    assert made.text == "now weights 2.00, plan (predicted) 4.00, of 8 GiB"


def test_bands_of_an_hour_keep_their_peak(make_plot):
    history = History(CAPACITY)
    for place in range(CAPACITY):
        history.append(place / 5, {"a": 2.0, "b": 5.0 if place == 9000 else 1.0})
    shapes = shapes_of(STACK, history, (CAPACITY - 1) / 5, 3600, 300)
    assert shapes[1].highest == 7.0
    assert len(shapes[1].upper) <= 301


def test_where_nothing_of_a_stack_was_measured_is_a_gap(make_plot):
    history = History(20)
    for second in range(10):
        history.append(second, {"a": None if second == 5 else 2.0, "b": None})
    (band,) = shapes_of(STACK, history, 9.0, 60, 300)
    assert np.isnan(band.upper[5])
    assert band.upper[4] == 2.0


def test_the_picture_of_gaps_and_of_an_hour_can_be_painted(make_plot):
    history = History(CAPACITY)
    for place in range(CAPACITY + 10):
        history.append(
            place / 5, {"all": None if place % 50 == 0 else place % 7, "engine": 3.0 if place == 900 else None}
        )
    made = make_plot(SPEC, history)
    for span in (60, 3600):
        made._window.set_span(span)
        made.redraw((CAPACITY + 9) / 5)
        before = made.grab().toImage()
        made.redraw((CAPACITY + 9) / 5 + 100)
        assert made.grab().toImage() != before


def test_a_figure_between_two_gaps_can_be_seen(make_plot):
    history = History(100)
    for second in range(60):
        history.append(second, {"all": 3.0 if second == 30 else None})
    made = make_plot(SPEC, history)
    made.redraw(59.0)
    image = made.canvas.grab().toImage()
    color = SPEC.lines[0].color(made._theme.colors).rgb()
    found = [(x, y) for x in range(image.width()) for y in range(image.height()) if image.pixel(x, y) == color]
    assert len(found) >= 4


def test_a_look_that_changes_recolours_everything_at_once(plot, theme):
    plot.redraw(30.0)
    before = plot.canvas.grab().toImage()
    theme.force("dark")
    after = plot.canvas.grab().toImage()
    assert after.pixelColor(2, 2) == theme.colors.surface
    assert before.pixelColor(2, 2) != after.pixelColor(2, 2)


def test_the_scales_are_drawn_once_while_they_do_not_change(plot, monkeypatch):
    plot.canvas.grab()
    drawn = []
    real = plot.canvas._paint_grid
    monkeypatch.setattr(plot.canvas, "_paint_grid", lambda *arguments: (drawn.append(1), real(*arguments)))
    for second in range(5):
        plot.redraw(30.0 + second / 5)
        plot.canvas.grab()
    assert drawn == []
    plot._window.set_span(300)
    plot.redraw(30.0)
    plot.canvas.grab()
    assert drawn == [1]


def test_the_wheel_zooms_where_nothing_scrolls_and_with_control_everywhere(plot, make_plot):
    turn_wheel(plot)
    assert plot._window.span == pytest.approx(60 / 1.25)
    scrolled = make_plot(SPEC, plot._history, wheel_zooms=lambda: False)
    turn_wheel(scrolled)
    assert scrolled._window.span == 60
    turn_wheel(scrolled, keys=Qt.KeyboardModifier.ControlModifier, y=-120)
    assert scrolled._window.span == pytest.approx(75)


def test_a_sideways_wheel_and_a_drag_move_the_time(plot, qtbot):
    moved = []
    plot.canvas.panned.connect(moved.append)
    turn_wheel(plot, x=120, y=0)
    turn_wheel(plot, y=-120, keys=Qt.KeyboardModifier.ShiftModifier)
    assert moved == [-6.0, 6.0]
    moved.clear()
    area = plot.canvas.area
    start = QPoint(int(area.left() + 100), int(area.center().y()))
    qtbot.mousePress(plot.canvas, Qt.MouseButton.LeftButton, pos=start)
    move_to(plot, 10, Qt.MouseButton.LeftButton)
    qtbot.mouseRelease(plot.canvas, Qt.MouseButton.LeftButton)
    right = area.right() - 10 / 60 * area.width()
    assert sum(moved) == pytest.approx((start.x() - right) / area.width() * 60)
    moved.clear()
    move_to(plot, 40)
    assert moved == []


def test_a_double_click_is_live_again(plot, qtbot):
    plot._window.hold(20.0)
    qtbot.mouseDClick(plot.canvas, Qt.MouseButton.LeftButton, pos=plot.canvas.area.center().toPoint())
    assert not plot._window.held


def test_a_held_picture_tells_the_time_of_day(make_plot):
    history = History(100)
    for second in range(31):
        history.append(second, {"all": second})
    made = make_plot(SPEC, history, clock_offset=lambda: 1_700_000_000.0)
    made._window.hold(20.0)
    made.redraw(30.0)
    told = datetime.fromtimestamp(1_700_000_020).strftime("%H:%M:%S")  # of this machine, wherever it is
    assert made.text.startswith(told)
    assert "all 20.00 GiB" in made.text


def test_a_click_gives_a_graph_the_keyboard_and_shows_it(plot, qtbot):
    plot.activateWindow()
    plot.clearFocus()
    qtbot.waitUntil(lambda: not plot.hasFocus())
    before = plot.grab().toImage()
    qtbot.mouseClick(plot.canvas, Qt.MouseButton.LeftButton, pos=plot.canvas.area.center().toPoint())
    qtbot.waitUntil(plot.hasFocus)
    after = plot.grab().toImage()
    assert after.pixelColor(0, 0) == plot._theme.colors.accent
    assert before.pixelColor(0, 0) != after.pixelColor(0, 0)


def test_every_graph_names_its_figures_apart():
    specs = [*fixed_specs(), *device_specs("Vulkan0"), *device_specs("CUDA0")]
    keys = [key for spec in specs for key in spec.keys]
    assert len(keys) == len(set(keys))
    for spec in specs:
        named = [line.name for line in (*spec.bands, *spec.lines)]
        assert len(named) == 1 or all(named), f"{spec.title} has several lines and one without a name"
    assert {spec.key for spec in specs} >= {DECODE, RAM}
