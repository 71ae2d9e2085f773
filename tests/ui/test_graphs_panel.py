"""The graphs dock: what is shown, drawn and sampled, and the way through time."""

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractButton, QApplication, QComboBox, QMainWindow, QWidget
from ui_factories import make_machine

from app.ui.controller import ANSWERING
from app.ui.graphs.dock import GraphsDock
from app.ui.graphs.load_figures import CLOCK, HEAT, LOAD
from app.ui.graphs.panel import GraphsPanel
from app.ui.graphs.specs import COPIED, DECODE, DISK, FAULTS, FILE, GPU, GROUPS, HITS, PROMPT, RAM, SPLIT
from app.ui.graphs.toolbar import SPANS_SECONDS
from app.ui.settings import GRAPHS_HIDDEN, Settings

ALL_OF_ONE_GPU = [f"{GPU}.Vulkan0", DECODE, HITS, RAM, SPLIT, PROMPT, COPIED, FILE, FAULTS, DISK]


@pytest.fixture
def make_panel(make_controller, theme, qtbot):
    made = []

    def make(*arguments, probe=True, **fields):
        controller = make_controller(*arguments)
        if probe:
            with qtbot.waitSignal(controller.machine_changed, timeout=10000):
                controller.probe()
        panel = GraphsPanel(controller, theme, **fields)
        qtbot.addWidget(panel)
        panel.resize(700, 900)
        made.append(panel)
        return panel

    yield make
    for panel in made:
        panel.shutdown()


def keys_of(panel):
    return [plot.spec.key for plot in panel.plots]


def press(panel, key, keys=Qt.KeyboardModifier.NoModifier, *, qtbot):
    qtbot.keyClick(panel.plots[0], key, keys)


# ---- what it costs ----------------------------------------------------------------------------------


def test_a_hidden_dock_makes_nothing_and_measures_nothing(make_controller, theme, qtbot):
    window = QMainWindow()
    qtbot.addWidget(window)
    dock = GraphsDock(make_controller(), theme, window)
    window.addDockWidget(Qt.DockWidgetArea.RightDockWidgetArea, dock)
    dock.hide()
    window.resize(800, 900)
    window.show()
    assert dock.widget() is None
    dock.show()
    panel = dock.content
    qtbot.waitUntil(lambda: panel.recorder.running)
    qtbot.waitUntil(lambda: "available" in panel.plot(RAM).text)
    assert "The engine is not running." in panel.plot(RAM).text
    dock.hide()
    qtbot.waitUntil(lambda: not panel.recorder.running)
    rows = len(panel.recorder.history)
    qtbot.waitUntil(lambda: panel.recorder._sampler is None)
    assert len(panel.recorder.history) == rows
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


def test_the_dock_does_not_need_pyqtgraph(make_panel):
    import subprocess
    import sys

    program = "import sys; import app.ui.graphs.panel; print('pyqtgraph' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_graphs_that_are_hidden_or_out_of_sight_are_not_drawn(hour, qtbot, monkeypatch):
    drawn = []
    for plot in hour._plots.values():
        monkeypatch.setattr(plot, "redraw", lambda *_, key=plot.spec.key: drawn.append(key))
    hour.redraw()
    assert drawn == ALL_OF_ONE_GPU
    drawn.clear()
    hour.toolbar.actions_of[DISK].setChecked(False)
    hour.toolbar.actions_of[SPLIT].setChecked(False)
    drawn.clear()
    hour.recorder.tick()
    hour._recorded()
    assert drawn == [key for key in ALL_OF_ONE_GPU if key not in (DISK, SPLIT)]
    hour.resize(400, 400)
    qtbot.waitUntil(lambda: hour._scroll.verticalScrollBar().maximum() > 0)
    QApplication.processEvents()
    drawn.clear()
    hour._recorded()
    assert drawn
    assert FAULTS not in drawn, "it lies below what is in sight"
    hour._scroll.verticalScrollBar().setValue(hour._scroll.verticalScrollBar().maximum())
    assert FAULTS in drawn


# ---- what is shown ----------------------------------------------------------------------------------


def test_without_a_gpu_the_panel_says_why_and_draws_no_gpu_graph(make_panel):
    panel = make_panel("--no-gpu")
    assert keys_of(panel) == [DECODE, RAM]
    assert "No GPU was found." in panel.no_gpu.text()
    assert panel.no_gpu.isVisibleTo(panel)


