"""The graphs dock: what is drawn, what is said, and what it costs while it is hidden."""

import math

import pytest
from PySide6.QtCore import QEvent, QPointF, Qt
from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import QApplication, QMainWindow

from app.ui.graphs.dock import GraphsDock
from app.ui.graphs.panel import SPANS_SECONDS, GraphsPanel
from app.ui.graphs.plot import Line, LivePlot
from app.ui.graphs.recorder import CAPACITY
from app.ui.graphs.ring import RingSeries


@pytest.fixture
def plot(theme, qtbot):
    """A plot of two series, 30 seconds long; the second is empty from second 20 on."""
    used, engine = RingSeries(100), RingSeries(100)
    for second in range(31):
        used.append(second, 2.0 + second / 10)
        engine.append(second, 1.0 if second < 20 else None)
    made = LivePlot("GPU memory", "GiB", ((Line("all", 0), used), (Line("engine", 1), engine)), theme)
    qtbot.addWidget(made)
    made.resize(400, 200)
    made.show()
    made.redraw(30.0)
    return made


@pytest.fixture
def make_panel(make_controller, theme, qtbot):
    made = []

    def make(*arguments, probe=True):
        controller = make_controller(*arguments)
        if probe:
            with qtbot.waitSignal(controller.machine_changed, timeout=10000):
                controller.probe()
        panel = GraphsPanel(controller, theme)
        qtbot.addWidget(panel)
        made.append(panel)
        return panel

    yield make
    for panel in made:
        panel.shutdown()


def shown_color(curve):
    return curve.opts["pen"].color().name()


def test_a_value_stands_in_text_with_its_unit_and_a_missing_one_does_not(plot):
    assert plot.text == "now all 5.00 GiB"


def test_a_gap_is_drawn_as_a_gap(plot):
    _times, values = plot.curves[1].getOriginalDataset()
    assert math.isnan(values[-1])
    assert values[0] == 1.0
    assert plot.curves[1].opts["connect"] == "finite"


def test_lines_are_thin_not_smoothed_clipped_and_thinned_out(plot):
    for curve in plot.curves:
        assert curve.opts["pen"].width() == 1
        assert curve.opts["antialias"] is False
        assert curve.opts["clipToView"] is True
        assert curve.opts["downsampleMethod"] == "peak"
        assert curve.opts["autoDownsample"] is True


def test_the_picture_of_a_gap_and_of_many_samples_can_be_painted(theme, qtbot):
    series = RingSeries(CAPACITY)
    for place in range(CAPACITY + 10):
        series.append(place / 5, None if place % 50 == 0 else float(place % 7))
    made = LivePlot("Speed", "tokens/s", ((Line("", 0), series),), theme)
    qtbot.addWidget(made)
    made.resize(400, 200)
    made.set_span(600)
    made.redraw((CAPACITY + 9) / 5)
    before = made.grab().toImage()
    made.redraw((CAPACITY + 9) / 5 + 100)
    assert made.grab().toImage() != before


def test_the_limit_is_the_full_height_and_is_said(plot):
    plot.set_limit(8.0)
    plot.redraw(30.0)
    assert plot.text == "now all 5.00, of 8.0 GiB"
    assert plot._plot.getViewBox().viewRange()[1] == [0, 8.0]


def test_why_nothing_is_measured_stands_where_the_lines_would_be(theme, qtbot):
    made = LivePlot("GPU memory", "GiB", ((Line("all", 0), RingSeries(5)),), theme)
    qtbot.addWidget(made)
    made.redraw(0.0, "The driver says nothing.")
    assert made.text == "The driver says nothing."
    assert made._missing.isVisibleTo(made)


def test_why_a_value_stopped_is_said_beside_the_older_line(plot):
    plot.redraw(30.0, "The engine has ended.")
    assert plot.text == "now all 5.00 GiB The engine has ended."
    assert not plot._missing.isVisibleTo(plot)
    assert plot._note.isVisibleTo(plot)


def test_the_pointer_shows_the_values_of_its_time(plot, qtbot):
    box = plot._plot.getViewBox()
    place = plot._plot.mapFromScene(box.mapViewToScene(QPointF(-15.0, 1.0)))
    buttons = Qt.MouseButton.NoButton
    view = plot._plot.viewport()
    move = QMouseEvent(
        QEvent.Type.MouseMove,
        QPointF(place),
        QPointF(view.mapToGlobal(place)),
        buttons,
        buttons,
        Qt.KeyboardModifier.NoModifier,
    )
    QApplication.sendEvent(view, move)
    assert plot.text == "15 s ago all 3.50, engine 1.00 GiB"
    QApplication.sendEvent(view, QEvent(QEvent.Type.Leave))
    assert plot.text == "now all 5.00 GiB"


