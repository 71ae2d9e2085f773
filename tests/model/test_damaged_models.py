"""Damage of every kind: reading ends at once, with facts that add up or with an `AppError`."""

import os
import struct
import time
from pathlib import Path

import gguf_files
import model_shapes
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.errors import EXIT_MODEL, AppError, ErrorCode
from app.model import read_facts

MODEL = model_shapes.tiny_moe()
METADATA = {
    **MODEL.metadata,
    "general.alignment": 32,
    "some.float": 1.0,
    "some.truth": True,
    "some.wide": 1 << 40,
    "some.truths": [True, False],
    "some.empty": [],
    **gguf_files.vocabulary(32),
}
HEAD, SIZE = gguf_files.table(METADATA, MODEL.tensors)
WHOLE = HEAD + bytes(SIZE - len(HEAD))
EXTREMES = [0, 1, 2, 255, 1 << 16, 1 << 24, (1 << 31) - 1, 1 << 31, (1 << 32) - 1]
WIDE_EXTREMES = [*EXTREMES, 1 << 32, 1 << 40, (1 << 62) + 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]

# Nothing hangs: reading takes about a millisecond, of the processor's time where others keep it busy, too.
MOST_SECONDS = 3.0
fuzz = settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def check(path: Path, data: bytes) -> AppError | None:
    """Read `data` as a model; anything but whole facts or an `AppError` fails the test."""
    path.write_bytes(data)
    begin = time.process_time()
    try:
        facts = read_facts(path)
    except AppError as raised:
        error = raised
    else:
        error = None
    assert time.process_time() - begin < MOST_SECONDS
    if error is not None:
        assert error.exit_status == EXIT_MODEL
        assert error.message.startswith(path.name)
        return error
    parts = msgspec.structs.asdict(facts.bytes)
    assert parts.pop("total") == sum(parts.values()) <= len(data)
    assert len(facts.kv_layers) == len(facts.layer_bytes) == facts.layers
    msgspec.json.encode(facts)
    return None


@pytest.fixture
def path(tmp_path):
    return tmp_path / "damaged.gguf"


def test_the_undamaged_file_is_read(path):
    assert check(path, WHOLE) is None


@fuzz
@given(size=st.integers(0, SIZE - 1))
def test_every_truncation_is_noticed(path, size):
    error = check(path, WHOLE[:size])
    assert error is not None
    assert error.code is (ErrorCode.NOT_GGUF if size < 4 else ErrorCode.MODEL_DAMAGED)


@fuzz
@given(flips=st.lists(st.tuples(st.integers(0, len(HEAD) - 1), st.integers(1, 255)), min_size=1, max_size=4))
def test_flipped_bytes_end_in_facts_or_in_an_error(path, flips):
    data = bytearray(WHOLE)
    for at, change in flips:
        data[at] ^= change
    check(path, bytes(data))


@fuzz
@given(at=st.integers(4, len(HEAD) - 8), value=st.sampled_from(WIDE_EXTREMES))
def test_extreme_numbers_anywhere_end_in_facts_or_in_an_error(path, at, value):
    data = bytearray(WHOLE)
    data[at : at + 8] = struct.pack("<Q", value)
    check(path, bytes(data))


@fuzz
@given(at=st.integers(0, len(HEAD)), cut=st.integers(0, 64), junk=st.binary(max_size=64))
def test_lost_and_inserted_bytes_end_in_facts_or_in_an_error(path, at, cut, junk):
    check(path, WHOLE[:at] + junk + WHOLE[at + cut :])


@fuzz
@given(junk=st.binary(max_size=512))
def test_junk_after_a_valid_start_ends_in_an_error(path, junk):
    assert check(path, gguf_files.header(3, 3) + junk) is not None


@pytest.mark.parametrize("field", [8, 16])
@pytest.mark.parametrize("count", WIDE_EXTREMES)
def test_wrong_counts_in_the_header_of_a_huge_file_fail_at_once(path, field, count):
    data = bytearray(HEAD)
    data[field : field + 8] = struct.pack("<Q", count)
    path.write_bytes(data)
    os.truncate(path, 1 << 40)
    with pytest.raises(AppError) as caught:
        read_facts(path)
    assert caught.value.exit_status == EXIT_MODEL


@pytest.mark.parametrize("key", sorted(MODEL.keys))
@pytest.mark.parametrize("value", [*EXTREMES, "text", [1] * 5000, 0.5])
def test_no_metadata_value_makes_reading_fail_otherwise(path, key, value):
    data, size = gguf_files.table({**METADATA, f"{MODEL.architecture}.{key}": value}, MODEL.tensors)
    check(path, data + bytes(size - len(data)))
