"""Windows' performance counters (PDH) with wildcards: one reading gives the value of every instance.

Importable everywhere; `PdhCounters` works on Windows only.
"""

import ctypes
import struct
import sys
from collections.abc import Callable, Sequence
from typing import Any

from app.hardware.sources import NotSeenError

_WHOLE_BYTES = 0x00000400 | 0x00001000  # PDH_FMT_LARGE, PDH_FMT_NOSCALE: 64-bit integers, as counted
_MORE_DATA = 0x800007D2
_NOTHING_YET = (0x800007D5, 0xC0000BC6)  # PDH_NO_DATA, PDH_INVALID_DATA: no program uses a card at this moment
_NO_SUCH = (0xC0000BB8, 0xC0000BB9)  # PDH_CSTATUS_NO_OBJECT, PDH_CSTATUS_NO_COUNTER
_GOOD = (0, 1)  # PDH_CSTATUS_VALID_DATA, PDH_CSTATUS_NEW_DATA
# PDH_FMT_COUNTERVALUE_ITEM_W on 64-bit Windows: szName, CStatus, the value.
_ITEM = struct.Struct("<QI4xq")


def parse_items(items: bytes, count: int, base: int) -> dict[str, int]:
    """Instance name to value, from what PdhGetFormattedCounterArrayW wrote.

    Args:
        items: The whole buffer: `count` records, then the names that they point to.
        count: How many records.
        base: The address that the buffer had; the records' pointers are absolute.

    Raises:
        NotSeenError: the records contradict the buffer.
    """
    found: dict[str, int] = {}
    for index in range(count):
        try:
            name_at, status, value = _ITEM.unpack_from(items, index * _ITEM.size)
        except struct.error as error:
            raise NotSeenError("Windows gave counters that cannot be read.") from error
        start = name_at - base
        if not 0 <= start < len(items):
            raise NotSeenError("Windows gave counters that cannot be read.")
        if status not in _GOOD:
            continue
        end = start
        while items[end : end + 2] not in (b"\0\0", b"", b"\0"):
            end += 2
        name = items[start:end].decode("utf-16-le", "replace")
        found[name] = found.get(name, 0) + value
    return found


def load_library() -> Any:
    """Windows' library of performance counters.

    Raises:
        NotSeenError: this is not Windows.
    """
    if sys.platform != "win32":
        raise NotSeenError("This is not Windows.")
    return ctypes.WinDLL("pdh")


class PdhCounters:
    """Some counter paths that end in bytes or other whole numbers. Used by one thread."""

    def __init__(self, paths: Sequence[str], load: Callable[[], Any] = load_library) -> None:
        r"""Open the counters; their names are English in every language of Windows.

        Args:
            paths: "\Object(*)\Counter".
            load: Gives the library.

        Raises:
            NotSeenError: this is not Windows, or it has no such counters.
        """
        self._paths = tuple(paths)
        self._query = ctypes.c_void_p()
        self._counters: dict[str, ctypes.c_void_p] = {}
        self._pdh = load()
        self._open()

    def read(self) -> dict[str, dict[str, int]]:
        """Path to the values of its instances now.

        Raises:
            NotSeenError: Windows refuses.
        """
        status = self._call("PdhCollectQueryData", self._query)
        if status in _NOTHING_YET:
            return {path: {} for path in self._paths}
        _check(status)
        return {path: self._values(counter) for path, counter in self._counters.items()}

    def close(self) -> None:
        """Give the counters back."""
        if self._query:
            self._call("PdhCloseQuery", self._query)
            self._query = ctypes.c_void_p()

    def _open(self) -> None:
        _check(self._call("PdhOpenQueryW", None, ctypes.c_void_p(0), ctypes.byref(self._query)))
        try:
            for path in self._paths:
                counter = self._counters[path] = ctypes.c_void_p()
                name = ctypes.c_wchar_p(path)
                _check(
                    self._call("PdhAddEnglishCounterW", self._query, name, ctypes.c_void_p(0), ctypes.byref(counter))
                )
        except NotSeenError:
            self.close()
            raise

    def _values(self, counter: ctypes.c_void_p) -> dict[str, int]:
        status = 0
        for _attempt in range(3):  # a program may begin to use a card between the two calls
            size, count = ctypes.c_ulong(0), ctypes.c_ulong(0)
            status = self._read_values(counter, size, count, None)
            if status != _MORE_DATA:
                break
            buffer = ctypes.create_string_buffer(size.value)
            status = self._read_values(counter, size, count, buffer)
            if status == 0:
                return parse_items(buffer.raw, count.value, ctypes.addressof(buffer))
        if status not in (0, *_NOTHING_YET):
            _check(status)
        return {}

    def _read_values(
        self, counter: ctypes.c_void_p, size: ctypes.c_ulong, count: ctypes.c_ulong, buffer: object
    ) -> int:
        sizes = ctypes.byref(size), ctypes.byref(count)
        return self._call("PdhGetFormattedCounterArrayW", counter, ctypes.c_ulong(_WHOLE_BYTES), *sizes, buffer)

    def _call(self, name: str, *arguments: object) -> int:
        function = getattr(self._pdh, name)
        function.restype = ctypes.c_ulong
        return int(function(*arguments))


def _check(status: int) -> None:
    if status in _NO_SUCH:
        raise NotSeenError("This Windows has no performance counters of GPUs.")
    if status:
        raise NotSeenError(f"Windows refused its performance counters (0x{status:08x}).")