def test_every_gpu_of_the_machine_gets_a_graph_when_it_is_known(make_panel, qtbot):
    panel = make_panel(probe=False)
    assert keys_of(panel) == [DECODE, RAM]
    with qtbot.waitSignal(panel.recorder.gpus_changed, timeout=10000):
        panel._controller.probe()
    assert keys_of(panel) == [f"{GPU}.Vulkan0", DECODE, RAM]
    assert not panel.no_gpu.isVisibleTo(panel)


def test_a_graph_appears_when_something_was_measured_for_it(make_panel, qtbot):
    panel = make_panel()
    panel.show()
    assert FAULTS not in keys_of(panel)
    panel.set_active(True)
    qtbot.waitUntil(lambda: FAULTS in keys_of(panel) and DISK in keys_of(panel))
    assert FILE not in keys_of(panel), "no model is loaded"
    assert panel.plot(FAULTS).isVisible()


def test_what_cannot_be_measured_is_named_with_its_reason(loaded_controller, theme, qtbot):
    controller = loaded_controller()
    panel = GraphsPanel(controller, theme)
    qtbot.addWidget(panel)
    panel.show()
    panel.set_active(True)
    qtbot.waitUntil(lambda: "Model file in memory" in panel.missing.text())
    assert "cannot be looked at" in panel.missing.text()
    assert "(not measured)" in panel.toolbar.actions_of[FILE].text()
    assert "cannot be looked at" in panel.toolbar.actions_of[FILE].toolTip()
    panel.toolbar.actions_of[FILE].setChecked(False)
    assert panel.missing.isHidden(), "nobody wants to see it"
    panel.shutdown()


def test_no_answer_is_said_and_not_drawn_as_zero(make_panel, qtbot):
    panel = make_panel()
    panel.show()
    panel.set_active(True)
    qtbot.waitUntil(lambda: panel.plot(DECODE).text == "No answer is running.")


def test_an_answer_without_a_rate_yet_is_not_told_as_none(make_panel, qtbot, monkeypatch):
    panel = make_panel()
    monkeypatch.setattr(type(panel._controller), "state", ANSWERING)
    panel.show()
    panel.set_active(True)
    qtbot.waitUntil(lambda: panel.plot(DECODE).text == "An answer is running; there is no rate of it yet.")


def test_hidden_groups_are_remembered(make_panel, home):
    settings = Settings(home / "settings.json")
    panel = make_panel(settings=settings)
    panel.toolbar.actions_of[GPU].setChecked(False)
    panel.toolbar.actions_of[DISK].setChecked(False)
    assert settings.get(GRAPHS_HIDDEN) == f"{GPU},{DISK},{LOAD},{CLOCK},{HEAT}"
    again = make_panel(settings=Settings(home / "settings.json"))
    assert keys_of(again) == [DECODE, RAM]
    assert GPU not in again.recorder._groups
    again.toolbar.all_action.trigger()
    assert again.toolbar.groups == frozenset(GROUPS)
    assert Settings(home / "settings.json").get(GRAPHS_HIDDEN) == ""


def test_a_setting_with_unknown_names_hides_nothing_else(make_panel, home):
    settings = Settings(home / "settings.json")
    settings.set(GRAPHS_HIDDEN, "nonsense,ram,")
    assert keys_of(make_panel(settings=settings)) == [f"{GPU}.Vulkan0", DECODE]


def test_graphs_stand_in_rows_where_there_is_room(hour, qtbot):
    first, second = hour.plots[:2]
    qtbot.waitUntil(lambda: second.x() > first.x() and second.y() == first.y())
    hour.resize(400, 700)
    qtbot.waitUntil(lambda: second.x() == first.x() and second.y() > first.y())


def test_everything_has_a_name_and_a_place_in_the_tab_order(hour, qtbot):
    reached, widget = set(), hour.toolbar.span_box
    for _ in range(200):
        reached.add(widget)
        widget = widget.nextInFocusChain()
    controls = [*hour.findChildren(QComboBox), *hour.findChildren(QAbstractButton), *hour.plots]
    shown = [each for each in controls if each.isVisibleTo(hour)]
    assert len(shown) >= 4 + len(ALL_OF_ONE_GPU)
    for control in shown:
        named = control.accessibleName() or (control.text() if isinstance(control, QAbstractButton) else "")
        assert named, control
        assert control.focusPolicy() & Qt.FocusPolicy.TabFocus, named
        assert control in reached, named
    places = [hour.plots.index(each) for each in _chain(hour.plots[0]) if each in hour.plots]
    assert places[: len(hour.plots)] == list(range(len(hour.plots)))
    assert hour.accessibleName()
    assert all(plot.accessibleDescription() for plot in hour.plots)


