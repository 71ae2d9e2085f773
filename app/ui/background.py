"""Work off the UI thread, as one fluent call: `background.run(fn).success(f).failure(g)`."""

import logging
from collections.abc import Callable
from typing import Any

from PySide6.QtCore import QCoreApplication, QObject, QRunnable, Qt, QThreadPool, Signal

from app.errors import AppError

log = logging.getLogger(__name__)

WAIT_MILLISECONDS = 3000
"""Longest that the end of a window waits for work: what takes longer is left behind."""


class Job:
    """One function on its way through a pool thread, and who wants its result.

    Results are delivered through the event loop, so handlers attached in the same turn as `run`
    never miss one.
    """

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function
        self._on_success: Callable[[Any], None] | None = None
        self._on_failure: Callable[[AppError], None] | None = None
        self._on_end: Callable[[Exception | None], None] | None = None

    def success(self, handler: Callable[[Any], None]) -> "Job":
        """Call `handler(result)` on the UI thread when the function returns."""
        self._on_success = handler
        return self

    def failure(self, handler: Callable[[AppError], None]) -> "Job":
        """Call `handler(error)` on the UI thread when the function raises an `AppError`.

        Any other exception, and an `AppError` without a handler, is raised on the UI thread.
        """
        self._on_failure = handler
        return self

    def always(self, handler: Callable[[Exception | None], None]) -> "Job":
        """Call `handler(error)` on the UI thread when the function ended, however it did, before any other handler.

        `error` is what it raised, None where it returned. Whoever counts on the end, such as to take the next job,
        belongs here: an exception that nobody expected reaches no other handler.
        """
        self._on_end = handler
        return self

    def execute(self) -> tuple[Any, Exception | None]:
        """Run the function; called on a pool thread. Returns its result or what it raised."""
        try:
            return self._function(), None
        except Exception as error:  # handed to the UI thread, where it is told or raised
            return None, error

    def deliver(self, result: Any, error: Exception | None) -> None:
        """Hand out what `execute` returned; called on the UI thread."""
        if self._on_end is not None:
            self._on_end(error)
        if error is None:
            if self._on_success is not None:
                self._on_success(result)
        elif isinstance(error, AppError) and self._on_failure is not None:
            log.info("%s: %s", error.code, error.message)
            self._on_failure(error)
        else:
            raise error


class _Task(QRunnable):
    def __init__(self, job: Job, ended: Callable[[Job, Any, Exception | None], None]) -> None:
        super().__init__()
        self._job = job
        self._ended = ended

    def run(self) -> None:
        self._ended(self._job, *self._job.execute())


class Background(QObject):
    """A small pool of threads for one window; `wait` before the window goes.

    The pool's threads emit a signal of this object and of no shorter-lived one: a sender that is
    deleted when its result arrives may still be emitting on the other thread.
    """

    _ended = Signal(object, object, object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._pool = QThreadPool(self)
        self._pool.setMaxThreadCount(2)
        self._jobs: set[Job] = set()
        self._ended.connect(self._deliver, Qt.ConnectionType.QueuedConnection)

    def run(self, function: Callable[[], Any]) -> Job:
        """Start `function` on a pool thread."""
        job = Job(function)
        self._jobs.add(job)
        self._pool.start(_Task(job, self._hand_over))
        return job

    @property
    def busy(self) -> bool:
        """True while a function runs, waits, or its result is on the way."""
        return bool(self._jobs)

    def wait(self, milliseconds: int = WAIT_MILLISECONDS) -> bool:
        """Let running functions end and drop their results: nobody is left to take them.

        Returns:
            False where a function still runs. Its pool then belongs to the application (`left_behind`),
            since deleting a pool waits without end.
        """
        self._pool.clear()
        self._jobs.clear()
        if self._pool.waitForDone(milliseconds):
            return True
        log.warning("work is left behind that has not ended after %d ms", milliseconds)
        self._pool.setParent(QCoreApplication.instance())
        return False

    def _hand_over(self, job: Job, result: Any, error: Exception | None) -> None:
        """Called on a pool thread; after `wait` nobody may be there to be told."""
        if job in self._jobs:
            self._ended.emit(job, result, error)

    def _deliver(self, job: Job, result: Any, error: Exception | None) -> None:
        if job in self._jobs:
            self._jobs.remove(job)
            job.deliver(result, error)


def left_behind() -> bool:
    """True where a function still runs that `wait` did not see the end of.

    Such a process must be ended at once: leaving Python would wait for the function, or pull the
    interpreter from under it.
    """
    application = QCoreApplication.instance()
    pools = application.findChildren(QThreadPool) if application is not None else []
    return any(pool.activeThreadCount() for pool in pools)
