"""Whatever is ordered of the cache while it computes, and whenever, logits stay those of stock llama.cpp.

The test runs this file as a program: Hypothesis works in there, because a process can register the device once.
"""

import sys
import threading
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from decode_logits import Job, decode_batches, warm_up
from decoding import decode, run_child
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from llama_process import Context, LlamaProcess
from tiny_shapes import QUANTISED, SHAPES

from app.engine.cache import ExpertDevice, Phase
from app.placement.plan import PINS, POLICIES, STREAMS, CachePolicy, ExpertPin

# Long enough for a pool to fill and orders to fall into the middle of tokens, drafts and prompts.
BATCHES = (17, 1, 1, 3, 1, 1, 8, 1, 1, 64, 1, 1, 1, 1)
EXAMPLES = 40
# Of all experts: nothing, a slot in one layer, … more than everything. Here and in the strategies, what has most effect
# comes first, because Hypothesis tries first choices most.
ANY_SHARE = (0.2, 0.5, 1.1, 0.03, 0.0)


class Order(NamedTuple):
    """A method of the device and its arguments after the context, so that a failing example can be read."""

    method: str
    arguments: tuple[Any, ...] = ()
    named: tuple[tuple[str, Any], ...] = ()

    def give(self, device: ExpertDevice, context: int) -> None:
        getattr(device, self.method)(context, *self.arguments, **dict(self.named))


def pins(layers: int, experts: int) -> st.SearchStrategy[Order]:
    one = st.builds(
        ExpertPin,
        layer=st.integers(0, layers - 1),
        expert=st.integers(0, experts - 1),
        pin=st.sampled_from(PINS),
    )
    return st.lists(one, min_size=1, max_size=20).map(lambda chosen: Order("set_pins", (chosen,)))


def sizes(model_bytes: int, shares: tuple[float, ...]) -> st.SearchStrategy[Order]:
    """Pools and staging areas in shares of all experts.

    Picked, not drawn as bytes: Hypothesis prefers small numbers, and most pools would be too small for a slot.
    """
    return st.builds(
        lambda pool, staging: Order("set_pool", ("CPU", int(pool * model_bytes), int(staging * model_bytes))),
        st.sampled_from(shares),
        st.sampled_from((0.25, 0.1, 0.01, 0.0)),
    )


def policies() -> st.SearchStrategy[Order]:
    made = st.builds(
        CachePolicy,
        kind=st.sampled_from(POLICIES),
        insert_cap=st.sampled_from((8, 2, 1)),
        window=st.sampled_from((0, 64, 1)),
        decay=st.sampled_from((0.5, 0.98, 1.0)),
        margin=st.sampled_from((1.0, 1.5)),
        threshold=st.sampled_from((0.0, 0.2)),
        stream=st.sampled_from(STREAMS[::-1]),
    )
    return st.builds(
        lambda policy, wait: Order("set_policy", (policy,), (("wait_for_copies", wait),)), made, st.booleans()
    )


def heats(layers: int, experts: int) -> st.SearchStrategy[Order]:
    heat = st.lists(st.floats(0, 100, width=32), min_size=experts, max_size=experts)
    return st.tuples(st.integers(0, layers - 1), heat).map(lambda arguments: Order("set_heat", arguments))


def phases() -> st.SearchStrategy[Order]:
    """Not IGNORE, for what is routed then is counted nowhere."""
    return st.sampled_from((Phase.PROMPT, Phase.DECODE)).map(lambda phase: Order("set_phase", (phase,)))


def others() -> st.SearchStrategy[Order]:
    """Traces, and everything that is read."""
    return st.sampled_from(
        (
            Order("set_trace", (4096,)),
            Order("set_trace", (16,)),
            Order("set_trace", (0,)),
            Order("read_trace", (100,)),
            Order("experts"),
            Order("layers"),
            Order("pool", ("CPU",)),
            Order("rates", ("CPU",)),
            Order("batches", (0,)),
            Order("totals", (Phase.DECODE,)),
        )
    )


