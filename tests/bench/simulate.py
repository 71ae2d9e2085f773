"""How many routings a second the trace simulator runs through a cache, on one core; started by hand.

    python tests/bench/simulate.py [--tokens N] [--rounds N]

A recording is made of `routing_trace` for the shapes of two models that people run, written to a file, read, split
and simulated: plain LRU for all pool sizes in one pass, and every policy with pools of 10, 30 and 50 % of the experts.
A rate is routed experts by the processor time of one pass over all of them; the best of the rounds is told, with the
worst beside it. Rates do not depend on where the trace came from, but they do on its hit rate, which is told too.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from routing_trace import RoutingShape, routes, session

from app.placement.cache import simulator
from app.placement.cache.trace import ENTRY, TraceHeader, encode_header, read_trace
from app.placement.plan import CachePolicy

SHAPES = {
    "Qwen3-30B-A3B: 48 layers of 128, top-8": RoutingShape(layers=48, experts=128, used=8, codes=1024),
    "Qwen3-Next-80B: 48 layers of 512, top-10": RoutingShape(layers=48, experts=512, used=10, codes=1024),
}
LEAST_PER_SECOND = 5e6
POOLS_PERCENT = (10, 30, 50)


def write(path: Path, shape: RoutingShape, tokens: int) -> int:
    """Write a recording of `tokens` tokens; gives its routings."""
    codes = session(shape, tokens, 32 * shape.codes, seed=3) % shape.codes
    entries = np.empty((tokens, shape.layers, shape.used), dtype=ENTRY)
    entries["token"] = np.arange(tokens)[:, None, None]
    entries["layer"] = np.arange(shape.layers)[:, None]
    entries["expert"] = routes(shape)[:, codes].transpose(1, 0, 2)
    weights = np.sort(np.random.default_rng(1).dirichlet(np.ones(shape.used), tokens), axis=1)[:, ::-1]
    entries["weight"] = weights[:, None]
    header = TraceHeader(
        fingerprint="bench", name="bench", experts=dict.fromkeys(range(shape.layers), shape.experts),
        experts_used=shape.used,
    )  # fmt: skip
    path.write_bytes(encode_header(header) + entries.tobytes())
    return int(entries.size)


def measure(rounds: int, work: Callable[[], Any]) -> tuple[float, float, Any]:
    """Least and most processor seconds of `work`, and what it gave."""
    times, result = [], None
    for _ in range(rounds):
        started = time.process_time()
        result = work()
        times.append(time.process_time() - started)
    return min(times), max(times), result


def passes(shape: RoutingShape, layers: dict[int, Any]) -> Iterator[tuple[str, Callable[[], Any]]]:
    """What is measured: its name, and what runs it and gives counts by layer."""
    yield "plain LRU, all sizes", lambda: simulator.lru_hits(layers)
    heat = simulator.hindsight_heat(layers)
    for percent in POOLS_PERCENT:
        slots = dict.fromkeys(layers, shape.experts * percent // 100)
        for policy in (
            CachePolicy(kind="lru"),
            CachePolicy(kind="lru", window=0, insert_cap=shape.used),
            CachePolicy(kind="decay"),
            CachePolicy(kind="frozen"),
        ):
            plain = policy.kind == "lru" and policy.window == 0
            name = f"{policy.kind}{' without window and cap' if plain else ''}, {percent} %"
            its_heat = heat if policy.kind == "frozen" else None
            yield name, lambda p=policy, s=slots, h=its_heat: simulator.replay(layers, p, s, heat=h)
        yield f"oracle, {percent} %", lambda s=slots: simulator.oracle(layers, s)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Speed of the trace simulator, on one core.")
    parser.add_argument("--tokens", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    slowest: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, shape in SHAPES.items():
            path = Path(folder) / "bench.trace"
            routings = write(path, shape, asked.tokens)
            print(f"{name}; {asked.tokens:,} tokens, {routings:,} routings")
            print(f"  {'':34} {'million a second':>17} {'(worst)':>9}  hits")

            def show(what: str, least: float, most: float, hits: str = "", routings: int = routings) -> None:
                print(f"  {what:34} {routings / least / 1e6:17.1f} {routings / most / 1e6:9.1f}  {hits}")

            least, most, trace = measure(asked.rounds, lambda path=path: read_trace(path))
            show("reading the file", least, most)
            least, most, layers = measure(asked.rounds, lambda trace=trace: simulator.split_layers(trace))
            show("dividing it by layers", least, most)
            slowest[name] = float("inf")
            for what, work in passes(shape, layers):
                least, most, told = measure(asked.rounds, work)
                first = next(iter(told.values()))
                hits = sum(int(layer.hits.sum()) for layer in told.values()) if hasattr(first, "hits") else None
                show(what, least, most, "" if hits is None else f"{hits / routings:.1%}")
                slowest[name] = min(slowest[name], routings / least)
            print()
    for name, rate in slowest.items():
        verdict = "holds" if rate >= LEAST_PER_SECOND else "DOES NOT HOLD"
        print(f"{name}: the slowest pass does {rate / 1e6:.1f} million a second; 5 million {verdict}")


if __name__ == "__main__":
    main()
