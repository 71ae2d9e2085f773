"""Sources of facts that may be missing, fail or hang, and how they are asked without harm."""

import logging
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

log = logging.getLogger(__name__)

T = TypeVar("T")


class NotSeenError(Exception):
    """A source has no answer; the text is a sentence for the user that says why."""


class Source(Generic[T]):
    """A source read on a daemon thread of its own, so that its hanging costs a bounded time.

    `ask` starts a reading, `answer` collects it. A reading that came after `answer` gave up is given
    to the next `answer` if it is still fresh. Used by one thread.
    """

    def __init__(
        self,
        name: str,
        read: Callable[[], T],
        *,
        finish: Callable[[], None] | None = None,
        fresh_seconds: float = 1.0,
    ) -> None:
        """Start the thread.

        Args:
            name: What the source is called in sentences: "The NVIDIA driver".
            read: Reads once; may raise `NotSeenError` or anything else, and may hang.
            finish: Called on the thread when it ends.
            fresh_seconds: How old a late reading may be when it is given.
        """
        self._name = name
        self._read = read
        self._finish = finish
        self._fresh_seconds = fresh_seconds
        self._questions: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[tuple[float, T | None, str]] = queue.SimpleQueue()
        self._gave_up = False
        self._open_question = False
        self._thread = threading.Thread(target=self._work, name=f"source: {name}", daemon=True)
        self._thread.start()

    def ask(self) -> None:
        """Start a reading, unless one is running."""
        if not self._open_question:
            self._open_question = True
            self._questions.put(True)

    def answer(self, seconds: float, *, once: bool = False) -> tuple[T | None, str]:
        """Wait at most `seconds` for the reading asked for.

        Args:
            seconds: The time.
            once: Wait no longer for a reading that was waited for in vain before: it may hang for good.

        Returns:
            The value and an empty text, or None and the sentence that says why.
        """
        end = time.monotonic() + (0.0 if once and self._gave_up else seconds)
        self._gave_up = True
        while True:
            self.ask()
            try:
                taken, value, why = self._answers.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                return None, f"{self._name} did not answer in time."
            self._open_question = False
            self._gave_up = False
            if time.monotonic() - taken <= self._fresh_seconds:
                return value, why

    def close(self, seconds: float = 0.0) -> bool:
        """End the thread, waiting at most `seconds` for it.

        Returns:
            Whether it ended; one that hangs is left behind as a daemon and dies with the process.
        """
        self._questions.put(False)
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _work(self) -> None:
        while self._questions.get():
            self._answers.put(self._reading())
        if self._finish:
            try:
                self._finish()
            except Exception:
                # Nobody waits for it any more; the log is all there is to tell.
                log.warning("%s could not be closed", self._name, exc_info=True)

    def _reading(self) -> tuple[float, T | None, str]:
        try:
            value = self._read()
        except NotSeenError as error:
            return time.monotonic(), None, str(error)
        except Exception as error:
            # Drivers and virtual files fail in ways nobody lists; the failure becomes a fact.
            log.warning("%s failed", self._name, exc_info=True)
            told = str(error).strip().rstrip(".") or type(error).__name__
            why = f"{self._name} could not be read: {told}."
            return time.monotonic(), None, why
        return time.monotonic(), value, ""


class Paced(Generic[T]):
    """A source read at most once in some seconds; in between its last answer, or refusal, is given again."""

    def __init__(self, read: Callable[[], T], seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        """`read` may raise `NotSeenError`; `clock` gives seconds."""
        self._read = read
        self._seconds = seconds
        self._clock = clock
        self._due = clock()
        self._value: T | None = None
        self._refusal: NotSeenError | None = None

    def read(self) -> T:
        """The newest answer.

        Raises:
            NotSeenError: the source refused.
        """
        now = self._clock()
        if now >= self._due or (self._value is None and self._refusal is None):
            self._due = now + self._seconds
            self._value = self._refusal = None
            try:
                self._value = self._read()
            except NotSeenError as error:
                self._refusal = error
        if self._value is None:
            raise self._refusal or NotSeenError("There is no answer.")
        return self._value


class LateError(Exception):
    """What was asked did not answer in time."""


def in_time(name: str, read: Callable[[], T], seconds: float) -> T:
    """What `read` gives, read on a daemon thread of its own, so that its hanging costs a bounded time.

    Args:
        name: What the thread is called.
        read: Reads once.
        seconds: The time.

    Raises:
        LateError: it did not end; it is left behind, and dies with the process.
        Exception: as `read` does.
    """
    ended: Future[T] = Future()

    def work() -> None:
        try:
            ended.set_result(read())
        except Exception as error:  # raised again where it was asked for
            ended.set_exception(error)

    threading.Thread(target=work, name=f"in time: {name}", daemon=True).start()
    try:
        return ended.result(seconds)
    except TimeoutError as error:
        if ended.done():
            raise  # it is what `read` raised
        raise LateError(f"{name} did not answer in {seconds:.0f} seconds.") from error
