"""llama.cpp's log: levelled, into the rotating file, and handed on line by line."""

import ctypes
import logging
import threading
from collections.abc import Callable

from llama_cpp import llama_cpp as llama

log = logging.getLogger("llama.cpp")

_LEVELS = {1: logging.DEBUG, 2: logging.INFO, 3: logging.WARNING, 4: logging.ERROR}
_CONTINUES = 5


class LogTap:
    """Receives llama.cpp's log for the whole process; keep it alive as long as llama.cpp is used.

    Attributes:
        on_line: Called with (level, line) for every whole line, from the thread that logged it;
            set for as long as someone collects, as a load does.
        on_error: The same for lines of level ERROR, always.
    """

    def __init__(self, on_error: Callable[[int, str], None]) -> None:
        self.on_line: Callable[[int, str], None] | None = None
        self.on_error = on_error
        self._lock = threading.Lock()
        self._rest = ""
        self._level = logging.INFO
        self._callback = llama.llama_log_callback(self._receive)
        llama.llama_log_set(self._callback, ctypes.c_void_p())

    def _receive(self, level: int, text: bytes, _data: object) -> None:
        with self._lock:
            if level != _CONTINUES:
                self._level = _LEVELS.get(level, logging.INFO)
            *lines, self._rest = (self._rest + text.decode(errors="replace")).split("\n")
            for line in lines:
                if not line.strip() or set(line) == {"."}:
                    continue
                log.log(self._level, "%s", line)
                if self.on_line is not None:
                    self.on_line(self._level, line)
                if self._level >= logging.ERROR:
                    self.on_error(self._level, line)
