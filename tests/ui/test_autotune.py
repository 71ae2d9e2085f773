"""Tuning from the window over a scripted engine: the search, its failures, its end, and what becomes of the model."""

import json

import pytest
from controller_driver import PATIENCE, answer, seen, until

from app.engine.protocol import MeasureProgress
from app.errors import AppError, ErrorCode
from app.library import tuned_plans
from app.placement.evidence import NO_EVIDENCE
from app.placement.tuner.held import Held
from app.placement.tuner.search import Tuner
from app.ui.controller import EMPTY, LENT, LOADING, READY
from app.ui.tuning.autotune import AutoTune

ALL_BUT_THREADS = Held(context=True, kv_type=True, places=True)
LONG = 30 * PATIENCE


@pytest.fixture
def make_tuning(qtbot):
    """`make_tuning(controller) -> AutoTune`, which is ended with the test."""
    made = []

    def make(controller, **keywords):
        tuning = AutoTune(controller, **keywords)
        made.append(tuning)
        return tuning

    yield make
    for tuning in made:
        tuning.shutdown()


def tune(qtbot, tuning, held=ALL_BUT_THREADS, minutes=1):
    with qtbot.waitSignal(tuning.ended, timeout=LONG):
        tuning.start(minutes, held, NO_EVIDENCE)


def requests(record):
    return [json.loads(line)["type"] for line in record.read_text("utf-8").splitlines()]


def test_the_best_plan_is_found_kept_and_the_model_is_loaded_again(loaded_controller, make_tuning, qtbot, tmp_path):
    controller = loaded_controller("--best-threads", 4, "--record", tmp_path / "requests")
    tuning = make_tuning(controller)
    facts, plan, before = controller.loaded_facts, controller.loaded_plan, controller.machine
    with qtbot.waitSignal(tuning.kept, timeout=LONG) as kept:
        tune(qtbot, tuning)
        assert controller.state == LOADING
    assert kept.args == [None]
    until(qtbot, lambda: controller.state == READY)
    assert controller.loaded_plan == plan
    result = tuning.result
    assert result.kept
    assert result.best.threads == 4
    assert result.before.decode.median < result.after.decode.median
    assert tuning.best_plan.threads == 4
    assert "decoding 1.40×" in tuning.best_plan.tuned
    assert tuned_plans.tuned_plan(facts, before).plan.threads == 4
    sent = requests(tmp_path / "requests")
    assert sent.index("unload") < sent.index("measure"), "the model is freed before others are loaded"


def test_nothing_blocks_and_the_model_cannot_answer_meanwhile(loaded_controller, make_tuning, qtbot):
    controller = loaded_controller("--hold-measure")
    answer(qtbot, controller)
    conversation = controller.conversation.id
    tuning = make_tuning(controller)
    states = seen(controller.state_changed)
    tuning.start(1, ALL_BUT_THREADS, NO_EVIDENCE)
    until(qtbot, lambda: tuning.trial is not None and tuning.fraction == 0.5)
    assert controller.state == LENT
    assert tuning.trial.candidate.words == ""
    with pytest.raises(AppError, match="No model is ready"):
        controller.ask("Hello?")
    with pytest.raises(AppError, match="Auto-tune is measuring"):
        controller.load()
    with pytest.raises(AppError, match="busy"):
        tuning.start(1, ALL_BUT_THREADS, NO_EVIDENCE)
    with qtbot.waitSignal(controller.loaded, timeout=PATIENCE):
        tuning.cancel()
    assert not tuning.running
    assert tuning.result.cancelled
    assert states == [LENT, LOADING, READY]
    assert controller.conversation.id == conversation
    assert len(controller.conversation.messages()) == 2


def test_an_engine_that_dies_and_memory_that_runs_out_are_results(loaded_controller, make_tuning, qtbot):
    controller = loaded_controller("--best-threads", 4, "--crash-threads", 8, "--fail-threads", 14)
    tuning = make_tuning(controller)
    failures = seen(controller.failed)
    tune(qtbot, tuning)
    tried = {its.words: its for its in tuning.result.tried}
    assert "killed" in tried["8 threads"].failure
    assert "no memory" in tried["14 threads"].failure
    assert tried["8 threads"].decode is None
    assert tuning.result.best.threads == 4
    assert tuning.error is None
    assert failures == []
    until(qtbot, lambda: controller.state == READY)


def test_cancelling_keeps_the_best_so_far(loaded_controller, make_tuning, qtbot):
    controller = loaded_controller("--best-threads", 4)
    tuning = make_tuning(controller)

    def cancel_when_found():
        if tuning.result is not None and any(its.words == "4 threads" for its in tuning.result.tried):
            tuning.cancel()

    tuning.changed.connect(cancel_when_found)
    tune(qtbot, tuning)
    assert tuning.result.cancelled
    assert not tuning.result.kept
    assert tuning.best_plan.threads == 4
    assert tuning.best_plan.tuned == "", "nothing is proven"
    until(qtbot, lambda: controller.state == READY)


def test_cancelling_while_the_machine_is_looked_at_loads_the_model_again(loaded_controller, make_tuning, qtbot):
    controller = loaded_controller()
    tuning = make_tuning(controller)
    tuning.start(1, ALL_BUT_THREADS, NO_EVIDENCE)
    with qtbot.waitSignal(controller.loaded, timeout=PATIENCE):
        tuning.cancel()
    assert tuning.result is None
    assert tuning.error is None


