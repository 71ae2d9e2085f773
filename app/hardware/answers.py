"""What drivers and the operating system answer to calls: asked live, written down, or played back from a record."""

import threading
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

import msgspec

from app.hardware.sources import NotSeenError

_T = TypeVar("_T")

HANGS = "The call did not return."
"""What a played call that hung is refused with: who asked knows the source's name."""


class Answer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One call's outcome.

    Attributes:
        value: What it gave, as JSON.
        refused: Why it gave nothing, as one sentence; else empty.
        hangs: True for a call that had not returned when the record was made.
    """

    value: Any = None
    refused: str = ""
    hangs: bool = False


class Answers(Protocol):
    """Asks one call by name. What `live` gives must be data that msgspec knows."""

    def ask(self, question: str, live: Callable[[], _T], kind: Any) -> _T:
        """What the call gives.

        Args:
            question: The call's name in records.
            live: Makes the call.
            kind: The type of what it gives, which a record is read as.

        Raises:
            NotSeenError: it gave nothing.
        """
        ...


class LiveAnswers:
    """Makes every call."""

    def ask(self, question: str, live: Callable[[], _T], kind: Any) -> _T:
        """As `Answers` says."""
        return live()


class RecordingAnswers:
    """Makes every call and writes down what it gave; used by several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answers: dict[str, Answer] = {}

    def ask(self, question: str, live: Callable[[], _T], kind: Any) -> _T:
        """As `Answers` says."""
        self._keep(question, Answer(hangs=True))
        try:
            value = live()
            told = msgspec.to_builtins(value)
        except Exception as error:
            self._keep(question, Answer(refused=str(error) or type(error).__name__))
            raise
        self._keep(question, Answer(value=told))
        return value

    def record(self) -> dict[str, Answer]:
        """What was answered so far; a call under way hangs."""
        with self._lock:
            return dict(sorted(self._answers.items()))

    def _keep(self, question: str, answer: Answer) -> None:
        with self._lock:
            self._answers[question] = answer


class PlayedAnswers:
    """Answers from a record, and never makes a call."""

    def __init__(self, record: Mapping[str, Answer]) -> None:
        self._record = record

    def ask(self, question: str, live: Callable[[], _T], kind: Any) -> _T:
        """As `Answers` says; a call that hung is refused at once."""
        answer = self._record.get(question)
        if answer is None:
            raise NotSeenError(f"The record holds no answer to '{question}'.")
        if answer.hangs:
            raise NotSeenError(HANGS)
        if answer.refused:
            raise NotSeenError(answer.refused)
        try:
            value: _T = msgspec.convert(answer.value, kind)
        except msgspec.ValidationError as error:
            raise NotSeenError(f"The recorded answer to '{question}' cannot be read: {error}.") from error
        return value


LIVE = LiveAnswers()
