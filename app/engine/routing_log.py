"""Keeps the routing of a model's latest answers in a bounded file, from which later predictions take their hit rates.

The expert device records into a ring of its own while an answer is decoded, and lets go of the oldest entries; they
are taken out when the answer has been told, and saved a few times a minute at most. So nothing waits for a disk, and
no thread runs beside decoding. The file is a routing trace (`placement/cache/trace.py`): which experts, never what
was said.
"""

import contextlib
import logging
import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from app.engine.cache import ExpertDevice
from app.errors import AppError, ErrorCode
from app.placement.cache.trace import ENTRY, KEPT_BYTES, TraceHeader, encode_header, kept_name, read_trace

log = logging.getLogger(__name__)

KEPT_ENTRIES = 1 << 19
"""6 MiB: 1,365 tokens of 48 layers of top-8, 5,461 of 24 layers of top-4."""
SAVE_SECONDS = 10.0
"""Least time between two saves while a model is loaded."""
# The device's lock is held while so many entries are copied: 50 KiB, some microseconds.
_AT_ONCE = 1 << 12

Entries = npt.NDArray[np.void]


class RoutingLog:
    """The recorded routing of one loaded model in `folder`, which is made at the first save.

    Methods may be called from any thread. The device has one recording for all who want it: whoever else needs it
    takes it with `lend`.

    Args:
        folder: Where each model's file is.
        device: What records.
        context: Its id of the model's context.
        header: What is recorded of.
    """

    def __init__(self, folder: Path, device: ExpertDevice, context: int, header: TraceHeader) -> None:
        self._path = folder / kept_name(header.fingerprint)
        self._device = device
        self._context = context
        self._header = header
        self._lock = threading.Lock()
        self._recording = False
        self._lent = False
        self._unsaved: Entries = np.empty(0, dtype=ENTRY)
        self._saved_at = float("-inf")

    def begin(self) -> None:
        """An answer begins: record it, unless the device's recording is lent."""
        with self._lock:
            if not self._lent and not self._recording:
                try:
                    self._device.set_trace(self._context, KEPT_ENTRIES)
                    self._recording = True
                except AppError as error:
                    log.warning("answers are not recorded: %s", error.message)

    def end(self) -> None:
        """The answer has been told: take what was recorded, and save it if the last save is long enough ago."""
        with self._lock:
            self._take()
            if time.monotonic() - self._saved_at >= SAVE_SECONDS:
                self._save()

    def lend(self) -> None:
        """Leave the device's recording to somebody else from now on."""
        with self._lock:
            self._take()
            self._lent = True

    def take_back(self) -> None:
        """The device's recording is free again; the next answer is recorded."""
        with self._lock:
            self._lent = False

    def close(self) -> None:
        """Save what is not saved yet; call it before the context is freed."""
        with self._lock:
            self._take()
            self._save()

    def _take(self) -> None:
        if not self._recording:
            return
        self._recording = False
        parts = [self._unsaved]
        try:
            while True:
                data, count, _dropped = self._device.read_trace(self._context, _AT_ONCE)
                parts.append(np.frombuffer(data, dtype=ENTRY))
                if count < _AT_ONCE:
                    break
            self._device.set_trace(self._context, 0)
        except AppError as error:
            log.warning("the recording of an answer did not end well: %s", error.message)
        self._unsaved = np.concatenate(parts)[-KEPT_ENTRIES:]

    def _save(self) -> None:
        """Add what is new to the file, whole or not at all; what cannot be saved now is kept for the next time.

        Another engine may save the same model's at the same moment: each has a draft of its own, and of what both add
        within the same milliseconds one's stays.
        """
        if not len(self._unsaved):
            return
        self._saved_at = time.monotonic()
        experts, before = self._before()
        entries = numbered([before, self._unsaved])[-KEPT_ENTRIES:]
        header = TraceHeader(
            fingerprint=self._header.fingerprint,
            name=self._header.name,
            experts=dict(sorted({**experts, **self._header.experts}.items())),
            experts_used=self._header.experts_used,
        )
        draft = self._path.with_name(f".{self._path.name}.{os.getpid()}.part")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            draft.write_bytes(encode_header(header) + entries.tobytes())
            draft.replace(self._path)
        except OSError as error:
            log.warning("the recorded routing %s could not be saved: %s", self._path, error)
            with contextlib.suppress(OSError):
                draft.unlink(missing_ok=True)
        else:
            self._unsaved = np.empty(0, dtype=ENTRY)

    def _before(self) -> tuple[dict[int, int], Entries]:
        """Layers and entries of the file as it is now; nothing where it is damaged or another model's."""
        nothing: tuple[dict[int, int], Entries] = ({}, np.empty(0, dtype=ENTRY))
        try:
            trace = read_trace(self._path, KEPT_BYTES)
        except AppError as error:
            if error.code is not ErrorCode.FILE_MISSING:
                log.warning("the recorded routing %s is passed over: %s", self._path, error.message)
            return nothing
        header, mine = trace.header, self._header
        same = (header.fingerprint, header.experts_used) == (mine.fingerprint, mine.experts_used)
        if not same or any(mine.experts.get(layer, count) != count for layer, count in header.experts.items()):
            log.warning("the recorded routing %s is passed over: it is of another model", self._path)
            return nothing
        return header.experts, trace.entries


def numbered(parts: Sequence[Entries]) -> Entries:
    """The entries of several recordings one after the other, their tokens numbered through from 0.

    Args:
        parts: Of dtype ENTRY; a part's tokens count from anywhere, and never go on those of the part before.
    """
    entries = np.concatenate(parts)
    if not len(entries):
        return entries
    token = entries["token"]
    begins = np.empty(len(entries), dtype=bool)
    begins[0] = False
    begins[1:] = token[1:] != token[:-1]
    starts = np.cumsum([len(part) for part in parts])[:-1]
    begins[starts[(starts > 0) & (starts < len(entries))]] = True
    entries["token"] = np.cumsum(begins)
    return entries
