"""The expert cache through the engine child: orders beside a running answer, its facts, traces and profiles.

The pool lies on a second CPU device, so that the answers' numbers are the CPU's own and no GPU is needed.
"""

import os

import msgspec
import pytest
from engine_driver import GREEDY, QUESTION, answer, plan_for

from app.engine import protocol
from app.engine.client import EngineClient, engine_command
from app.engine.profiles import Profile
from app.errors import AppError, ErrorCode
from app.library import folders
from app.model import read_facts
from app.placement.cache.trace import read_trace
from app.placement.memory import working_bytes
from app.placement.plan import CachePolicy, ExpertPin

MIB = 1024**2
EAGER = CachePolicy(window=0, insert_cap=8, stream="off")
POOL = 128 * MIB  # 2 of 8 experts in each of the demo's 30 layers, and a third in some
CYCLE_PAIRS = 30 * 2


def pinned(layer, expert, pin="gpu"):
    return ExpertPin(layer=layer, expert=expert, pin=pin)


def with_pool(path, **changes):
    return plan_for(path, **{"pool_device": "CPU", "pool_bytes": POOL, "policy": EAGER, "n_ctx": 512, **changes})


@pytest.fixture(scope="module")
def pooled(demo_model):
    """A child with the demo model and a pool for single experts on the CPU."""
    with EngineClient() as client:
        client.request(protocol.Load, protocol.Loaded, plan=with_pool(demo_model))
        yield client


def read(client, **fields):
    return client.request(protocol.ReadCache, protocol.CacheFacts, **fields)


def resize(client, size, staging=0):
    return client.request(protocol.SetPool, protocol.CacheFacts, pool_bytes=size, staging_bytes=staging)


def refused(client, request, last, **fields):
    with pytest.raises(AppError) as caught:
        client.request(request, last, **fields)
    return caught.value


def test_a_planned_pool_is_there_after_the_load_and_reported_with_its_bytes(demo_model):
    with EngineClient() as client:
        report = client.request(protocol.Load, protocol.Loaded, plan=with_pool(demo_model, staging_bytes=16 * MIB))
        facts = read(client)
    assert report.differences == ()
    assert report.expert_device
    sizes = {(its.device, its.part): its.bytes for its in report.buffers}
    assert 0.9 * POOL < sizes["CPU", "pool"] <= POOL
    assert (facts.pool.requested_bytes, facts.pool.allocated_bytes) == (POOL, sizes["CPU", "pool"])
    assert facts.pool.slots >= CYCLE_PAIRS
    assert (facts.pool.device, facts.policy) == ("CPU", EAGER)
    assert facts.pool.staging_bytes + facts.pool.working_bytes == sizes["CPU", "staging"]
    assert 0 < facts.pool.staging_bytes <= 16 * MIB
    assert facts.pool.working_bytes == pytest.approx(working_bytes(read_facts(demo_model)), rel=0.01)


def test_an_answer_with_a_pool_says_what_one_without_says_and_reports_its_hits(demo_model, pooled, loaded):
    finished = answer(pooled, max_tokens=40)
    assert finished.text == answer(loaded, max_tokens=40).text
    cache = finished.cache
    assert (cache.used, cache.reason) == (True, "")
    assert cache.hits > 0
    assert cache.misses is not None
    assert (cache.hits + cache.misses) % CYCLE_PAIRS == 0
    assert cache.hits + cache.misses >= (finished.completion_tokens - 1) * CYCLE_PAIRS
    assert cache.copied_bytes > 0


def test_the_facts_of_an_answer_add_up(pooled):
    before = read(pooled)
    finished = answer(pooled, max_tokens=12)
    after = read(pooled, since=before.next_batch)
    assert after.decode.hits - before.decode.hits == finished.cache.hits
    assert after.decode.misses - before.decode.misses == finished.cache.misses
    decoded = [batch for batch in after.batches if not batch.prompt]
    assert sum(batch.hits for batch in decoded) == finished.cache.hits
    assert sum(batch.tokens for batch in decoded) == after.decode.tokens - before.decode.tokens
    assert set(after.layers) == set(range(30))
    routed = sum(sum(layer.routed) - sum(before.layers[index].routed) for index, layer in after.layers.items())
    assert routed == finished.cache.hits + finished.cache.misses
    assert sum(layer.lanes.count("g") for layer in after.layers.values()) == after.pool.resident
    assert sum(layer.slots for layer in after.layers.values()) == after.pool.slots
    assert read(pooled, experts=False).layers == {}


