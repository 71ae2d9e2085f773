"""Why a graph has no value: what is said now, and of a moment in the past that the pointer is at."""

import numpy as np
import pytest
from controller_driver import PATIENCE
from memory_driver import load_mapped

from app.errors import AppError, ErrorCode
from app.ui.graphs.absences import OF_ANSWERS, Absences, engine_reasons
from app.ui.graphs.cache_rates import COLD, HITS, RESIDENT, STALL
from app.ui.graphs.panel import GraphsPanel
from app.ui.graphs.specs import DECODE, GROUPS, RAM, SPLIT

HALF = ("--memory-mib", 16)


@pytest.fixture
def make_panel(loaded_controller, theme, qtbot):
    """A shown panel that measures, over experts that stay in the file."""
    made = []

    def make(*arguments, **wishes):
        controller = load_mapped(loaded_controller(*arguments), qtbot, **wishes)
        panel = GraphsPanel(controller, theme)
        qtbot.addWidget(panel)
        panel.resize(700, 900)
        panel.show()
        panel.set_active(True)
        made.append(panel)
        return panel

    yield make
    for panel in made:
        panel.shutdown()


def point_at_a_gap(panel, key):
    """Hold the picture and point at the newest row that has no figure; what the graph says then."""
    history, window = panel.recorder.history, panel.time_window
    gap = float(history.times[np.flatnonzero(np.isnan(history.column(key)))[-1]])
    window.hold(panel.recorder.now)
    window.point_at(window.end(panel.recorder.now) - gap)
    return panel.plot(key).text


# ---- what was said, and when --------------------------------------------------------------------


def test_words_hold_from_when_they_were_said_until_others_are():
    absences = Absences(3600)
    assert absences.at("file", 5.0) == ""
    absences.tell(10.0, {"file": "No model is loaded.", "ram": ""})
    absences.tell(20.0, {"file": "", "ram": "The engine is not running."})
    absences.tell(30.0, {"ram": "The engine is not running."})
    assert [absences.at("file", when) for when in (9.9, 10.0, 19.9, 20.0, 99.0)] == [
        "",
        "No model is loaded.",
        "No model is loaded.",
        "",
        "",
    ]
    assert absences.at("ram", 25.0) == "The engine is not running."


def test_what_was_said_before_the_hour_is_kept_only_where_it_still_holds_in_it():
    absences = Absences(100)
    for when in range(0, 1000, 10):
        absences.tell(float(when), {"decode": str(when), "file": "The file cannot be looked at."})
    assert absences.at("decode", 894.0) == "890"
    assert absences.at("decode", 100.0) == ""
    assert len(absences._told["decode"]) <= 12
    assert absences.at("file", 950.0) == "The file cannot be looked at."


# ---- what the engine does not tell --------------------------------------------------------------


def test_without_a_model_nothing_is_in_memory_and_no_answer_runs(make_controller):
    reasons = engine_reasons(make_controller())
    assert reasons[RESIDENT] == "No model is loaded."
    assert {reasons[group] for group in OF_ANSWERS} == {"No answer is running."}


@pytest.mark.parametrize(
    ("wishes", "words"),
    [
        ({}, ""),
        ({"budget": 0}, "The system decides which experts of the file stay in memory."),
        ({"residency": "repacked"}, "The experts were copied into the processor's faster layout"),
    ],
)
def test_what_is_in_memory_or_why_nobody_tells(make_panel, qtbot, wishes, words):
    controller = make_panel(*HALF, **wishes)._controller
    qtbot.waitUntil(lambda: controller.cache.facts is not None, timeout=PATIENCE)
    reasons = engine_reasons(controller)
    assert reasons[RESIDENT].startswith(words)
    assert bool(reasons[RESIDENT]) == bool(words)
    for group in (COLD, STALL):
        assert reasons[group] == (reasons[RESIDENT] or "No answer is running.")
    assert reasons[HITS] == "The engine has no pool of experts on a GPU."


