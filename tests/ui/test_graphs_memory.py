"""The graphs of the main-memory tier: there when the engine tells of it, measured, and free while hidden."""

import pytest
from memory_driver import MIB, load_mapped

from app.ui.graphs.cache_rates import COLD, RESIDENT, RESIDENT_BUDGET, STALL
from app.ui.graphs.panel import GraphsPanel
from app.ui.graphs.specs import OF_CACHE, RAM, fixed_specs, group_titles
from app.ui.live_plan import MemoryBudget

GROUPS = (RESIDENT, COLD, STALL)
PATIENCE = 10_000


@pytest.fixture
def make_panel(loaded_controller, theme, qtbot):
    """`make_panel(**of_the_plan)`: a shown panel that measures; the answers go on until they are stopped."""
    made = []

    def make(**wishes):
        controller = loaded_controller("--memory-mib", 16, "--tokens", 100_000, "--token-ms", 5)
        load_mapped(controller, qtbot, **wishes)
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


def shown(panel):
    return [plot.spec.key for plot in panel.plots]


def test_share_reads_and_waiting_are_drawn_while_an_answer_runs(make_panel, qtbot):
    panel = make_panel()
    controller = panel._controller
    controller.ask("Hello?")
    history = panel.recorder.history
    qtbot.waitUntil(lambda: set(GROUPS) <= set(shown(panel)), timeout=PATIENCE)
    qtbot.waitUntil(lambda: history.latest(RESIDENT) == 50, timeout=PATIENCE)  # 16 of 32 MiB
    assert history.latest(RESIDENT_BUDGET) == 50
    assert history.latest(COLD) > 0
    assert 0 < history.latest(STALL) < 100
    assert "in memory or being read 50" in panel.plot(RESIDENT).text
    controller.stop()
    qtbot.waitUntil(lambda: history.latest(COLD) is None, timeout=PATIENCE)
    panel.redraw(everything=True)
    assert "No answer is running." in panel.plot(COLD).text
    assert history.latest(RESIDENT) == 50  # what is in memory stays there


def test_what_is_in_memory_is_asked_for_between_answers_too_while_its_graph_is_seen(make_panel, qtbot, monkeypatch):
    monkeypatch.setattr("app.ui.graphs.cache_rates.LOOK_SECONDS", 0.2)
    panel = make_panel()
    cache, recorder = panel._controller.cache, panel.recorder
    qtbot.waitUntil(lambda: recorder.history.latest(RESIDENT) == 0, timeout=PATIENCE)
    qtbot.waitUntil(lambda: not cache.polling, timeout=PATIENCE)
    before = cache.facts
    qtbot.waitUntil(lambda: cache.facts is not before, timeout=PATIENCE)
    looks = []
    monkeypatch.setattr(cache, "look", lambda: looks.append(1))
    recorder.set_groups((COLD,))
    rows = len(recorder.history)
    qtbot.waitUntil(lambda: len(recorder.history) > rows + 3, timeout=PATIENCE)
    assert not looks


def test_a_smaller_budget_is_seen_in_the_graph(make_panel, qtbot):
    panel = make_panel(budget=16 * MIB)
    panel._controller.ask("Hello?")
    history = panel.recorder.history
    qtbot.waitUntil(lambda: history.latest(RESIDENT) == 50, timeout=PATIENCE)
    panel._controller.cache.set_memory(MemoryBudget(8 * MIB))
    qtbot.waitUntil(lambda: history.latest(RESIDENT) == 25, timeout=PATIENCE)
    panel._controller.stop()


def test_copied_experts_have_no_such_graphs(make_panel, qtbot):
    panel = make_panel(residency="repacked")
    panel._controller.ask("Hello?")
    qtbot.waitUntil(lambda: "split" in shown(panel), timeout=PATIENCE)
    assert not set(GROUPS) & set(shown(panel))
    panel._controller.stop()


def test_hidden_they_have_nothing_read_for_them(make_panel):
    panel = make_panel()
    recorder, watchers = panel.recorder, panel._controller.cache._watchers
    assert recorder in watchers
    recorder.set_groups((RAM,))
    assert recorder not in watchers
    for group in GROUPS:
        assert group in OF_CACHE
        recorder.set_groups((group,))
        assert recorder in watchers
        assert recorder.wanted == frozenset()  # no sample of the machine


def test_each_has_a_title_a_unit_and_says_what_it_is():
    specs = {spec.key: spec for spec in fixed_specs() if spec.group in GROUPS}
    assert set(specs) == set(GROUPS)
    assert all(spec.title and spec.unit and spec.about.endswith(".") for spec in specs.values())
    assert [group_titles()[group] for group in GROUPS] == [
        "Experts in main memory",
        "Reads from disk a token",
        "Waiting for the disk",
    ]
