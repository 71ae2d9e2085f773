"""Writes the routings that the expert device records into a file (`placement/cache/trace.py`), on its own thread.

The device keeps a bounded number of entries; this takes them out a few times a second, so that decoding
never waits for a disk.
"""

import logging
import threading
from pathlib import Path
from typing import BinaryIO

from app.engine.cache import ExpertDevice
from app.errors import AppError
from app.placement.cache.trace import TraceHeader, encode_header, encode_loss

log = logging.getLogger(__name__)

# 3 MiB in the library. 48 layers of top-8 at 100 tokens/s are 38,400 entries a second: it fills in seven seconds.
_CAPACITY = 1 << 18
_AT_ONCE = 1 << 15
_PERIOD_SECONDS = 0.25


class TraceWriter:
    """Records from its making until `close`.

    Raises:
        OSError: the file cannot be made.
        AppError: engine_failed, the device refuses.
    """

    def __init__(self, path: Path, device: ExpertDevice, context: int, header: TraceHeader) -> None:
        self.path = path
        self._device = device
        self._context = context
        self._entries = 0
        self._dropped = 0
        self._unwritten = 0
        self._file: BinaryIO | None = path.open("wb")
        try:
            self._file.write(encode_header(header))
            device.set_trace(context, _CAPACITY)
        except BaseException:
            self._file.close()
            raise
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="trace-writer", daemon=True)
        self._thread.start()

    @property
    def entries(self) -> int:
        """Entries written so far."""
        return self._entries

    @property
    def dropped(self) -> int:
        """Entries lost so far: for want of room, or because the file could not be written."""
        return self._dropped + self._unwritten

    def close(self) -> None:
        """Write what was recorded until now and end the recording; the context must still be there."""
        self._end.set()
        self._thread.join()
        self._drain()
        try:
            self._device.set_trace(self._context, 0)
        except AppError as error:
            log.warning("the trace could not be ended: %s", error.message)
        if self._file is not None:
            try:
                self._file.close()
            except OSError as error:
                self._give_up(0, error)

    def _run(self) -> None:
        while not self._end.wait(_PERIOD_SECONDS):
            self._drain()

    def _drain(self) -> None:
        while True:
            data, count, dropped = self._device.read_trace(self._context, _AT_ONCE)
            lost, self._dropped = dropped - self._dropped, dropped
            if self._file is None:
                self._unwritten += count
            else:
                try:
                    # The library lets go of its oldest entries: the gap lies before what it still has.
                    self._file.write((encode_loss(lost) if lost > 0 else b"") + data)
                    self._file.flush()
                    self._entries += count
                except OSError as error:
                    self._give_up(count, error)
            if count < _AT_ONCE:
                return

    def _give_up(self, count: int, error: OSError) -> None:
        """A full disk ends the file, not the answer; what is recorded from now on counts as lost."""
        log.error("the routing trace %s could not be written: %s", self.path, error)
        self._unwritten += count
        file, self._file = self._file, None
        if file is not None and not file.closed:
            try:
                file.close()
            except OSError:
                log.debug("the file's buffer is lost with it")
