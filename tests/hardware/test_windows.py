"""What Windows writes about processors is parsed from bytes."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.hardware.sources import NotSeenError
from app.hardware.windows import Core, parse_cores, performance_cores, performance_cpus


def record(masks, efficiency_class=0, relation=0, padding=0):
    size = 32 + 16 * len(masks) + padding
    head = struct.pack("<IIBB20xH", relation, size, 1, efficiency_class, len(masks))
    groups = b"".join(struct.pack("<QH6x", mask, group) for group, mask in enumerate(masks))
    return head + groups + bytes(padding)


def test_a_hybrid_processor_has_its_fast_cores_counted():
    records = b"".join(record([0b11 << 2 * core], 1) for core in range(6))
    records += b"".join(record([1 << 12 + core]) for core in range(8))
    cores = parse_cores(records)
    assert len(cores) == 14
    assert sum(core.threads for core in cores) == 20
    assert performance_cores(cores) == 6
    assert performance_cpus(cores) == tuple(range(12))


def test_equal_cores_are_all_performance_cores_and_none_is_set_apart():
    assert performance_cores(parse_cores(record([3]) * 8)) == 8
    assert performance_cpus(parse_cores(record([3]) * 8)) == ()


def test_processors_of_several_groups_are_not_told_apart_by_number():
    assert performance_cpus(parse_cores(record([0, 3], 1) + record([1]))) == ()


def test_a_core_may_span_processor_groups_and_records_may_be_longer_than_known():
    assert parse_cores(record([3, 1], padding=8) + record([1])) == (Core(3, 0), Core(1, 0))


def test_records_of_other_relations_are_passed_over():
    assert parse_cores(record([3], relation=2) + record([3])) == (Core(2, 0),)


def test_no_records_are_no_cores():
    assert parse_cores(b"") == ()
    assert performance_cores(()) == 0


@given(st.binary(max_size=200))
def test_any_bytes_are_cores_or_not_seen(records):
    try:
        cores = parse_cores(records)
    except NotSeenError:
        return
    assert all(core.threads >= 0 for core in cores)


@pytest.mark.parametrize("cut", [1, 20, 40])
def test_a_cut_record_is_refused(cut):
    with pytest.raises(NotSeenError):
        parse_cores(record([3])[:cut])
