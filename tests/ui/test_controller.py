"""The controller over a scripted engine: the machine, the model, and loading it, with every failure on the way."""

import threading

import msgspec
import psutil
import pytest
from controller_driver import PATIENCE, answer, choose, seen, smaller_context, until

from app.engine import protocol
from app.errors import AppError, ErrorCode
from app.placement.plan import CPU_LANE
from app.placement.planner import Wishes
from app.ui import chooser
from app.ui.controller import ANSWERING, EMPTY, FAILED, LOADING, READY, Controller
from app.ui.engine import Engine

# ---- machine and model ---------------------------------------------------------------------------


def test_a_chosen_model_is_loaded_as_planned(make_controller, qtbot, tmp_path):
    controller = make_controller()
    states, progress = seen(controller.state_changed), seen(controller.load_progress)
    choose(qtbot, controller, tmp_path)
    assert (controller.state, controller.loaded_plan) == (EMPTY, None)
    with qtbot.waitSignal(controller.loaded, timeout=10000):
        controller.load()
    assert states == [LOADING, READY]
    assert progress == sorted(progress)
    assert progress[-1] == 1
    assert controller.loaded_plan == controller.plan
    assert controller.loaded_facts == controller.facts
    assert controller.loaded_report.expert_layers == controller.plan.expert_lanes


def test_a_model_that_cannot_be_read_is_told_and_leaves_the_loaded_one(loaded_controller, qtbot, tmp_path):
    controller = loaded_controller()
    loaded = controller.loaded_plan
    error = AppError(ErrorCode.NOT_GGUF, "It is a picture.")
    controller._read_facts = _raising(error)
    with qtbot.waitSignal(controller.failed, timeout=10000) as told:
        controller.choose_model(tmp_path / "picture.png")
    assert told.args == [error]
    assert controller.state == READY
    assert controller.loaded_plan is loaded


def _raising(error):
    def read(_path):
        raise error

    return read


def test_a_slow_read_does_not_replace_a_later_choice(make_controller, qtbot, make_facts, tmp_path):
    import threading

    controller = make_controller()
    gate = threading.Event()
    facts = {"slow.gguf": make_facts(name="slow"), "fast.gguf": make_facts(name="fast")}

    def read(path):
        if path.name == "slow.gguf":
            gate.wait(10)
        return facts[path.name]

    controller._read_facts = read
    chosen = seen(controller.model_changed)
    controller.choose_model(tmp_path / "slow.gguf")
    with qtbot.waitSignal(controller.model_changed, timeout=10000):
        controller.choose_model(tmp_path / "fast.gguf")
    gate.set()
    until(qtbot, lambda: not controller.background.busy)
    assert [facts.name for facts in chosen] == ["fast"]


def test_a_machine_is_still_measured_when_the_engine_cannot_be_started(qtbot, store, home, make_machine):
    engine = Engine([str(home / "no-such-engine")])
    probed = []
    controller = Controller(
        engine, store, home, probe=lambda _folder, gpus, build: probed.append((gpus, build)) or make_machine(False)
    )
    failures = seen(controller.failed)
    with qtbot.waitSignal(controller.machine_changed, timeout=10000):
        controller.probe()
    assert [error.code for error in failures] == [ErrorCode.ENGINE_MISSING]
    assert probed == [((), None)]
    assert controller.state == EMPTY
    controller.shutdown()


def test_a_plan_needs_a_model_and_a_machine(make_controller):
    with pytest.raises(AppError) as refused:
        make_controller().propose_plan()
    assert refused.value.code is ErrorCode.BAD_USAGE


def test_leaving_a_choice_brings_the_loaded_model_and_plan_back(loaded_controller, qtbot, make_facts, tmp_path):
    controller = loaded_controller()
    loaded_facts, loaded_plan = controller.facts, controller.plan
    controller._read_facts = lambda _path: make_facts(layers=2, name="Other")
    with qtbot.waitSignal(controller.model_changed, timeout=10000):
        controller.choose_model(tmp_path / "other.gguf")
    assert controller.plan is None
    controller.return_to_loaded()
    assert (controller.facts, controller.plan) == (loaded_facts, loaded_plan)


# ---- loading ---------------------------------------------------------------------------------------


def test_a_cancelled_load_ends_empty_and_is_not_told_as_a_failure(make_controller, qtbot, tmp_path):
    controller = make_controller("--hold-load")
    choose(qtbot, controller, tmp_path)
    failures, progress = seen(controller.failed), seen(controller.load_progress)
    controller.load()
    until(qtbot, lambda: len(progress) >= 5)
    controller.cancel_load()
    until(qtbot, lambda: controller.state == EMPTY)
    assert failures == []
    assert controller.loaded_plan is None


