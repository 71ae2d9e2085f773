"""The application's side of the engine child: how to start it, read its lines, name its end.

Imports no llama.cpp and no Qt. `EngineClient` runs the child with `subprocess` for the command line
and tests; the window's `ui.engine.Engine` uses the same pieces over QProcess.
"""

import contextlib
import itertools
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from app.engine import protocol
from app.errors import AppError, ErrorCode

_E = TypeVar("_E", bound=protocol.Event)
START_SECONDS = 60.0
END_SECONDS = 10.0
_OUTPUT_TAIL_BYTES = 4000
# What Windows ends a process with when a page of a mapped file cannot be read (EXCEPTION_IN_PAGE_ERROR): as
# `subprocess` tells it, as a signed number, and as that of a crash, whose sign the window turns around.
_PAGE_ERRORS = (0xC0000006, 0xC0000006 - 2**32, 2**32 - 0xC0000006)


def engine_command() -> list[str]:
    """The argument vector that starts the engine child of this very installation."""
    if getattr(sys, "frozen", False):
        return [sys.executable, "--engine"]
    # -P: a folder that happens to be called "app" where the user stands is not our package.
    return [sys.executable, "-P", "-m", "app", "--engine"]


@dataclass(frozen=True)
class ProcessOutcome:
    """How the engine child ended, with the words for it."""

    exit_status: int
    expected: bool
    last_output: str = ""

    @property
    def killed_by(self) -> str:
        """The signal's name, or empty."""
        if self.exit_status >= 0 or sys.platform == "win32":
            return ""
        with contextlib.suppress(ValueError):
            return signal.Signals(-self.exit_status).name
        return f"signal {-self.exit_status}"

    def error(self) -> AppError:
        """The typed error for an end nobody asked for."""
        if self.killed_by == "SIGKILL":
            return AppError(
                ErrorCode.ENGINE_CRASHED,
                "The engine was killed (SIGKILL); often the system does this when memory runs out.",
                self.last_output,
            )
        if self.killed_by == "SIGBUS" or self.exit_status in _PAGE_ERRORS:  # no such page
            return AppError(
                ErrorCode.MODEL_DAMAGED,
                "The model file was changed, or its drive failed, while the engine read it.",
                self.last_output,
            )
        how = f"by {self.killed_by}" if self.killed_by else f"with status {self.exit_status}"
        return AppError(ErrorCode.ENGINE_CRASHED, f"The engine ended unexpectedly, {how}.", self.last_output)


def last_output(ready: protocol.Ready | None) -> str:
    """The end of what the child's C code printed, such as the reason of an abort; empty for none."""
    if ready is None or not ready.output_log:
        return ""
    try:
        with Path(ready.output_log).open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - _OUTPUT_TAIL_BYTES))
            return file.read().decode(errors="replace").strip()
    except OSError:
        return ""


def encode_request(request: protocol.Request) -> bytes:
    """The request's line.

    Raises:
        AppError: bad_usage, a text in it is not Unicode (bytes of another encoding on a command line).
    """
    try:
        return protocol.encode(request)
    except UnicodeEncodeError as error:
        raise AppError(ErrorCode.BAD_USAGE, "The text is not valid Unicode.", str(error)) from error


