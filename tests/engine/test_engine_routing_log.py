"""Answers' routing kept by the engine child, and what evidence of the model becomes of it."""

import pytest
from engine_driver import GREEDY, answer, plan_for

from app.engine import protocol
from app.engine.client import EngineClient
from app.library.routing_records import recorded_hits, routing_folder
from app.model import read_facts
from app.placement.cache.trace import kept_name, read_trace
from app.placement.plan import CPU_LANE

SEA = (protocol.Message(role="user", content="Tell me about the sea."),)


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home for the children of one test."""
    monkeypatch.setenv("EXPERT_LANES_HOME", str(tmp_path))
    return tmp_path


def kept(path):
    return read_trace(routing_folder() / kept_name(read_facts(path).fingerprint))


def steps(trace, layer):
    """Decoded tokens of a layer that were recorded."""
    return len(set(trace.entries["token"][trace.entries["layer"] == layer].tolist()))


def load(client, path, **changes):
    return client.request(protocol.Load, protocol.Loaded, plan=plan_for(path, **changes))


def test_two_runs_add_their_answers_and_the_model_has_hit_rates_then(demo_model, home):
    decoded = []
    for messages in (SEA, None):
        with EngineClient() as client:
            load(client, demo_model)
            finished = answer(client, *([messages] if messages else []), max_tokens=40)
            decoded.append(finished.completion_tokens - (finished.stop_reason != "end_of_text"))
    trace, facts = kept(demo_model), read_facts(demo_model)
    assert {steps(trace, layer) for layer in facts.moe_layers} == {sum(decoded)}
    assert trace.header.experts == dict.fromkeys(facts.moe_layers, facts.expert_count)
    assert len(trace.entries) == sum(decoded) * len(facts.moe_layers) * facts.experts_used
    found = recorded_hits(facts)
    assert (found.tokens, found.enough) == (sum(decoded), sum(decoded) >= 64)
    assert set(found.layers) == (set(facts.moe_layers) if found.enough else set())


def test_measurements_and_what_the_user_records_are_not_kept_as_answers(demo_model, home, tmp_path):
    with EngineClient() as client:
        load(client, demo_model)
        client.request(protocol.Measure, protocol.Measured, prompts=("The sea is",), decode_tokens=8)
        client.request(protocol.SetTrace, protocol.TraceState, path=str(tmp_path / "mine.trace"))
        answer(client, max_tokens=12)
        state = client.request(protocol.SetTrace, protocol.TraceState, path="")
    assert state.entries > 0
    assert not routing_folder().exists()
    assert len(read_trace(tmp_path / "mine.trace").entries) == state.entries


def test_after_the_users_recording_answers_are_kept_again(demo_model, home, tmp_path):
    with EngineClient() as client:
        load(client, demo_model)
        client.request(protocol.SetTrace, protocol.TraceState, path=str(tmp_path / "mine.trace"))
        client.request(protocol.SetTrace, protocol.TraceState, path="")
        answer(client, max_tokens=12)
    assert steps(kept(demo_model), 0) > 0


def test_another_number_of_active_experts_is_not_kept_as_the_models_own_routing(demo_model, home):
    with EngineClient() as client:
        load(client, demo_model, experts_used=3)
        answer(client, max_tokens=12)
    assert not routing_folder().exists()


def test_two_engines_at_once_keep_what_both_answered(demo_model, home):
    with EngineClient() as one, EngineClient() as other:
        for client in (one, other):
            load(client, demo_model, threads=1)
        ids = [client.send(protocol.Generate, messages=SEA, max_tokens=10, sampling=GREEDY) for client in (one, other)]
        ends = [
            list(client.events(request, protocol.Finished))[-1]
            for client, request in zip((one, other), ids, strict=True)
        ]
    decoded = [end.completion_tokens - (end.stop_reason != "end_of_text") for end in ends]
    trace = kept(demo_model)
    # Both may save within the same instant: then one of them is kept, whole.
    assert steps(trace, 0) in (sum(decoded), *decoded)
    assert read_facts(demo_model).moe_layers == tuple(trace.header.experts)


def test_a_damaged_file_does_not_keep_an_answer_from_coming(demo_model, home):
    path = routing_folder() / kept_name(read_facts(demo_model).fingerprint)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"\0" * 1000)
    with EngineClient() as client:
        load(client, demo_model)
        finished = answer(client, max_tokens=12)
    assert finished.completion_tokens > 0
    assert steps(kept(demo_model), 0) > 0
    assert "passed over" in (home / "logs" / "engine.log").read_text()


def test_layers_that_lie_whole_elsewhere_are_added_by_a_later_plan(demo_model, home, any_gpu, monkeypatch):
    monkeypatch.setenv("GGML_VK_VISIBLE_DEVICES", "0")
    facts = read_facts(demo_model)
    lanes = dict.fromkeys(facts.moe_layers, CPU_LANE) | dict.fromkeys(facts.moe_layers[:10], any_gpu)
    with EngineClient() as client:
        load(client, demo_model, gpu=any_gpu, expert_lanes=lanes, n_ctx=512)
        answer(client, max_tokens=6)
    assert set(kept(demo_model).header.experts) == set(facts.moe_layers[10:])
    with EngineClient() as client:
        load(client, demo_model)
        answer(client, max_tokens=6)
    trace = kept(demo_model)
    assert set(trace.header.experts) == set(facts.moe_layers)
    assert steps(trace, 10) == 2 * steps(trace, 0)
