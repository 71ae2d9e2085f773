"""The demo model: what is in its file, and that the file is whole or not there."""

import errno
import hashlib
import os
import shutil
from collections import namedtuple

import gguf
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from app.errors import AppError, ErrorCode
from app.library import demo_writer
from app.library.demo import MAX_EXPERTS, build_demo, demo_model_path
from app.library.demo_router import STATISTICS_NAME, RouterStatistics
from app.library.demo_source import resource_folder
from app.library.folders import models_folder
from app.model import read_facts
from app.model.gguf_table import read_table

ROLES = ("ffn_gate", "ffn_up", "ffn_down")
OWN_KEYS = {
    "general.name",
    "general.description",
    "general.size_label",
    "llama.expert_count",
    "llama.expert_used_count",
}


@pytest.fixture(scope="module")
def dense(source):
    return gguf.GGUFReader(source)


@pytest.fixture(scope="module")
def built(built_demo):
    return gguf.GGUFReader(built_demo[0].path)


def values(reader):
    return {
        name: (field.types, field.contents()) for name, field in reader.fields.items() if not name.startswith("GGUF.")
    }


class CancelledError(Exception):
    pass


def test_the_result_describes_the_file(built_demo):
    model, _ = built_demo
    assert model.path.is_absolute()
    assert (model.experts, model.used) == (4, 2)
    assert model.bytes == model.path.stat().st_size
    assert model.sha256 == hashlib.sha256(model.path.read_bytes()).hexdigest()


def test_progress_rises_to_one(built_demo):
    _, progress = built_demo
    assert progress == sorted(progress)
    assert 0 < progress[0] < 0.2
    assert progress[-1] == 1.0


def test_nothing_but_the_model_and_its_empty_lock_is_left_in_the_folder(built_demo):
    model, _ = built_demo
    left = {path.name: path.stat().st_size for path in model.path.parent.iterdir()}
    assert left == {model.path.name: model.bytes, f".{model.path.name}.lock": 0}


def test_every_key_of_the_dense_model_is_carried_over_with_its_type(dense, built):
    expected = {name: value for name, value in values(dense).items() if name not in OWN_KEYS}
    assert {name: value for name, value in values(built).items() if name not in OWN_KEYS} == expected
    assert "tokenizer.chat_template" in expected
    assert built.fields["general.license"].contents() == "apache-2.0"


def test_the_metadata_says_honestly_what_the_model_is(dense, built):
    assert built.fields["general.name"].contents() != dense.fields["general.name"].contents()
    assert (
        "demonstration MoE: 4 identical copies of SmolLM2's FFN, constructed router"
        in built.fields["general.description"].contents()
    )
    assert built.fields["llama.expert_count"].contents() == 4
    assert built.fields["llama.expert_used_count"].contents() == 2


def test_every_expert_is_a_copy_of_the_dense_ffn_and_the_rest_is_unchanged(dense, built):
    tensors = {tensor.name: tensor for tensor in built.tensors}
    for old in dense.tensors:
        block, _, role = old.name.removesuffix(".weight").rpartition(".")
        if role in ROLES:
            new = tensors.pop(f"{block}.{role}_exps.weight")
            assert list(new.shape) == [*old.shape, 4]
            assert all(np.array_equal(expert, old.data) for expert in new.data)
        else:
            new = tensors.pop(old.name)
            assert list(new.shape) == list(old.shape)
            assert np.array_equal(new.data, old.data)
        assert new.tensor_type == old.tensor_type
    assert set(tensors) == {f"blk.{layer}.ffn_gate_inp.weight" for layer in range(30)}


def test_the_router_of_each_layer_is_the_one_drawn_for_it(built):
    statistics = RouterStatistics(resource_folder() / STATISTICS_NAME)
    for layer in range(30):
        (router,) = (tensor for tensor in built.tensors if tensor.name == f"blk.{layer}.ffn_gate_inp.weight")
        assert router.tensor_type == gguf.GGMLQuantizationType.F32
        assert np.array_equal(router.data, statistics.rows(layer, 4, 2))


def test_the_demo_is_read_as_a_moe_model(built_demo):
    facts = read_facts(built_demo[0].path)
    assert facts.architecture == "llama"
    assert (facts.expert_count, facts.experts_used) == (4, 2)
    assert facts.moe_layers == tuple(range(30))
    assert facts.chat_template


@pytest.mark.usefixtures("tiny_source")
def test_two_builds_give_the_same_bytes_and_other_numbers_others(tmp_path):
    first, second = (build_demo(tmp_path / name, experts=6, used=2) for name in ("a.gguf", "b.gguf"))
    assert first.path.read_bytes() == second.path.read_bytes()
    assert first.sha256 == second.sha256
    assert build_demo(tmp_path / "c.gguf", experts=6, used=1).sha256 != first.sha256