def _chain(widget: QWidget):
    first = widget
    while True:
        yield widget
        widget = widget.nextInFocusChain()
        if widget is first:
            return


# ---- through time -----------------------------------------------------------------------------------


def test_a_paused_picture_holds_still_while_measuring_goes_on(make_panel, qtbot):
    panel = make_panel()
    panel.show()
    panel.set_active(True)
    qtbot.waitUntil(lambda: "available" in panel.plot(RAM).text)
    panel.toolbar.pause_button.click()
    assert panel.toolbar.pause_button.text() == "Live"
    shapes = panel.plot(RAM).canvas.shapes
    measured = len(panel.recorder.history)
    qtbot.waitUntil(lambda: len(panel.recorder.history) >= measured + 2)
    assert panel.plot(RAM).canvas.shapes is shapes
    panel.toolbar.pause_button.click()
    assert panel.toolbar.pause_button.text() == "Pause"
    assert panel.plot(RAM).canvas.shapes is not shapes


def test_the_time_shown_can_be_chosen_and_a_zoomed_one_is_told(hour):
    assert SPANS_SECONDS[-1] == 3600
    for place, seconds in enumerate(SPANS_SECONDS):
        hour.toolbar.span_box.setCurrentIndex(place)
        hour.toolbar.span_box.activated.emit(place)
        assert hour.time_window.span == seconds
    hour.time_window.set_span(42)
    assert hour.toolbar.span_box.currentIndex() == -1
    assert hour.toolbar.span_box.placeholderText() == "Last 42 s"


def test_the_keyboard_goes_through_time(hour, qtbot):
    window = hour.time_window
    now = hour.recorder.now
    press(hour, Qt.Key.Key_Left, qtbot=qtbot)
    assert window.end(now) == pytest.approx(now - 6)
    press(hour, Qt.Key.Key_Right, qtbot=qtbot)
    assert not window.held, "the newest end is live"
    press(hour, Qt.Key.Key_Plus, qtbot=qtbot)
    assert window.span == pytest.approx(48)
    press(hour, Qt.Key.Key_Minus, qtbot=qtbot)
    assert window.span == pytest.approx(60)
    press(hour, Qt.Key.Key_Home, qtbot=qtbot)
    assert window.end(now) == pytest.approx(60)
    press(hour, Qt.Key.Key_End, qtbot=qtbot)
    assert not window.held
    press(hour, Qt.Key.Key_Space, qtbot=qtbot)
    assert window.held
    press(hour, Qt.Key.Key_Space, qtbot=qtbot)
    assert not window.held


def test_the_keyboard_reads_values_of_a_moment(hour, qtbot):
    press(hour, Qt.Key.Key_Left, Qt.KeyboardModifier.ShiftModifier, qtbot=qtbot)
    press(hour, Qt.Key.Key_Left, Qt.KeyboardModifier.ShiftModifier, qtbot=qtbot)
    assert hour.time_window.cursor == pytest.approx(2.4)
    assert all(plot.text.startswith("2 s ago") for plot in hour.plots)
    press(hour, Qt.Key.Key_Right, Qt.KeyboardModifier.ShiftModifier, qtbot=qtbot)
    assert hour.time_window.cursor == pytest.approx(1.2)
    press(hour, Qt.Key.Key_Escape, qtbot=qtbot)
    assert hour.time_window.cursor is None


def test_a_drag_moves_every_graph_and_what_is_dragged_past_now_is_live(hour):
    hour.plots[0].canvas.panned.emit(-120.0)
    end = hour.time_window.end(hour.recorder.now)
    assert end == pytest.approx(hour.recorder.now - 120)
    assert hour.toolbar.pause_button.isChecked()
    assert len({plot.text.split()[0] for plot in hour.plots}) == 1, "all say the same time of day"
    hour.plots[3].canvas.panned.emit(500.0)
    assert not hour.time_window.held


def test_the_graph_of_a_gpu_that_never_had_a_figure_goes_with_it(make_panel, qtbot):
    panel = make_panel()
    assert f"{GPU}.Vulkan0" in keys_of(panel)
    with qtbot.waitSignal(panel.recorder.gpus_changed):
        panel._controller._set_machine(make_machine(gpus=()))
    assert keys_of(panel) == [DECODE, RAM]
