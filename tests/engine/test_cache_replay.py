"""The native cache and the simulator, given the same routings: every hit, insert and eviction of theirs agrees.

The test runs this file as a program, which decodes with the expert device and prints what it recorded.
"""

import json
import sys
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from decode_logits import PADDING, warm_up
from decoding import run_child
from llama_process import LlamaProcess
from tiny_shapes import qwen3moe

from app.engine.cache import Phase
from app.engine.cache_types import RoutingEntryStruct
from app.placement.cache.policy import LayerPolicy
from app.placement.cache.replay import LayerPool, replay
from app.placement.plan import CachePolicy, ExpertPin

TOKENS = 300


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """A recording: the settings, how many slots each layer gets on average, and the user's orders before it."""

    policy: CachePolicy
    slots: int
    pins: tuple[ExpertPin, ...] = ()
    heat: tuple[float, ...] = ()


PINS = (
    ExpertPin(layer=0, expert=3, pin="gpu"),
    ExpertPin(layer=0, expert=9, pin="gpu"),
    ExpertPin(layer=1, expert=0, pin="cpu"),
    ExpertPin(layer=1, expert=1, pin="cpu"),
    ExpertPin(layer=2, expert=15, pin="gpu"),
)
SAVED_HEAT = tuple(float(value) for value in (0, 5, 1, 0, 2, 9, 0, 0, 3, 4, 0.5, 0, 0, 7, 0, 1.5))
CASES = {
    "lru": Case(policy=CachePolicy(kind="lru", insert_cap=4, window=0), slots=6),
    "lru with window and cap": Case(policy=CachePolicy(kind="lru", insert_cap=1, window=5), slots=5),
    "lru with pins": Case(policy=CachePolicy(kind="lru", insert_cap=2, window=64), slots=5, pins=PINS),
    "lru with threshold": Case(policy=CachePolicy(kind="lru", insert_cap=4, window=0, threshold=0.2), slots=4),
    "one slot": Case(policy=CachePolicy(kind="lru", insert_cap=2, window=0), slots=1),
    "decay": Case(policy=CachePolicy(kind="decay", insert_cap=2, decay=0.9, margin=1.1), slots=5),
    "decay without decaying": Case(policy=CachePolicy(kind="decay", insert_cap=1, decay=1.0, margin=1.0), slots=7),
    "frozen": Case(policy=CachePolicy(kind="frozen"), slots=5, heat=SAVED_HEAT),
    "manual": Case(policy=CachePolicy(kind="manual"), slots=3, pins=PINS),
}


def skewed_tokens(vocabulary: int) -> list[int]:
    """Ids of which some come often, as in text: otherwise least recently used is as good as any order."""
    return list((np.random.default_rng(5).zipf(1.4, TOKENS) % vocabulary).tolist())


def record(model_path: Path, cases: dict[str, Case]) -> dict[str, Any]:
    """Decode one token at a time with the CPU as second device; by case, what the device decided and counted."""
    process = LlamaProcess(with_device=True)
    device = process.device
    assert device
    model = process.load(model_path)
    told = {}
    for name, case in cases.items():
        context = model.context()
        warm_up(device, context, "CPU")
        context.clear()
        layers = device.layers(context.id)
        device.set_policy(context.id, case.policy, wait_for_copies=True)
        size = sum(case.slots * layer.expert_bytes for layer in layers) + PADDING * len(layers)
        assert device.set_pool(context.id, "CPU", size, 0) == 0
        device.set_pins(context.id, case.pins)
        if case.heat:
            for layer in layers:
                device.set_heat(context.id, layer.layer, case.heat)
        device.set_phase(context.id, Phase.DECODE)
        device.set_trace(context.id, 1 << 16)
        first = 1 + max((batch.index for batch in device.batches(context.id, 0)), default=-1)
        for token in skewed_tokens(model.vocabulary):
            context.decode([token])
        data, count, dropped = device.read_trace(context.id, 1 << 16)
        assert dropped == 0
        entries = (RoutingEntryStruct * count).from_buffer_copy(data)
        totals = device.totals(context.id, Phase.DECODE)
        experts = device.experts(context.id)
        told[name] = {
            # JSON has no NaN: an unknown weight is None.
            "trace": [(e.token, e.layer, e.expert, None if np.isnan(e.weight) else e.weight) for e in entries],
            "slots": {layer.layer: layer.slots for layer in device.layers(context.id)},
            "hits": [batch.hits for batch in device.batches(context.id, first)],
            "copied": [batch.copied_bytes for batch in device.batches(context.id, first)],
            "expert_bytes": layers[0].expert_bytes,
            "evictions": totals.evictions,
            "resident": [np.flatnonzero(lanes == 1).tolist() for lanes in experts.lane],
            "heat": experts.heat.tolist(),
        }
        context.close()
    model.close()
    return told


