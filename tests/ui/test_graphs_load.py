"""Graphs of load, clocks, heat and power: figures of a row, words for what is missing, and which graphs appear."""

import csv
import io

import pytest

from app.hardware.cores import EFFICIENCY, PERFORMANCE
from app.hardware.cpu_load import FIRST
from app.hardware.samples import CPU_LOAD, GPU_LOAD, CoreLoad, CpuLoad, GpuLoad, Sample
from app.ui.graphs.export import csv_text, table_of
from app.ui.graphs.load_figures import CLOCK, HEAT, LOAD, POWER, load_figures, load_reasons
from app.ui.graphs.panel import GraphsPanel
from app.ui.graphs.recorder import Recorder
from app.ui.graphs.specs import RAM
from app.ui.settings import Settings

DEVICE = "Vulkan0"
NO_CLOCK = "The kernel does not tell the processor's clock here."
CPU = CpuLoad(
    kinds=(
        CoreLoad(name="", busy_percent=40.0),
        CoreLoad(name=PERFORMANCE, busy_percent=75.0),
        CoreLoad(name=EFFICIENCY, busy_percent=5.0),
    ),
    reasons={"clock_mhz": NO_CLOCK},
)
HOT_CARD = GpuLoad(
    device=DEVICE,
    busy_percent=97.0,
    core_mhz=1200.0,
    core_max_mhz=2100.0,
    celsius=88.0,
    throttled=("temperature", "power limit"),
    source="a test",
    reasons={"memory_mhz": "No memory clock.", "memory_max_mhz": "No memory clock.", "watts": "No power."},
)
MEASURED = Sample(time_seconds=1.0, cpu=CPU, gpu_loads=(HOT_CARD,))


class LoadSampler:
    """Stands where the machine's sampler would; what is not wanted is not told."""

    def __init__(self, answer, wanted):
        self.answer, self.wanted = answer, wanted

    def sample(self, wanted):
        self.wanted.append(wanted)
        cpu = self.answer.cpu if CPU_LOAD in wanted else None
        return Sample(time_seconds=1.0, cpu=cpu, gpu_loads=self.answer.gpu_loads if GPU_LOAD in wanted else ())

    def close(self):
        pass


@pytest.fixture
def make_panel(make_controller, theme, qtbot, home):
    """A panel of a probed machine whose samples are `answer`."""
    made = []

    def make(answer=MEASURED, shown=(LOAD, CLOCK, HEAT), settings=None):
        controller = make_controller()
        with qtbot.waitSignal(controller.machine_changed, timeout=10000):
            controller.probe()
        wanted = []
        recorder = Recorder(controller, make_sampler=lambda *_: LoadSampler(answer, wanted))
        panel = GraphsPanel(controller, theme, recorder=recorder, settings=settings)
        panel.asked = wanted
        qtbot.addWidget(panel)
        panel.resize(700, 900)
        if settings is None:
            for group, action in panel.toolbar.actions_of.items():
                action.setChecked(group in shown)
        panel.show()
        panel.set_active(True)
        made.append(panel)
        return panel

    yield make
    for panel in made:
        panel.shutdown()


def keys_of(panel):
    return [plot.spec.key for plot in panel.plots]


def test_a_row_has_every_figure_in_its_unit_and_gaps_for_what_is_missing():
    figures = load_figures(MEASURED)
    assert {key: value for key, value in figures.items() if value is not None} == {
        "load.cpu.all": 40.0,
        "load.cpu.performance": 75.0,
        "load.cpu.efficiency": 5.0,
        f"load.{DEVICE}.busy": 97.0,
        f"load.{DEVICE}.throttled": 100.0,
        f"clock.{DEVICE}.core": 1200.0,
        f"clock.{DEVICE}.core-most": 2100.0,
        f"heat.{DEVICE}": 88.0,
    }
    assert figures[f"power.{DEVICE}"] is None


@pytest.mark.parametrize(("throttled", "figure"), [((), 0.0), (None, None)])
def test_a_card_that_runs_freely_is_told_apart_from_one_that_nobody_knows_of(throttled, figure):
    card = GpuLoad(device=DEVICE, source="a test", throttled=throttled)
    assert load_figures(Sample(time_seconds=1.0, gpu_loads=(card,)))[f"load.{DEVICE}.throttled"] == figure


