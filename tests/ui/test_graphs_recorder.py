"""The recorder: what it measures, when, and on which thread."""

import math
import threading

import msgspec
import numpy as np
import pytest

from app.engine import protocol
from app.errors import AppError, ErrorCode
from app.hardware.sampling import GpuSample, Sample
from app.placement.planner import with_lanes
from app.ui.graphs.panel import GraphsPanel
from app.ui.graphs.recorder import Recorder

GIB = 1024**3


class FakeSampler:
    """Stands where the machine's sampler would; `now` is its clock."""

    made: "list[FakeSampler]"

    def __init__(self, pid, gpus, *, hold=None, error=None, sample=None):
        self.pid, self.gpus = pid, gpus
        self.hold, self.error, self.answer = hold, error, sample
        self.threads = []
        self.closed = False

    def sample(self):
        assert not self.closed
        self.threads.append(threading.get_ident())
        if self.hold is not None:
            assert self.hold.wait(10)
        if self.error is not None:
            raise self.error
        return self.answer or Sample(
            time_seconds=1.0,
            engine_rss_bytes=3 * GIB,
            engine_major_faults=0,
            ram_available_bytes=9 * GIB,
            gpus=tuple(
                GpuSample(
                    device=gpu.device,
                    used_bytes=2 * GIB,
                    total_bytes=8 * GIB,
                    process_bytes=None,
                    source="a test",
                    missing="Nobody says what the engine uses.",
                )
                for gpu in self.gpus
            ),
        )

    def close(self):
        assert not self.closed
        self.closed = True


@pytest.fixture
def make_recorder(qtbot):
    made = []

    def make(controller, **behaviour):
        samplers = []

        def make_sampler(pid, gpus):
            samplers.append(FakeSampler(pid, gpus, **behaviour))
            return samplers[-1]

        recorder = Recorder(controller, make_sampler=make_sampler)
        recorder.samplers = samplers
        made.append(recorder)
        return recorder

    yield make
    for recorder in made:
        recorder.shutdown()


@pytest.fixture
def probed(make_controller, qtbot):
    """A controller that knows its machine; its engine runs."""

    def make(*arguments):
        controller = make_controller(*arguments)
        with qtbot.waitSignal(controller.machine_changed, timeout=10000):
            controller.probe()
        return controller

    return make


def test_nothing_is_measured_before_the_start(make_controller, make_recorder):
    recorder = make_recorder(make_controller())
    assert not recorder.running
    assert recorder.samplers == []
    assert len(recorder.engine_ram) == 0


def test_values_are_kept_in_gib_and_what_is_missing_is_a_gap_with_words(probed, make_recorder, qtbot):
    recorder = make_recorder(probed())
    recorder.start()
    qtbot.waitUntil(lambda: len(recorder.engine_ram) > 0)
    assert recorder.engine_ram.latest == 3.0
    assert recorder.available_ram.latest == 9.0
    gpu = recorder.gpus["Vulkan0"]
    assert gpu.used.latest == 2.0
    assert gpu.total_gib == 8.0
    assert len(gpu.process) == 1
    assert gpu.process.latest is None
    assert gpu.missing == "Nobody says what the engine uses."
    assert recorder.tokens_per_second.latest is None


def test_measuring_happens_off_the_ui_thread(probed, make_recorder, qtbot):
    recorder = make_recorder(probed())
    recorder.start()
    qtbot.waitUntil(lambda: len(recorder.engine_ram) > 1)
    assert threading.get_ident() not in recorder.samplers[0].threads


def test_an_engine_that_does_not_run_is_said_and_not_drawn_as_zero(make_controller, make_recorder, qtbot):
    recorder = make_recorder(make_controller())
    recorder.start()
    qtbot.waitUntil(lambda: len(recorder.engine_ram) > 0)
    assert recorder.engine_ram.latest is None
    assert recorder.ram_missing == "The engine is not running."
    assert recorder.available_ram.latest == 9.0


def test_a_slow_driver_makes_fewer_samples_and_never_a_queue_of_them(probed, make_recorder, qtbot):
    hold = threading.Event()
    recorder = make_recorder(probed(), hold=hold)
    started = []
    run = recorder._background.run
    recorder._background.run = lambda function: started.append(function) or run(function)
    recorder.start()
    qtbot.waitUntil(lambda: len(recorder.tokens_per_second) >= 4)
    assert len(started) == 1
    assert len(recorder.engine_ram) == 0
    hold.set()
    qtbot.waitUntil(lambda: len(recorder.engine_ram) >= 1)


def test_stopping_releases_the_sources_and_starting_again_leaves_a_gap(probed, make_recorder, qtbot):
    recorder = make_recorder(probed())
    recorder.start()
    qtbot.waitUntil(lambda: len(recorder.engine_ram) > 0)
    recorder.stop()
    assert not recorder.running
    qtbot.waitUntil(lambda: recorder.samplers[0].closed)
    kept = len(recorder.engine_ram)
    recorder.start()
    assert recorder.engine_ram.latest is None
    qtbot.waitUntil(lambda: recorder.engine_ram.latest is not None)
    assert len(recorder.engine_ram) >= kept + 2
    assert len(recorder.samplers) == 2


