"""The GGUF parser: what it reads, and what it refuses with which error."""

import os
import struct
from pathlib import Path

import gguf
import gguf_files
import model_shapes
import numpy as np
import pytest
from gguf_files import Tensor

from app.errors import AppError, ErrorCode
from app.model import gguf_table
from app.model.gguf_table import Unread, read_table
from app.model.tensor_types import TENSOR_TYPES


def refusal(path: Path) -> AppError:
    with pytest.raises(AppError) as caught:
        read_table(path)
    return caught.value


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def test_the_tensor_types_agree_with_those_of_the_gguf_package():
    theirs = {kind.value: (kind.name, *gguf.GGML_QUANT_SIZES[kind]) for kind in gguf.GGMLQuantizationType}
    ours = {number: (kind.name, kind.block_values, kind.block_bytes) for number, kind in TENSOR_TYPES.items()}
    assert {number: ours.get(number) for number in theirs} == theirs


def test_every_kind_of_value_is_read_as_the_gguf_package_wrote_it(tmp_path):
    writer = gguf.GGUFWriter(tmp_path / "written.gguf", "llama")
    writer.add_uint8("u8", 200)
    writer.add_int8("i8", -3)
    writer.add_uint16("u16", 60000)
    writer.add_int16("i16", -30000)
    writer.add_uint32("u32", 4_000_000_000)
    writer.add_int32("i32", -5)
    writer.add_uint64("u64", 1 << 63)
    writer.add_int64("i64", -(1 << 62))
    writer.add_float32("f32", 0.5)
    writer.add_float64("f64", 0.1)
    writer.add_bool("yes", True)
    writer.add_string("text", "Größe 模型")
    writer.add_array("numbers", [1, 2, 3])
    writer.add_array("truths", [True, False])
    writer.add_array("texts", ["a", "", "ccc"])
    writer.add_tensor("first", np.zeros((3, 5), dtype=np.float32))
    writer.add_tensor("second", np.ones(7, dtype=np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

    table = read_table(tmp_path / "written.gguf")

    assert table.metadata == {
        "general.architecture": "llama",
        "u8": 200,
        "i8": -3,
        "u16": 60000,
        "i16": -30000,
        "u32": 4_000_000_000,
        "i32": -5,
        "u64": 1 << 63,
        "i64": -(1 << 62),
        "f32": 0.5,
        "f64": 0.1,
        "yes": True,
        "text": "Größe 模型",
        "numbers": (1, 2, 3),
        "truths": (True, False),
        "texts": Unread(3),
    }
    assert [(t.name, t.type.name, t.shape, t.bytes) for t in table.tensors] == [
        ("first", "F32", (5, 3), 60),
        ("second", "F16", (7,), 14),
    ]


def test_the_gguf_package_reads_the_test_files_as_this_parser_does(tmp_path):
    path = gguf_files.write_model(tmp_path / "tiny.gguf", model_shapes.tiny_moe())
    theirs = [
        (t.name, t.tensor_type.name, tuple(map(int, t.shape)), int(t.n_bytes)) for t in gguf.GGUFReader(path).tensors
    ]
    assert [(t.name, t.type.name, t.shape, t.bytes) for t in read_table(path).tensors] == theirs


def test_version_2_is_read_like_version_3(tmp_path):
    model = model_shapes.tiny_moe()
    tables = [
        read_table(gguf_files.write_file(tmp_path / f"v{version}", model.metadata, model.tensors, version))
        for version in (2, 3)
    ]
    assert tables[0].metadata == tables[1].metadata
    assert tables[0].tensors == tables[1].tensors


@pytest.mark.parametrize("size", [1, 2, 5000, 70_000])
def test_vocabularies_are_stepped_over_across_the_borders_of_the_read_window(tmp_path, size):
    texts = [f"{index}" * (1 + index % 40) for index in range(size)]
    metadata = {"before": 1, "texts": texts, "after": "found"}
    path = gguf_files.write_file(tmp_path / "texts.gguf", metadata, [Tensor("t", (4,))])
    assert read_table(path).metadata == {"before": 1, "texts": Unread(size), "after": "found"}


def test_long_texts_and_long_arrays_are_stepped_over(tmp_path):
    long_text = "x" * (gguf_table.LONGEST_TEXT_BYTES + 1)
    long_array = [7] * (gguf_table.LONGEST_ARRAY + 1)
    metadata = {"text": long_text, "array": long_array, "after": 5}
    table = read_table(gguf_files.write_file(tmp_path / "long.gguf", metadata, []))
    assert table.metadata == {"text": Unread(len(long_text)), "array": Unread(len(long_array)), "after": 5}


def test_the_alignment_of_the_file_decides_where_the_data_are(tmp_path):
    tensors = [Tensor("a", (3,)), Tensor("b", (3,))]
    path = gguf_files.write_file(tmp_path / "aligned.gguf", {"general.alignment": 4096}, tensors)
    assert path.stat().st_size == 4096 + 4096 + 12
    assert [t.name for t in read_table(path).tensors] == ["a", "b"]


@pytest.mark.parametrize("alignment", [0, 24, 32.0, "32"])
def test_an_alignment_that_is_no_power_of_two_is_damage(tmp_path, alignment):
    head = gguf_files.header(0, 1) + gguf_files.key_bytes({"general.alignment": alignment})
    assert refusal(write(tmp_path / "x.gguf", head)).code is ErrorCode.MODEL_DAMAGED


def test_a_missing_file_is_named(tmp_path):
    error = refusal(tmp_path / "nothing.gguf")
    assert error.code is ErrorCode.FILE_MISSING
    assert "nothing.gguf" in error.message


def test_a_path_below_a_file_is_missing(tmp_path):
    file = write(tmp_path / "file", b"GGUF")
    assert refusal(file / "model.gguf").code is ErrorCode.FILE_MISSING


def test_a_path_that_no_file_can_have_is_missing():
    assert refusal(Path("model\0.gguf")).code is ErrorCode.FILE_MISSING


def test_a_folder_is_unreadable(tmp_path):
    assert refusal(tmp_path).code is ErrorCode.FILE_UNREADABLE


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_is_refused_instead_of_waiting_for_a_writer(tmp_path):
    os.mkfifo(tmp_path / "pipe.gguf")
    assert refusal(tmp_path / "pipe.gguf").code is ErrorCode.FILE_UNREADABLE


def test_a_file_without_permission_is_unreadable(tmp_path, monkeypatch):
    # Denied by hand: the tests may run as a user whom no permission stops.
    path = write(tmp_path / "secret.gguf", b"GGUF")

    def deny(self, *args):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", deny)
    error = refusal(path)
    assert error.code is ErrorCode.FILE_UNREADABLE
    assert "Permission denied" in error.detail


@pytest.mark.parametrize("data", [b"", b"GG", b"ggml" + bytes(100), b"PK\x03\x04" + bytes(100)])
def test_another_format_is_not_gguf(tmp_path, data):
    assert refusal(write(tmp_path / "x.gguf", data)).code is ErrorCode.NOT_GGUF


@pytest.mark.parametrize(
    ("version", "word"), [(0, "version 0"), (1, "version 1"), (4, "version 4"), (3 << 24, "big-endian")]
)
def test_other_versions_and_byte_orders_are_refused_by_name(tmp_path, version, word):
    error = refusal(write(tmp_path / "x.gguf", gguf_files.header(0, 0, version)))
    assert error.code is ErrorCode.MODEL_UNSUPPORTED
    assert word in error.message


@pytest.mark.parametrize("count", [1 << 60, (1 << 64) - 1, gguf_table.MAX_TENSORS + 1, 3])
def test_impossible_counts_fail_at_once(tmp_path, count):
    for head in (gguf_files.header(count, 0), gguf_files.header(0, count)):
        assert refusal(write(tmp_path / "x.gguf", head)).code is ErrorCode.MODEL_DAMAGED


def test_counts_that_a_huge_file_could_hold_fail_at_once_too(tmp_path):
    path = write(tmp_path / "x.gguf", gguf_files.header(1 << 30, 0))
    os.truncate(path, 1 << 40)
    assert refusal(path).code is ErrorCode.MODEL_DAMAGED


@pytest.mark.parametrize("kind", [8, 4])
@pytest.mark.parametrize("length", [1 << 29, 1 << 60, (1 << 64) - 1])
def test_an_array_of_nonsense_length_in_a_huge_file_fails_at_once(tmp_path, kind, length):
    value = struct.pack("<IIQ", 9, kind, length)
    path = write(tmp_path / "x.gguf", gguf_files.header(0, 2) + gguf_files.text("array") + value)
    os.truncate(path, 1 << 40)
    assert refusal(path).code is ErrorCode.MODEL_DAMAGED


@pytest.mark.parametrize("length", [0, 1 << 16, 1 << 63, (1 << 64) - 1])
def test_a_key_of_nonsense_length_is_damage(tmp_path, length):
    data = gguf_files.header(0, 1) + struct.pack("<Q", length) + bytes(64)
    assert refusal(write(tmp_path / "x.gguf", data)).code is ErrorCode.MODEL_DAMAGED


@pytest.mark.parametrize("kind", [13, 255, (1 << 32) - 1])
def test_a_value_of_unknown_type_is_damage(tmp_path, kind):
    for value in (struct.pack("<I", kind), struct.pack("<IIQ", 9, kind, 1)):
        data = gguf_files.header(0, 1) + gguf_files.text("key") + value + bytes(64)
        assert refusal(write(tmp_path / "x.gguf", data)).code is ErrorCode.MODEL_DAMAGED


def test_an_array_of_arrays_is_refused(tmp_path):
    data = gguf_files.header(0, 1) + gguf_files.text("key") + struct.pack("<IIQ", 9, 9, 1) + bytes(64)
    assert refusal(write(tmp_path / "x.gguf", data)).code is ErrorCode.MODEL_UNSUPPORTED


def test_a_key_that_occurs_twice_is_damage(tmp_path):
    pair = gguf_files.key_bytes({"key": 1})
    error = refusal(write(tmp_path / "x.gguf", gguf_files.header(0, 2) + pair + pair))
    assert error.code is ErrorCode.MODEL_DAMAGED
    assert "'key'" in error.message


def test_a_tensor_that_occurs_twice_is_damage(tmp_path):
    path = gguf_files.write_file(tmp_path / "x.gguf", {}, [Tensor("same", (4,)), Tensor("same", (4,))])
    assert "'same'" in refusal(path).message


@pytest.mark.parametrize("kind", [4, 31, 38, 43, (1 << 32) - 1])
def test_a_tensor_type_that_the_engine_lacks_is_refused_by_number(tmp_path, kind):
    info = gguf_files.text("t") + struct.pack("<IQIQ", 1, 32, kind, 0)
    error = refusal(write(tmp_path / "x.gguf", gguf_files.header(1, 0) + info + bytes(4096)))
    assert error.code is ErrorCode.MODEL_UNSUPPORTED
    assert str(kind) in error.message


@pytest.mark.parametrize(
    ("shape", "kind"), [((0,), 0), ((33,), 2), ((255,), 12), ((1 << 40, 1 << 40), 0), ((1 << 63,), 0)]
)
def test_a_shape_that_cannot_be_is_damage(tmp_path, shape, kind):
    info = gguf_files.text("t") + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, 0)
    data = gguf_files.header(1, 0) + info + bytes(4096)
    assert refusal(write(tmp_path / "x.gguf", data)).code is ErrorCode.MODEL_DAMAGED


@pytest.mark.parametrize("dimensions", [5, 1 << 31])
def test_too_many_dimensions_are_damage(tmp_path, dimensions):
    info = gguf_files.text("t") + struct.pack("<I", dimensions) + bytes(4096)
    data = gguf_files.header(1, 0) + info
    assert refusal(write(tmp_path / "x.gguf", data)).code is ErrorCode.MODEL_DAMAGED


@pytest.mark.parametrize("offset", [32, 1, 1 << 63])
def test_data_that_do_not_follow_each_other_are_damage(tmp_path, offset):
    info = gguf_files.text("t") + struct.pack("<IQIQ", 1, 4, 0, offset)
    data = gguf_files.header(1, 0) + info + bytes(4096)
    assert refusal(write(tmp_path / "x.gguf", data)).code is ErrorCode.MODEL_DAMAGED


def test_a_file_whose_last_byte_is_missing_is_cut_short(tmp_path):
    path = gguf_files.write_model(tmp_path / "x.gguf", model_shapes.tiny_moe())
    size = path.stat().st_size
    os.truncate(path, size - 1)
    error = refusal(path)
    assert error.code is ErrorCode.MODEL_DAMAGED
    assert f"{size:,} bytes are needed and {size - 1:,} are there" in error.message
