"""The benchmark's synthetic model: llama.cpp routes its tokens as the trace says, and nothing becomes NaN."""

import dataclasses
import shutil
import subprocess
import sys
from pathlib import Path

import gguf
import gguf.quants
import numpy as np
import pytest

BENCH = Path(__file__).parents[1] / "bench"
sys.path.append(str(BENCH))

import routing_trace  # noqa: E402
import synthetic_model  # noqa: E402
import weight_blocks  # noqa: E402
from routing_trace import RoutingShape  # noqa: E402
from synthetic_model import ModelShape  # noqa: E402

from app.errors import AppError, ErrorCode  # noqa: E402

TOKENS = 150


def tiny(quantisation: str) -> ModelShape:
    return ModelShape(
        quantisation,
        RoutingShape(layers=3, experts=16, used=4, codes=64, topics=8),
        hidden=256,
        expert_ff=256,
        heads=4,
        kv_heads=2,
        head=64,
        vocabulary=256,
        context=512,
    )


@pytest.mark.parametrize("quantisation", sorted(weight_blocks.TYPES))
def test_stock_llama_routes_every_token_as_the_trace_says(quantisation, tmp_path):
    shape = tiny(quantisation)
    ids = routing_trace.session(shape.routing, TOKENS, shape.vocabulary, seed=0)
    model, ids_file, out = tmp_path / "model.gguf", tmp_path / "ids.npy", tmp_path / "out.npz"
    synthetic_model.write_model(model, shape)
    np.save(ids_file, ids)
    subprocess.run(
        [sys.executable, str(BENCH / "stock_routing.py"), str(model), str(ids_file), str(out)], check=True, timeout=240
    )
    seen = np.load(out)
    intended = routing_trace.intended_counts(shape.routing, ids)
    np.testing.assert_array_equal(seen["counts"], intended)
    assert routing_trace.effective_experts(seen["counts"]) == routing_trace.effective_experts(intended)
    assert routing_trace.top_share(seen["counts"]) == routing_trace.top_share(intended)
    assert np.isfinite(seen["logits"]).all()
    assert 0.3 < seen["logits"].std() < 3


def test_a_code_has_distinct_experts_in_every_layer():
    chosen = np.sort(routing_trace.routes(tiny("Q4_0").routing), axis=2)
    assert (np.diff(chosen, axis=2) > 0).all()


def test_routing_is_skewed_as_zipf_says_and_uniform_without_it():
    zipf = RoutingShape(layers=4, experts=64, used=8, codes=512, exponent=1.2, topic_strength=0.0)
    uniform = dataclasses.replace(zipf, exponent=0.0)
    ids = np.arange(zipf.codes, dtype=np.int32)
    assert 15 < routing_trace.effective_experts(routing_trace.intended_counts(zipf, ids)) < 40
    assert routing_trace.top_share(routing_trace.intended_counts(zipf, ids)) > 0.65
    # Every expert gets 1/64 of the routings, but for chance.
    assert routing_trace.effective_experts(routing_trace.intended_counts(uniform, ids)) > 60
    assert routing_trace.top_share(routing_trace.intended_counts(uniform, ids)) < 0.4


def test_a_session_keeps_to_its_topic_and_that_makes_a_small_cache_hit_more():
    staying = RoutingShape(layers=2, experts=64, used=4, codes=256)
    hopping = dataclasses.replace(staying, stay=0.0)
    ids = routing_trace.session(staying, 600, 512, seed=0)
    topics = ids % staying.codes % staying.topics
    assert (topics[1:] == topics[:-1]).mean() > 0.95
    assert 0 <= ids.min() <= ids.max() < 512
    hops = routing_trace.session(hopping, 600, 512, seed=0)
    assert routing_trace.lru_hit_rate(staying, ids, 12, 300) > routing_trace.lru_hit_rate(hopping, hops, 12, 300) + 0.1


def test_the_default_trace_hits_an_lru_cache_as_published_for_qwen3_30b():
    shape = RoutingShape(layers=2, experts=128, used=8, codes=1024)
    ids = routing_trace.session(shape, 1500, 4096, seed=0)
    rates = [routing_trace.lru_hit_rate(shape, ids, slots, 750) for slots in (8, 24, 49, 82)]
    np.testing.assert_allclose(rates, [0.37, 0.74, 0.89, 0.96], atol=0.03)


def test_a_cache_that_holds_every_expert_misses_none_it_has_seen_and_an_empty_one_all():
    shape = tiny("Q4_0").routing
    ids = np.tile(np.arange(shape.codes, dtype=np.int32), 2)
    assert routing_trace.lru_hit_rate(shape, ids, shape.experts, shape.codes) == 1.0
    assert routing_trace.lru_hit_rate(shape, ids, 0, shape.codes) == 0.0


@pytest.mark.parametrize("quantisation", sorted(weight_blocks.TYPES))
def test_random_blocks_hold_weights_of_the_spread_asked_for(quantisation):
    kind = weight_blocks.TYPES[quantisation]
    rows = weight_blocks.random_rows(np.random.default_rng(0), kind, 64, 512, 0.1)
    assert rows.shape == (64, weight_blocks.row_bytes(kind, 512))
    weights = gguf.quants.dequantize(rows, kind)
    assert weights.std() == pytest.approx(0.1, rel=0.02)
    assert abs(weights.mean()) < 0.015


def test_a_model_is_written_once_and_another_for_other_parameters(tmp_path):
    first = synthetic_model.cached_model(tiny("Q8_0"), tmp_path)
    written = first.stat().st_mtime_ns
    assert synthetic_model.cached_model(tiny("Q8_0"), tmp_path) == first
    assert first.stat().st_mtime_ns == written
    other = synthetic_model.cached_model(dataclasses.replace(tiny("Q8_0"), expert_ff=512), tmp_path)
    assert other != first
    assert not list(tmp_path.glob("*.part"))


def test_a_full_disk_is_told_before_anything_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: shutil._ntuple_diskusage(2**40, 2**40 - 1000, 1000))
    with pytest.raises(AppError) as error:
        synthetic_model.cached_model(tiny("Q4_0"), tmp_path)
    assert error.value.code == ErrorCode.DISK_FULL
    assert not list(tmp_path.glob("*.gguf")) + list(tmp_path.glob(".*.part"))


def test_the_file_is_as_large_as_its_experts_say(tmp_path):
    shape = tiny("Q4_K")
    path = tmp_path / "model.gguf"
    synthetic_model.write_model(path, shape)
    experts = [tensor for tensor in gguf.GGUFReader(path).tensors if "_exps" in tensor.name]
    assert sum(int(tensor.n_bytes) for tensor in experts) == shape.experts_bytes
