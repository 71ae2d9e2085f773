"""The routing of the latest answers: kept between runs, bounded, and never in the way of an answer."""

import logging

import numpy as np
import pytest
from fake_device import FakeDevice

from app.engine import routing_log
from app.engine.routing_log import RoutingLog, numbered
from app.errors import AppError, ErrorCode
from app.placement.cache.trace import ENTRY, KEPT_BYTES, Trace, TraceHeader, encode_header, kept_name, read_trace

HEADER = TraceHeader(fingerprint="3f1a", name="made", experts={2: 4, 3: 4}, experts_used=2)


def rows(tokens, first=0, layer=2):
    """Two experts for each token."""
    return [(first + token, layer, (token + rank) % 4, 0.5) for token in range(tokens) for rank in range(2)]


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "machine" / "routing"


def log_in(folder, device=None, **header):
    fields = {field: getattr(HEADER, field) for field in ("fingerprint", "name", "experts", "experts_used")}
    return RoutingLog(folder, device or FakeDevice(), 7, TraceHeader(**{**fields, **header}))


def answer(log, entries):
    log.begin()
    log._device.recorded = list(entries)
    log.end()


def kept(folder) -> Trace:
    return read_trace(folder / kept_name("3f1a"))


def tokens_of(trace, layer=2):
    return trace.entries["token"][trace.entries["layer"] == layer].tolist()


def test_an_answer_is_recorded_from_its_begin_to_its_end_and_saved(folder):
    log = log_in(folder)
    answer(log, rows(3))
    trace = kept(folder)
    assert trace.entries.tolist() == rows(3)
    assert (trace.header.fingerprint, trace.header.experts, trace.header.experts_used) == ("3f1a", {2: 4, 3: 4}, 2)
    assert log._device.told == [("set_trace", 7, routing_log.KEPT_ENTRIES), ("set_trace", 7, 0)]
    assert [path.name for path in folder.iterdir()] == ["3f1a.trace"]


def test_more_than_one_reading_takes_out_is_kept_in_order(folder):
    many = rows(routing_log._AT_ONCE)
    answer(log_in(folder), many)
    assert kept(folder).entries.tolist() == many


def test_a_second_run_goes_on_after_the_first_with_tokens_numbered_through(folder):
    answer(log_in(folder), rows(3))
    answer(log_in(folder), rows(2, first=2))  # this run's counter is at 2, where that of the file's end is
    assert tokens_of(kept(folder)) == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]


def test_layers_that_another_plan_left_to_the_device_are_kept_too(folder):
    answer(log_in(folder), rows(3))
    answer(log_in(folder, experts={3: 4, 9: 4}), rows(2, layer=9))
    trace = kept(folder)
    assert trace.header.experts == {2: 4, 3: 4, 9: 4}
    assert (tokens_of(trace), tokens_of(trace, 9)) == ([0, 0, 1, 1, 2, 2], [3, 3, 4, 4])


def test_the_file_is_bounded_and_keeps_the_newest(folder, monkeypatch):
    monkeypatch.setattr(routing_log, "KEPT_ENTRIES", 8)
    answer(log_in(folder), rows(3))
    answer(log_in(folder), rows(3, first=50))
    trace = kept(folder)
    assert len(trace.entries) == 8
    assert trace.entries["expert"].tolist()[-6:] == [row[2] for row in rows(3)]


