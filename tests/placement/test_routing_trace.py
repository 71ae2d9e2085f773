"""The routing trace's file: what is written is read again, and nothing else passes as one."""

import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_traces import header

from app.errors import AppError, ErrorCode
from app.placement.cache.replay import LayerPool, replay
from app.placement.cache.trace import TraceHeader, encode_header, encode_loss, read_trace
from app.placement.plan import CachePolicy

HEADER = TraceHeader(fingerprint="3f1a", name="模型", experts={0: 8, 5: 4}, experts_used=2)
weights = st.floats(0, 1, width=32) | st.just(math.nan)
entries = st.one_of(
    st.tuples(st.integers(0, 2**32 - 1), st.just(0), st.integers(0, 7), weights),
    st.tuples(st.integers(0, 2**32 - 1), st.just(5), st.integers(0, 3), weights),
)


def packed(rows) -> bytes:
    """Entries as the documentation of the format says."""
    return b"".join(struct.pack("<IhhI", row[0], row[1], row[2], _bits(row[3])) for row in rows)


def _bits(weight: float) -> int:
    return int.from_bytes(struct.pack("<f", weight), "little")


def refusal(path) -> AppError:
    with pytest.raises(AppError) as caught:
        read_trace(path)
    return caught.value


@given(rows=st.lists(entries, max_size=20), cut=st.integers(0, 11))
def test_entries_are_read_as_they_were_written_and_a_cut_one_is_left_out(tmp_path_factory, rows, cut):
    path = tmp_path_factory.mktemp("trace") / "routing.trace"
    path.write_bytes(encode_header(HEADER) + packed(rows) + bytes(cut))
    trace = read_trace(path)
    assert trace.header == HEADER
    assert trace.lost == 0
    assert [row[:3] for row in trace.entries.tolist()] == [row[:3] for row in rows]
    for read, written in zip(trace.entries.tolist(), rows, strict=True):
        assert read[3] == written[3] or (math.isnan(read[3]) and math.isnan(written[3]))


def test_entries_that_were_lost_are_counted_and_are_no_entries(tmp_path):
    path = tmp_path / "routing.trace"
    rows = [(0, 0, 1, 0.5), (0, 0, 2, 0.5)]
    data = packed(rows[:1]) + encode_loss(1000) + packed(rows[1:]) + encode_loss(24)
    path.write_bytes(encode_header(HEADER) + data)
    trace = read_trace(path)
    assert trace.lost == 1024
    assert trace.entries.tolist() == rows


def test_a_trace_can_be_replayed_as_it_is_read(tmp_path):
    path = tmp_path / "routing.trace"
    rows = [(token, 0, expert, 0.5) for token in range(6) for expert in (1, 2)]
    path.write_bytes(encode_header(HEADER) + packed(rows))
    told = replay(read_trace(path).entries.tolist(), {0: LayerPool(8, 2)}, CachePolicy(window=0))[0]
    assert (told.hits, told.misses) == (10, 2)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "no routing trace"),
        (b"this is no trace\n" * 100, "no routing trace"),
        (b'{"fingerprint": 3}\n', "no routing trace"),
        (b"\xff\xfe\n", "no routing trace"),
        (b'{"a":' * 9000 + b"\n", "no routing trace"),
        (encode_header(TraceHeader(version=9, fingerprint="a", name="b", experts={}, experts_used=1)), "version 9"),
        (encode_header(HEADER) + packed([(0, 0, 8, 0.5)]), "no expert 8 in layer 0"),
        (encode_header(HEADER) + packed([(0, 1, 0, 0.5)]), "no expert 0 in layer 1"),
        (encode_header(HEADER) + packed([(0, 0, -3, 0.5)]), "no expert -3 in layer 0"),
        (encode_header(HEADER) + packed([(0, -7, 0, 0.5)]), "no expert 0 in layer -7"),
        (encode_header(header(experts={0: 40_000})), "40,000 experts in layer 0"),
        (encode_header(header(experts={0: 0})), "0 experts in layer 0"),
        (encode_header(header(experts={-1: 8})), "8 experts in layer -1"),
        (encode_header(header(experts={2**40: 8})), "8 experts in layer 1,099,511,627,776"),
        (encode_header(header(experts={0: 8}, used=0)), "top-0"),
    ],
)
def test_what_is_no_trace_is_refused(tmp_path, data, words):
    path = tmp_path / "routing.trace"
    path.write_bytes(data)
    error = refusal(path)
    assert error.code is ErrorCode.FILE_UNREADABLE
    assert words in error.message


def test_a_file_that_is_larger_than_memory_should_hold_is_refused_unread(tmp_path):
    path = tmp_path / "routing.trace"
    with path.open("wb") as file:
        file.write(encode_header(HEADER))
        file.truncate(3 << 30)  # takes no room on the disk
    error = refusal(path)
    assert error.code is ErrorCode.FILE_UNREADABLE
    assert "larger than 2.0 GiB" in error.message


def test_a_missing_file_and_a_folder_are_told_apart(tmp_path):
    assert refusal(tmp_path / "none").code is ErrorCode.FILE_MISSING
    assert refusal(tmp_path).code is ErrorCode.FILE_UNREADABLE
