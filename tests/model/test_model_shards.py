"""Split files: one model, whichever part is given."""

import os
from dataclasses import replace

import gguf_files
import model_shapes
import pytest

from app.errors import AppError, ErrorCode
from app.model import read_facts
from app.model.shards import model_name

MODEL = replace(model_shapes.tiny_moe(), plain={})


@pytest.fixture
def parts(tmp_path):
    return gguf_files.write_split(tmp_path / "模型 mit Leerzeichen", "Tiny", MODEL, 3)


def refusal(path) -> AppError:
    with pytest.raises(AppError) as caught:
        read_facts(path)
    return caught.value


@pytest.mark.parametrize("given", [0, 1, 2])
def test_every_part_leads_to_the_same_whole_model(parts, given, tmp_path):
    whole = read_facts(gguf_files.write_model(tmp_path / "whole.gguf", MODEL))
    facts = read_facts(parts[given])
    assert facts.files == tuple(map(str, parts))
    assert facts.file_bytes == sum(part.stat().st_size for part in parts)
    assert facts.name == "Tiny"
    assert facts.bytes == whole.bytes
    assert facts.expert_bytes == whole.expert_bytes
    assert facts.fingerprint == whole.fingerprint


@pytest.mark.parametrize("given", [0, 2])
def test_a_missing_part_is_named(parts, given):
    parts[1].unlink()
    error = refusal(parts[given])
    assert error.code is ErrorCode.SHARD_MISSING
    assert "Tiny-00002-of-00003.gguf" in error.message
    assert str(parts[1].parent) in error.detail


def test_a_renamed_part_cannot_find_the_others(parts):
    renamed = parts[0].rename(parts[0].with_name("mine.gguf"))
    error = refusal(renamed)
    assert error.code is ErrorCode.SHARD_MISSING
    assert "-00001-of-00003.gguf" in error.message


def test_swapped_parts_are_refused(parts):
    first, second = (part.read_bytes() for part in parts[:2])
    parts[0].write_bytes(second)
    parts[1].write_bytes(first)
    assert refusal(parts[2]).code is ErrorCode.MODEL_DAMAGED


def test_a_part_that_is_cut_short_is_named(parts):
    os.truncate(parts[2], parts[2].stat().st_size - 1)
    error = refusal(parts[0])
    assert error.code is ErrorCode.MODEL_DAMAGED
    assert parts[2].name in error.message


def test_parts_of_another_split_of_the_model_are_refused(parts):
    split = {"split.no": 1, "split.count": 3, "split.tensors.count": len(MODEL.tensors)}
    gguf_files.write_file(parts[1], split, MODEL.tensors[5:8])
    assert refusal(parts[0]).code is ErrorCode.MODEL_DAMAGED


def test_a_tensor_in_two_parts_is_refused(parts):
    split = {"split.no": 1, "split.count": 3}
    gguf_files.write_file(parts[1], split, MODEL.tensors[:3])
    error = refusal(parts[0])
    assert error.code is ErrorCode.MODEL_DAMAGED
    assert "same tensor" in error.message


def test_a_first_part_without_tensors_is_a_model_with_the_others(tmp_path):
    split = {"split.no": 0, "split.count": 2, "split.tensors.count": len(MODEL.tensors)}
    first = tmp_path / "Empty-00001-of-00002.gguf"
    gguf_files.write_file(first, {**MODEL.metadata, **split}, [])
    gguf_files.write_file(tmp_path / "Empty-00002-of-00002.gguf", {**split, "split.no": 1}, MODEL.tensors)
    assert read_facts(first).moe_layers == (0, 1)


def test_a_single_file_may_be_named_like_a_part(tmp_path):
    path = gguf_files.write_model(tmp_path / "Tiny-00001-of-00002.gguf", MODEL)
    assert read_facts(path).files == (str(path),)


def test_the_name_of_a_model_is_that_of_its_files_without_the_number(parts, tmp_path):
    assert model_name(parts[1]) == "Tiny"
    assert model_name(tmp_path / "Some.Model-Q4.gguf") == "Some.Model-Q4"
