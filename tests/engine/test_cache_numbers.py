"""Logits with the expert cache against stock llama.cpp on the same file: every chain shape, pool and batch size."""

from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pytest
from decode_logits import Job, Run
from decoding import Decoded, decode, distances
from native_build import faulty_device
from tiny_shapes import QUANTISED, SHAPES

SHARE = 0.3
WHOLE = 80  # experts: more than any model here has, so that a staging area holds all of a layer

# The CPU as second device. Copies are waited for where hits are asserted; the last run hurries, as the app does.
CPU_RUNS = (
    Run(name="no pool"),
    Run(name="one slot", pool="one"),
    Run(name="a third", pool=SHARE),
    Run(name="all", pool=1.0),
    Run(name="auto", pool=SHARE, stream="auto", staging=4),
    Run(name="always", pool=SHARE, stream="always", staging=4),
    Run(name="no pool, always", stream="always", staging=3),
    Run(name="whole layers", pool=SHARE, stream="always", staging=WHOLE),
    Run(name="no pool, whole layers", stream="always", staging=WHOLE),
    Run(name="heat", pool=SHARE, kind="decay", insert_cap=1),
    Run(name="hurried", pool=SHARE, stream="auto", staging=4, window=64, insert_cap=2, wait=False),
)
# A device with memory of its own that computes with the CPU's kernels: there experts are copied ahead of their layer.
AHEAD_RUNS = (
    Run(name="no pool, always", stream="always", staging=3, lock_bytes=1 << 30),
    Run(name="auto", pool=SHARE, stream="auto", staging=4, lock_bytes=1 << 30),
    Run(name="auto, whole layers", pool=SHARE, stream="auto", staging=WHOLE, lock_bytes=1 << 30),
)
# Mesa's software Vulkan driver takes a second for a prompt that the CPU computes in 20 ms: fewer and smaller batches,
# and prompts only for chains whose operations differ in kind. It also corrupts the heap when a buffer is freed that a
# descriptor set had bound before (Mesa 22.3.6; stock llama.cpp dies of it, too), so no pool is resized there: each run
# has a process of its own, and the largest batch comes first, so that working memory never grows.
GPU_RUNS = (
    Run(name="one slot, always", pool="one", stream="always", staging=4),
    Run(name="a third", pool=SHARE),
    Run(name="all", pool=1.0),
)
# Measuring the rates runs batches of its own first, after which the driver dies of `expert_scales` every time.
GPU_RUNS_WITH_PROMPT = (
    *GPU_RUNS[:2],
    Run(name="whole layers", pool=SHARE, stream="always", staging=WHOLE),
    Run(name="all, auto", pool=1.0, stream="auto", staging=4),
)
GPU_BATCHES = (8, 1, 3, 1, 1)
GPU_BATCHES_WITH_PROMPT = (40, 1, 3, 8, 1, 1)
WITH_PROMPT = ("mixtral", "gpt_oss", "fused_gate_up", "weight_before", "quantised_mixtral")


class OnBoth(NamedTuple):
    """Stock's logits of one model on either device, [rows, vocabulary]; on the GPU in each of some ways."""

    on_cpu: np.ndarray
    on_gpu: tuple[np.ndarray, ...]

    def allowed(self) -> np.ndarray:
        """How far from the CPU ours may be: half as far again as stock on that GPU, of its ways the farthest."""
        return 1.5 * np.max([distances(logits, self.on_cpu) for logits in self.on_gpu], axis=0) + FLOOR


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    paths = {}
    for name, write in {**SHAPES, **QUANTISED}.items():
        paths[name] = folder / f"{name}.gguf"
        write(paths[name])
    return paths


@pytest.fixture(scope="module")
def faulty_library(tmp_path_factory) -> Path:
    """A device that fails when told to; here nobody tells it."""
    return faulty_device(tmp_path_factory.mktemp("faulty"))


@pytest.fixture(scope="module")
def stock(models, tmp_path_factory) -> dict[str, Decoded]:
    """Stock llama.cpp on the CPU, without its repacked layouts: the kernels that the pool's CPU device uses."""
    return decode(tmp_path_factory.mktemp("stock"), Job(repack=False), *models.values())


def assert_counts_agree(run: Run, facts: dict[str, Any]) -> None:
    assert facts["result"] == 0, facts["reason"]
    assert facts["routed"] > 0
    assert facts["hits"] + facts["misses"] == facts["routed"]
    assert facts["resident"] == facts["on_gpu"] == sum(facts["layer_resident"])
    assert facts["resident"] <= facts["slots"] == sum(facts["layer_slots"])
    assert facts["allocated"] <= facts["requested"]
    if run.pool == "one":
        assert set(facts["layer_slots"]) == {1}
    if run.pool == 1.0:
        assert facts["layer_slots"] == facts["layer_experts"]
        assert facts["evictions"] == 0
    if run.pool == 0.0:
        assert facts["hits"] == facts["inserts"] == facts["slots"] == facts["allocated"] == 0
    elif run.wait:
        assert facts["hits"] > 0
        assert facts["resident"] > 0
        assert facts["inserts"] - facts["evictions"] == facts["newly_resident"]
    if run.stream == "always":
        assert facts["streamed"] == facts["misses"] > 0
    elif run.stream == "off":
        assert facts["streamed"] == 0