@pytest.mark.parametrize("code", ["out_of_memory", "model_damaged", "architecture_unknown"])
def test_a_load_that_fails_is_told_with_its_code(make_controller, qtbot, tmp_path, code):
    controller = make_controller("--fail-load", code)
    choose(qtbot, controller, tmp_path)
    with qtbot.waitSignal(controller.failed, timeout=10000) as told:
        controller.load()
    assert told.args[0].code is ErrorCode(code)
    assert controller.state == FAILED
    assert controller.loaded_plan is None


def test_an_engine_killed_while_loading_is_told_as_killed(make_controller, qtbot, tmp_path):
    controller = make_controller("--crash-on-load")
    choose(qtbot, controller, tmp_path)
    with qtbot.waitSignal(controller.failed, timeout=10000) as told:
        controller.load()
    assert told.args[0].code is ErrorCode.ENGINE_CRASHED
    assert "SIGKILL" in told.args[0].message
    assert controller.state == FAILED


def test_a_second_load_replaces_the_first(make_controller, qtbot, tmp_path):
    controller = make_controller("--load-ms", 200)
    choose(qtbot, controller, tmp_path)
    reports, failures = seen(controller.loaded), seen(controller.failed)
    controller.load()
    first = controller.plan
    second = controller.propose_plan(Wishes(n_ctx=1024))
    controller.set_plan(second)
    controller.load()
    until(qtbot, lambda: controller.state == READY)
    assert [report.n_ctx for report in reports] == [1024]
    assert failures == []
    assert controller.loaded_plan is second is not first


def test_each_smaller_plan_needs_less_until_there_is_none(make_controller, qtbot, tmp_path):
    controller = make_controller("--fail-load", "out_of_memory")
    choose(qtbot, controller, tmp_path)
    assert controller.smaller_plan() is None, "nothing was tried yet"
    with qtbot.waitSignal(controller.failed, timeout=10000):
        controller.load()
    needs = [_bytes(controller.plan)]
    while controller.smaller_plan() is not None:
        with qtbot.waitSignal(controller.failed, timeout=10000):
            controller.load_smaller()
        needs.append(_bytes(controller.plan))
        assert set(controller.plan.expert_lanes.values()) == {CPU_LANE}
        assert len(needs) < 20
    assert controller.plan.gpu is None
    on_gpu = [gpu for gpu, _ in needs]
    assert on_gpu == sorted(on_gpu, reverse=True)
    assert on_gpu[-1] == 0
    with pytest.raises(AppError):
        controller.load_smaller()


def _bytes(plan):
    return sum(part.bytes for part in plan.memory if part.device != CPU_LANE), plan.n_ctx


# ---- what comes too late, never, or at the wrong moment -------------------------------------------


def test_a_plan_that_cannot_be_sent_ends_the_load_as_failed(loaded_controller, qtbot):
    controller = loaded_controller()
    strange = msgspec.structs.replace(controller.plan, model_files=("/models/\udcff.gguf",))
    controller.set_plan(strange)
    failures, states = seen(controller.failed), seen(controller.state_changed)
    controller.load()
    assert [error.code for error in failures] == [ErrorCode.BAD_USAGE]
    assert states == [LOADING, FAILED]
    assert controller.loaded_plan is None


@pytest.mark.parametrize("leave", ["return_to_loaded", "load", "choose_another"])
@pytest.mark.parametrize("fails", [False, True])
def test_a_read_that_ends_after_the_user_went_elsewhere_changes_and_tells_nothing(
    loaded_controller, make_facts, qtbot, tmp_path, leave, fails
):
    controller = loaded_controller()
    loaded, gate = controller.facts, threading.Event()

    def slow(path):
        if path.name != "slow.gguf":
            return loaded
        assert gate.wait(10)
        if fails:
            raise AppError(ErrorCode.NOT_GGUF, "It is a picture.")
        return make_facts(layers=2, name="Late")

    controller._read_facts = slow
    failures, chosen = seen(controller.failed), seen(controller.model_changed)
    controller.choose_model(tmp_path / "slow.gguf")
    if leave == "choose_another":
        controller.choose_model(tmp_path / "other.gguf")
    else:
        getattr(controller, leave)()
    gate.set()
    until(qtbot, lambda: not controller.background.busy)
    until(qtbot, lambda: controller.state == READY)
    assert failures == []
    assert controller.facts is loaded
    assert "Late" not in [facts.name for facts in chosen]


