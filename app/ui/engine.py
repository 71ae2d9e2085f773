"""The engine child as a QObject: a QProcess that speaks the engine protocol."""

import itertools
import logging
from typing import Any

from PySide6.QtCore import QObject, QProcess, QProcessEnvironment, QTimer, Signal

from app.engine import client, protocol
from app.errors import AppError, ErrorCode

log = logging.getLogger(__name__)
END_MILLISECONDS = 5000


class Engine(QObject):
    """Starts, restarts and ends the engine child; every event of it becomes a signal.

    A request sent before the child is ready is kept and sent then. The object outlives its child:
    after a crash `start` begins a new one with nothing loaded.

    Signals:
        ready: The child is up (protocol.Ready).
        event: Every event of a request (any protocol event but Ready and LogLine).
        log_line: A warning or error of the engine's log (protocol.LogLine).
        ended: The child is gone, or was given up by `kill` (client.ProcessOutcome).
        failed: The child could not be started or broke the protocol (AppError).
    """

    ready = Signal(object)
    event = Signal(object)
    log_line = Signal(object)
    ended = Signal(object)
    failed = Signal(object)

    def __init__(self, command: list[str] | None = None, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._command = command or client.engine_command()
        self._ids = itertools.count(1)
        self._process: QProcess | None = None
        self._lines = client.EventLines()
        self._waiting: list[bytes] = []
        self._ready: protocol.Ready | None = None
        self._ending = False
        self._leaving: set[QProcess] = set()
        self._over = False

    @property
    def running(self) -> bool:
        """True from `start` until `ended`."""
        return self._process is not None

    @property
    def pid(self) -> int:
        """Process id of the child, 0 when there is none."""
        return int(self._process.processId()) if self._process else 0

    def start(self) -> None:
        """Start the child unless it runs, or `shutdown` has been called."""
        if self._process is not None or self._over:
            return
        self._lines = client.EventLines()
        self._ready = None
        self._ending = False
        process = QProcess(self)
        environment = QProcessEnvironment()
        for name, value in client.child_environment().items():
            environment.insert(name, value)
        process.setProcessEnvironment(environment)
        process.setStandardErrorFile(QProcess.nullDevice())
        process.readyReadStandardOutput.connect(self._read)
        process.finished.connect(self._finished)
        process.errorOccurred.connect(self._error)
        self._process = process
        process.start(self._command[0], self._command[1:])

    def send(self, request_type: type[protocol.Request], **fields: Any) -> int:
        """Send a request, starting the child if needed; returns the id its events carry.

        Raises:
            AppError: bad_usage, a text in it is not Unicode.
        """
        request = request_type(id=next(self._ids), **fields)
        line = client.encode_request(request)
        self.start()
        if self._ready and self._process is not None:
            self._process.write(line)
        else:
            self._waiting.append(line)
        return request.id

    def stop(self) -> None:
        """End the child: close its input; kill it if it has not gone after five seconds."""
        process = self._process
        if process is None:
            return
        self._ending = True
        process.closeWriteChannel()
        QTimer.singleShot(END_MILLISECONDS, process, process.kill)

    def kill(self) -> None:
        """End the child at once, told by `ended` as expected.

        It counts as gone even where the system cannot end it yet (a hanging driver): the next request
        starts another one.
        """
        process = self._process
        if process is None:
            return
        process.readyReadStandardOutput.disconnect(self._read)
        process.finished.disconnect(self._finished)
        process.errorOccurred.disconnect(self._error)
        process.finished.connect(lambda: self._leaving.discard(process))
        process.finished.connect(process.deleteLater)
        self._leaving.add(process)
        process.kill()
        outcome = client.ProcessOutcome(0, True, client.last_output(self._ready))
        self._forget()
        log.warning("engine killed")
        self.ended.emit(outcome)

    def shutdown(self) -> None:
        """End the child and wait for it; for the application's own end: no request of a late timer starts another."""
        self._over = True
        for leaving in tuple(self._leaving):
            leaving.waitForFinished(END_MILLISECONDS)
        process = self._process
        if process is None:
            return
        self.stop()
        if not process.waitForFinished(END_MILLISECONDS):
            process.kill()
            process.waitForFinished(END_MILLISECONDS)

    def _read(self) -> None:
        process = self._process
        if process is None:
            return
        try:
            for event in self._lines.feed(bytes(process.readAllStandardOutput().data())):
                if isinstance(event, protocol.Ready):
                    # The kept requests first: one that is sent in answer to `ready` must not overtake them.
                    for line in self._waiting:
                        process.write(line)
                    self._waiting.clear()
                    self._ready = event
                    self.ready.emit(event)
                elif isinstance(event, protocol.LogLine):
                    self.log_line.emit(event)
                else:
                    self.event.emit(event)
        except AppError as error:
            log.error("%s %s", error.message, error.detail)
            self.failed.emit(error)
            process.kill()

    def _finished(self, exit_code: int, status: QProcess.ExitStatus) -> None:
        self._read()
        crashed = status is QProcess.ExitStatus.CrashExit
        outcome = client.ProcessOutcome(
            -exit_code if crashed else exit_code, self._ending, client.last_output(self._ready)
        )
        self._forget()
        log.info("engine ended: %s", outcome)
        self.ended.emit(outcome)

    def _error(self, error: QProcess.ProcessError) -> None:
        if error is not QProcess.ProcessError.FailedToStart or self._process is None:
            return
        reason = self._process.errorString()
        self._forget()
        self.failed.emit(AppError(ErrorCode.ENGINE_MISSING, f"The engine cannot be started: {reason}"))

    def _forget(self) -> None:
        process, self._process = self._process, None
        self._ready = None
        self._waiting.clear()
        if process is not None and process not in self._leaving:
            process.deleteLater()