def decode_under_orders(context: Context, device: ExpertDevice, orders: list[Order]) -> np.ndarray:
    """Logits of one pass while another thread gives the orders, over and over."""
    done = threading.Event()
    failures: list[BaseException] = []

    def give() -> None:
        try:
            while not done.is_set():
                for order in orders:
                    order.give(device, context.id)
        except BaseException as error:  # told by the thread that checks
            failures.append(error)

    thread = threading.Thread(target=give)
    thread.start()
    try:
        logits = decode_batches(context, BATCHES, device)
    finally:
        done.set()
        thread.join()
    assert not failures, failures
    return logits


def settle(context: Context, device: ExpertDevice) -> None:
    """After the orders: with pins of ours and copies waited for, the pool holds what was pinned and nothing barred."""
    layers = device.layers(context.id)
    device.set_policy(context.id, CachePolicy(kind="lru", insert_cap=64, window=0), wait_for_copies=True)
    everything = sum(layer.experts * layer.expert_bytes for layer in layers)
    assert device.set_pool(context.id, "CPU", everything, 0) == 0
    wanted = [
        ExpertPin(layer=layer.layer, expert=expert, pin="gpu" if expert == 0 else "cpu" if expert == 1 else "auto")
        for layer in layers
        for expert in range(layer.experts)
    ]
    device.set_pins(context.id, wanted)
    decode_batches(context, (1, 1), device)
    experts = device.experts(context.id)
    for layer in layers:
        assert experts.lane[layer.layer, 0] == 1
        assert experts.lane[layer.layer, 1] == 0
    pool = device.pool(context.id, "CPU")
    assert pool.resident == (experts.lane == 1).sum()
    assert pool.resident <= pool.slots
    assert pool.unplaced_pins == 0


def check(model_path: Path, stock: np.ndarray) -> None:
    process = LlamaProcess(with_device=True)
    device = process.device
    assert device
    model = process.load(model_path, repack=False)
    context = model.context()
    warm_up(device, context, "CPU")
    layers, experts = device.shape(context.id)
    size = sum(layer.experts * layer.expert_bytes for layer in device.layers(context.id))
    order = st.one_of(
        pins(layers, experts), sizes(size, ANY_SHARE), policies(), heats(layers, experts), phases(), others()
    )

    @settings(max_examples=EXAMPLES, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(order, min_size=2, max_size=8), sizes(size, ANY_SHARE[:4]), policies())
    def logits_never_change(orders: list[Order], first_pool: Order, first_policy: Order) -> None:
        first_policy.give(device, context.id)
        first_pool.give(device, context.id)
        routed = sum(int(device.routing(context.id, phase).sum()) for phase in (Phase.DECODE, Phase.PROMPT))
        before = [device.totals(context.id, phase) for phase in (Phase.DECODE, Phase.PROMPT)]
        logits = decode_under_orders(context, device, orders)
        np.testing.assert_array_equal(logits, stock)
        after = [device.totals(context.id, phase) for phase in (Phase.DECODE, Phase.PROMPT)]
        counted = sum(t.hits + t.misses for t in after) - sum(t.hits + t.misses for t in before)
        routed = sum(int(device.routing(context.id, phase).sum()) for phase in (Phase.DECODE, Phase.PROMPT)) - routed
        assert counted == routed
        settle(context, device)

    logits_never_change()
    totals = device.totals(context.id, Phase.DECODE)
    for effect in ("hits", "misses", "streamed", "inserts", "evictions"):
        assert getattr(totals, effect) > 0, f"no order led to {effect}"
    context.close()
    model.close()


@pytest.mark.parametrize("shape", ["qwen3moe", "gpt_oss", "quantised_mixtral"])
def test_orders_from_another_thread_never_change_a_logit(shape, tmp_path):
    model = tmp_path / f"{shape}.gguf"
    {**SHAPES, **QUANTISED}[shape](model)
    stock = decode(tmp_path, Job(repack=False, batches=BATCHES), model)[shape].logits["stock"]
    np.save(tmp_path / "stock.npy", stock)
    run_child(Path(__file__), str(model), str(tmp_path / "stock.npy"))


if __name__ == "__main__":
    check(Path(sys.argv[1]), np.load(sys.argv[2]))
