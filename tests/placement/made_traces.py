"""Routing traces for tests: rows in memory, and files as the engine writes them."""

import numpy as np

from app.placement.cache.trace import ENTRY, Trace, TraceHeader, encode_header


def header(experts, used=2, **fields) -> TraceHeader:
    """Of a model with `experts` (layer to count); `fields` replace its fields by name."""
    return TraceHeader(**{"fingerprint": "3f1a", "name": "Made", "experts": experts, "experts_used": used, **fields})


def make_trace(rows, experts, used=2, **fields) -> Trace:
    """A trace of `rows`, (token, layer, expert, weight) each."""
    return Trace(header=header(experts, used, **fields), entries=np.array(list(rows), dtype=ENTRY), lost=0)


def write_trace(path, trace, tail=b"") -> None:
    """The trace as a file, with `tail` after it."""
    path.write_bytes(encode_header(trace.header) + trace.entries.tobytes() + tail)


def skewed_trace(tokens=400, layers=(0, 1, 2), experts=16, used=4, seed=1, **fields) -> Trace:
    """Some experts come often, in every layer others, and each token's stay the same for a while."""
    random = np.random.default_rng(seed)
    rows = []
    popularity = {layer: random.permutation(np.log(np.arange(1, experts + 1))) for layer in layers}
    for token in range(tokens):
        for layer in layers:
            topic = np.random.default_rng((token // 25, layer)).normal(size=experts)
            keys = topic - popularity[layer] + random.gumbel(size=experts)
            weights = np.sort(random.dirichlet(np.ones(used)))[::-1]
            rows += [
                (token, layer, expert, weight) for expert, weight in zip(np.argsort(-keys)[:used], weights, strict=True)
            ]
    return make_trace(rows, dict.fromkeys(layers, experts), used, **fields)