def test_another_engine_process_gets_another_sampler(probed, make_recorder, qtbot):
    controller = probed()
    recorder = make_recorder(controller)
    recorder.start()
    qtbot.waitUntil(lambda: len(recorder.engine_ram) > 0)
    first = controller.engine.pid
    with qtbot.waitSignal(controller.engine.ended, timeout=10000):
        controller.engine.stop()
    controller.probe()
    qtbot.waitUntil(lambda: controller.engine.pid not in (0, first))
    second = controller.engine.pid
    qtbot.waitUntil(lambda: recorder.samplers[-1].pid == second and bool(recorder.samplers[-1].threads))
    assert recorder.samplers[0].pid == first
    assert all(sampler.closed for sampler in recorder.samplers[:-1])
    assert not recorder.samplers[-1].closed


def test_a_failure_to_measure_is_told_and_the_next_sample_is_tried(probed, make_recorder, qtbot):
    recorder = make_recorder(probed(), error=AppError(ErrorCode.ENGINE_FAILED, "The sensors sleep."))
    recorder.start()
    qtbot.waitUntil(lambda: len(recorder.samplers[0].threads) >= 2 if recorder.samplers else False)
    qtbot.waitUntil(lambda: recorder.ram_missing == "The sensors sleep.")
    assert recorder.gpus["Vulkan0"].missing == "The sensors sleep."
    assert len(recorder.engine_ram) == 0


def test_speed_is_measured_while_answering_and_absent_when_idle(loaded_controller, make_recorder, qtbot):
    controller = loaded_controller("--tokens", 60, "--token-ms", 20)
    recorder = make_recorder(controller)
    recorder.start()
    arrivals = []
    controller.engine.event.connect(
        lambda event: arrivals.append(recorder.now) if isinstance(event, protocol.Token) else None
    )
    with qtbot.waitSignal(controller.finished, timeout=20000):
        controller.ask("How fast are you?")
    measured = [value for value in recorder.tokens_per_second.values.tolist() if not math.isnan(value)]
    real = (len(arrivals) - 1) / (arrivals[-1] - arrivals[0])
    assert measured
    assert max(measured) < 3 * real
    assert sorted(measured)[len(measured) // 2] == pytest.approx(real, rel=0.5)
    qtbot.waitUntil(lambda: recorder.tokens_per_second.latest is None)


def test_one_surprise_in_the_sampler_does_not_end_the_graphs(make_recorder, probed, qtbot, caplog):
    recorder = make_recorder(probed(), error=ZeroDivisionError("the driver said 0"))
    recorder.start()
    qtbot.waitUntil(lambda: len(recorder.samplers[0].threads) >= 2 if recorder.samplers else False, timeout=10000)
    qtbot.waitUntil(lambda: "the driver said 0" in recorder.ram_missing, timeout=10000)
    recorder.samplers[0].error = None
    qtbot.waitUntil(lambda: recorder.engine_ram.latest is not None, timeout=10000)
    assert recorder.ram_missing == ""
    assert sum("not measured" in record.message for record in caplog.records) == 1, "told once, not at every tick"


# ---- the pool's hits -------------------------------------------------------------------------------


@pytest.fixture
def pooled(loaded_controller, qtbot):
    """A controller with a model whose CPU-lane experts have a pool of `mib`; its recorder measures."""

    def make(mib, *arguments):
        controller = loaded_controller(*arguments)
        plan = msgspec.structs.replace(controller.plan, pool_bytes=mib * 1024**2)
        controller.set_plan(with_lanes(plan, controller.facts, controller.machine, range(4), "CPU"))
        with qtbot.waitSignal(controller.loaded, timeout=10000):
            controller.load()
        return controller

    return make


def test_the_hit_rate_is_that_of_what_was_routed_since_the_facts_before(pooled, make_recorder, qtbot):
    controller = pooled(16, "--tokens", 60, "--token-ms", 10)
    recorder = make_recorder(controller)
    recorder.start()
    qtbot.waitUntil(lambda: controller.cache.facts is not None)
    assert len(recorder.hit_percent) == 0
    with qtbot.waitSignal(controller.finished, timeout=10000):
        controller.ask("Go on")
    qtbot.waitUntil(lambda: len(recorder.hit_percent) > 0 and recorder.hit_percent.latest is None)
    measured = recorder.hit_percent.values[~np.isnan(recorder.hit_percent.values)]
    assert ((measured >= 0) & (measured <= 100)).all()
    assert measured.max() > 0
    recorder.stop()
    assert not controller.cache.polling


def test_without_a_pool_there_is_no_hit_rate_and_no_graph_of_it(pooled, make_recorder, theme, qtbot):
    controller = pooled(0, "--tokens", 20)
    panel = GraphsPanel(controller, theme, recorder=make_recorder(controller))
    qtbot.addWidget(panel)
    panel.show()
    panel.set_active(True)
    with qtbot.waitSignal(controller.finished, timeout=10000):
        controller.ask("Go on")
    qtbot.waitUntil(lambda: controller.cache.facts is not None and controller.cache.facts.decode.tokens == 20)
    assert len(panel.recorder.hit_percent) == 0
    assert not panel.hit_plot.isVisibleTo(panel)
    controller.cache.set_pool(16 * 1024**2)
    qtbot.waitUntil(lambda: panel.hit_plot.isVisibleTo(panel))
    assert panel.hit_plot.text == "now of 100.0 % No answer is running."