@pytest.mark.usefixtures("tiny_source")
def test_a_file_that_is_the_same_already_is_left_in_place(tmp_path):
    first = build_demo(tmp_path / "demo.gguf")
    before = first.path.stat()
    assert build_demo(first.path) == first
    assert (first.path.stat().st_ino, first.path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


@pytest.mark.usefixtures("tiny_source")
def test_another_demo_of_the_name_is_replaced(tmp_path):
    build_demo(tmp_path / "demo.gguf", experts=2, used=1)
    assert read_table(build_demo(tmp_path / "demo.gguf").path).metadata["llama.expert_count"] == 8


@given(experts=st.integers(-2, MAX_EXPERTS + 5), used=st.integers(-2, MAX_EXPERTS + 5))
def test_impossible_numbers_of_experts_are_bad_usage(experts, used):
    assume(not 1 <= used <= experts <= MAX_EXPERTS)
    with pytest.raises(AppError) as refused:
        build_demo(demo_model_path(), experts=experts, used=used)
    assert refused.value.code is ErrorCode.BAD_USAGE
    assert not models_folder().exists()


@pytest.mark.usefixtures("tiny_source")
class TestAFailedBuild:
    """Leaves what was there before, and nothing of its own but the empty lock."""

    @pytest.fixture
    def out(self, home):
        path = demo_model_path()
        path.parent.mkdir(parents=True)
        path.write_bytes(b"the old file")
        yield path
        assert path.read_bytes() == b"the old file"
        assert {left.name for left in path.parent.iterdir()} <= {path.name, f".{path.name}.lock"}

    def test_is_bad_usage_where_the_path_is_a_folder(self, out):
        with pytest.raises(AppError) as refused:
            build_demo(out.parent, experts=1, used=1)
        assert refused.value.code is ErrorCode.BAD_USAGE

    def test_says_so_where_the_folder_cannot_be_made(self, out):
        with pytest.raises(AppError) as refused:
            build_demo(out / "below a file" / "demo.gguf", experts=1, used=1)
        assert refused.value.code is ErrorCode.FOLDER_NOT_WRITABLE

    def test_is_refused_from_the_start_where_the_space_is_short(self, out, monkeypatch):
        usage = namedtuple("usage", "total used free")(100, 90, 10)
        monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
        with pytest.raises(AppError) as full:
            build_demo(out, experts=1, used=1)
        assert full.value.code is ErrorCode.DISK_FULL

    def test_says_that_the_disk_is_full_where_it_fills_up_meanwhile(self, out, monkeypatch):
        def fill_up(descriptor):
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(demo_writer.os, "fsync", fill_up)
        with pytest.raises(AppError) as full:
            build_demo(out, experts=1, used=1)
        assert full.value.code is ErrorCode.DISK_FULL

    def test_is_cancelled_by_its_caller(self, out):
        def cancel(fraction):
            raise CancelledError

        with pytest.raises(CancelledError):
            build_demo(out, experts=1, used=1, on_progress=cancel)


@pytest.mark.usefixtures("tiny_source")
def test_what_a_killed_build_left_is_replaced_by_the_next_one(home):
    home.mkdir()
    (home / ".demo.gguf.expert-lanes.part").write_bytes(b"half of a model")
    model = build_demo(home / "demo.gguf", experts=1, used=1)
    assert read_table(model.path).metadata["llama.expert_count"] == 1
    assert not (home / ".demo.gguf.expert-lanes.part").exists()


@pytest.mark.parametrize("content", [b"precious", b""])
def test_a_file_that_is_no_demo_is_never_replaced(tiny_source, tmp_path, content):
    out = tmp_path / "notes.gguf"
    out.write_bytes(content)
    with pytest.raises(AppError) as caught:
        build_demo(out)
    assert caught.value.code is ErrorCode.BAD_USAGE
    assert out.read_bytes() == content


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_what_is_no_regular_file_is_never_replaced(tiny_source, tmp_path):
    out = tmp_path / "pipe"
    os.mkfifo(out)
    with pytest.raises(AppError) as caught:
        build_demo(out)
    assert caught.value.code is ErrorCode.BAD_USAGE
    assert out.is_fifo()


def test_a_damaged_demo_in_its_own_place_is_built_again(tiny_source, home):
    out = demo_model_path()
    out.parent.mkdir(parents=True)
    out.write_bytes(b"GGUF but cut")
    assert build_demo(out, experts=2, used=1).bytes == out.stat().st_size > 100