def test_an_engine_that_never_lists_its_devices_is_ended_and_the_machine_measured(make_controller, qtbot, monkeypatch):
    monkeypatch.setattr(chooser, "DEVICES_MILLISECONDS", 300)
    controller = make_controller("--no-devices")
    failures = seen(controller.failed)
    with qtbot.waitSignal(controller.machine_changed, timeout=PATIENCE):
        controller.probe()
    assert [(error.code, error.message) for error in failures] == [
        (ErrorCode.ENGINE_FAILED, "The engine did not list its devices in time.")
    ]
    assert not controller.engine.running
    assert controller.state == EMPTY


def test_a_busy_engine_may_take_its_time_to_list_its_devices(loaded_controller, qtbot):
    controller = loaded_controller("--load-ms", 1200)
    controller._chooser._patience.setInterval(500)
    failures = seen(controller.failed)
    controller.load()
    with qtbot.waitSignal(controller.machine_changed, timeout=PATIENCE):
        controller.probe()
    assert failures == []
    assert controller.state == READY


def test_a_load_cancelled_before_the_engine_began_it_leaves_nothing_loaded(loaded_controller, qtbot):
    controller = loaded_controller()
    failures = seen(controller.failed)
    smaller_context(controller)
    controller.load()
    controller.cancel_load()
    until(qtbot, lambda: controller.state == EMPTY)
    assert (controller.loaded_facts, controller.loaded_plan, controller.loaded_report) == (None, None, None)
    assert failures == []


def test_an_engine_killed_while_a_cancel_is_pending_is_told_and_the_next_load_works(make_controller, qtbot, tmp_path):
    controller = make_controller("--hold-load", "--deaf")
    choose(qtbot, controller, tmp_path)
    failures, progress = seen(controller.failed), seen(controller.load_progress)
    controller.load()
    until(qtbot, lambda: len(progress) >= 5)
    controller.cancel_load()
    psutil.Process(controller.engine.pid).kill()
    until(qtbot, lambda: controller.state == FAILED)
    assert [error.code for error in failures] == [ErrorCode.ENGINE_CRASHED]
    controller.load()
    assert controller.state == LOADING
    until(qtbot, lambda: len(progress) >= 10)


def test_an_engine_deaf_to_a_cancel_can_be_ended_without_a_failure_told(make_controller, qtbot, tmp_path):
    controller = make_controller("--hold-load", "--deaf")
    choose(qtbot, controller, tmp_path)
    failures, progress = seen(controller.failed), seen(controller.load_progress)
    controller.load()
    until(qtbot, lambda: len(progress) >= 5)
    controller.cancel_load()
    child = psutil.Process(controller.engine.pid)
    controller.end_engine()
    assert (controller.state, controller.engine.running) == (EMPTY, False)
    assert failures == []
    until(qtbot, lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE)


def test_a_new_plan_applied_during_an_answer_and_cancelled_keeps_the_words(loaded_controller, qtbot):
    controller = loaded_controller("--tokens", 50, "--hold-after", 3)
    shown, states = seen(controller.token), seen(controller.state_changed)
    controller.ask("Hello?")
    until(qtbot, lambda: "".join(shown) == "Word 1 2")
    smaller_context(controller)
    controller.load()
    controller.cancel_load()
    until(qtbot, lambda: controller.state == EMPTY)
    assert states == [ANSWERING, LOADING, EMPTY]
    until(qtbot, lambda: controller.conversation.messages()[-1].state == "stopped")
    assert controller.conversation.messages()[-1].content == "Word 1 2"
    assert controller.loaded_plan is None


def test_loading_again_after_a_crash_keeps_the_plan_that_was_being_edited(loaded_controller, qtbot, tmp_path):
    controller = loaded_controller("--tokens", 8, "--crash-after", 4, "--crash-once", tmp_path / "crashed")
    loaded = controller.loaded_plan
    edited = smaller_context(controller)
    controller.ask("First?")
    until(qtbot, lambda: controller.state == FAILED)
    plans = seen(controller.plan_changed)
    with qtbot.waitSignal(controller.loaded, timeout=PATIENCE):
        controller.load_again()
    assert controller.loaded_plan is loaded
    assert controller.plan is edited
    assert plans == [], "a plan set anew would end the history of moves"
    answer(qtbot, controller)


def test_a_request_sent_when_the_engine_is_ready_does_not_overtake_those_before(make_controller, qtbot, tmp_path):
    record = tmp_path / "requests"
    engine = make_controller("--record", record).engine
    later = []
    engine.ready.connect(lambda _ready: later.append(engine.send(protocol.ReadRouting)))
    first = engine.send(protocol.ListDevices)
    with qtbot.waitSignal(engine.event, timeout=PATIENCE):
        engine.start()
    until(qtbot, lambda: record.exists() and len(record.read_bytes().splitlines()) == 2)
    ids = [protocol.decode_request(line).id for line in record.read_bytes().splitlines()]
    assert ids == [first, *later]
