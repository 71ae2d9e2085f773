"""The recorder: what it measures, when, and on which thread."""

import math
import threading

import msgspec
import numpy as np
import pytest
from ui_factories import GIB, make_machine

from app.engine import protocol
from app.errors import AppError, ErrorCode
from app.hardware.samples import EVERYTHING, GPU_MEMORY, MAIN_MEMORY, MODEL_FILE, PROCESS, GpuSample, Sample
from app.placement.planner import with_lanes
from app.ui.graphs.recorder import Recorder
from app.ui.graphs.specs import (
    AVAILABLE_RAM,
    COPIED,
    DECODE,
    DISK,
    ENGINE_RAM,
    FAULTS,
    FILE,
    GPU,
    HITS,
    PEAK_RAM,
    PROMPT,
    RAM,
    SPLIT,
    SPLIT_CPU,
)  # fmt: skip

DEVICE = "Vulkan0"


def measured(recorder, key):
    """Every value of a figure that is no gap."""
    column = recorder.history.column(key)
    return column[~np.isnan(column)].tolist()


class FakeSampler:
    """Stands where the machine's sampler would; each sample counts ten faults and a megabyte more."""

    def __init__(self, pid, gpus, files=(), *, hold=None, error=None, sample=None):
        self.pid, self.gpus, self.files = pid, gpus, files
        self.hold, self.error, self.answer = hold, error, sample
        self.threads, self.wanted = [], []
        self.closed = False

    def sample(self, wanted=EVERYTHING):
        assert not self.closed
        self.threads.append(threading.get_ident())
        self.wanted.append(wanted)
        if self.hold is not None:
            assert self.hold.wait(10)
        if self.error is not None:
            raise self.error
        count = len(self.threads)
        return self.answer or Sample(
            time_seconds=count / 5,
            engine_rss_bytes=3 * GIB,
            engine_peak_bytes=4 * GIB,
            engine_major_faults=10 * count,
            engine_read_bytes=1_000_000 * count,
            ram_available_bytes=9 * GIB,
            model_share=0.5 if self.files else None,
            gpus=tuple(
                GpuSample(
                    device=gpu.device,
                    used_bytes=2 * GIB,
                    total_bytes=6 * GIB,
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

        def make_sampler(pid, gpus, files):
            samplers.append(FakeSampler(pid, gpus, files, **behaviour))
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
    assert len(recorder.history) == 0


def test_a_row_holds_every_figure_in_its_unit_and_what_is_missing_is_a_gap_with_words(probed, make_recorder, qtbot):
    recorder = make_recorder(probed())
    recorder.start()
    qtbot.waitUntil(lambda: len(recorder.history) > 2)
    latest = recorder.history.latest
    assert (latest(ENGINE_RAM), latest(PEAK_RAM), latest(AVAILABLE_RAM)) == (3.0, 4.0, 9.0)
    assert latest(FAULTS) == pytest.approx(50)
    assert latest(DISK) == pytest.approx(5.0)
    assert latest(f"gpu.{DEVICE}.rest") == 2.0
    assert f"gpu.{DEVICE}.others" not in recorder.history.keys
    assert recorder.totals[DEVICE] == 6 * GIB
    assert recorder.reasons[f"{GPU}.{DEVICE}"] == "Nobody says what the engine uses."
    assert latest(DECODE) is None
    assert latest(FILE) is None
    assert recorder.reasons[FILE] == "No model is loaded."


def test_the_first_reading_of_a_counter_is_no_rate(probed, make_recorder, qtbot):
    recorder = make_recorder(probed())
    recorder.start()
    qtbot.waitUntil(lambda: len(measured(recorder, FAULTS)) >= 2)
    assert math.isnan(recorder.history.column(FAULTS)[0])


def test_the_files_of_the_loaded_model_are_looked_at(loaded_controller, make_recorder, qtbot):
    recorder = make_recorder(loaded_controller())
    recorder.start()
    qtbot.waitUntil(lambda: recorder.history.latest(FILE) == 50.0)
    assert recorder.samplers[-1].files == ("/models/scripted.gguf",)


def test_only_what_shown_graphs_need_is_sampled(probed, make_recorder, qtbot):
    recorder = make_recorder(probed())
    assert recorder.wanted == EVERYTHING
    for groups, wanted in (
        ((RAM,), {PROCESS, MAIN_MEMORY}),
        ((FAULTS, DECODE), {PROCESS}),
        ((GPU,), {GPU_MEMORY}),
        ((FILE, DISK), {MODEL_FILE, PROCESS}),
    ):
        recorder.set_groups(groups)
        assert recorder.wanted == wanted
    recorder.set_groups((DECODE, HITS))
    recorder.start()
    qtbot.waitUntil(lambda: len(recorder.history) >= 3)
    assert recorder.samplers == [], "no graph needs a sample"
    assert recorder.history.keys == ()
    recorder.set_groups((RAM,))
    qtbot.waitUntil(lambda: recorder.history.latest(ENGINE_RAM) == 3.0)
    assert recorder.samplers[0].wanted[-1] == {PROCESS, MAIN_MEMORY}
    assert not any(key.startswith(GPU) for key in recorder.history.keys)


def test_the_cache_is_not_read_for_graphs_that_do_not_show_it(loaded_controller, make_recorder, qtbot):
    controller = loaded_controller()
    recorder = make_recorder(controller)
    recorder.set_groups((RAM,))
    recorder.start()
    assert recorder not in controller.cache._watchers
    recorder.set_groups((RAM, SPLIT))
    assert recorder in controller.cache._watchers
    recorder.set_groups(())
    assert recorder not in controller.cache._watchers


def test_measuring_happens_off_the_ui_thread(probed, make_recorder, qtbot):
    recorder = make_recorder(probed())
    recorder.start()
    qtbot.waitUntil(lambda: len(recorder.history) > 1)
    assert threading.get_ident() not in recorder.samplers[0].threads


def test_an_engine_that_does_not_run_is_said_and_not_drawn_as_zero(make_controller, make_recorder, qtbot):
    recorder = make_recorder(make_controller())
    recorder.start()
    qtbot.waitUntil(lambda: len(recorder.history) > 1)
    assert ENGINE_RAM not in recorder.history.keys
    assert recorder.reasons[RAM] == recorder.reasons[FAULTS] == recorder.reasons[DISK] == "The engine is not running."
    assert recorder.history.latest(AVAILABLE_RAM) == 9.0


def test_a_slow_driver_makes_fewer_samples_and_never_a_queue_of_them(probed, make_recorder, qtbot):
    hold = threading.Event()
    recorder = make_recorder(probed(), hold=hold)
    started = []
    run = recorder._background.run
    recorder._background.run = lambda function: started.append(function) or run(function)
    recorder.start()
    qtbot.waitUntil(lambda: len(recorder.history) >= 4)
    assert len(started) == 1
    assert ENGINE_RAM not in recorder.history.keys, "rows go on, without what is still being measured"
    hold.set()
    qtbot.waitUntil(lambda: recorder.history.latest(ENGINE_RAM) is not None)


def test_stopping_releases_the_sources_and_starting_again_leaves_a_gap(probed, make_recorder, qtbot):
    recorder = make_recorder(probed())
    recorder.start()
    qtbot.waitUntil(lambda: recorder.history.latest(ENGINE_RAM) is not None)
    recorder.stop()
    assert not recorder.running
    qtbot.waitUntil(lambda: recorder.samplers[0].closed)
    kept = len(recorder.history)
    recorder.start()
    assert recorder.history.latest(ENGINE_RAM) is None
    qtbot.waitUntil(lambda: recorder.history.latest(ENGINE_RAM) is not None)
    assert len(recorder.history) >= kept + 2
    assert len(recorder.samplers) == 2


def test_a_sample_that_comes_after_the_end_is_not_kept(probed, make_recorder, qtbot):
    hold = threading.Event()
    recorder = make_recorder(probed(), hold=hold)
    recorder.start()
    recorder.stop()
    rows = len(recorder.history)
    hold.set()
    qtbot.waitUntil(lambda: not recorder._measuring)
    qtbot.waitUntil(lambda: recorder.samplers[0].closed)
    assert len(recorder.history) == rows


def test_another_engine_process_gets_another_sampler_and_no_rate_over_both(probed, make_recorder, qtbot):
    controller = probed()
    recorder = make_recorder(controller)
    recorder.start()
    qtbot.waitUntil(lambda: len(measured(recorder, FAULTS)) >= 2)
    first = controller.engine.pid
    with qtbot.waitSignal(controller.engine.ended, timeout=10000):
        controller.engine.stop()
    controller.probe()
    qtbot.waitUntil(lambda: controller.engine.pid not in (0, first))
    second = controller.engine.pid
    qtbot.waitUntil(lambda: recorder.samplers[-1].pid == second and len(recorder.samplers[-1].threads) > 3)
    assert recorder.samplers[0].pid == first
    assert all(sampler.closed for sampler in recorder.samplers[:-1])
    assert not recorder.samplers[-1].closed
    assert measured(recorder, FAULTS) == [pytest.approx(50)] * len(measured(recorder, FAULTS))


def test_a_failure_to_measure_is_told_and_the_next_sample_is_tried(probed, make_recorder, qtbot):
    recorder = make_recorder(probed(), error=AppError(ErrorCode.ENGINE_FAILED, "The sensors sleep."))
    recorder.start()
    qtbot.waitUntil(lambda: len(recorder.samplers[0].threads) >= 2 if recorder.samplers else False)
    qtbot.waitUntil(lambda: recorder.reasons.get(RAM) == "The sensors sleep.")
    assert recorder.reasons[f"{GPU}.{DEVICE}"] == "The sensors sleep."
    assert recorder.history.keys == ()


def test_speed_is_measured_while_answering_and_absent_when_idle(loaded_controller, make_recorder, qtbot):
    controller = loaded_controller("--tokens", 60, "--token-ms", 20, "--prompt-ms", 300)
    recorder = make_recorder(controller)
    recorder.start()
    arrivals = []
    controller.engine.event.connect(
        lambda event: arrivals.append(recorder.now) if isinstance(event, protocol.Token) else None
    )
    for _ in range(5):  # others that keep the processor for a while make tokens come in bursts, at no one rate
        arrivals.clear()
        before = len(measured(recorder, DECODE))
        with qtbot.waitSignal(controller.finished, timeout=20000):
            controller.ask("How fast are you?")
        found = measured(recorder, DECODE)[before:]
        shares = np.array(found) * (arrivals[-1] - arrivals[0]) / (len(arrivals) - 1)
        if right := len(found) and shares.max() < 3 and 0.5 <= np.median(shares) <= 1.5:
            break
    assert right, shares
    assert measured(recorder, PROMPT), "the prompt has a rate of its own"
    qtbot.waitUntil(lambda: recorder.history.latest(DECODE) is None and recorder.history.latest(PROMPT) is None)


def test_a_prompt_that_is_over_between_two_rows_is_not_lost(loaded_controller, make_recorder, qtbot):
    controller = loaded_controller("--tokens", 2, "--prompt-ms", 10)
    recorder = make_recorder(controller)
    recorder.start()
    with qtbot.waitSignal(controller.finished, timeout=20000):
        controller.ask("Quick!")
    qtbot.waitUntil(lambda: len(measured(recorder, PROMPT)) >= 1)
    assert min(measured(recorder, PROMPT)) > 0


def test_one_surprise_in_the_sampler_does_not_end_the_graphs(make_recorder, probed, qtbot, caplog):
    recorder = make_recorder(probed(), error=ZeroDivisionError("the driver said 0"))
    recorder.start()
    qtbot.waitUntil(lambda: len(recorder.samplers[0].threads) >= 2 if recorder.samplers else False, timeout=10000)
    qtbot.waitUntil(lambda: "the driver said 0" in recorder.reasons.get(RAM, ""), timeout=10000)
    recorder.samplers[0].error = None
    qtbot.waitUntil(lambda: recorder.history.latest(ENGINE_RAM) is not None, timeout=10000)
    assert recorder.reasons[RAM] == ""
    assert sum("not measured" in record.message for record in caplog.records) == 1, "told once, not at every tick"


def test_other_gpus_are_told(make_recorder, probed, qtbot):
    controller = probed("--no-gpu")
    recorder = make_recorder(controller)
    assert recorder.devices == ()
    with qtbot.waitSignal(recorder.gpus_changed):
        controller._set_machine(make_machine())
    assert recorder.devices == (DEVICE,)
    with qtbot.assertNotEmitted(recorder.gpus_changed):
        controller._set_machine(make_machine())


def test_a_gpu_that_is_gone_keeps_its_rows_and_says_so_until_it_is_back(make_recorder, probed, qtbot):
    controller = probed()
    recorder = make_recorder(controller)
    recorder.history.append(recorder.now, {f"gpu.{DEVICE}.others": 1.5})
    with qtbot.waitSignal(recorder.gpus_changed):
        controller._set_machine(make_machine(gpus=()))
    assert recorder.devices == ()
    assert recorder.known == (DEVICE,)
    assert recorder.history.holds(f"gpu.{DEVICE}.others")
    assert "does not list this GPU any more" in recorder.reasons[f"{GPU}.{DEVICE}"]
    assert "does not list this GPU any more" in recorder.reasons[f"load.{DEVICE}"]
    with qtbot.waitSignal(recorder.gpus_changed):
        controller._set_machine(make_machine())
    assert recorder.known == (DEVICE,)
    assert not recorder.reasons.get(f"{GPU}.{DEVICE}")


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


def test_the_parts_of_a_gpu_are_those_the_engine_reports_beside_the_plans_budget(pooled, make_recorder, qtbot):
    controller = pooled(16)
    recorder = make_recorder(controller)
    recorder.start()
    latest = recorder.history.latest
    qtbot.waitUntil(lambda: latest(f"gpu.{DEVICE}.pool") is not None)
    report = {buffer.part: buffer.bytes / GIB for buffer in controller.loaded_report.buffers if buffer.device == DEVICE}
    assert latest(f"gpu.{DEVICE}.kv") == pytest.approx(report["kv"])
    assert latest(f"gpu.{DEVICE}.weights") == pytest.approx(report["weights"])
    assert latest(f"gpu.{DEVICE}.pool") == pytest.approx(controller.cache.facts.pool.allocated_bytes / GIB)
    assert latest(f"gpu.{DEVICE}.budget") > 0
    controller.cache.set_pool(0)
    qtbot.waitUntil(lambda: latest(f"gpu.{DEVICE}.pool") is None, timeout=10000)


def test_hits_copies_and_times_are_those_of_what_happened_since_the_facts_before(pooled, make_recorder, qtbot):
    controller = pooled(16, "--tokens", 60, "--token-ms", 10)
    recorder = make_recorder(controller)
    recorder.start()
    qtbot.waitUntil(lambda: controller.cache.facts is not None)
    assert HITS not in recorder.history.keys
    with qtbot.waitSignal(controller.finished, timeout=10000):
        controller.ask("Go on")
    qtbot.waitUntil(lambda: bool(measured(recorder, HITS)) and recorder.history.latest(HITS) is None)
    assert all(0 <= value <= 100 for value in measured(recorder, HITS))
    assert max(measured(recorder, HITS)) > 0
    assert max(measured(recorder, COPIED)) > 0
    assert max(measured(recorder, SPLIT_CPU)) > 0
    recorder.stop()
    assert not controller.cache.polling


def test_without_a_pool_there_is_no_hit_rate_and_no_part_of_that_name(pooled, make_recorder, qtbot):
    controller = pooled(0, "--tokens", 20)
    recorder = make_recorder(controller)
    recorder.start()
    with qtbot.waitSignal(controller.finished, timeout=10000):
        controller.ask("Go on")
    qtbot.waitUntil(lambda: controller.cache.facts is not None and controller.cache.facts.decode.tokens == 20)
    assert HITS not in recorder.history.keys
    assert f"gpu.{DEVICE}.pool" not in recorder.history.keys
