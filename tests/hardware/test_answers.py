"""Calls are recorded with what they gave, and played back without being made."""

import threading

import pytest

from app.hardware.answers import HANGS, Answer, PlayedAnswers, RecordingAnswers
from app.hardware.facts import Ram
from app.hardware.sources import NotSeenError

RAM = Ram(total_bytes=8, available_bytes=4)


def never():
    raise AssertionError("a played call was made")


def play(record, question="memory", kind=Ram):
    return PlayedAnswers(record).ask(question, never, kind)


def test_a_value_comes_back_as_its_type():
    answers = RecordingAnswers()
    assert answers.ask("memory", lambda: RAM, Ram) is RAM
    assert play(answers.record()) == RAM


def test_a_refusal_comes_back_with_its_words():
    answers = RecordingAnswers()

    def refuse():
        raise NotSeenError("There is no such driver.")

    with pytest.raises(NotSeenError):
        answers.ask("memory", refuse, Ram)
    with pytest.raises(NotSeenError, match="no such driver"):
        play(answers.record())


def test_a_call_that_has_not_returned_is_recorded_as_hanging():
    answers, entered, release = RecordingAnswers(), threading.Event(), threading.Event()

    def hang():
        entered.set()
        release.wait()
        return RAM

    thread = threading.Thread(target=answers.ask, args=("memory", hang, Ram))
    thread.start()
    try:
        assert entered.wait(5)
        record = answers.record()
    finally:
        release.set()
        thread.join(5)
    assert record == {"memory": Answer(hangs=True)}
    with pytest.raises(NotSeenError, match=HANGS):
        play(record)


@pytest.mark.parametrize("value", [None, 7, "x", {"total_bytes": "many"}, []])
def test_an_answer_of_another_form_is_not_seen(value):
    with pytest.raises(NotSeenError, match="memory"):
        play({"memory": Answer(value=value)})


def test_a_call_that_was_not_recorded_is_not_seen():
    with pytest.raises(NotSeenError, match="'memory'"):
        play({})
