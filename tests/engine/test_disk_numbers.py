"""Logits while experts are read from the file when they are needed, against stock: every chain shape, any budget."""

import sys
from pathlib import Path

import numpy as np
import pytest
from decode_logits import Job, Run
from decoding import Decoded, decode, run_child
from tiny_shapes import QUANTISED, SHAPES, mixtral

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell what is in memory")

PROGRAM = Path(__file__).with_name("disk_decoding.py")
RUNS = (
    Run(name="a third in memory", resident=0.3),
    Run(name="next to nothing", resident=0.01),
    Run(name="a byte", resident=1e-15),
    Run(name="all but one", resident=0.99),
    Run(name="all", resident=1.0),
    Run(name="with a pool", resident=0.3, pool=0.3),
    Run(name="divided", resident=0.3, pool=0.3, stream="auto", staging=4),
    Run(name="streamed", resident=0.3, pool=0.3, stream="always", staging=4),
    Run(name="whole layers", resident=0.3, pool=0.3, stream="always", staging=80),
    Run(name="hurried", resident=0.3, pool=0.3, stream="auto", staging=4, window=64, insert_cap=2, wait=False),
)


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    paths = {}
    for name, write in {**SHAPES, **QUANTISED}.items():
        paths[name] = folder / f"{name}.gguf"
        write(paths[name])
    return paths


@pytest.fixture(scope="module")
def stock(models, tmp_path_factory) -> dict[str, Decoded]:
    """Stock llama.cpp on the CPU, without its repacked layouts."""
    return decode(tmp_path_factory.mktemp("stock"), Job(repack=False), *models.values())


@pytest.mark.parametrize("shape", [*SHAPES, *QUANTISED])
def test_whatever_memory_holds_logits_are_those_of_stock_bit_by_bit(shape, models, stock, tmp_path):
    ours = decode(tmp_path, Job(device=True, runs=RUNS), models[shape])[shape]
    for run in RUNS:
        np.testing.assert_array_equal(ours.logits[run.name], stock[shape].logits["stock"], err_msg=run.name)
        facts = ours.facts[run.name]
        assert facts["result"] == 0, facts["reason"]
        experts = sum(n * size for n, size in zip(facts["layer_experts"], facts["expert_bytes"], strict=True))
        if run.resident < 0.5:
            assert facts["cold_experts"] > 0, run.name
            assert facts["cold_bytes"] >= facts["cold_reads"] > 0
            largest = max(facts["expert_bytes"])
            assert facts["in_memory"] <= max(run.resident * experts, largest), run.name
        if run.name == "all but one":
            assert facts["given_up"] > 0


def test_where_all_experts_fit_nothing_is_read_and_nothing_waits(models, stock, tmp_path):
    """What would make it slower than stock's mapping: reads, waits, or a layer computed in parts."""
    ours = decode(tmp_path, Job(device=True, runs=(Run(name="all", resident=1.0),)), models["qwen3moe"])["qwen3moe"]
    facts = ours.facts["all"]
    assert (facts["cold_experts"], facts["cold_reads"], facts["cold_bytes"], facts["given_up"]) == (0, 0, 0, 0)
    assert not facts["reading"]
    np.testing.assert_array_equal(ours.logits["all"], stock["qwen3moe"].logits["stock"])


def test_a_prompt_reads_each_expert_that_it_needs_once(models, tmp_path):
    out = tmp_path / "out.npz"
    run_child(PROGRAM, "prompt", str(models["qwen3moe"]), str(out))
    with np.load(out) as stored:
        assert stored["routed"] > 0
        assert stored["cold_experts"] == stored["routed"]
        assert stored["cold_bytes"] == stored["routed_bytes"]
        slices = stored["routed"] * stored["tensors"]
        assert stored["cold_reads"] < slices  # what follows each other in the file is read at once


def test_the_hottest_experts_are_locked_as_far_as_the_system_allows(models, tmp_path):
    out = tmp_path / "out.npz"
    run_child(PROGRAM, "locks", str(models["qwen3moe"]), str(out))
    with np.load(out) as stored:
        assert 0 < stored["locked"] <= stored["asked"] or "RLIMIT_MEMLOCK" in str(stored["limit"])
        assert stored["locked_pages"] == stored["locked"]
        assert stored["left"] == 0  # without a budget the system decides
        assert stored["refused"] == 0
        assert "RLIMIT_MEMLOCK" in str(stored["words"])


def test_until_somebody_says_what_memory_may_hold_the_system_decides(models, stock, tmp_path):
    """From the load to the engine's own choice: all as without the device, whatever orders come early."""
    out = tmp_path / "out.npz"
    run_child(PROGRAM, "undecided", str(models["qwen3moe"]), str(out))
    with np.load(out) as stored:
        assert not stored["told"].any()
        for name in ("logits", "again"):
            np.testing.assert_array_equal(stored[name], stock["qwen3moe"].logits["stock"])
        assert stored["cold"] == 0
        assert stored["budget"] > 0


def test_who_is_told_of_a_failure_sees_it_counted_whoever_reads_meanwhile(tmp_path):
    model, out = tmp_path / "model.gguf", tmp_path / "out.npz"
    mixtral(model)
    run_child(PROGRAM, "failures", str(model), str(out))
    with np.load(out) as stored:
        assert (np.diff(stored["seen"]) > 0).all()


def test_orders_from_other_threads_while_decoding_change_no_bit(models, stock, tmp_path):
    out = tmp_path / "out.npz"
    run_child(PROGRAM, "orders", str(models["qwen3moe"]), str(out), timeout=600)
    with np.load(out) as stored:
        np.testing.assert_array_equal(stored["logits"], stock["qwen3moe"].logits["stock"])
        assert stored["orders"] > 50


def test_a_file_that_was_replaced_under_us_is_read_as_it_was(models, stock, tmp_path):
    model, out = tmp_path / "model.gguf", tmp_path / "out.npz"
    mixtral(model)
    expected = decode(tmp_path / "stock", Job(repack=False), model)["model"].logits["stock"]
    run_child(PROGRAM, "replaced", str(model), str(out))
    with np.load(out) as stored:
        np.testing.assert_array_equal(stored["logits"], expected)
        assert stored["cold"] > 0


def test_a_file_that_was_cut_short_under_us_fails_the_batch_and_says_so(tmp_path):
    model, out = tmp_path / "model.gguf", tmp_path / "out.npz"
    mixtral(model)
    run_child(PROGRAM, "cut", str(model), str(out))
    with np.load(out) as stored:
        assert stored["result"] < 0  # what the engine turns into words
        assert stored["failures"] > 0
        np.testing.assert_array_equal(stored["again"], stored["before"])  # the file put right, it goes on
