"""Work off the UI thread comes back on it, and nothing outlives the window."""

import threading

import pytest
from shiboken6 import isValid

from app.errors import AppError, ErrorCode
from app.ui.background import Background, left_behind


@pytest.fixture
def background(qapp):
    made = Background()
    yield made
    made.wait()


def test_a_function_runs_elsewhere_and_its_result_comes_back_here(background, qtbot):
    threads, results = [], []
    here = threading.current_thread()

    def work():
        threads.append(threading.current_thread())
        return 7

    background.run(work).success(lambda result: results.append((result, threading.current_thread())))
    qtbot.waitUntil(lambda: bool(results))
    assert results == [(7, here)]
    assert threads != [here]
    assert not background.busy


def test_a_typed_error_goes_to_the_failure_handler_only(background, qtbot):
    error = AppError(ErrorCode.DISK_FULL, "The disk is full.")
    told, succeeded = [], []

    def work():
        raise error

    background.run(work).success(succeeded.append).failure(told.append)
    qtbot.waitUntil(lambda: bool(told))
    assert told == [error]
    assert succeeded == []


@pytest.mark.parametrize("error", [ValueError("a mistake of ours"), AppError(ErrorCode.DISK_FULL, "Nobody listens.")])
def test_an_error_nobody_handles_is_raised_on_the_ui_thread(background, qtbot, error):
    def work():
        raise error

    with qtbot.captureExceptions() as caught:
        job = background.run(work)
        if isinstance(error, ValueError):
            job.failure(lambda _error: pytest.fail("only typed errors are handed to it"))
        qtbot.waitUntil(lambda: not background.busy)
    assert [raised for _, raised, _ in caught] == [error]


@pytest.mark.parametrize("error", [None, ValueError("a mistake of ours"), AppError(ErrorCode.DISK_FULL, "Full.")])
def test_who_counts_on_the_end_is_told_of_it_first_however_it_came(background, qtbot, error):
    told = []

    def work():
        if error is not None:
            raise error

    with qtbot.captureExceptions() as caught:
        job = background.run(work).success(lambda _: told.append("success")).failure(lambda _: told.append("failure"))
        job.always(told.append)
        qtbot.waitUntil(lambda: not background.busy)
    after = {type(None): ["success"], AppError: ["failure"]}.get(type(error), [])
    assert told == [error, *after]
    assert len(caught) == isinstance(error, ValueError)


def test_waiting_ends_running_work_and_drops_its_results(background, qtbot):
    started, ended, results = threading.Event(), [], []

    def work():
        started.set()
        threading.Event().wait(0.05)
        ended.append(True)

    background.run(work).success(results.append)
    assert started.wait(10)
    assert background.wait()
    assert ended == [True]
    assert not background.busy
    # A later result has passed through the event loop: an earlier one would have, too.
    background.run(lambda: "later").success(results.append)
    qtbot.waitUntil(lambda: bool(results))
    assert results == ["later"]
    assert not left_behind()


def test_work_that_does_not_end_is_left_behind_after_a_limit(qapp, qtbot):
    release, results = threading.Event(), []
    made = Background()
    made.run(lambda: release.wait(10)).success(results.append)
    try:
        assert not made.wait(milliseconds=50)
        made.deleteLater()
        qtbot.waitUntil(lambda: not isValid(made))
        assert left_behind()
    finally:
        release.set()
    qtbot.waitUntil(lambda: not left_behind())
    assert results == []


def test_many_results_arrive_each_once(background, qtbot):
    results = []
    for number in range(200):
        background.run(lambda number=number: number).success(results.append)
    qtbot.waitUntil(lambda: not background.busy)
    assert sorted(results) == list(range(200))
