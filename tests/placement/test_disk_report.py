"""What an answer says of the experts that lie on the disk."""

import msgspec
import pytest

from app.placement.cache.disk_report import disk_report, disk_words
from app.placement.cache.facts import CacheTotals, MemoryFacts

MIB = 1024**2
ZERO = CacheTotals(
    tokens=0, hits=0, misses=0, streamed=0, inserts=0, evictions=0, copied_bytes=0, layers=0, seconds=0.0,
    cpu_seconds=0.0, gpu_seconds=0.0, wait_seconds=0.0,
)  # fmt: skip
BEFORE = msgspec.structs.replace(ZERO, tokens=100, cold_reads=70, cold_bytes=9 * MIB, stall_seconds=1.0)
AFTER = msgspec.structs.replace(ZERO, tokens=110, cold_reads=95, cold_bytes=49 * MIB, stall_seconds=1.25)
MEMORY = MemoryFacts(
    budget_bytes=60 * MIB, trusted_bytes=60 * MIB, resident_bytes=53 * MIB, total_bytes=100 * MIB, evictions=4,
    stale=0, reads=True,
)  # fmt: skip


def test_figures_are_of_the_answer_alone_and_by_token():
    report = disk_report(MEMORY, BEFORE, AFTER, 5.0)
    assert report is not None
    assert (report.budget_bytes, report.resident_bytes, report.total_bytes) == (60 * MIB, 53 * MIB, 100 * MIB)
    assert report.resident_share == pytest.approx(0.53)
    assert report.tokens == 10
    assert report.cold_reads_per_token == pytest.approx(2.5)
    assert report.cold_bytes_per_token == pytest.approx(4 * MIB)
    assert report.read_bytes_per_second == pytest.approx(20 * MIB)  # ten tokens took two seconds
    assert report.stall_seconds_per_token == pytest.approx(0.025)


def test_in_words_it_is_one_line():
    figures = "2.5 reads and 4.0 MiB a token, 21 MB/s, waiting 25.0 ms a token"
    assert disk_words(disk_report(MEMORY, BEFORE, AFTER, 5.0)) == f"experts in memory: 53 % of 100.0 MiB; {figures}"


def test_where_all_experts_are_in_memory_there_is_nothing_to_say():
    all_there = msgspec.structs.replace(MEMORY, resident_bytes=100 * MIB)
    assert disk_report(all_there, AFTER, msgspec.structs.replace(AFTER, tokens=120), 5.0) is None
    assert disk_report(None, BEFORE, AFTER, 5.0) is None


def test_the_answer_that_read_the_last_of_them_still_says_so():
    all_there = msgspec.structs.replace(MEMORY, resident_bytes=100 * MIB)
    assert disk_report(all_there, BEFORE, AFTER, 5.0) is not None


def test_where_nothing_was_decoded_there_are_no_figures():
    assert disk_report(MEMORY, BEFORE, BEFORE, 0.0) is None