class EventLines:
    """Splits the child's output into events; `feed` takes bytes as they come."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[protocol.AnyEvent]:
        """Yield every event completed by `data`.

        Raises:
            AppError: engine_protocol, the child wrote something that is no event.
        """
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        if len(self._rest) > protocol.MAX_LINE_BYTES:
            raise AppError(ErrorCode.ENGINE_PROTOCOL, "The engine wrote a line without an end.")
        for line in lines:
            try:
                event = protocol.decode_event(line)
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                raise AppError(
                    ErrorCode.ENGINE_PROTOCOL,
                    "The engine wrote a line that is not a message.",
                    f"{error}: {line[:200]!r}",
                ) from error
            check_version(event)
            yield event


def check_version(event: protocol.AnyEvent) -> None:
    """Refuse a child of another protocol version.

    Raises:
        AppError: engine_protocol.
    """
    if isinstance(event, protocol.Ready) and event.protocol != protocol.PROTOCOL_VERSION:
        raise AppError(
            ErrorCode.ENGINE_PROTOCOL,
            f"The engine speaks protocol {event.protocol}, this app {protocol.PROTOCOL_VERSION}.",
        )


def error_of(failed: protocol.Failed) -> AppError:
    """The typed error a `Failed` event carries."""
    try:
        code = ErrorCode(failed.code)
    except ValueError:
        code = ErrorCode.ENGINE_FAILED
    return AppError(code, failed.message, failed.detail)


class EngineLateError(AppError):
    """No event came in the time that was given."""


class EngineClient:
    """The engine child over `subprocess`; one user thread calls `request` and gets events in order.

    Use as a context manager: leaving it closes the child's input, on which the child ends itself.

    Raises:
        AppError: engine_missing when the child cannot be started, engine_crashed when it dies.
    """

    def __init__(
        self, command: list[str] | None = None, on_log: Callable[[protocol.LogLine], None] | None = None
    ) -> None:
        self._ids = itertools.count(1)
        self._events: queue.Queue[protocol.AnyEvent | AppError | None] = queue.Queue()
        self._on_log = on_log
        self._write_lock = threading.Lock()
        self._closing = False
        try:
            self._process = subprocess.Popen(
                command or engine_command(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
                env=child_environment(),
            )
        except OSError as error:
            raise AppError(ErrorCode.ENGINE_MISSING, f"The engine cannot be started: {error}") from error
        self._reader = threading.Thread(target=self._read, name="engine-reader", daemon=True)
        self._reader.start()
        try:
            self._ready: protocol.Ready | None = None
            self._ready = self._next(protocol.Ready, 0, START_SECONDS)
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        """Process id of the child."""
        return self._process.pid

    def __enter__(self) -> "EngineClient":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the child: close its input, wait, and kill it only if it does not go.

        One that is held in the system, as by a disk that never answers, ends when that lets it go.
        """
        self._closing = True
        with contextlib.suppress(OSError):
            if self._process.stdin:
                self._process.stdin.close()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            try:
                self._process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                return
        self._reader.join()
        if self._process.stdout:
            self._process.stdout.close()

    def send(self, request_type: type[protocol.Request], **fields: Any) -> int:
        """Write a request and return its id.

        Raises:
            AppError: bad_usage, a text is no Unicode; engine_crashed, the child is gone.
        """
        request = request_type(id=next(self._ids), **fields)
        data = memoryview(encode_request(request))
        try:
            with self._write_lock:
                assert self._process.stdin
                while data:
                    data = data[self._process.stdin.write(data) :]
        except (OSError, ValueError) as error:  # ValueError: closed by `close`
            raise self._outcome().error() from error
        return request.id

    def events(
        self,
        request_id: int,
        last: type[_E],
        *,
        timeout: float | None = None,
        others: Callable[[protocol.AnyEvent], None] | None = None,
    ) -> Iterator[protocol.AnyEvent]:
        """Yield the events of one request up to and including the one of type `last`.

        Args:
            request_id: The request.
            last: The type of its closing event.
            timeout: Longest wait for an event, in seconds.
            others: Gets the events of other requests meanwhile; without it they are dropped.

        Raises:
            EngineLateError: no event of any request came for `timeout` seconds; the request goes on.
            AppError: what a `Failed` event carries, or engine_crashed.
        """
        while True:
            event = self._take(timeout)
            if isinstance(event, protocol.Failed) and event.id == 0:
                raise error_of(event)  # a request that the child could not read: it cannot say which
            if event.id != request_id:
                if others is not None:
                    others(event)
                continue
            if isinstance(event, protocol.Failed):
                raise error_of(event)
            yield event
            if isinstance(event, last):
                return

    def request(
        self, request_type: type[protocol.Request], last: type[_E], *, timeout: float | None = None, **fields: Any
    ) -> _E:
        """Send a request and return its closing event, dropping those before it.

        Raises:
            EngineLateError, AppError: as `events`.
        """
        for event in self.events(self.send(request_type, **fields), last, timeout=timeout):
            if isinstance(event, last):
                return event
        raise AssertionError("unreachable: events ends with its last event or raises")

    def _outcome(self) -> ProcessOutcome:
        try:
            status = self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:  # it closed its output but hangs, perhaps in a driver
            self._process.kill()
            status = self._process.wait()
        return ProcessOutcome(status, self._closing, last_output(self._ready))

    def _next(self, event_type: type[_E], request_id: int, timeout: float) -> _E:
        while True:
            event = self._take(timeout)
            if isinstance(event, event_type) and event.id == request_id:
                return event

    def _take(self, timeout: float | None) -> protocol.AnyEvent:
        try:
            item = self._events.get(timeout=timeout)
        except queue.Empty:
            raise EngineLateError(ErrorCode.ENGINE_FAILED, "The engine did not answer in time.") from None
        if item is None:
            self._events.put(None)
            raise self._outcome().error()
        if isinstance(item, AppError):
            raise item
        return item

    def _read(self) -> None:
        lines = EventLines()
        assert self._process.stdout
        try:
            while data := os.read(self._process.stdout.fileno(), 65536):
                for event in lines.feed(data):
                    if isinstance(event, protocol.LogLine):
                        self._show(event)
                    else:
                        self._events.put(event)
        except AppError as error:
            self._events.put(error)
        finally:
            self._events.put(None)

    def _show(self, line: protocol.LogLine) -> None:
        try:
            if self._on_log:
                self._on_log(line)
        except OSError:  # nobody reads our standard error any more: that must not stop the answer
            self._on_log = None


def child_environment() -> dict[str, str]:
    """The child's environment: UTF-8 everywhere, nothing held back in buffers, no toolkits of the machine."""
    environment = dict(os.environ, PYTHONUTF8="1", PYTHONUNBUFFERED="1")
    # On Windows llama-cpp-python adds the folders of these toolkits to where libraries are looked for, and fails where
    # one is gone, as after an uninstallation; the backends here bring what they need beside them.
    for name in ("PYTHONSTARTUP", "CUDA_PATH", "HIP_PATH"):
        environment.pop(name, None)
    return environment
