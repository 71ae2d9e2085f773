"""The law of speed against a recorded run that missed most experts (tests/snapshots/vm_demo_thrashes_recorded.jsonl).

A processor of two cores, both computing; a quarter of the experts may stay in main memory. Other work disturbed the
machine, which shows as time of computing, not as time of waiting: tokens that computed longer than the others are left
out. The disk was measured beside the benchmark on the same machine (tests/bench/RESULTS.md, 2026-11-30).
"""

import statistics
from pathlib import Path

import pytest

from app.doctor.record import ModelLine, read_record
from app.engine.protocol import CacheFacts
from app.placement.speed.demand import Hits, demand_of
from app.placement.speed.rates import rates_for
from app.placement.speed.times import decode_shares

RECORD = read_record(Path(__file__).resolve().parents[1] / "snapshots" / "vm_demo_thrashes_recorded.jsonl")
(MODEL,) = (line for line in RECORD.lines if isinstance(line, ModelLine))
DISK = 1.109e9
UNDISTURBED = 1.5
"""Times the shortest computing of all tokens."""
EXPERT_PARTS = {"cpu experts", "disk", "bringing"}


def tokens():
    """What the engine told of every decoded token, undisturbed ones alone."""
    told = {batch.index: batch for line in RECORD.lines if isinstance(line, CacheFacts) for batch in line.batches}
    decoded = [batch for batch in told.values() if not batch.prompt and batch.cold_bytes]
    least = min(batch.cpu_seconds for batch in decoded)
    return [batch for batch in decoded if batch.cpu_seconds <= UNDISTURBED * least], least


def predicted(cold_bytes, computing):
    """Seconds in expert layers, where all experts in memory take so many seconds of computing."""
    plan = MODEL.plan
    demand = demand_of(MODEL.facts, RECORD.machine, plan, 100)
    values = {name: rate.value for name, rate in rates_for(MODEL.facts, RECORD.machine, plan, None).values.items()}
    rate = demand.off.routed_bytes / computing
    values |= {"disk": DISK, "experts CPU": rate, "dense CPU": rate}
    shares = decode_shares(demand, values, None, Hits(pool=0.0, cold=cold_bytes / demand.off.routed_bytes))
    return sum(share.waited for share in shares if share.name in EXPERT_PARTS)


def test_tokens_that_wait_for_most_of_their_experts_are_predicted_as_they_were_measured():
    found, least = tokens()
    assert len(found) >= 5
    ratios = [predicted(batch.cold_bytes, least) / batch.seconds for batch in found]
    assert statistics.median(ratios) == pytest.approx(1, abs=0.15)
    assert all(0.8 < ratio < 1.25 for ratio in ratios)
