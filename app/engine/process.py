"""The engine child's main: reads requests from standard input, answers with events on standard output.

One worker computes, in the order of the requests; the reading thread answers at once what needs no
computing (cancel, routing, the expert cache's facts, pins and policy). What may take a moment but must not
wait for an answer (the pool's size, main memory, a trace) has a thread of its own. The child ends when its input does.
"""

import contextlib
import ctypes
import faulthandler
import functools
import logging
import logging.handlers
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import msgspec
import psutil

from app.engine import protocol
from app.errors import AppError, ErrorCode, writing_error
from app.library import folders
from app.library.routing_records import routing_folder

if TYPE_CHECKING:
    from app.engine.engine import Engine

log = logging.getLogger("app.engine")

_LOG_BYTES = 2_000_000
_OUTPUT_PREFIX = "engine-output-"
_OUTPUTS_KEPT = 5
_GIVE_UP_SECONDS = 10.0
_GAVE_UP_STATUS = 70


def main(arguments: list[str]) -> int:
    """Run the child until its input ends. `--stock` leaves the expert device out, for comparison."""
    # Ctrl-C in a terminal reaches every process of the group; only the parent decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    requests = _take_requests()
    output, output_log = _protect_output()
    _set_up_logging()
    events = EventWriter(output)
    events.write(protocol.Ready(protocol=protocol.PROTOCOL_VERSION, pid=os.getpid(), output_log=_sendable(output_log)))
    worker = Worker(events, stock="--stock" in arguments)
    thread = threading.Thread(target=worker.run, name="engine-worker", daemon=True)
    thread.start()
    threading.Thread(target=worker.run_long_orders, name="engine-orders", daemon=True).start()
    _read_requests(requests, events, worker)
    worker.shut_down()
    thread.join(timeout=5)
    logging.shutdown()
    if output_log is not None:
        with contextlib.suppress(OSError):
            output_log.unlink()
    # llama.cpp's own global destructors may wait for threads of a driver: nothing is left to save.
    os._exit(0)


