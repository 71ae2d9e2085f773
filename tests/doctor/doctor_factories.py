"""Observations for the doctor's tests: machines from snapshots, plans of the planner, loads and samples of figures."""

import functools
from pathlib import Path

import msgspec
from factories import GIB, MIB, qwen3_30b

from app.doctor.diagnosis import Diagnosis, examine
from app.doctor.hints import Hint
from app.doctor.observation import AnswerFigures, Observation
from app.engine import protocol
from app.hardware.facts import Machine
from app.hardware.samples import GpuSample, Sample
from app.hardware.snapshot import read_snapshot
from app.placement.cache.facts import CacheTotals, LayerExperts, PoolFacts
from app.placement.plan import CachePolicy, Plan
from app.placement.planner import Wishes, make_plan
from app.placement.speed.calibration import Calibration, ComputeRate

SNAPSHOTS = Path(__file__).resolve().parents[1] / "snapshots"
MODEL = qwen3_30b()
WHEN = "2026-01-01T00:00:00+00:00"

replaced = msgspec.structs.replace


@functools.cache
def machine(name: str) -> Machine:
    """The machine that a snapshot plays back."""
    return read_snapshot(SNAPSHOTS / f"{name}.json").machine()


def seen_of(its: Machine | str, **fields: object) -> Observation:
    """An observation of a machine, or of a snapshot's."""
    return Observation(machine=machine(its) if isinstance(its, str) else its, **fields)


def planned(its: Machine | str, facts=MODEL, *, change=None, **wishes: object) -> Observation:
    """A machine with the planner's plan for a model; `change` replaces fields of the plan."""
    its = machine(its) if isinstance(its, str) else its
    plan = make_plan(facts, its, Wishes(**wishes))
    return Observation(machine=its, facts=facts, plan=replaced(plan, **(change or {})))


def loaded(seen: Observation, *, report=None, **fields: object) -> Observation:
    """`seen` after a load just as planned; `report` replaces fields of the engine's report."""
    plan = seen.plan
    assert plan is not None
    told = {
        "seconds": 2.0,
        "n_ctx": plan.n_ctx,
        "buffers": (),
        "expert_layers": plan.expert_lanes,
        "differences": (),
        "expert_device": True,
    }
    return replaced(seen, loaded=protocol.Loaded(**{**told, **(report or {})}), **fields)


def totals(tokens=200, hits=900, misses=700) -> CacheTotals:
    """Sums of an expert cache over decoding."""
    names = ("streamed", "inserts", "evictions", "copied_bytes", "layers")
    times = ("seconds", "cpu_seconds", "gpu_seconds", "wait_seconds")
    zeros = dict.fromkeys(names, 0) | dict.fromkeys(times, 0.0)
    return CacheTotals(tokens=tokens, hits=hits, misses=misses, **zeros)


def pool(**fields: object) -> PoolFacts:
    """A pool of 1 GiB that works."""
    usual = {
        "device": "CUDA0",
        "requested_bytes": GIB,
        "allocated_bytes": GIB,
        "staging_bytes": 0,
        "slots": 400,
        "resident": 400,
        "unplaced_pins": 0,
        "used": True,
        "reason": "",
    }
    return PoolFacts(**{**usual, **fields})


def cache(its: PoolFacts | None, *, kind="lru", layers=None, **counts: int) -> protocol.CacheFacts:
    """The expert cache's facts."""
    return protocol.CacheFacts(
        pool=its,
        policy=CachePolicy(kind=kind),
        decode=totals(**counts),
        prompt=totals(tokens=0, hits=0, misses=0),
        batches=(),
        next_batch=0,
        layers=layers or {},
    )


def layer(routed, lanes, pins=None, slots=0) -> LayerExperts:
    """One layer's experts."""
    return LayerExperts(
        routed=tuple(routed), heat=tuple(map(float, routed)), lanes=lanes, pins=pins or "a" * len(lanes), slots=slots
    )


def sample(time, *, faults=0, read=0, available=8 * GIB, share=None, gpus=()) -> Sample:
    """One moment; `read` in bytes since the engine's start."""
    return Sample(
        time_seconds=float(time),
        engine_major_faults=faults,
        engine_read_bytes=read,
        ram_available_bytes=available,
        model_share=share,
        gpus=gpus,
    )


def of_card(device="CUDA0", *, used, total, shared=None, process=None) -> GpuSample:
    """A card's memory at one moment."""
    return GpuSample(
        device=device, used_bytes=used, total_bytes=total, shared_bytes=shared, process_bytes=process, source="figures"
    )


def calibration(*rates: ComputeRate, **fields: object) -> Calibration:
    """What a machine was measured to do."""
    return Calibration(machine="m", engine="e", measured_at=WHEN, seconds=20.0, compute=rates, **fields)


def rate(device="CPU", *, threads=0, gigabytes=10.0, kind="q4_K") -> ComputeRate:
    """A rate of decoding."""
    return ComputeRate(
        device=device, type=kind, threads=threads, bytes_per_second=gigabytes * 1e9, flops_per_second=1e9
    )


def hints(seen: Observation, rule: str) -> list[Hint]:
    """What one rule says."""
    return [hint for hint in examine(seen).hints if hint.rule == rule]


def hint(seen: Observation, rule: str) -> Hint:
    """The one hint of a rule; fails where there is none or more."""
    (found,) = hints(seen, rule)
    return found


def why(seen: Observation, rule: str) -> str:
    """Why a rule was not judged; empty where it was."""
    return next((its.why for its in examine(seen).not_judged if its.rule == rule), "")


def is_fine(seen: Observation, rule: str) -> bool:
    """Whether a rule was judged and found nothing."""
    return rule in examine(seen).fine


__all__ = ["GIB", "MIB", "MODEL", "AnswerFigures", "Diagnosis", "Plan"]
