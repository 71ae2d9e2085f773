"""The benchmark's arithmetic: what it makes of measurements whose answer is known."""

import json
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "bench"))

import bench_results
import bench_table
from bench_results import Comparison
from bench_variant import Sample

FACTS = {"gpu_bytes": None, "pool": None, "routing_as_intended": None}
COMPARISON = Comparison(
    "Q4_0",
    layers=4,
    baselines={"stock": (), "ours": ("stock",)},
    pool_percent={"ours": 30},
    targets={("ours", "decode", "stock"): 0.98},
)


def totals(hits: int, misses: int) -> dict[str, int]:
    times = dict.fromkeys(("gather_ns", "cpu_ns", "gpu_ns", "wait_ns", "scatter_ns"), 2_000)
    return {"hits": hits, "misses": misses, "streamed": 1, "layers": 2, "total_ns": 12_000, **times}


def decode(variant: str, number: int, seconds: float, counted: dict[str, int] | None = None) -> Sample:
    return Sample(variant, number, "decode", batch=1, tokens=10, seconds=seconds, totals=counted)


def rows(*ours: Sample) -> dict[str, dict]:
    stock = [decode("stock", 0, 1.0), decode("stock", 1, 2.0), decode("stock", 2, 4.0)]
    found = bench_results.rows("gpu", COMPARISON, stock + list(ours), {"stock": FACTS, "ours": FACTS}, (1,))
    return {row["variant"]: row for row in found}


def test_a_ratio_compares_the_same_round_so_that_a_slowing_machine_cancels_out():
    # Rounds in any order: each is exactly as fast as stock was in it, though the machine slows down fourfold.
    ours = rows(decode("ours", 2, 4.0), decode("ours", 1, 2.0), decode("ours", 0, 1.0))["ours"]
    ratio = ours["ratios"]["stock"]
    assert (ratio["min"], ratio["median"], ratio["max"]) == (1.0, 1.0, 1.0)
    assert ratio["met"] is True
    assert ours["more_us_per_layer"]["median"] == 0


def test_a_slower_variant_misses_its_target_and_its_cost_is_told_per_layer_and_token():
    ours = rows(decode("ours", 0, 1.25), decode("ours", 1, 2.5), decode("ours", 2, 5.0))["ours"]
    assert ours["ratios"]["stock"]["median"] == 0.8
    assert ours["ratios"]["stock"]["met"] is False
    # 0.5 s more for 10 tokens through 4 layers.
    assert ours["more_us_per_layer"]["median"] == pytest.approx(12_500)


def test_hits_are_summed_over_rounds_and_times_told_per_layer_computed():
    ours = rows(
        decode("ours", 0, 1.0, totals(hits=3, misses=1)),
        decode("ours", 1, 2.0, totals(hits=1, misses=1)),
        decode("ours", 2, 4.0, totals(hits=0, misses=4)),
    )["ours"]
    assert ours["hit_rate"] == 0.4
    assert ours["streamed"] == 3
    assert ours["device_us_per_layer"] == {
        "gather": 1.0, "cpu": 1.0, "gpu": 1.0, "wait": 1.0, "scatter": 1.0, "total": 6.0
    }  # fmt: skip


def test_stock_has_no_ratio_and_no_device_times():
    stock = rows(decode("ours", 0, 1.0), decode("ours", 1, 2.0), decode("ours", 2, 4.0))["stock"]
    assert stock["ratios"] == {}
    assert stock["more_us_per_layer"] is None
    assert stock["device_us_per_layer"] is None
    assert stock["hit_rate"] is None


def test_the_text_says_which_target_was_missed_and_which_trace_was_not_followed():
    found = rows(decode("ours", 0, 1.25), decode("ours", 1, 2.5), decode("ours", 2, 5.0))
    found["ours"]["routing_as_intended"] = False
    report = {
        "machine": {"cpu": "a processor", "os": "Linux"},
        "settings": {"threads": 2, "gpu": None, "rounds": 3},
        "engine": {"llama_cpp_python": "0", "ggml": "0"},
        "models": [],
        "results": json.loads(json.dumps(list(found.values()))),
        "skipped": [{"part": "gpu", "reason": "none"}],
        "failed": [],
    }
    text = "\n".join(bench_table.lines(report))
    assert "0.800 (0.800–0.800) < 0.98" in text
    assert "routing was NOT as the trace intends" in text
    assert "skipped gpu: none" in text