def test_a_look_that_changes_recolours_everything_at_once(plot, theme):
    before = [shown_color(curve) for curve in plot.curves]
    theme.force("dark")
    after = [shown_color(curve) for curve in plot.curves]
    assert after == [theme.colors.graph[0].name(), theme.colors.graph[1].name()]
    assert before != after
    assert plot._plot.backgroundBrush().color() == theme.colors.surface


def test_a_hidden_dock_makes_nothing_and_measures_nothing(make_controller, theme, qtbot):
    window = QMainWindow()
    qtbot.addWidget(window)
    dock = GraphsDock(make_controller(), theme, window)
    window.addDockWidget(Qt.DockWidgetArea.RightDockWidgetArea, dock)
    dock.hide()
    window.show()
    assert dock.widget() is None
    dock.show()
    panel = dock.content
    qtbot.waitUntil(lambda: panel.recorder.running)
    qtbot.waitUntil(lambda: "available" in panel.ram_plot.text)
    assert "The engine is not running." in panel.ram_plot.text
    dock.hide()
    qtbot.waitUntil(lambda: not panel.recorder.running)
    dock.shutdown()


def test_a_dock_behind_another_tab_does_not_measure(make_controller, theme, qtbot):
    window = QMainWindow()
    qtbot.addWidget(window)
    controller = make_controller()
    first, second = GraphsDock(controller, theme, window), GraphsDock(controller, theme, window)
    for dock in (first, second):
        window.addDockWidget(Qt.DockWidgetArea.RightDockWidgetArea, dock)
    window.tabifyDockWidget(first, second)
    window.show()
    first.raise_()
    qtbot.waitUntil(lambda: first.content.recorder.running)
    second.raise_()
    qtbot.waitUntil(lambda: second.content.recorder.running and not first.content.recorder.running)
    for dock in (first, second):
        dock.shutdown()


def test_without_a_gpu_the_panel_says_why_and_draws_no_gpu_graph(make_panel):
    panel = make_panel("--no-gpu")
    assert panel.plots == [panel.ram_plot, panel.rate_plot, panel.hit_plot]
    assert "No GPU was found." in panel.no_gpu.text()
    assert panel.no_gpu.isVisibleTo(panel)


def test_every_gpu_of_the_machine_gets_a_graph_when_it_is_known(make_panel, qtbot):
    panel = make_panel(probe=False)
    assert list(panel.gpu_plots) == []
    with qtbot.waitSignal(panel.recorder.gpus_changed, timeout=10000):
        panel._controller.probe()
    assert list(panel.gpu_plots) == ["Vulkan0"]
    assert not panel.no_gpu.isVisibleTo(panel)


def test_a_paused_picture_holds_still_while_measuring_goes_on(make_panel, qtbot):
    panel = make_panel()
    panel.set_active(True)
    qtbot.waitUntil(lambda: "available" in panel.ram_plot.text)
    panel.pause_button.click()
    drawn = len(panel.ram_plot.curves[1].getOriginalDataset()[0])
    measured = len(panel.recorder.available_ram)
    qtbot.waitUntil(lambda: len(panel.recorder.available_ram) >= measured + 2)
    assert len(panel.ram_plot.curves[1].getOriginalDataset()[0]) == drawn
    panel.pause_button.click()
    assert len(panel.ram_plot.curves[1].getOriginalDataset()[0]) >= measured + 2


def test_the_time_shown_can_be_chosen(make_panel):
    panel = make_panel()
    panel.span_box.setCurrentIndex(2)
    for plot in panel.plots:
        assert plot._plot.getViewBox().viewRange()[0] == [-SPANS_SECONDS[2], 0]


def test_no_answer_is_said_and_not_drawn_as_zero(make_panel):
    panel = make_panel()
    panel.recorder.tokens_per_second.append(panel.recorder.now, None)
    panel._redraw()
    assert panel.rate_plot.text == "No answer is running."


def test_graphs_stand_side_by_side_where_there_is_room(make_panel, qtbot):
    panel = make_panel()
    panel.resize(1200, 300)
    panel.show()
    ram, rate = panel.ram_plot, panel.rate_plot
    qtbot.waitUntil(lambda: rate.x() > ram.x() and rate.y() == ram.y())
    panel.resize(400, 700)
    qtbot.waitUntil(lambda: rate.x() == ram.x() and rate.y() > ram.y())


def test_names_are_there_for_screen_readers(make_panel):
    panel = make_panel()
    assert panel.accessibleName()
    assert panel.span_box.accessibleName()
    for plot in panel.plots:
        assert plot.accessibleName()