@pytest.mark.parametrize("shape", [*SHAPES, *QUANTISED])
def test_with_the_cpu_as_second_device_logits_are_those_of_stock_bit_by_bit(shape, models, stock, tmp_path):
    ours = decode(tmp_path, Job(device=True, runs=CPU_RUNS), models[shape])[shape]
    for run in CPU_RUNS:
        np.testing.assert_array_equal(ours.logits[run.name], stock[shape].logits["stock"], err_msg=run.name)
        assert_counts_agree(run, ours.facts[run.name])


@pytest.mark.parametrize("shape", [*SHAPES, *QUANTISED])
def test_copied_ahead_and_from_locked_memory_the_numbers_stay_those_of_stock(
    shape, models, stock, faulty_library, tmp_path
):
    job = Job(device=True, runs=AHEAD_RUNS, pool_device="FAULTY", device_library=str(faulty_library))
    ours = decode(tmp_path, job, models[shape])[shape]
    for run in AHEAD_RUNS:
        np.testing.assert_array_equal(ours.logits[run.name], stock[shape].logits["stock"], err_msg=run.name)
        assert_counts_agree(run, ours.facts[run.name])
        assert ours.facts[run.name]["reason"] == ""
    assert ours.facts["no pool, always"]["ahead"] > 0


def test_two_threads_give_the_same_bits(models, tmp_path):
    batches = (17, 1, 3, 8, 1, 64)  # each is a race of two threads for two cores, slow beside other work
    runs = tuple(run for run in CPU_RUNS if run.name in ("a third", "auto", "always"))
    theirs = decode(tmp_path / "stock", Job(repack=False, batches=batches), models["qwen3moe"])["qwen3moe"]
    ours = decode(tmp_path, Job(device=True, threads=2, batches=batches, runs=runs), models["qwen3moe"])["qwen3moe"]
    for run in runs:
        np.testing.assert_array_equal(ours.logits[run.name], theirs.logits["stock"], err_msg=run.name)


def test_repacked_experts_without_a_pool_compute_what_stock_does_with_its_defaults(models, tmp_path):
    paths = [models[name] for name in QUANTISED]
    theirs = decode(tmp_path / "stock", Job(), *paths)
    ours = decode(tmp_path / "ours", Job(device=True, repacked=True, runs=(Run(name="no pool"),)), *paths)
    for name in QUANTISED:
        np.testing.assert_array_equal(ours[name].logits["no pool"], theirs[name].logits["stock"], err_msg=name)
        assert ours[name].facts["no pool"]["repacked_layers"] >= 1


def test_a_pool_filled_from_the_file_beside_repacked_experts_is_as_near_as_stocks_two_layouts(models, stock, tmp_path):
    paths = [models[name] for name in QUANTISED]
    repacked = decode(tmp_path / "stock", Job(), *paths)
    runs = (Run(name="a third", pool=SHARE), Run(name="always", pool=SHARE, stream="always", staging=4))
    ours = decode(tmp_path / "ours", Job(device=True, repacked=True, runs=runs), *paths)
    for name in QUANTISED:
        reference = repacked[name].logits["stock"]
        allowed = 1.5 * distances(stock[name].logits["stock"], reference) + FLOOR
        for run in runs:
            assert_counts_agree(run, ours[name].facts[run.name])
            assert (distances(ours[name].logits[run.name], reference) <= allowed).all(), (name, run.name)


# Where a GPU happens to agree with the CPU to the last bit, the distance to compare with is 0. Two sums of 64 to 512
# products of f32 in another order differ by some 1e-6 of their size; three layers and the output make it 1e-5 of
# logits of magnitude 4.
FLOOR = 4e-5


def gpu_batches(shape: str) -> tuple[int, ...]:
    return GPU_BATCHES_WITH_PROMPT if shape in WITH_PROMPT else GPU_BATCHES


