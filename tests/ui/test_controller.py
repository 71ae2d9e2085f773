"""The controller over a scripted engine: states, failures, and conversations that lose nothing."""

import json

import pytest

from app.errors import AppError, ErrorCode
from app.placement.plan import CPU_LANE
from app.ui.controller import ANSWERING, EMPTY, FAILED, LOADING, READY, Controller
from app.ui.engine import Engine


@pytest.fixture
def seen(qtbot):
    """`seen(signal) -> list` that fills with what the signal carries."""

    def watch(signal):
        values = []
        signal.connect(lambda *carried: values.append(carried[0] if carried else None))
        return values

    return watch


def until(qtbot, condition):
    qtbot.waitUntil(condition, timeout=10000)


def answer(qtbot, controller, text="Hello?"):
    with qtbot.waitSignal(controller.finished, timeout=10000):
        controller.ask(text)


def choose(qtbot, controller, tmp_path):
    with qtbot.waitSignals([controller.machine_changed, controller.model_changed], timeout=10000):
        controller.probe()
        controller.choose_model(tmp_path / "model.gguf")
    controller.set_plan(controller.propose_plan())


# ---- machine and model ---------------------------------------------------------------------------


def test_a_chosen_model_is_loaded_as_planned(make_controller, qtbot, seen, tmp_path):
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


def test_a_slow_read_does_not_replace_a_later_choice(make_controller, qtbot, make_facts, seen, tmp_path):
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


def test_a_machine_is_still_measured_when_the_engine_cannot_be_started(qtbot, store, home, make_machine, seen):
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


def test_a_cancelled_load_ends_empty_and_is_not_told_as_a_failure(make_controller, qtbot, seen, tmp_path):
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


def test_a_second_load_replaces_the_first(make_controller, qtbot, seen, tmp_path):
    controller = make_controller("--load-ms", 200)
    choose(qtbot, controller, tmp_path)
    reports, failures = seen(controller.loaded), seen(controller.failed)
    controller.load()
    first = controller.plan
    second = controller.propose_plan(_wishes(n_ctx=1024))
    controller.set_plan(second)
    controller.load()
    until(qtbot, lambda: controller.state == READY)
    assert [report.n_ctx for report in reports] == [1024]
    assert failures == []
    assert controller.loaded_plan is second is not first


def _wishes(**fields):
    from app.placement.planner import Wishes

    return Wishes(**fields)


def test_each_smaller_plan_needs_less_until_there_is_none(make_controller, qtbot, seen, tmp_path):
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


# ---- asking ----------------------------------------------------------------------------------------


def test_an_answer_is_stored_with_its_figures(loaded_controller, qtbot, seen):
    controller = loaded_controller("--tokens", 5)
    states = seen(controller.state_changed)
    answer(qtbot, controller, "What is up?")
    question, reply = controller.conversation.messages()
    assert (question.role, question.content, question.state) == ("user", "What is up?", "complete")
    assert (reply.role, reply.content, reply.state) == ("assistant", "Word 1 2 3 4", "complete")
    assert reply.figures.completion_tokens == 5
    assert reply.figures.model == controller.facts.name
    assert states == [ANSWERING, READY]


def test_every_text_is_in_the_store_before_it_is_shown(loaded_controller, qtbot):
    controller = loaded_controller("--tokens", 40, "--token-ms", 5)
    shown, checks = "", 0

    def check(text):
        nonlocal shown, checks
        shown += text
        checks += 1
        assert controller.conversation.messages()[-1].content == shown

    controller.token.connect(check)
    started = []
    controller.answer_started.connect(lambda: started.extend(controller.conversation.messages()))
    answer(qtbot, controller)
    assert [(message.role, message.state) for message in started] == [
        ("user", "complete"),
        ("assistant", "streaming"),
    ]
    assert checks > 1, "the answer came in one piece: nothing was streamed"
    assert checks < 40, "every token was written apart: nothing was coalesced"
    assert shown == controller.conversation.messages()[-1].content


