"""A source that fails or hangs costs a bounded time and gives its reason."""

import threading
import time

import pytest

from app.hardware.sources import LateError, NotSeenError, Paced, Source, in_time


@pytest.fixture
def released():
    """Lets every hanging source of a test go when the test ends."""
    event = threading.Event()
    yield event
    event.set()


def test_a_source_gives_its_value_and_no_reason():
    source = Source("It", lambda: 7)
    assert source.answer(5) == (7, "")
    assert source.close(5)


def test_a_source_that_is_missing_gives_its_own_sentence():
    def read():
        raise NotSeenError("There is no such driver.")

    source = Source("It", read)
    assert source.answer(5) == (None, "There is no such driver.")
    assert source.close(5)


def test_a_source_that_breaks_gives_its_name_and_the_failure_and_can_be_asked_again(caplog):
    answers = iter([ZeroDivisionError("by nothing"), 3])

    def read():
        value = next(answers)
        if isinstance(value, Exception):
            raise value
        return value

    source = Source("The thing", read)
    assert source.answer(5) == (None, "The thing could not be read: by nothing.")
    assert "The thing failed" in caplog.text
    assert source.answer(5) == (3, "")
    assert source.close(5)


def test_a_hanging_source_gives_up_and_is_left_behind(released):
    source = Source("The disk", released.wait)
    assert source.answer(0.01) == (None, "The disk did not answer in time.")
    assert not source.close(0.01)


def test_a_hanging_source_is_not_asked_twice_at_once(released):
    calls = []

    def read():
        calls.append(1)
        released.wait()
        return len(calls)

    source = Source("It", read)
    assert source.answer(0.01)[0] is None
    assert source.answer(0.01)[0] is None
    released.set()
    assert source.answer(5) == (1, "")
    assert source.close(5)
    assert calls == [1]


def test_a_late_answer_that_grew_stale_is_read_anew():
    readings = []
    # Nothing is fresh enough: the source is asked again until the time is over.
    source = Source("It", lambda: readings.append(1), fresh_seconds=-1.0)
    for _ in range(100):  # a busy machine may give a thread no turn in that time
        before = len(readings)
        assert source.answer(0.05)[0] is None
        if asked_again := len(readings) > before + 3:
            break
    assert asked_again
    assert source.close(5)


def test_a_source_is_finished_on_its_own_thread():
    threads = []
    source = Source(
        "It",
        lambda: threads.append(threading.current_thread()),
        finish=lambda: threads.append(threading.current_thread()),
    )
    source.answer(5)
    assert source.close(5)
    assert threads[0] is threads[1] is not threading.current_thread()


def test_a_source_that_cannot_be_finished_still_ends_and_is_logged(caplog):
    source = Source("The driver", lambda: 1, finish=lambda: 1 / 0)
    assert source.close(5)
    assert "The driver could not be closed" in caplog.text


def test_a_paced_source_is_asked_once_in_its_time_and_its_refusal_is_kept_as_long():
    now, asked, answers = [0.0], [], [1, NotSeenError("not now"), 3]

    def read():
        asked.append(now[0])
        answer = answers[len(asked) - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer

    paced = Paced(read, 1.0, lambda: now[0])
    assert [paced.read(), paced.read()] == [1, 1]
    now[0] = 1.0
    for _ in range(3):
        with pytest.raises(NotSeenError, match="not now"):
            paced.read()
    now[0] = 1.9
    with pytest.raises(NotSeenError):
        paced.read()
    now[0] = 2.0
    assert paced.read() == 3
    assert asked == [0.0, 1.0, 2.0]


def test_a_surprise_in_a_paced_source_is_raised_and_the_source_is_asked_again():
    answers = [ZeroDivisionError("odd"), 2]

    def read():
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    paced = Paced(read, 100.0)
    with pytest.raises(ZeroDivisionError):
        paced.read()
    assert paced.read() == 2


def test_a_source_that_hangs_is_waited_for_once_and_again_after_it_came_back(released):
    source = Source("It", lambda: released.wait() and 5)
    assert source.answer(0.05, once=True)[0] is None
    begin = time.monotonic()
    for _ in range(10):
        assert source.answer(5, once=True)[0] is None
    assert time.monotonic() - begin < 5, "one of them waited"
    released.set()
    end = time.monotonic() + 10
    while (answer := source.answer(5, once=True)) != (5, "") and time.monotonic() < end:
        pass
    assert answer == (5, "")
    assert source.answer(5, once=True) == (5, ""), "it is waited for again"
    assert source.close(5)


def test_the_words_of_a_failure_end_once():
    def read():
        raise RuntimeError("Counters may be disabled.")

    source = Source("The page file", read)
    assert source.answer(5)[1] == "The page file could not be read: Counters may be disabled."
    assert source.close(5)


def test_what_is_read_in_time_gives_its_value_or_its_own_error():
    assert in_time("it", lambda: 7, 5) == 7
    for error in (KeyError("none"), TimeoutError("a share's own patience ended")):

        def read(error=error):
            raise error

        with pytest.raises(type(error)) as caught:
            in_time("it", read, 5)
        assert caught.value is error


def test_what_hangs_costs_the_time_given_and_is_named(released):
    begin = time.monotonic()
    with pytest.raises(LateError, match="the model's file did not answer"):
        in_time("the model's file", released.wait, 0.1)
    assert time.monotonic() - begin < 10, "far from for ever, on a busy machine too"
