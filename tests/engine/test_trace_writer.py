"""The trace writer: everything recorded reaches the file, and what does not is counted."""

import pytest
from fake_device import FakeDevice

from app.engine import trace_writer
from app.engine.trace_writer import TraceWriter
from app.placement.cache.trace import TraceHeader, read_trace

HEADER = TraceHeader(fingerprint="3f1a", name="made", experts={2: 4}, experts_used=2)


def rows(count):
    return [(token, 2, token % 4, 0.5) for token in range(count)]


def test_more_than_fits_one_reading_is_written_in_order(tmp_path):
    device = FakeDevice()
    writer = TraceWriter(tmp_path / "t", device, 7, HEADER)
    device.recorded = rows(3 * trace_writer._AT_ONCE + 5)
    writer.close()
    trace = read_trace(tmp_path / "t")
    assert trace.entries.tolist() == rows(3 * trace_writer._AT_ONCE + 5)
    assert (writer.entries, writer.dropped, trace.lost) == (len(trace.entries), 0, 0)


def test_entries_that_the_device_lost_are_counted_where_they_are_missing(tmp_path):
    device = FakeDevice()
    writer = TraceWriter(tmp_path / "t", device, 7, HEADER)
    device.lost = 40
    device.recorded = rows(2)
    writer.close()
    trace = read_trace(tmp_path / "t")
    assert (trace.lost, writer.dropped) == (40, 40)
    assert trace.entries.tolist() == rows(2)


def test_a_file_that_cannot_be_made_is_an_error_and_nothing_is_recorded(tmp_path):
    device = FakeDevice()
    with pytest.raises(OSError, match="none"):
        TraceWriter(tmp_path / "none" / "t", device, 7, HEADER)
    assert device.told == []


def test_a_full_disk_ends_the_file_and_what_is_recorded_then_counts_as_lost(tmp_path, caplog):
    device = FakeDevice()
    writer = TraceWriter(tmp_path / "t", device, 7, HEADER)
    file = writer._file

    class Full:
        closed = False

        def write(self, _data):
            raise OSError(28, "No space left on device")

        def close(self):
            file.close()

    writer._file = Full()
    device.recorded = rows(trace_writer._AT_ONCE + 3)
    writer.close()
    assert (writer.entries, writer.dropped) == (0, trace_writer._AT_ONCE + 3)
    assert "could not be written" in caplog.text
    assert device.told[-1] == ("set_trace", 7, 0)
