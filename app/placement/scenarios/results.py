"""What the benchmark's measurements come to: transient and steady state, medians with spread, ratios to stock."""

import statistics
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from app.placement.plan import CPU_LANE
from app.placement.report import BufferReport
from app.placement.scenarios.figure import Figure
from app.placement.scenarios.schedule import OURS, STOCK, Case

_TRANSIENT_PARTS = 3
RULE = (
    "Decoding is divided at every change of subject. Of each part the first third of its steps, rounded up, is "
    "transient: the pool is filled with what is in use now. The rest is steady."
)
_GIB = 1024**3
_OF_FILE = "mapped"  # a stretch of the address space, no memory of its own


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One visit's measurement.

    Attributes:
        case: Name of the case. variant: OURS or STOCK. round: from 0.
        load_seconds: Time of the load.
        prompt_tokens, prompt_seconds: Over all turns and sequences.
        stretches: Seconds of every decoding step, divided where the subject changes.
        sequences: Decoded together: tokens of a step.
        context_tokens: Cells in use at the end.
        peak_bytes: Most main memory that the engine's process had in RAM, pages of the model's file included.
        buffers: Memory by part, as reported after the load.
        hits, misses: Routed experts that were and were not in the pool while decoding; None where nobody counts.
        text: What the first sequence decoded.
    """

    case: str
    variant: str
    round: int
    load_seconds: float
    prompt_tokens: int
    prompt_seconds: float
    stretches: tuple[tuple[float, ...], ...]
    sequences: int
    context_tokens: int
    peak_bytes: int
    buffers: tuple[BufferReport, ...]
    hits: int | None
    misses: int | None
    text: str


class CaseResult(msgspec.Struct, frozen=True, kw_only=True):
    """One case of one variant; speeds in tokens a second, over all sequences.

    Attributes:
        prompt, transient, steady, decode: Speeds; `decode` is of all steps. None where nothing was computed.
        hit_rate: Share of the routed experts that was in the pool; None without a pool.
        context_tokens: Cells in use at the end, at most.
        peak_ram_bytes: Most of all samples. vram_bytes: allocated on all GPUs.
        steady_per_gib_ram, steady_per_gib_vram: Median steady speed by that memory; None without such memory.
        buffers: Memory by part, of the last sample.
    """

    scenario: str
    case: str
    variant: str
    threads: int | None
    n_ubatch: int | None
    prompt: Figure | None
    transient: Figure | None
    steady: Figure | None
    decode: Figure | None
    hit_rate: Figure | None
    context_tokens: int
    peak_ram_bytes: int
    vram_bytes: int
    steady_per_gib_ram: float | None
    steady_per_gib_vram: float | None
    buffers: tuple[BufferReport, ...]


class Ratio(msgspec.Struct, frozen=True, kw_only=True):
    """Ours by stock: speeds of neighbours in the same round divided; above 1 ours is faster.

    `same_text` is true where the first sequence decoded the same in every pair.
    """

    case: str
    prompt: Figure | None
    transient: Figure | None
    steady: Figure | None
    decode: Figure | None
    same_text: bool


class Speeds(NamedTuple):
    """Speeds of one sample, tokens a second; None where nothing was computed."""

    prompt: float | None
    transient: float | None
    steady: float | None
    decode: float | None


def divided(stretches: Iterable[Sequence[float]]) -> tuple[list[float], list[float]]:
    """The steps of all stretches that are transient, and those that are steady; see RULE."""
    transient: list[float] = []
    steady: list[float] = []
    for steps in stretches:
        first = -(-len(steps) // _TRANSIENT_PARTS)
        transient += steps[:first]
        steady += steps[first:]
    return transient, steady


def speeds(sample: Sample) -> Speeds:
    """The speeds of one sample."""
    transient, steady = divided(sample.stretches)
    return Speeds(
        prompt=_rate(sample.prompt_tokens, sample.prompt_seconds),
        transient=_rate(len(transient) * sample.sequences, sum(transient)),
        steady=_rate(len(steady) * sample.sequences, sum(steady)),
        decode=_rate((len(transient) + len(steady)) * sample.sequences, sum(transient) + sum(steady)),
    )


def results(cases: Sequence[Case], variants: Sequence[str], samples: Sequence[Sample]) -> tuple[CaseResult, ...]:
    """One result for every case and variant that was measured."""
    found = []
    for case in cases:
        for variant in variants:
            its = [sample for sample in samples if (sample.case, sample.variant) == (case.name, variant)]
            if its:
                found.append(_result(case, its))
    return tuple(found)


def ratios(cases: Sequence[Case], samples: Sequence[Sample]) -> tuple[Ratio, ...]:
    """For every case measured with both: ours by stock, round by round."""
    at = {(sample.case, sample.variant, sample.round): sample for sample in samples}
    found = []
    for case in cases:
        pairs = [
            (ours, at[case.name, STOCK, number])
            for (name, variant, number), ours in at.items()
            if (name, variant) == (case.name, OURS) and (case.name, STOCK, number) in at
        ]
        if pairs:
            columns = [
                _figure(_divided(a, b) for a, b in zip(its, others, strict=True)) for its, others in _columns(pairs)
            ]
            same = all(ours.text == stock.text for ours, stock in pairs)
            found.append(Ratio(case=case.name, same_text=same, **dict(zip(Speeds._fields, columns, strict=True))))
    return tuple(found)


def vram_bytes(buffers: Iterable[BufferReport]) -> int:
    """What is allocated on all GPUs."""
    return sum(buffer.bytes for buffer in buffers if buffer.device != CPU_LANE and buffer.part != _OF_FILE)


def _result(case: Case, samples: list[Sample]) -> CaseResult:
    columns = dict(zip(Speeds._fields, map(_figure, zip(*map(speeds, samples), strict=True)), strict=True))
    steady = columns["steady"]
    ram = max(sample.peak_bytes for sample in samples)
    vram = vram_bytes(samples[-1].buffers)
    return CaseResult(
        scenario=case.scenario,
        case=case.name,
        variant=samples[0].variant,
        threads=case.threads,
        n_ubatch=case.n_ubatch,
        **columns,
        hit_rate=_figure(map(_hit_rate, samples)),
        context_tokens=max(sample.context_tokens for sample in samples),
        peak_ram_bytes=ram,
        vram_bytes=vram,
        steady_per_gib_ram=steady.median / (ram / _GIB) if steady and ram else None,
        steady_per_gib_vram=steady.median / (vram / _GIB) if steady and vram else None,
        buffers=samples[-1].buffers,
    )


def _columns(pairs: list[tuple[Sample, Sample]]) -> Iterable[tuple[tuple[float | None, ...], tuple[float | None, ...]]]:
    ours = zip(*(speeds(sample) for sample, _ in pairs), strict=True)
    stock = zip(*(speeds(sample) for _, sample in pairs), strict=True)
    return zip(ours, stock, strict=True)


def _hit_rate(sample: Sample) -> float | None:
    routed = (sample.hits or 0) + (sample.misses or 0)
    has_pool = any(buffer.part == "pool" for buffer in sample.buffers)
    return (sample.hits or 0) / routed if routed and has_pool else None


def _rate(count: float, amount: float) -> float | None:
    return count / amount if count and amount > 0 else None


def _divided(ours: float | None, stock: float | None) -> float | None:
    return ours / stock if ours is not None and stock else None


def _figure(values: Iterable[float | None]) -> Figure | None:
    known = [value for value in values if value is not None]
    if not known:
        return None
    return Figure(median=statistics.median(known), least=min(known), most=max(known), samples=len(known))