def test_saves_are_apart_and_what_waits_is_saved_at_the_end(folder, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(routing_log.time, "monotonic", lambda: now[0])
    log = log_in(folder)
    answer(log, rows(1))
    now[0] += 1
    answer(log, rows(1, first=1))
    assert len(kept(folder).entries) == 2
    now[0] += routing_log.SAVE_SECONDS
    answer(log, rows(1, first=2))
    assert tokens_of(kept(folder)) == [0, 0, 1, 1, 2, 2]
    answer(log, rows(1, first=3))
    log.close()
    assert tokens_of(kept(folder)) == [0, 0, 1, 1, 2, 2, 3, 3]


def test_an_end_without_a_begin_and_an_answer_without_a_token_change_nothing(folder):
    log = log_in(folder)
    log.end()
    answer(log, [])
    log.close()
    assert not folder.exists()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}\n",
        b"\xff\xfe\n",
        encode_header(HEADER) + np.array([(0, 2, 9, 0.5)], dtype=ENTRY).tobytes(),
        encode_header(TraceHeader(fingerprint="beef", name="other", experts={2: 4}, experts_used=2)),
        encode_header(TraceHeader(fingerprint="3f1a", name="made", experts={2: 8}, experts_used=2)),
        encode_header(TraceHeader(fingerprint="3f1a", name="made", experts={2: 4}, experts_used=3)),
        encode_header(HEADER) + np.array([(0, 2, 1, 0.5)], dtype=ENTRY).tobytes() * (KEPT_BYTES // ENTRY.itemsize + 1),
    ],
    ids=[
        "empty",
        "no trace",
        "no text",
        "an expert too many",
        "another model",
        "other experts",
        "another top-k",
        "huge",
    ],
)
def test_a_damaged_or_foreign_file_is_passed_over_with_a_line_in_the_log_and_replaced(folder, data, caplog):
    folder.mkdir(parents=True)
    (folder / "3f1a.trace").write_bytes(data)
    answer(log_in(folder), rows(2))
    assert "passed over" in caplog.text
    assert kept(folder).entries.tolist() == rows(2)


def test_a_file_that_was_cut_off_within_an_entry_is_read_up_to_there(folder, caplog):
    answer(log_in(folder), rows(2))
    path = folder / "3f1a.trace"
    path.write_bytes(path.read_bytes()[:-5])
    with caplog.at_level(logging.WARNING):
        answer(log_in(folder), rows(1))
    assert tokens_of(kept(folder)) == [0, 0, 1, 2, 2]
    assert caplog.text == ""


def test_two_engines_add_to_one_file(folder):
    one, other = log_in(folder), log_in(folder)
    answer(one, rows(2))
    answer(other, rows(3, first=900))
    one.close()
    other.close()
    assert tokens_of(kept(folder)) == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]


def test_a_full_disk_is_a_line_in_the_log_and_what_was_recorded_is_saved_later(folder, monkeypatch, caplog):
    log = log_in(folder)

    def full(_path, _data):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(routing_log.Path, "write_bytes", full)
        answer(log, rows(2))
    assert "could not be saved" in caplog.text
    assert not list(folder.iterdir())
    log.close()
    assert kept(folder).entries.tolist() == rows(2)


def test_a_folder_that_cannot_be_made_is_a_line_in_the_log(tmp_path, caplog):
    (tmp_path / "file").write_bytes(b"")
    log = log_in(tmp_path / "file" / "routing")
    answer(log, rows(2))
    log.close()
    assert "could not be saved" in caplog.text


def test_a_device_that_refuses_is_a_line_in_the_log(folder, caplog):
    class Refusing(FakeDevice):
        def set_trace(self, _context, _capacity):
            raise AppError(ErrorCode.ENGINE_FAILED, "it refused")

    log = log_in(folder, Refusing())
    answer(log, rows(2))
    log.close()
    assert "it refused" in caplog.text
    assert not folder.exists()


def test_while_the_recording_is_lent_answers_are_not_recorded(folder):
    log = log_in(folder)
    log.begin()
    log._device.recorded = rows(1)
    log.lend()  # in the middle of an answer
    log._device.recorded = rows(5, first=1)  # for whoever it is lent to
    log.end()
    answer(log, rows(1, first=9))
    assert log._device.told[-1] == ("set_trace", 7, 0)
    log.take_back()
    answer(log, rows(1, first=10))
    log.close()
    assert tokens_of(kept(folder)) == [0, 0, 1, 1]


def test_tokens_are_numbered_through_whatever_they_counted_from():
    parts = [
        np.array(rows(2, first=4), dtype=ENTRY),
        np.array([], dtype=ENTRY),
        np.array(rows(1, first=5), dtype=ENTRY),
    ]
    assert numbered(parts)["token"].tolist() == [0, 0, 1, 1, 2, 2]
    assert len(numbered([np.array([], dtype=ENTRY)])) == 0