def test_a_killed_engine_keeps_what_was_shown_and_the_conversation_goes_on(loaded_controller, qtbot, seen, tmp_path):
    record = tmp_path / "requests"
    controller = loaded_controller(
        "--tokens", 8, "--crash-after", 4, "--crash-once", tmp_path / "crashed", "--record", record
    )
    shown, failures, broken = seen(controller.token), seen(controller.failed), seen(controller.conversation.broken)
    controller.ask("First?")
    until(qtbot, lambda: controller.state == FAILED)
    assert [error.code for error in failures] == [ErrorCode.ENGINE_CRASHED]
    assert broken == [None]
    cut = controller.conversation.messages()[-1]
    assert cut.state == "failed"
    assert cut.content == "".join(shown) == "Word 1 2 3"
    conversation = controller.conversation.id

    with qtbot.waitSignal(controller.loaded, timeout=10000):
        controller.load_again()
    answer(qtbot, controller, "Second?")
    assert controller.conversation.id == conversation
    assert [message.state for message in controller.conversation.messages()] == [
        "complete",
        "failed",
        "complete",
        "complete",
    ]
    sent = [json.loads(line) for line in record.read_bytes().splitlines()][-1]
    assert [message["content"] for message in sent["messages"]] == ["First?", "Word 1 2 3", "Second?"]


def test_questions_that_got_no_word_of_an_answer_are_sent_as_one_turn(loaded_controller, qtbot, tmp_path):
    record = tmp_path / "requests"
    controller = loaded_controller("--fail-answer", "engine_failed", "--record", record)
    for text in ("First?", "Second?"):
        with qtbot.waitSignal(controller.failed, timeout=10000):
            controller.ask(text)
    sent = [json.loads(line) for line in record.read_bytes().splitlines()][-1]
    assert [(message["role"], message["content"]) for message in sent["messages"]] == [("user", "First?\n\nSecond?")]


def test_a_question_the_engine_refuses_leaves_the_model_loaded(loaded_controller, qtbot):
    controller = loaded_controller("--fail-answer", "context_full")
    with qtbot.waitSignal(controller.failed, timeout=10000) as told:
        controller.ask("Too long?")
    assert told.args[0].code is ErrorCode.CONTEXT_FULL
    assert controller.state == READY
    assert controller.loaded_plan is not None
    assert controller.conversation.messages()[-1].state == "failed"


def test_a_broken_protocol_is_told_once_and_as_such(loaded_controller, qtbot, seen):
    controller = loaded_controller("--garbage", "--token-ms", 5)
    failures = seen(controller.failed)
    controller.ask("Hello?")
    until(qtbot, lambda: controller.state == FAILED)
    assert [error.code for error in failures] == [ErrorCode.ENGINE_PROTOCOL]
    assert controller.conversation.messages()[-1].content.startswith("Word")


def test_an_engine_of_another_version_is_refused(make_controller, qtbot):
    controller = make_controller("--protocol", 99)
    with qtbot.waitSignal(controller.failed, timeout=10000) as told:
        controller.probe()
    assert told.args[0].code is ErrorCode.ENGINE_PROTOCOL
    until(qtbot, lambda: controller.machine is not None)


def test_stop_keeps_what_came_and_says_stopped(loaded_controller, qtbot, seen):
    controller = loaded_controller("--tokens", 50, "--hold-after", 3)
    shown = seen(controller.token)
    controller.ask("Hello?")
    until(qtbot, lambda: "".join(shown) == "Word 1 2")
    with qtbot.waitSignal(controller.finished, timeout=10000) as done:
        controller.stop()
    assert done.args[0].stop_reason == "stopped"
    assert controller.conversation.messages()[-1].state == "stopped"
    assert controller.state == READY


def test_a_question_without_a_model_is_refused(make_controller):
    controller = make_controller()
    with pytest.raises(AppError) as refused:
        controller.ask("Hello?")
    assert refused.value.code is ErrorCode.BAD_USAGE
    assert controller.conversation.id is None