def test_without_a_loaded_model_nothing_is_loaded_afterwards(make_controller, make_tuning, qtbot, tmp_path):
    from controller_driver import choose

    controller = make_controller("--best-threads", 4)
    choose(qtbot, controller, tmp_path)
    tuning = make_tuning(controller)
    tune(qtbot, tuning)
    assert tuning.result.best.threads == 4
    assert controller.state == EMPTY
    assert controller.loaded_plan is None


def test_an_edited_plan_stays_what_is_edited(loaded_controller, make_tuning, qtbot):
    from controller_driver import smaller_context

    controller = loaded_controller("--best-threads", 4)
    edited = smaller_context(controller)
    loaded = controller.loaded_plan
    tuning = make_tuning(controller)
    tune(qtbot, tuning)
    assert tuning.result.best.n_ctx == 1024
    until(qtbot, lambda: controller.state == READY)
    assert controller.plan == edited
    assert controller.loaded_plan == loaded


def test_progress_of_every_token_redraws_nothing(loaded_controller, make_tuning, qtbot):
    controller = loaded_controller("--hold-measure")
    tuning = make_tuning(controller)
    tuning.start(1, ALL_BUT_THREADS, NO_EVIDENCE)
    until(qtbot, lambda: tuning.fraction == 0.5)
    told = seen(tuning.changed)
    for done in range(50):
        controller.engine.event.emit(MeasureProgress(id=tuning._request, done=done, total=100))
    assert (tuning.fraction, told) == (0.49, [])
    with qtbot.waitSignal(controller.loaded, timeout=PATIENCE):
        tuning.cancel()


def test_what_was_found_is_forgotten_with_another_model(loaded_controller, make_tuning, qtbot, make_facts):
    controller = loaded_controller("--best-threads", 4)
    tuning = make_tuning(controller)
    tune(qtbot, tuning)
    until(qtbot, lambda: controller.state == READY)
    assert tuning.best_plan is not None
    controller._set_facts(make_facts(name="Another", fingerprint="77"))
    assert tuning.best_plan is None
    assert tuning.result is None


def test_a_model_that_is_gone_ends_the_search_and_is_told(loaded_controller, make_tuning, qtbot, monkeypatch):
    controller = loaded_controller("--best-threads", 4)
    tuning = make_tuning(controller)

    def damage():
        if tuning.trial is not None and tuning.trial.number == 2 and tuning.error is None and tuning.running:
            tuning._step_failed(AppError(ErrorCode.FILE_MISSING, "The model file is gone."))

    tuning.changed.connect(damage)
    tune(qtbot, tuning)
    assert tuning.error.code is ErrorCode.FILE_MISSING
    until(qtbot, lambda: controller.state == READY)


@pytest.mark.parametrize("error", [ZeroDivisionError("no such share"), AppError(ErrorCode.BAD_USAGE, "No trial.")])
def test_a_search_that_fails_between_trials_gives_the_engine_back_and_is_told(
    loaded_controller, make_tuning, qtbot, monkeypatch, error
):
    controller = loaded_controller()
    plan = controller.loaded_plan

    def fails(_tuner):
        raise error

    monkeypatch.setattr(Tuner, "next_trial", fails)
    tuning = make_tuning(controller)
    with qtbot.captureExceptions() as caught:
        tune(qtbot, tuning)
        until(qtbot, lambda: controller.state == READY and not controller.background.busy)
    assert len(caught) == isinstance(error, ZeroDivisionError)
    assert str(error) in tuning.error.message
    assert controller.loaded_plan == plan


def test_nothing_is_searched_where_nothing_can_be_kept(loaded_controller, make_tuning, qtbot, home):
    controller = loaded_controller("--best-threads", 4)
    folder = home / "data" / "machine" / "tuned"
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.write_text("a file in place of the folder")
    tuning = make_tuning(controller)
    tune(qtbot, tuning)
    assert tuning.error.code is ErrorCode.FOLDER_NOT_WRITABLE
    assert tuning.result is None
    until(qtbot, lambda: controller.state == READY)


def test_an_answer_that_runs_is_not_ended_for_it(loaded_controller, make_tuning, qtbot):
    controller = loaded_controller("--hold-after", 2)
    tuning = make_tuning(controller)
    controller.ask("Hello?")
    with pytest.raises(AppError, match="busy"):
        tuning.start(1, ALL_BUT_THREADS, NO_EVIDENCE)
    with qtbot.waitSignal(controller.finished, timeout=PATIENCE):
        controller.stop()


def test_the_end_of_the_window_ends_a_search(loaded_controller, make_tuning, qtbot):
    controller = loaded_controller("--hold-measure")
    tuning = make_tuning(controller)
    ended, failures = seen(tuning.ended), seen(controller.failed)
    tuning.start(1, ALL_BUT_THREADS, NO_EVIDENCE)
    until(qtbot, lambda: tuning.fraction == 0.5)
    tuning.shutdown()
    controller.shutdown()
    assert not controller.engine.running
    assert (ended, failures) == ([], [])


def test_an_engine_that_cannot_be_started_any_more_ends_it(loaded_controller, make_tuning, qtbot):
    controller = loaded_controller("--best-threads", 4, "--crash-threads", 8)
    tuning = make_tuning(controller)
    controller.engine._command = ["/nowhere/engine"]  # what is started after the crash
    tune(qtbot, tuning)
    assert tuning.error.code is ErrorCode.ENGINE_MISSING
    until(qtbot, lambda: controller.state != LENT)