def _take_requests() -> BinaryIO:
    """Keep the real standard input for requests; for everything else in this process it is empty.

    Libraries ask Windows when they are loaded what kind of file standard input is, and Windows does not answer while a
    read from that pipe is under way: loading one beside the thread that waits for requests would hang for ever.
    """
    requests = os.fdopen(os.dup(0), "rb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    _tell_windows(0)
    return requests


def _tell_windows(descriptor: int) -> None:
    """Make a standard stream's new file the one that libraries loaded from now on get from Windows."""
    if sys.platform != "win32":
        return
    import msvcrt  # noqa: PLC0415 - Windows' own

    # The C library does so itself, but not in a program without a console. -10, -11 and -12 name the streams.
    stream, file = ctypes.c_uint32(-10 - descriptor), ctypes.c_void_p(msvcrt.get_osfhandle(descriptor))
    ctypes.WinDLL("kernel32").SetStdHandle(stream, file)


def _protect_output() -> tuple[BinaryIO, Path | None]:
    """Keep the real standard output for events; what C code prints goes to a file of this process."""
    output = os.fdopen(os.dup(1), "wb", buffering=0)
    os.set_inheritable(output.fileno(), False)
    path: Path | None = None
    try:
        folder = folders.ensure_folder(folders.log_folder())
        _drop_old_outputs(folder)
        path = folder / f"{_OUTPUT_PREFIX}{os.getpid()}.log"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    except (OSError, AppError):
        path = None
        descriptor = os.open(os.devnull, os.O_WRONLY)  # a full or read-only disk must not stop answers
    for stream in (1, 2):
        os.dup2(descriptor, stream)
        _tell_windows(stream)
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - for the process's life
    faulthandler.enable(file=2)
    return output, path


def _sendable(path: Path | None) -> str:
    """The path as a message can carry it; empty for none and for a name that is no Unicode."""
    text = str(path) if path else ""
    try:
        text.encode()
    except UnicodeEncodeError:
        return ""
    return text


def _drop_old_outputs(folder: Path) -> None:
    """Children that were killed leave their file behind; the newest few are kept."""
    dated = []
    for path in folder.glob(f"{_OUTPUT_PREFIX}*.log"):
        with contextlib.suppress(FileNotFoundError, ValueError):  # another child is doing the same
            if not psutil.pid_exists(int(path.stem.removeprefix(_OUTPUT_PREFIX))):
                dated.append((path.stat().st_mtime, path))
    for _, path in sorted(dated, reverse=True)[_OUTPUTS_KEPT:]:
        path.unlink(missing_ok=True)


def _set_up_logging() -> None:
    root = logging.getLogger()
    root.setLevel(logging.INFO)
    try:
        path: Path = folders.ensure_folder(folders.log_folder()) / "engine.log"
        handler: logging.Handler = logging.handlers.RotatingFileHandler(
            path, maxBytes=_LOG_BYTES, backupCount=3, encoding="utf-8", errors="backslashreplace", delay=True
        )
    except (OSError, AppError):
        handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(logging.Formatter("%(asctime)s %(process)d %(levelname)s %(name)s: %(message)s"))
    root.addHandler(handler)


class EventWriter:
    """Writes events as lines; whole lines only, from any thread."""

    def __init__(self, output: BinaryIO) -> None:
        self._output = output
        self._lock = threading.Lock()

    def write(self, event: protocol.Event) -> None:
        """Write one event; a reader that is gone ends the process with its input, not here."""
        data = memoryview(protocol.encode(event))
        with self._lock, contextlib.suppress(BrokenPipeError):
            while data:
                data = data[self._output.write(data) :]

    def fail(self, request_id: int, error: AppError) -> None:
        """Write the failure of a request."""
        log.warning("request %d failed: %s: %s", request_id, error.code, error.message)
        self.write(protocol.Failed(id=request_id, code=error.code, message=error.message, detail=error.detail))


def _read_requests(source: BinaryIO, events: EventWriter, worker: "Worker") -> None:
    for line in source:
        try:
            request = protocol.decode_request(line)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            events.fail(0, AppError(ErrorCode.ENGINE_PROTOCOL, "Not a request.", f"{error}: {line[:200]!r}"))
            continue
        if isinstance(request, protocol.Cancel):
            worker.cancel(request.target)
        elif isinstance(request, protocol.ReadRouting):
            worker.answer_routing(request.id)
        elif isinstance(request, protocol.ShortOrder):
            worker.answer_short_order(request)
        elif isinstance(request, protocol.LongOrder):
            worker.put_long_order(request)
        else:
            worker.put(request)


class Worker:
    """The one queue of the engine: loads and answers in the order asked, on its own thread."""

    def __init__(self, events: EventWriter, *, stock: bool) -> None:
        self._events = events
        self._stock = stock
        self._queue: queue.Queue[protocol.AnyRequest | None] = queue.Queue()
        self._long_orders: queue.Queue[protocol.LongOrder | None] = queue.Queue()
        self._lock = threading.Lock()
        self._waiting: set[int] = set()
        self._cancelled: set[int] = set()
        self._running: protocol.AnyRequest | None = None
        self._ending = False
        self._engine: Engine | None = None

    def put(self, request: protocol.AnyRequest) -> None:
        """Queue a request."""
        with self._lock:
            self._waiting.add(request.id)
        self._queue.put(request)

    def cancel(self, target: int) -> None:
        """Cancel a queued or running request; an unknown or finished one is left alone."""
        with self._lock:
            running = self._running is not None and self._running.id == target
            if not running and target not in self._waiting:
                return
            self._cancelled.add(target)
            if running and self._engine is not None:
                self._engine.abort()
            if running and isinstance(self._running, protocol.Generate):
                watch = threading.Timer(_GIVE_UP_SECONDS, self._give_up, (target,))
                watch.daemon = True
                watch.start()

    def _give_up(self, target: int) -> None:
        """End the process when a cancelled answer goes on: a template that loops, a driver that hangs."""
        with self._lock:
            hangs = self._running is not None and self._running.id == target
        if hangs:
            print(f"The answer did not stop within {_GIVE_UP_SECONDS:.0f} s; the engine ended itself.", flush=True)
            os._exit(_GAVE_UP_STATUS)

    def shut_down(self) -> None:
        """Abort what runs and end the thread."""
        with self._lock:
            self._ending = True
            if self._engine is not None:
                self._engine.abort()
        self._queue.put(None)
        self._long_orders.put(None)

    def answer_routing(self, request_id: int) -> None:
        """Write the routing counts at once, whatever the worker does."""

        def read() -> protocol.Event:
            with self._lock:
                decode, prompt = self._engine.routing() if self._engine else ({}, {})
            return protocol.Routing(decode=decode, prompt=prompt)

        self._answer(request_id, read)

    def answer_short_order(self, request: protocol.ShortOrder) -> None:
        """Carry out an order to the expert cache at once, whatever the worker does."""

        def carry_out() -> protocol.Event:
            with self._lock:
                return self._running_engine().short_order(request)

        self._answer(request.id, carry_out)

    def put_long_order(self, request: protocol.LongOrder) -> None:
        """Queue an order to the expert cache for its own thread."""
        self._long_orders.put(request)

    def run_long_orders(self) -> None:
        """The body of the thread for orders that take a moment."""
        while (request := self._long_orders.get()) is not None:
            self._answer(request.id, functools.partial(self._carry_out, request))

    def _carry_out(self, request: protocol.LongOrder) -> protocol.Event:
        with self._lock:
            engine = self._running_engine()
        try:
            return engine.long_order(request, self._lock)
        except OSError as error:
            raise writing_error(error, Path(getattr(request, "path", ""))) from error

    def _running_engine(self) -> "Engine":
        if self._engine is None:
            raise AppError(ErrorCode.ENGINE_FAILED, "No model is loaded.")
        return self._engine

    def _answer(self, request_id: int, carry_out: Callable[[], protocol.Event]) -> None:
        """Write what `carry_out` returns as the answer, or its failure; the thread goes on in any case."""
        try:
            event = carry_out()
        except AppError as error:
            self._events.fail(request_id, error)
        except Exception as error:  # a fault of ours must reach the user, not end the thread
            log.exception("request %d", request_id)
            self._events.fail(request_id, AppError(ErrorCode.ENGINE_FAILED, "The engine failed.", repr(error)))
        else:
            self._events.write(msgspec.structs.replace(event, id=request_id))

    def run(self) -> None:
        """The thread's body."""
        while (request := self._queue.get()) is not None:
            with self._lock:
                self._waiting.discard(request.id)
                self._running = request
            try:
                if self._is_cancelled(request.id):
                    if isinstance(request, protocol.Load) and self._engine is not None:
                        self._engine.unload(self._lock)  # as a load cancelled later does: nothing is loaded then
                    raise AppError(ErrorCode.CANCELLED, "The request was cancelled before it began.")
                self._handle(request)
            except AppError as error:
                self._events.fail(request.id, error)
            except MemoryError as error:
                self._events.fail(request.id, AppError(ErrorCode.OUT_OF_MEMORY, "Memory ran out.", repr(error)))
            except Exception as error:  # a fault of ours must reach the user, not end the thread
                log.exception("request %d", request.id)
                self._events.fail(request.id, AppError(ErrorCode.ENGINE_FAILED, "The engine failed.", repr(error)))
            with self._lock:
                self._running = None
                self._cancelled.discard(request.id)
        with self._lock:
            engine, self._engine = self._engine, None
        if engine is not None:
            engine.unload(self._lock)

    def _is_cancelled(self, request_id: int) -> bool:
        with self._lock:
            return self._ending or request_id in self._cancelled

    def _handle(self, request: protocol.AnyRequest) -> None:
        engine = self._started_engine()
        stopped: Callable[[], bool] = lambda: self._is_cancelled(request.id)  # noqa: E731
        if isinstance(request, protocol.ListDevices):
            gpus, build = engine.devices()
            self._events.write(protocol.Devices(id=request.id, gpus=gpus, build=build))
        elif isinstance(request, protocol.Load):
            self._events.write(engine.load(request, self._events.write, stopped, self._lock))
        elif isinstance(request, protocol.Unload):
            engine.unload(self._lock)
            self._events.write(protocol.Unloaded(id=request.id))
        elif isinstance(request, protocol.DryRun):
            self._events.write(msgspec.structs.replace(engine.dry_run(request), id=request.id))
        elif isinstance(request, protocol.Generate):
            try:
                self._events.write(engine.generate(request, self._events.write, stopped))
            finally:
                engine.answer_told()
        elif isinstance(request, protocol.Calibrate):
            self._events.write(engine.calibrate(request, self._events.write, stopped, self._lock))
        elif isinstance(request, protocol.Measure):
            self._events.write(engine.measure(request, self._events.write, stopped))

    def _started_engine(self) -> "Engine":
        if self._engine is None:
            from app.engine.engine import Engine  # noqa: PLC0415 - llama.cpp loads on first use, off the reader

            profiles = folders.data_folder() / "profiles"
            engine = Engine(
                stock=self._stock,
                on_log=self._log_line,
                profiles=profiles,
                routing=routing_folder(),
                components=folders.components_folder(),
            )
            with self._lock:
                self._engine = engine
        return self._engine

    def _log_line(self, level: int, text: str) -> None:
        self._events.write(protocol.LogLine(level=logging.getLevelName(level).lower(), text=text))