def test_a_new_plan_loaded_during_an_answer_keeps_the_conversation(loaded_controller, qtbot, seen):
    controller = loaded_controller("--tokens", 50, "--hold-after", 3)
    shown, states = seen(controller.token), seen(controller.state_changed)
    controller.ask("Hello?")
    until(qtbot, lambda: "".join(shown) == "Word 1 2")
    controller.set_plan(controller.propose_plan(_wishes(n_ctx=1024)))
    with qtbot.waitSignal(controller.loaded, timeout=10000):
        controller.load()
    assert states == [ANSWERING, LOADING, READY]
    assert [message.content for message in controller.conversation.messages()] == ["Hello?", "Word 1 2"]
    assert controller.loaded_plan.n_ctx == 1024


def test_an_answer_that_ends_after_another_conversation_was_opened_is_stored_in_its_own(loaded_controller, qtbot, seen):
    controller = loaded_controller("--tokens", 50, "--hold-after", 3)
    shown, finished = seen(controller.token), seen(controller.finished)
    controller.ask("Hello?")
    until(qtbot, lambda: "".join(shown) == "Word 1 2")
    first = controller.conversation.id
    controller.new_conversation()
    assert controller.conversation.id is None
    assert controller.conversation.messages() == ()
    until(qtbot, lambda: controller.state == READY)
    assert finished == []
    assert controller.conversation.store.active_path(first)[-1].state == "stopped"


def test_closing_during_an_answer_marks_it_interrupted(loaded_controller, qtbot, seen):
    controller = loaded_controller("--tokens", 50, "--hold-after", 3)
    shown, failures = seen(controller.token), seen(controller.failed)
    controller.ask("Hello?")
    until(qtbot, lambda: "".join(shown) == "Word 1 2")
    controller.shutdown()
    last = controller.conversation.messages()[-1]
    assert (last.content, last.state) == ("Word 1 2", "interrupted")
    assert failures == []
    assert not controller.engine.running


def test_the_conversation_of_last_time_is_shown_again(loaded_controller, make_controller, qtbot):
    controller = loaded_controller()
    answer(qtbot, controller, "Do you remember?")
    again = make_controller()
    assert again.conversation.messages()[0].content == "Do you remember?"


def test_a_store_that_cannot_be_written_is_told_and_nothing_is_sent(loaded_controller, qtbot, tmp_path, monkeypatch):
    controller = loaded_controller()

    def full(*_arguments, **_keywords):
        raise AppError(ErrorCode.DISK_FULL, "The disk is full.")

    monkeypatch.setattr(controller.conversation.store, "add_message", full)
    with qtbot.waitSignal(controller.failed, timeout=10000) as told:
        controller.ask("Hello?")
    assert told.args[0].code is ErrorCode.DISK_FULL
    assert controller.state == READY


def test_text_that_cannot_be_stored_is_not_shown(loaded_controller, qtbot, seen, monkeypatch):
    controller = loaded_controller("--tokens", 400, "--token-ms", 5)
    shown, failures = seen(controller.token), seen(controller.failed)

    def full(*_arguments, **_keywords):
        raise AppError(ErrorCode.DISK_FULL, "The disk is full.")

    monkeypatch.setattr(controller.conversation.store, "update_message", full)
    controller.ask("Hello?")
    until(qtbot, lambda: controller.state == READY)
    assert shown == []
    assert [error.code for error in failures] == [ErrorCode.DISK_FULL]


# ---- routing ---------------------------------------------------------------------------------------


def test_routings_are_asked_for_one_at_a_time_and_only_of_a_loaded_model(
    loaded_controller, make_controller, qtbot, seen, tmp_path
):
    idle = make_controller()
    idle.poll_routing()
    assert not idle.engine.running
    record = tmp_path / "requests"
    controller = loaded_controller("--no-gpu", "--record", record)
    answer(qtbot, controller)
    with qtbot.waitSignal(controller.routing, timeout=10000) as routed:
        controller.poll_routing()
        controller.poll_routing()
    assert set(routed.args[0].decode) == set(controller.facts.moe_layers)
    asked = [line for line in record.read_text().splitlines() if '"read_routing"' in line]
    assert len(asked) == 1
    with qtbot.waitSignal(controller.routing, timeout=10000):
        controller.poll_routing()