def test_an_expert_device_that_is_off_is_told_where_its_figures_would_be(make_panel):
    reasons = engine_reasons(make_panel(*HALF, "--no-expert-device", "It was not built.")._controller)
    for group in (HITS, COLD, STALL, SPLIT):
        assert reasons[group] == "The expert device is off: It was not built."
    assert "It was not built." in reasons[RESIDENT]
    assert reasons[DECODE] == "No answer is running."


# ---- gaps ---------------------------------------------------------------------------------------


def test_the_gap_of_hidden_graphs_says_so_under_the_pointer(make_panel, qtbot):
    panel = make_panel(*HALF)
    history = panel.recorder.history
    qtbot.waitUntil(lambda: history.latest(RESIDENT) is not None, timeout=PATIENCE)
    panel.set_active(False)
    assert history.latest(RESIDENT) is None, "the gap begins when they are hidden"
    hidden = "The graphs were hidden: nothing was measured."
    assert point_at_a_gap(panel, RESIDENT).endswith(hidden)
    assert panel.plot(RESIDENT).canvas._cursor_words == hidden
    panel.time_window.go_live()
    panel.time_window.point_at(None)
    panel.set_active(True)
    qtbot.waitUntil(lambda: history.latest(RESIDENT) is not None, timeout=PATIENCE)
    panel.redraw()
    assert panel.plot(RESIDENT).text.startswith("now ")
    assert panel.plot(RESIDENT).canvas._cursor_words == ""
    gaps = history.times[np.isnan(history.column(RESIDENT))].tolist()
    assert gaps
    assert all(panel.recorder.why_at(panel.plot(RESIDENT).spec, gap) for gap in gaps)


def test_the_gap_of_an_engine_that_is_gone_says_so_now_and_later(make_panel, qtbot):
    panel = make_panel(*HALF)
    history = panel.recorder.history
    qtbot.waitUntil(lambda: history.latest(RESIDENT) is not None, timeout=PATIENCE)
    panel._controller.engine_watch.end(AppError(ErrorCode.ENGINE_FAILED, "It hangs."))
    qtbot.waitUntil(lambda: panel.plot(RESIDENT).text == "No model is loaded.", timeout=PATIENCE)
    assert panel.plot(RESIDENT).canvas.words == "", "the older line is still in the picture"
    assert point_at_a_gap(panel, RESIDENT).endswith("No model is loaded.")


def test_a_graph_that_was_hidden_says_so_of_what_was_not_measured_for_it(make_panel, qtbot):
    panel = make_panel(*HALF)
    recorder = panel.recorder
    qtbot.waitUntil(lambda: recorder.history.latest(RESIDENT) is not None, timeout=PATIENCE)
    panel.toolbar.actions_of[RAM].setChecked(False)
    rows = len(recorder.history)
    qtbot.waitUntil(lambda: len(recorder.history) > rows + 1, timeout=PATIENCE)
    spec = panel.plot(RAM).spec
    assert recorder.why_at(spec, recorder.now) == "This graph was hidden: nothing was measured for it."
    panel.toolbar.actions_of[RAM].setChecked(True)
    rows = len(recorder.history)
    qtbot.waitUntil(lambda: len(recorder.history) > rows + 1, timeout=PATIENCE)
    assert "hidden" not in recorder.why_at(spec, recorder.now)
    assert set(panel.toolbar.groups) <= set(GROUPS)


def test_a_stretch_of_the_past_without_any_figure_says_why_where_the_lines_would_be(make_panel, qtbot):
    panel = make_panel(*HALF, residency="repacked")
    recorder, plot = panel.recorder, panel.plot(RESIDENT)
    qtbot.waitUntil(lambda: "copied" in recorder.why(plot.spec), timeout=PATIENCE)
    panel.time_window.hold(recorder.now)
    plot.show()
    plot.redraw(recorder.now, recorder.why(plot.spec))
    assert plot.canvas.words.startswith("The experts were copied into the processor's faster layout")
