"""Plans that compute each token with another number of experts: what llama.cpp really does then, and what is told."""

import numpy as np
import pytest
import tiny_shapes
from decode_logits import Job, Run
from decoding import decode
from dry_runs import dry_runs
from engine_driver import answer, plan_for
from tiny_models import EMBED, TinyModel

from app.engine import protocol
from app.engine.client import EngineClient
from app.errors import AppError, ErrorCode
from app.model import read_facts
from app.placement.active_experts import facts_with
from app.placement.cache.trace import read_trace
from app.placement.memory import working_bytes
from app.placement.plan import CPU_LANE

MIB = 1024**2
LAYERS, EXPERTS, OWN = 30, 8, 2
SHAPES = ("mixtral", "qwen3moe", "gpt_oss", "fused_gate_up", "shared_expert", "weight_before")
BATCHES = (17, 1, 3, 1, 64, 1)
RUNS = (Run(name="no pool"), Run(name="a third", pool=0.3), Run(name="always", pool=0.3, stream="always", staging=4))


@pytest.fixture(scope="module")
def tiny_files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny")
    for name in SHAPES:
        getattr(tiny_shapes, name)(folder / f"{name}.gguf")
    return {name: folder / f"{name}.gguf" for name in SHAPES}


def routed_a_token(client):
    """Experts that a decoded token was routed to in each layer."""
    routing = client.request(protocol.ReadRouting, protocol.Routing)
    facts = client.request(protocol.ReadCache, protocol.CacheFacts)
    return {sum(counts) / facts.decode.tokens for counts in routing.decode.values()}


@pytest.mark.parametrize("count", [1, 3, EXPERTS])
def test_every_token_is_routed_to_as_many_experts_as_the_plan_says(demo_model, count):
    plan = plan_for(demo_model, experts_used=count, pool_device="CPU", pool_bytes=64 * MIB)
    with EngineClient() as client:
        report = client.request(protocol.Load, protocol.Loaded, plan=plan)
        finished = answer(client)
        routed = routed_a_token(client)
        pool = client.request(protocol.ReadCache, protocol.CacheFacts).pool
    assert report.differences == ()
    assert pool.working_bytes == pytest.approx(working_bytes(facts_with(read_facts(demo_model), count)), rel=0.01)
    assert routed == {count}
    assert (finished.cache.hits + finished.cache.misses) % (LAYERS * count) == 0
    assert finished.completion_tokens > 1


def test_without_a_wish_the_models_own_number_computes(demo_model, loaded):
    answer(loaded)
    assert routed_a_token(loaded) == {OWN}


def test_a_recorded_routing_says_how_many_experts_were_routed_to(demo_model, tmp_path):
    path = tmp_path / "routing.trace"
    with EngineClient() as client:
        client.request(protocol.Load, protocol.Loaded, plan=plan_for(demo_model, experts_used=3))
        client.request(protocol.SetTrace, protocol.TraceState, path=str(path))
        answer(client, max_tokens=4)
        client.request(protocol.SetTrace, protocol.TraceState, path="")
    trace = read_trace(path)
    assert trace.header.experts_used == 3
    assert len(trace.entries) % (LAYERS * 3) == 0
    assert len(trace.entries) > 0


@pytest.mark.parametrize("count", [0, -1, EXPERTS + 1, 10**12])
def test_an_impossible_number_is_refused_with_what_is_possible(demo_model, loaded, count):
    plan = plan_for(demo_model, experts_used=count)
    for request, last in ((protocol.DryRun, protocol.DryRan), (protocol.Load, protocol.Loaded)):
        with pytest.raises(AppError, match="a layer of this model has 8") as caught:
            loaded.request(request, last, plan=plan)
        assert caught.value.code is ErrorCode.BAD_USAGE
    loaded.request(protocol.Load, protocol.Loaded, plan=plan_for(demo_model))  # for the tests that come after


@pytest.mark.parametrize("count", [1, 3, EXPERTS])
def test_with_another_number_logits_are_those_of_stock_bit_by_bit(tiny_files, tmp_path, count):
    stock = decode(tmp_path / "stock", Job(repack=False, batches=BATCHES, experts_used=count), *tiny_files.values())
    job = Job(device=True, batches=BATCHES, experts_used=count, runs=RUNS)
    ours = decode(tmp_path / "ours", job, *tiny_files.values())
    for name in SHAPES:
        for run in RUNS:
            np.testing.assert_array_equal(
                ours[name].logits[run.name], stock[name].logits["stock"], err_msg=f"{name}, {run.name}"
            )


def test_another_number_changes_the_logits_of_experts_that_differ(tiny_files, tmp_path):
    by_count = {
        count: decode(tmp_path / str(count), Job(batches=(8,), experts_used=count), tiny_files["mixtral"])
        for count in (None, OWN, 1)
    }
    own, said, one = (found["mixtral"].logits["stock"] for found in by_count.values())
    np.testing.assert_array_equal(own, said)
    assert np.abs(own - one).max() > 0.01


def test_a_dry_run_counts_the_experts_as_the_load_does(tiny_files):
    plans = {
        (name, count): plan_for(path, experts_used=count) for name, path in tiny_files.items() for count in (1, None, 6)
    }
    results = dict(zip(plans, dry_runs(plans.values(), load=True), strict=True))
    for case, result in results.items():
        dry, told = (result[kind][CPU_LANE, "compute"] for kind in ("dry", "loaded"))
        assert dry == told, case
    for name in tiny_files:
        sizes = [results[name, count]["dry"][CPU_LANE, "compute"] for count in (1, None, 6)]
        assert sizes == sorted(sizes), name
        assert sizes[0] < sizes[-1], name


def listed(path, used):
    """A mixture whose file lists the number of experts by layer."""
    model = TinyModel(
        path, "llama", layers=len(used), experts=8, used=max(used), keys={"expert_used_count": list(used)}
    )
    model.ends()
    for layer in range(len(used)):
        model.attention(layer)
        model.ones(f"blk.{layer}.ffn_norm.weight", EMBED)
        model.expert_ffn(layer)
    model.write()
    return path


@pytest.mark.parametrize("used", [(2, 2), (2, 3)])
def test_a_list_of_numbers_by_layer_is_not_overridden_and_that_is_said(tmp_path, loaded, used):
    path = listed(tmp_path / "listed.gguf", used)
    facts = read_facts(path)
    assert (facts.experts_used, facts.experts_used_listed) == (max(used), True)
    with pytest.raises(AppError, match="changes no such list"):
        loaded.request(protocol.DryRun, protocol.DryRan, plan=plan_for(path, experts_used=1))


def test_llama_cpp_itself_passes_over_such_a_list(tmp_path):
    path = listed(tmp_path / "listed.gguf", (2, 2))
    own, wished = (
        decode(tmp_path / str(count), Job(batches=(8,), experts_used=count), path)["listed"] for count in (None, 1)
    )
    np.testing.assert_array_equal(own.logits["stock"], wished.logits["stock"])
