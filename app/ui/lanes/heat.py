"""Heat: how unevenly tokens were routed over the experts of each layer. Pure arithmetic, no Qt."""

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]


def fractions_of(routed: Counts) -> tuple[NDArray[np.float32], float]:
    """Place each expert on the colour scale from 0 (never routed to) to 1 (the model's hottest).

    The scale is logarithmic in multiples of the even share, log(1 + share / even), because a few hot
    experts would otherwise leave all others one colour. It does not depend on how many tokens were
    counted, so colours settle while an answer grows. All layers share it.

    Args:
        routed: Routings per expert, shape (layers, experts); zeros where nothing counts them.

    Returns:
        The place of each expert on the scale, same shape, and the largest share of a layer's routings, 0 to 1.
    """
    totals = routed.sum(axis=1, keepdims=True)
    shares = (routed / np.maximum(totals, 1)).astype(np.float32)
    hottest = float(shares.max(initial=0.0))
    if not hottest:
        return np.zeros(routed.shape, np.float32), 0.0
    experts = routed.shape[1]
    return np.minimum(np.log1p(shares * np.float32(experts)) / np.float32(np.log1p(hottest * experts)), 1), hottest