def simulate(case: Case, slots: dict[int, int], trace: list[tuple[int, int, int, float]]) -> dict[str, Any]:
    """The same by the Python policy, token by token."""
    layers = {}
    for layer, count in slots.items():
        layers[layer] = LayerPolicy(16)
        layers[layer].resize(case.policy, count)
        for pin in case.pins:
            if pin.layer == layer:
                layers[layer].set_pin(pin.expert, pin.pin)
        if case.heat:
            layers[layer].set_heat(case.heat)
        for insert in layers[layer].fill(case.policy, count):
            layers[layer].complete(insert.slot, insert.expert)
    hits, inserts = [0] * TOKENS, [0] * TOKENS
    for token in range(TOKENS):
        for layer, policy in layers.items():
            routed = [entry[2:] for entry in trace if entry[:2] == (token, layer)]
            hits[token] += sum(policy.ready_slot(expert) is not None for expert, _ in routed)
            for insert in policy.step(case.policy, [e for e, _ in routed], [weight for _, weight in routed]):
                policy.complete(insert.slot, insert.expert)
                inserts[token] += 1
    return {
        "hits": hits,
        "inserts": inserts,
        "evictions": sum(policy.evictions for policy in layers.values()),
        "resident": [[e for e in range(16) if policy.ready_slot(e) is not None] for policy in layers.values()],
        "heat": [[policy.heat(e) for e in range(16)] for policy in layers.values()],
    }


@pytest.fixture(scope="module")
def recorded(tmp_path_factory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("replay") / "model.gguf"
    qwen3moe(path)
    return dict(json.loads(run_child(Path(__file__), str(path), msgspec.json.encode(CASES).decode())))


@pytest.mark.parametrize("name", CASES)
def test_native_cache_and_simulator_agree_on_every_token(name, recorded):
    case, native = CASES[name], recorded[name]
    trace = [(t, layer, e, float("nan") if w is None else w) for t, layer, e, w in native["trace"]]
    slots = {int(layer): count for layer, count in native["slots"].items()}
    assert len(trace) == TOKENS * 3 * 4  # three layers of top-4
    ours = simulate(case, slots, trace)
    assert native["hits"] == ours["hits"]
    assert [copied // native["expert_bytes"] for copied in native["copied"]] == ours["inserts"]
    assert native["evictions"] == ours["evictions"]
    assert native["resident"] == ours["resident"]
    np.testing.assert_allclose(native["heat"], ours["heat"], rtol=1e-6)
    assert sum(ours["hits"]) > 0

    replayed = replay(trace, {layer: LayerPool(16, count) for layer, count in slots.items()}, case.policy,
                      pins=case.pins, heat=dict.fromkeys(slots, case.heat) if case.heat else None)  # fmt: skip
    assert sum(layer.hits for layer in replayed.values()) == sum(native["hits"])
    assert sum(layer.evictions for layer in replayed.values()) == native["evictions"]


def test_routing_weights_are_recorded_where_they_are_known_and_add_up_to_one(recorded):
    weights = [entry[3] for entry in recorded["lru"]["trace"]]
    assert None not in weights
    np.testing.assert_allclose(np.array(weights).reshape(-1, 4).sum(axis=1), 1.0, rtol=1e-5)


if __name__ == "__main__":
    model, described = sys.argv[1:]
    print(json.dumps(record(Path(model), msgspec.json.decode(described, type=dict[str, Case]))))