def test_throttling_and_what_is_missing_are_said_in_words():
    reasons = load_reasons(MEASURED)
    throttled = "The driver keeps its clock down: temperature, power limit."
    assert reasons[f"{LOAD}.{DEVICE}"] == throttled
    assert reasons[f"{CLOCK}.{DEVICE}"] == f"{throttled} No memory clock."
    assert reasons[f"{POWER}.{DEVICE}"] == "No power."
    assert reasons[f"{HEAT}.{DEVICE}"] == ""
    assert (reasons[LOAD], reasons[CLOCK]) == ("", NO_CLOCK)


def test_that_a_first_sample_has_no_load_is_not_worth_words():
    first = CpuLoad(kinds=(CoreLoad(name=""),), reasons={"busy_percent": FIRST, "clock_mhz": FIRST})
    assert load_reasons(Sample(time_seconds=1.0, cpu=first)) == {LOAD: "", CLOCK: ""}


def test_only_graphs_that_something_was_measured_for_appear(make_panel, qtbot):
    panel = make_panel()
    wanted = [LOAD, f"{LOAD}.{DEVICE}", f"{CLOCK}.{DEVICE}", f"{HEAT}.{DEVICE}"]
    qtbot.waitUntil(lambda: keys_of(panel) == wanted)
    qtbot.waitUntil(lambda: "performance cores 75" in panel.plot(LOAD).text)
    card = panel.plot(f"{LOAD}.{DEVICE}")
    assert "busy 97" in card.text
    assert "keeps its clock down: temperature" in card.text
    panel.redraw(everything=True)
    band, line = card.canvas.shapes
    assert (band.highest, line.highest) == (100.0, 97.0)
    assert band.lower is not None, "throttling is a band behind the line of load"
    assert panel.asked[-1] == {CPU_LOAD, GPU_LOAD}


def test_they_are_hidden_at_first_and_then_nothing_of_them_is_read(make_panel, home, qtbot):
    panel = make_panel(settings=Settings(home / "settings.json"))
    qtbot.waitUntil(lambda: len(panel.recorder.history) > 2)
    assert not panel.toolbar.groups & {LOAD, CLOCK, HEAT}
    assert RAM in panel.toolbar.groups
    assert not any({CPU_LOAD, GPU_LOAD} & wanted for wanted in panel.asked)


def test_heat_alone_does_not_read_the_processor(make_panel, qtbot):
    panel = make_panel(shown=(HEAT,))
    qtbot.waitUntil(lambda: keys_of(panel) == [f"{HEAT}.{DEVICE}"])
    assert panel.asked[-1] == {GPU_LOAD}


def test_the_table_has_them_with_their_units(make_panel, qtbot):
    panel = make_panel()
    qtbot.waitUntil(lambda: f"{HEAT}.{DEVICE}" in panel.recorder.history.keys)
    table = table_of(panel.recorder.history, [plot.spec for plot in panel._in_order()], 0.0)
    head, *rows = csv.reader(io.StringIO(csv_text(table)))
    assert head[2:] == [
        "CPU load: all threads (%)",
        "CPU load: performance cores (%)",
        "CPU load: efficiency cores (%)",
        f"GPU load · {DEVICE}: throttled (%)",
        f"GPU load · {DEVICE}: busy (%)",
        f"GPU clock · {DEVICE}: core (MHz)",
        f"GPU clock · {DEVICE}: core at most (MHz)",
        f"GPU temperature · {DEVICE} (°C)",
    ]
    assert rows[-1][2:] == ["40", "75", "5", "100", "97", "1200", "2100", "88"]


def test_a_machine_whose_drivers_tell_nothing_shows_no_graph_of_them(make_panel, qtbot):
    silent = GpuLoad(device=DEVICE, source="a test", reasons={"celsius": "It does not tell."})
    panel = make_panel(Sample(time_seconds=1.0, cpu=CPU, gpu_loads=(silent,)))
    qtbot.waitUntil(lambda: keys_of(panel) == [LOAD])
    assert panel.recorder.reasons[HEAT] == "It does not tell."
