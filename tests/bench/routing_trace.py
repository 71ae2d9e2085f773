"""The routing that the synthetic model is made to follow: which experts each token id goes to, in every layer.

Every token id carries one of `codes` hidden codes, and a code has one set of `used` experts in each layer. The
sets are drawn so that routing looks like that of a trained model:

* In a layer, the expert of popularity rank r is wanted in proportion to r^-exponent (Zipf's law), with a
  ranking of each layer's own. Sets are drawn without replacement: Gumbel noise on the logarithms, then the best.
* Codes belong to topics. A topic shifts the ranking by noise of `topic_strength` that its codes share, so that
  the tokens of one topic want similar experts.
* A session stays with its topic for the next token with probability `stay`; otherwise it moves to another.

The defaults were fitted to the hit rates published for per-layer LRU on Qwen3-30B-A3B (128 experts, top-8): with
6, 19, 38 and 64 % of the experts cached, 37, 74, 89 and 96 %. With 1,024 codes, the second half of 1,500 tokens
gives 39, 74, 90 and 96 %.
"""

from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

TOP_SHARE = 0.3


@dataclass(frozen=True)
class RoutingShape:
    """What the routing is drawn from.

    Attributes:
        layers: Layers with experts.
        experts: Experts of a layer.
        used: Experts of a token (top-k).
        codes: Different routings; at most what the model has hidden dimensions to spare for.
        topics: Groups of codes; the code c is of topic c mod topics.
        exponent: Zipf's, 0 for uniform.
        topic_strength: Scale of the topics' noise on the logarithm of popularity, 0 for none.
        stay: Probability that the next token of a session is of the same topic.
        seed: Of everything random.
    """

    layers: int
    experts: int
    used: int
    codes: int
    topics: int = 16
    exponent: float = 0.8
    topic_strength: float = 2.0
    stay: float = 0.98
    seed: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.used < self.experts or self.codes % self.topics:
            raise ValueError("top-k must be less than the experts, and the codes a multiple of the topics")


def routes(shape: RoutingShape) -> npt.NDArray[np.int32]:
    """The experts of every code, best first.

    Returns:
        int32 [layers, codes, used]; distinct along the last axis.
    """
    random = np.random.default_rng((shape.seed, 1))
    topic_of = np.arange(shape.codes) % shape.topics
    out = np.empty((shape.layers, shape.codes, shape.used), dtype=np.int32)
    for layer in range(shape.layers):
        rank = random.permutation(shape.experts) + 1
        popularity = -shape.exponent * np.log(rank)
        topics = popularity + shape.topic_strength * random.standard_normal((shape.topics, shape.experts))
        keys = topics[topic_of] + random.gumbel(size=(shape.codes, shape.experts))
        out[layer] = np.argsort(-keys, axis=1)[:, : shape.used]
    return out


def session(shape: RoutingShape, tokens: int, vocabulary: int, seed: int) -> npt.NDArray[np.int32]:
    """Token ids of one session: int32 [tokens], below `vocabulary`, which is a multiple of `codes`."""
    random = np.random.default_rng((shape.seed, 2, seed))
    moves = random.random(tokens) >= shape.stay
    moves[0] = True
    topic = random.integers(0, shape.topics, tokens)[np.maximum.accumulate(np.where(moves, np.arange(tokens), 0))]
    per_topic = shape.codes // shape.topics
    code = topic + shape.topics * random.integers(0, per_topic, tokens)
    spelling = random.integers(0, vocabulary // shape.codes, tokens)
    return (code + shape.codes * spelling).astype(np.int32)


def intended_counts(shape: RoutingShape, ids: npt.NDArray[np.int32]) -> npt.NDArray[np.uint64]:
    """How often each expert is routed to by the tokens `ids`: uint64 [layers, experts]."""
    per_code = np.bincount(ids % shape.codes, minlength=shape.codes)
    counts = np.zeros((shape.layers, shape.experts), dtype=np.uint64)
    for layer, of_layer in enumerate(routes(shape)):
        np.add.at(counts[layer], of_layer, per_code[:, None].astype(np.uint64))
    return counts


def effective_experts(counts: npt.NDArray[np.uint64]) -> float:
    """The number of equally popular experts of the same entropy, e^H, as mean over layers ([layers, experts])."""
    share = counts / counts.sum(axis=1, keepdims=True)
    entropy = -(share * np.log(np.where(share > 0, share, 1.0))).sum(axis=1)
    return float(np.exp(entropy).mean())


def top_share(counts: npt.NDArray[np.uint64], share_of_experts: float = TOP_SHARE) -> float:
    """Share of all routings that go to a layer's most popular experts, as mean over layers ([layers, experts])."""
    best = max(1, round(share_of_experts * counts.shape[1]))
    ordered = np.sort(counts, axis=1)[:, ::-1]
    return float((ordered[:, :best].sum(axis=1) / counts.sum(axis=1)).mean())


def lru_hit_rate(shape: RoutingShape, ids: npt.NDArray[np.int32], slots: int, first: int) -> float:
    """Hit rate of a per-layer LRU cache of `slots` experts, empty at first, over `ids` from position `first` on.

    A token's hits are judged before its misses are put in; all of them are, oldest out first.
    """
    hits = 0
    for of_layer in routes(shape):
        held: OrderedDict[int, None] = OrderedDict()
        for position, code in enumerate(ids % shape.codes):
            wanted = of_layer[code].tolist()
            if position >= first:
                hits += sum(expert in held for expert in wanted)
            for expert in wanted:
                held[expert] = None
                held.move_to_end(expert)
            while len(held) > slots:
                held.popitem(last=False)
    return hits / (shape.layers * shape.used * (len(ids) - first))


def describe(shape: RoutingShape, ids: npt.NDArray[np.int32], pools_percent: tuple[int, ...]) -> dict[str, object]:
    """The trace in figures: effective experts, share of the top 30 %, LRU hit rates.

    Those are of the second half of `ids`, by size of the cache in percent of the experts.
    """
    counts = intended_counts(shape, ids)
    return {
        "tokens": len(ids),
        "effective_experts": round(effective_experts(counts), 2),
        "top_30_percent_share": round(top_share(counts), 4),
        "lru_hit_rate": {
            str(percent): round(lru_hit_rate(shape, ids, shape.experts * percent // 100, len(ids) // 2), 4)
            for percent in pools_percent
        },
    }