def test_the_pool_is_resized_and_released_while_an_answer_is_computed(pooled):
    expected = answer(pooled, max_tokens=60).text
    request = pooled.send(protocol.Generate, messages=QUESTION, sampling=GREEDY, max_tokens=60)
    sizes = iter((0, POOL // 2, POOL))
    for event in pooled.events(request, protocol.Finished):
        if isinstance(event, protocol.Token) and event.count in (10, 20, 30):
            pooled.send(protocol.SetPool, pool_bytes=next(sizes))
    assert (event.stop_reason, event.text) == ("max_tokens", expected)
    assert resize(pooled, POOL).pool.allocated_bytes > 0.9 * POOL


def test_a_released_pool_is_told_of_and_can_come_back(pooled):
    gone = resize(pooled, 0)
    assert (gone.pool.requested_bytes, gone.pool.allocated_bytes, gone.pool.resident, gone.pool.used) == (
        0,
        0,
        0,
        False,
    )
    finished = answer(pooled, max_tokens=6)
    assert (finished.cache.used, finished.cache.hits, finished.cache.reason) == (False, 0, "No pool was asked for.")
    back = resize(pooled, POOL)
    assert back.pool.slots >= CYCLE_PAIRS
    assert answer(pooled, max_tokens=12).cache.used


def test_a_pool_below_one_token_cycle_says_what_would_help(pooled):
    small = resize(pooled, 60 * MIB)
    assert "help" in small.pool.reason
    assert "help" in answer(pooled, max_tokens=4).cache.reason
    resize(pooled, POOL)


def test_pins_are_set_while_an_answer_is_computed_and_hold(pooled):
    request = pooled.send(protocol.Generate, messages=QUESTION, sampling=GREEDY, max_tokens=40)
    pins = tuple(pinned(layer, 7) for layer in range(30)) + tuple(pinned(layer, 3, "cpu") for layer in range(30))
    for event in pooled.events(request, protocol.Finished):
        if isinstance(event, protocol.Token) and event.count == 3:
            pooled.send(protocol.SetPins, pins=pins)
    facts = read(pooled)
    for layer in facts.layers.values():
        assert (layer.pins[7], layer.pins[3]) == ("g", "c")
        assert layer.lanes[7] == "g"
        assert layer.lanes[3] == "c"
    again = pooled.request(
        protocol.SetPins,
        protocol.CacheFacts,
        pins=tuple(msgspec.structs.replace(pin, pin="auto") for pin in pins),
    )
    assert {layer.pins for layer in again.layers.values()} == {"a" * 8}


def test_a_new_policy_is_answered_at_once_and_told_from_then_on(pooled):
    manual = CachePolicy(kind="manual")
    told = pooled.request(protocol.SetPolicy, protocol.CacheFacts, policy=manual)
    assert told.policy == manual
    before = read(pooled, experts=False).decode.inserts
    answer(pooled, max_tokens=8)
    assert read(pooled, experts=False).decode.inserts == before
    assert pooled.request(protocol.SetPolicy, protocol.CacheFacts, policy=EAGER).policy == EAGER


def test_orders_are_answered_while_an_answer_is_computed(pooled):
    request = pooled.send(protocol.Generate, messages=QUESTION, sampling=GREEDY, max_tokens=900)
    for event in pooled.events(request, protocol.Finished):
        if isinstance(event, protocol.Token):
            break
    first = read(pooled)
    pooled.request(protocol.SetPolicy, protocol.CacheFacts, policy=EAGER)
    pooled.request(protocol.SetTrace, protocol.TraceState, path="")
    second = read(pooled, since=first.next_batch)
    pooled.send(protocol.Cancel, target=request)
    *_, finished = pooled.events(request, protocol.Finished)
    assert finished.stop_reason == "stopped", "it was computed until then"
    assert second.next_batch >= first.next_batch
    assert all(batch.index >= first.next_batch for batch in second.batches)


IMPOSSIBLE = {
    "a negative pool": (protocol.SetPool, protocol.CacheFacts, {"pool_bytes": -1}, "-1 bytes"),
    "a negative area": (protocol.SetPool, protocol.CacheFacts, {"pool_bytes": 1, "staging_bytes": -1}, "0 is none"),
    "a layer": (protocol.SetPins, protocol.CacheFacts, {"pins": (pinned(30, 0),)}, "layers that have: 0, 1,"),
    "an expert": (protocol.SetPins, protocol.CacheFacts, {"pins": (pinned(0, 8),)}, "it has 0 to 7"),
    "a pin": (protocol.SetPins, protocol.CacheFacts, {"pins": (pinned(0, 0, "up"),)}, "auto, gpu, cpu"),
    "a policy": (protocol.SetPolicy, protocol.CacheFacts, {"policy": CachePolicy(kind="best")}, "lru, decay, frozen"),
    "a decay": (protocol.SetPolicy, protocol.CacheFacts, {"policy": CachePolicy(decay=2.0)}, "above 0"),
}  # fmt: skip


@pytest.mark.parametrize(("request_type", "last", "fields", "words"), IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_what_is_impossible_is_bad_usage_with_what_is_possible(pooled, request_type, last, fields, words):
    error = refused(pooled, request_type, last, **fields)
    assert error.code is ErrorCode.BAD_USAGE
    assert words in error.message
    assert read(pooled).pool.allocated_bytes > 0


@pytest.mark.parametrize(
    ("request_type", "last", "fields"),
    [
        (protocol.SetPool, protocol.CacheFacts, {"pool_bytes": 1}),
        (protocol.SetPins, protocol.CacheFacts, {"pins": ()}),
        (protocol.SetPolicy, protocol.CacheFacts, {"policy": CachePolicy()}),
        (protocol.ReadCache, protocol.CacheFacts, {}),
        (protocol.SetTrace, protocol.TraceState, {"path": "x"}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_without_a_model_every_order_is_refused(request_type, last, fields):
    with EngineClient() as client:
        before = refused(client, request_type, last, **fields)
        client.request(protocol.Unload, protocol.Unloaded)
        after = refused(client, request_type, last, **fields)
    assert before.code is after.code is ErrorCode.ENGINE_FAILED
    assert before.message == after.message == "No model is loaded."


def test_without_the_expert_device_the_facts_are_empty_and_orders_say_why(demo_model):
    with EngineClient([*engine_command(), "--stock"]) as client:
        report = client.request(protocol.Load, protocol.Loaded, plan=with_pool(demo_model))
        facts = read(client)
        error = refused(client, protocol.SetPool, protocol.CacheFacts, pool_bytes=POOL)
        finished = answer(client, max_tokens=4)
    assert any("pool of 128.0 MiB; there is none" in sentence for sentence in report.differences)
    assert (facts.pool, facts.layers, facts.policy) == (None, {}, EAGER)
    assert error.code is ErrorCode.ENGINE_FAILED
    assert "without it" in error.message
    assert (finished.cache.requested_bytes, finished.cache.used, finished.cache.misses) == (POOL, False, None)
    assert "without it" in finished.cache.reason


def test_a_pool_on_a_device_that_cannot_hold_it_is_a_difference_and_the_model_answers(demo_model, loaded):
    with EngineClient() as client:
        plan = with_pool(demo_model, pool_bytes=2**50)
        report = client.request(protocol.Load, protocol.Loaded, plan=plan)
        finished = answer(client, max_tokens=12)
        facts = read(client, experts=False)
    if facts.pool.allocated_bytes:
        # Never more than all experts together: so much main memory there is.
        assert facts.pool.allocated_bytes <= read_facts(demo_model).bytes.experts * 1.01
    else:
        assert any("there is none" in sentence for sentence in report.differences)
        assert facts.pool.reason
    assert finished.text == answer(loaded, max_tokens=12).text


def test_a_trace_records_every_decoded_routing(pooled, tmp_path, demo_model):
    path = tmp_path / "模型 routing.trace"
    state = pooled.request(protocol.SetTrace, protocol.TraceState, path=str(path))
    assert (state.path, state.dropped) == (str(path), 0)
    finished = answer(pooled, max_tokens=10)
    ended = pooled.request(protocol.SetTrace, protocol.TraceState, path="")
    answer(pooled, max_tokens=3)
    trace = read_trace(path)
    assert ended.entries == len(trace.entries) == finished.cache.hits + finished.cache.misses
    assert trace.header.fingerprint == read_facts(demo_model).fingerprint
    tokens = set(trace.entries["token"].tolist())
    assert len(tokens) * CYCLE_PAIRS == len(trace.entries)
    assert set(trace.entries["layer"].tolist()) == set(range(30))


def test_a_trace_that_cannot_be_written_is_refused_and_the_answers_go_on(pooled, tmp_path):
    error = refused(pooled, protocol.SetTrace, protocol.TraceState, path=str(tmp_path / "none" / "t"))
    assert error.code is ErrorCode.FOLDER_NOT_WRITABLE
    assert answer(pooled, max_tokens=3).text


def test_the_next_start_is_warm_with_the_heat_of_the_last(demo_model, tmp_path, monkeypatch):
    monkeypatch.setenv("EXPERT_LANES_HOME", str(tmp_path))
    fingerprint = read_facts(demo_model).fingerprint
    path = folders.data_folder() / "profiles" / f"{fingerprint}.json"
    with EngineClient() as client:
        client.request(protocol.Load, protocol.Loaded, plan=with_pool(demo_model))
        assert read(client).pool.resident == 0
        answer(client, max_tokens=20)
        heat = {index: layer.heat for index, layer in read(client).layers.items()}
        client.request(protocol.Unload, protocol.Unloaded)
        saved = msgspec.json.decode(path.read_bytes(), type=Profile)
        assert saved.heat[0] == pytest.approx(heat[0], abs=0.01)
        client.request(protocol.Load, protocol.Loaded, plan=with_pool(demo_model, policy=CachePolicy(kind="frozen")))
        answer(client, max_tokens=2)
        warm = read(client)
    assert warm.pool.resident == warm.pool.slots
    for index, layer in warm.layers.items():
        held = sorted(saved.heat[index][expert] for expert in range(8) if layer.lanes[expert] == "g")
        assert held == sorted(saved.heat[index])[-layer.slots :]


def test_orders_beside_loads_and_unloads_end_in_answers_and_not_in_a_crash(demo_model, tmp_path):
    """Whatever is asked while a model comes or goes, every request gets its answer and the child lives."""
    with EngineClient() as client:
        for index in range(4):
            asked = [
                client.send(protocol.Load, plan=with_pool(demo_model)),
                client.send(protocol.Generate, messages=QUESTION, sampling=GREEDY, max_tokens=4),
            ]
            for step in range(30):
                asked += [
                    client.send(protocol.ReadCache),
                    client.send(protocol.SetPool, pool_bytes=POOL * (step % 3) // 2, staging_bytes=0),
                    client.send(protocol.SetTrace, path=str(tmp_path / f"{index}.trace") if step % 2 else ""),
                    client.send(protocol.SetPins, pins=(pinned(step % 30, 1),)),
                ]
            asked.append(client.send(protocol.Unload))
            left = set(asked)
            while left:
                event = client._take(60)
                if isinstance(event, protocol.Loaded | protocol.Finished | protocol.CacheFacts | protocol.Unloaded):
                    left.discard(event.id)
                elif isinstance(event, protocol.Failed):
                    assert event.code in ("engine_failed", "bad_usage")
                    assert "Error" not in event.detail, event.detail
                    left.discard(event.id)
                elif isinstance(event, protocol.TraceState):
                    left.discard(event.id)


def test_pins_of_a_plan_hold_from_the_first_token_on(demo_model):
    with EngineClient() as client:
        plan = with_pool(demo_model, policy=CachePolicy(kind="manual"), pins=(pinned(4, 5), pinned(9, 2, "cpu")))
        client.request(protocol.Load, protocol.Loaded, plan=plan)
        answer(client, max_tokens=2)
        facts = read(client)
        wrong = msgspec.structs.replace(plan, pins=(pinned(4, 99),))
        error = refused(client, protocol.Load, protocol.Loaded, plan=wrong)
    assert (facts.layers[4].pins[5], facts.layers[4].lanes[5]) == ("g", "g")
    assert facts.layers[9].pins[2] == "c"
    assert facts.pool.resident == 1
    assert error.code is ErrorCode.BAD_USAGE


def test_one_answer_with_the_pool_on_a_gpu(demo_model, any_gpu, monkeypatch):
    monkeypatch.setenv("GGML_VK_VISIBLE_DEVICES", "0")
    with EngineClient() as client:
        plan = with_pool(demo_model, gpu=any_gpu, pool_device=None, n_ctx=256)
        report = client.request(protocol.Load, protocol.Loaded, plan=plan)
        finished = answer(client, max_tokens=8)
    assert report.differences == ()
    assert (any_gpu, "pool") in {(its.device, its.part) for its in report.buffers}
    assert finished.text
    assert finished.cache.used
    assert finished.cache.hits > 0
    assert os.environ["GGML_VK_VISIBLE_DEVICES"] == "0"