# Quantised weights are multiplied by rounded inputs, and a GPU's kernels for a few rows and for many differ in more
# than the order of their sums. CUDA's matrix-vector kernel for Q4_0 takes the offset of 8 times the sum of the inputs
# as they were, its matrix-matrix kernel and the CPU that of the rounded ones. A prompt whose experts ours sends in
# parts of 64 pairs is so as near to the CPU as stock is with one token at a time, and farther from it than stock with
# the whole batch: by 1.4 in the median row on an H200 with `quantised_mixtral`. A calculation of both kinds of kernel
# for 25 seeds of that model gave for largest logit, largest row and median row 1.21, 1.11 and 1.41 times the distance
# of stock's batches (at most 1.69, 1.58, 1.64) and 1.00, 0.98 and 0.99 times that of its single tokens (at most 1.38,
# 1.40, 1.14), with the same experts for every token throughout. So both ways of stock count.
def stock_on_both(folder: Path, gpu: str, batches: tuple[int, ...], *paths: Path) -> dict[str, OnBoth]:
    """Logits of stock on the CPU and of stock fully on the GPU, by model; of quantised ones there also singly."""
    on_gpu = Job(gpu=gpu, experts_on_gpu=True, batches=batches)
    cpu = decode(folder / "cpu", Job(repack=False, batches=batches), *paths)
    gpus = [decode(folder / "gpu", on_gpu, *paths)]
    if quantised := [path for path in paths if path.stem in QUANTISED]:
        singly = msgspec.structs.replace(on_gpu, batches=(1,) * sum(batches))
        gpus.append(decode(folder / "singly", singly, *quantised))
    return {
        name: OnBoth(cpu[name].logits["stock"], tuple(its[name].logits["stock"] for its in gpus if name in its))
        for name in cpu
    }


@pytest.fixture(scope="module")
def references(models, any_gpu, tmp_path_factory) -> dict[str, OnBoth]:
    """Of every shape, from as few processes as can be: starting Vulkan and its shaders takes long."""
    found = {}
    for batches in (GPU_BATCHES, GPU_BATCHES_WITH_PROMPT):
        paths = [path for name, path in models.items() if gpu_batches(name) == batches]
        found |= stock_on_both(tmp_path_factory.mktemp("both"), any_gpu, batches, *paths)
    return found


def assert_as_near(folder: Path, job: Job, runs: tuple[Run, ...], model: Path, stock: OnBoth) -> None:
    allowed = stock.allowed()
    for run in runs:
        ours = decode(folder / run.name, msgspec.structs.replace(job, runs=(run,)), model)[model.stem]
        assert_counts_agree(run, ours.facts[run.name])
        found = distances(ours.logits[run.name], stock.on_cpu)
        assert (found <= allowed).all(), f"{run.name}: {found}, allowed {allowed}"


@pytest.mark.parametrize("shape", [*SHAPES, *QUANTISED])
def test_with_a_gpu_logits_are_no_farther_from_the_cpus_than_stock_on_that_gpu(
    shape, models, references, any_gpu, tmp_path
):
    job = Job(device=True, pool_device=any_gpu, batches=gpu_batches(shape))
    runs = GPU_RUNS_WITH_PROMPT if shape in WITH_PROMPT else GPU_RUNS
    assert_as_near(tmp_path, job, runs, models[shape], references[shape])


@pytest.mark.parametrize("shape", QUANTISED)
def test_repacked_experts_are_the_devices_also_where_a_gpu_has_attention_and_pool(
    shape, models, references, any_gpu, tmp_path
):
    # A card's host buffers come before the faster layouts in llama.cpp's list: the experts were then nobody's.
    job = Job(device=True, gpu=any_gpu, repacked=True, pool_device=any_gpu, batches=gpu_batches(shape))
    run = Run(name="a third", pool=SHARE)
    ours = decode(tmp_path, msgspec.structs.replace(job, runs=(run,)), models[shape])[shape]
    assert ours.facts[run.name]["repacked_layers"] >= 1
    assert_counts_agree(run, ours.facts[run.name])
    found = distances(ours.logits[run.name], references[shape].on_cpu)
    assert (found <= references[shape].allowed()).all()


def test_with_attention_and_pool_on_one_gpu_large_prompts_stay_as_near_as_stock(models, any_gpu, tmp_path):
    batches = (512, 1, 1, 1)
    stock = stock_on_both(tmp_path, any_gpu, batches, models["mixtral"])["mixtral"]
    runs = (Run(name="a third", pool=SHARE, stream="auto", staging=4),)
    job = Job(device=True, gpu=any_gpu, pool_device=any_gpu, batches=batches)
    assert_as_near(tmp_path, job, runs, models["mixtral"], stock)


def test_two_hundred_greedy_tokens_of_the_demo_model_are_those_of_stock(demo_model, tmp_path):
    question = "Write a short story about a lighthouse keeper and a whale."
    job = Job(prompt=question, answer=200)
    theirs = decode(tmp_path / "stock", job, demo_model)["demo"].logits["stock"]
    runs = (Run(name="no pool"), Run(name="a third", pool=SHARE), Run(name="all", pool=1.0))
    ours = decode(tmp_path / "ours", Job(device=True, prompt=question, answer=200, runs=runs), demo_model)
    assert len(set(theirs.tolist())) > 40, "an answer, not one word again and again"
    for run in runs:
        np.testing.assert_array_equal(ours["demo"].logits[run.name], theirs, err_msg=run.name)
        assert_counts_agree(run, ours["demo"].facts[run.name])
