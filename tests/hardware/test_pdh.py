"""The performance counters' calls, against a library that answers as Windows documents it."""

import ctypes
import struct

import pytest

from app.hardware.pdh import PdhCounters
from app.hardware.sources import NotSeenError

MORE_DATA, NO_DATA, NO_OBJECT = 0x800007D2, 0x800007D5, 0xC0000BB8
PATHS = (r"\GPU Process Memory(*)\Dedicated Usage", r"\GPU Process Memory(*)\Shared Usage")


class Function:
    """A function of the library; takes the result type that callers set."""

    restype = None

    def __init__(self, body):
        self._body = body

    def __call__(self, *arguments):
        return self._body(*arguments)


class PlayedPdh:
    """Counters with these values by path; `grow` makes the first answer too small, `fail` refuses a call by name."""

    def __init__(self, values, *, grow=0, fail=None):
        self.values, self.grow, self.fail = values, grow, fail or {}
        self.added, self.closed, self.formats = [], 0, []
        self.PdhOpenQueryW = Function(self._open)
        self.PdhAddEnglishCounterW = Function(self._add)
        self.PdhCollectQueryData = Function(self._collect)
        self.PdhCloseQuery = Function(self._close)
        self.PdhGetFormattedCounterArrayW = Function(self._values)

    def _open(self, _source, _user, query):
        query._obj.value = 77
        return self.fail.get("open", 0)

    def _add(self, query, path, _user, counter):
        assert query.value == 77
        self.added.append(path.value)
        counter._obj.value = len(self.added)
        return self.fail.get("add", 0)

    def _collect(self, query):
        assert query.value == 77
        return self.fail.get("collect", 0)

    def _close(self, query):
        assert query.value == 77
        self.closed += 1
        return 0

    def _values(self, counter, form, size, count, buffer):
        self.formats.append(form.value)
        if "values" in self.fail:
            return self.fail["values"]
        values = self.values[self.added[counter.value - 1]]
        names = [name.encode("utf-16-le") + b"\0\0" for name in values]
        needed = 24 * len(values) + sum(map(len, names))
        if buffer is None:
            assert size._obj.value == 0, "a size that is not 0 is not asked for by Windows' rules"
            size._obj.value, count._obj.value = needed, len(values)
            return MORE_DATA if values else 0
        if self.grow:
            self.grow -= 1
            size._obj.value = 1  # not to be relied on
            return MORE_DATA
        assert size._obj.value == needed
        at = ctypes.addressof(buffer) + 24 * len(values)
        records = b""
        for name, value in zip(names, values.values(), strict=True):
            records += struct.pack("<QI4xq", at, 0, value)
            at += len(name)
        ctypes.memmove(buffer, records + b"".join(names), needed)
        count._obj.value = len(values)
        return 0


def counters(played):
    return PdhCounters(PATHS, lambda: played)


def test_every_path_gives_the_value_of_every_instance():
    values = {PATHS[0]: {"pid_1_luid": 2**33, "pid_2_luid": 5}, PATHS[1]: {"pid_1_luid": 7}}
    played = PlayedPdh(values)
    opened = counters(played)
    assert played.added == list(PATHS)
    assert opened.read() == values
    assert opened.read() == values
    assert set(played.formats) == {0x1400}
    opened.close()
    opened.close()
    assert played.closed == 1


def test_a_program_that_comes_between_two_calls_is_asked_for_again():
    values = {PATHS[0]: {"a": 1}, PATHS[1]: {"a": 2}}
    assert counters(PlayedPdh(values, grow=2)).read() == values


def test_no_instance_is_no_value_and_no_error():
    empty = {path: {} for path in PATHS}
    assert counters(PlayedPdh(empty)).read() == empty
    assert counters(PlayedPdh(empty, fail={"collect": NO_DATA})).read() == empty
    assert counters(PlayedPdh(empty, fail={"values": NO_DATA})).read() == empty


@pytest.mark.parametrize(
    ("fail", "words"),
    [({"add": NO_OBJECT}, "no performance counters"), ({"add": 5}, "0x00000005"), ({"open": 5}, "0x")],
)
def test_counters_that_cannot_be_opened_are_a_reason_and_nothing_stays_open(fail, words):
    played = PlayedPdh({}, fail=fail)
    with pytest.raises(NotSeenError, match=words):
        counters(played)
    assert played.closed == (1 if "add" in fail else 0)


@pytest.mark.parametrize("call", ["collect", "values"])
def test_a_refusal_while_reading_is_a_reason(call):
    with pytest.raises(NotSeenError, match="0x00000005"):
        counters(PlayedPdh({path: {"a": 1} for path in PATHS}, fail={call: 5})).read()
