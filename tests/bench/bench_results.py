"""From measurements to figures: rates and ratios with their spread, and time per layer by part."""

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from typing import Any

from bench_variant import Sample

_PARTS = ("gather", "cpu", "gpu", "wait", "scatter", "total")


@dataclass(frozen=True)
class Comparison:
    """What was run together, and how its rows are to be read.

    Attributes:
        quantisation: Of the model.
        layers: Of the model.
        baselines: Names of the variants each variant is divided by, the first one also in time per layer.
        pool_percent: Of the variants with a pool.
        targets: Least ratio wanted, by (variant, phase, baseline).
        note: What must be said with every row; "" for nothing.
    """

    quantisation: str
    layers: int
    baselines: dict[str, tuple[str, ...]]
    pool_percent: dict[str, int]
    targets: dict[tuple[str, str, str], float]
    note: str = ""


def spread(values: Iterable[float], digits: int) -> dict[str, Any]:
    """Median, least and most, and the values in the order of the rounds."""
    rounded = [round(value, digits) for value in values]
    return {"median": round(median(rounded), digits), "min": min(rounded), "max": max(rounded), "rounds": rounded}


def rows(
    part: str, comparison: Comparison, samples: list[Sample], facts: dict[str, dict[str, Any]], batches: tuple[int, ...]
) -> list[dict[str, Any]]:
    """One row for every variant and batch size in `batches` (1 for decode); see `expert_cache` for the fields."""
    by_key: dict[tuple[str, int], list[Sample]] = {}
    for sample in samples:
        by_key.setdefault((sample.variant, sample.batch), []).append(sample)
    return [
        _row(part, comparison, variant, batch, by_key, facts[variant])
        for batch in batches
        for variant in comparison.baselines
    ]


def _row(
    part: str,
    comparison: Comparison,
    variant: str,
    batch: int,
    by_key: dict[tuple[str, int], list[Sample]],
    facts: dict[str, Any],
) -> dict[str, Any]:
    own = by_key[variant, batch]
    phase = own[0].phase
    ratios = {}
    for baseline in comparison.baselines[variant]:
        values = [a.tokens_per_second / b.tokens_per_second for a, b in _paired(own, by_key[baseline, batch])]
        ratios[baseline] = spread(values, 4)
        target = comparison.targets.get((variant, phase, baseline))
        ratios[baseline] |= {"target": target, "met": None if target is None else ratios[baseline]["median"] >= target}
    more = None
    if comparison.baselines[variant]:
        pairs = _paired(own, by_key[comparison.baselines[variant][0], batch])
        more = spread(((_batch_us(a) - _batch_us(b)) / comparison.layers for a, b in pairs), 1)
    return {
        "part": part,
        "quantisation": comparison.quantisation,
        "variant": variant,
        "phase": phase,
        "batch": batch,
        "pool_percent": comparison.pool_percent.get(variant),
        "tokens_per_second": spread((sample.tokens_per_second for sample in own), 2),
        "ratios": ratios,
        "more_us_per_layer": more,
        "device_us_per_layer": _device_us(own),
        "hit_rate": _hit_rate(own),
        "simulated_hit_rate": _mean([s.simulated_hit_rate for s in own if s.simulated_hit_rate is not None]),
        "streamed": sum(sample.totals["streamed"] for sample in own if sample.totals),
        "gpu_bytes": facts["gpu_bytes"],
        "pool": facts["pool"],
        "routing_as_intended": facts["routing_as_intended"],
        "note": comparison.note,
    }


def _paired(own: list[Sample], others: list[Sample]) -> list[tuple[Sample, Sample]]:
    """Those of the same round, so that a ratio compares what ran one after the other."""
    by_round = {other.round: other for other in others}
    return [(sample, by_round[sample.round]) for sample in own]


def _batch_us(sample: Sample) -> float:
    """Microseconds of one batch (decode: one token), everything that is not expert work included."""
    return sample.seconds * 1e6 / (sample.tokens / sample.batch)


def _device_us(samples: list[Sample]) -> dict[str, float] | None:
    """Microseconds of one batch in one expert layer by part, as the device's clocks say; median over rounds."""
    counted = [sample.totals for sample in samples if sample.totals and sample.totals["layers"]]
    if not counted:
        return None
    return {
        part: round(median(totals[f"{part}_ns"] / 1e3 / totals["layers"] for totals in counted), 1) for part in _PARTS
    }


def _hit_rate(samples: list[Sample]) -> float | None:
    """Share of all routed pairs that were computed from the pool; None where none were counted."""
    hits = sum(sample.totals["hits"] for sample in samples if sample.totals)
    misses = sum(sample.totals["misses"] for sample in samples if sample.totals)
    return round(hits / (hits + misses), 4) if hits + misses else None


def _mean(values: list[float]) -> float | None:
    return round(sum(values) / len(values), 4) if values else None
