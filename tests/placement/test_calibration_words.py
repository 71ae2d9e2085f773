"""A calibration in words, and what is measured by default."""

import pytest

from app.hardware.facts import Cpu
from app.model.tensor_types import TENSOR_TYPES, ggml_name
from app.placement.speed import calibration_words as words
from app.placement.speed.calibration import (
    FROM_DEVICE,
    TO_DEVICE,
    Calibration,
    ComputeRate,
    CopyRate,
    DiskRate,
    LayerCost,
    Overlap,
)
from app.placement.speed.calibration_choices import COMMON_TYPES, thread_counts


def rate(**changes):
    values = {"device": "CPU", "type": "q4_K", "threads": 2, "bytes_per_second": 21.34e9, "flops_per_second": 7.6e10}
    return ComputeRate(**values | changes)


def copy(**changes):
    values = {"device": "CUDA0", "direction": TO_DEVICE, "pinned": True, "bytes_per_second": 20.1e9}
    return CopyRate(**values | changes)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (rate(), "Q4_K on 2 threads: 21.3 GB/s"),
        (rate(threads=1, layout="repacked", spread=0.1), "Q4_K on 1 thread, faster layout: 21.3 GB/s (±5 %)"),
        (rate(tokens=256), "Q4_K on 2 threads, prompts of 256 tokens: 76 GFLOPS"),
        (
            rate(device="CUDA0", threads=0, tokens=512, flops_per_second=3.1e13),
            "Q4_K, prompts of 512 tokens: 31.00 TFLOPS",
        ),
    ],
)
def test_a_rate_of_weights_has_type_threads_and_unit(found, said):
    assert words.compute_words(found) == said


def test_copies_layers_disk_and_overlap_have_words():
    assert words.copy_words(copy()) == "to CUDA0 from page-locked memory: 20.1 GB/s"
    assert words.copy_words(copy(direction=FROM_DEVICE, pinned=False)) == "from CUDA0 to ordinary memory: 20.1 GB/s"
    assert words.layer_words(LayerCost(device="CUDA0", seconds=1.8e-5)) == (
        "a layer on CUDA0 costs 18 µs beside its products"
    )
    disk = DiskRate(path="/", slice_bytes=1 << 20, parallel=8, bytes_per_second=1.3e9)
    assert words.disk_words(disk) == "1.0 MiB at a time, 8 at once: 1.3 GB/s"
    overlap = Overlap(device="CUDA0", cpu_share=0.8, device_share=None, copy_share=0.71)
    assert words.overlap_words(overlap) == "at once: the processor keeps 80 %, copies to it keep 71 %"


def test_the_best_figures_speak_of_the_first_type_of_each_device():
    calibration = Calibration(
        machine="m",
        engine="e",
        measured_at="2026-01-01T00:00:00+00:00",
        seconds=20.0,
        compute=(
            rate(threads=1, bytes_per_second=15e9),
            rate(),
            rate(tokens=256, bytes_per_second=99e9),
            rate(type="f16", bytes_per_second=30e9),
            rate(device="CUDA0", threads=0, bytes_per_second=3e11),
        ),
        copies=(copy(pinned=False, bytes_per_second=6e9), copy()),
        disk=(DiskRate(path="/", slice_bytes=1 << 20, parallel=1, bytes_per_second=2e9),),
    )
    assert words.best_sentences(calibration) == (
        "RAM 21.3 GB/s on 2 threads for Q4_K.",
        "CUDA0 300.0 GB/s for Q4_K.",
        "Copies to CUDA0 20.1 GB/s.",
        "Disk 2.0 GB/s in slices.",
    )


@pytest.mark.parametrize(
    ("performance", "allowed", "counts"),
    [(8, None, (1, 4, 8)), (2, None, (1, 2)), (1, None, (1,)), (8, 2, (1, 2)), (3, None, (1, 3))],
)
def test_one_thread_half_and_all_performance_cores_are_measured(performance, allowed, counts):
    cpu = Cpu(
        name="cpu",
        physical_cores=16,
        performance_cores=performance,
        logical_cores=16,
        isa=(),
        allowed_threads=allowed,
    )
    assert thread_counts(cpu) == counts


def test_the_common_types_are_the_engine_s_own_names():
    names = {ggml_name(kind.name) for kind in TENSOR_TYPES.values()}
    assert set(COMMON_TYPES) <= names
    assert {"q4_K", "iq4_xs", "mxfp4", "f16"} <= names
