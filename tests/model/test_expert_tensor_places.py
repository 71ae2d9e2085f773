"""Where the data of expert tensors lie in their files."""

from dataclasses import replace

import gguf
import gguf_files
import model_shapes
import pytest

from app.errors import AppError, ErrorCode
from app.model import read_expert_tensors, read_facts

TINY = model_shapes.tiny_moe()


def places(paths) -> dict[str, tuple]:
    """By the `gguf` package: file, offset and bytes of every tensor of the files."""
    found = {}
    for path in paths:
        reader = gguf.GGUFReader(path)
        found |= {t.name: (path, t.data_offset, t.n_bytes) for t in reader.tensors}
        del reader
    return found


def test_every_expert_tensor_lies_where_the_gguf_package_finds_it(tmp_path):
    path = gguf_files.write_model(tmp_path / "模型 è.gguf", TINY)
    expected = {name: place for name, place in places([path]).items() if "exps" in name}
    found = read_expert_tensors(path)
    assert {t.name: (t.path, t.offset, t.bytes) for t in found} == expected
    assert sum(tensor.bytes for tensor in found) == read_facts(path).bytes.experts


def test_tensors_of_a_split_model_lie_in_the_part_that_holds_them(tmp_path):
    parts = gguf_files.write_split(tmp_path, "Tiny", replace(TINY, plain={}), 3)
    expected = {name: place for name, place in places(parts).items() if "exps" in name}
    assert len({place[0] for place in expected.values()}) > 1
    for given in parts:
        assert {t.name: (t.path, t.offset, t.bytes) for t in read_expert_tensors(given)} == expected


def test_shared_experts_and_layers_that_only_draft_are_left_out(tmp_path):
    model = model_shapes.qwen36_35b_a3b()
    path = gguf_files.write_model(tmp_path / "shape.gguf", model)
    facts = read_facts(path)
    found = read_expert_tensors(path)
    assert not [tensor.name for tensor in found if "shexp" in tensor.name]
    assert {int(tensor.name.split(".")[1]) for tensor in found} == set(facts.moe_layers)
    assert sum(tensor.bytes for tensor in found) == facts.bytes.experts


def test_a_dense_model_has_none(tmp_path):
    assert read_expert_tensors(gguf_files.write_model(tmp_path / "dense.gguf", model_shapes.qwen3_0_6b())) == ()


def test_a_file_that_is_no_model_is_refused_as_by_the_facts(tmp_path):
    path = tmp_path / "notes.gguf"
    path.write_text("this is no model")
    with pytest.raises(AppError) as caught:
        read_expert_tensors(path)
    assert caught.value.code is ErrorCode.NOT_GGUF
