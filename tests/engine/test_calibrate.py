"""Calibration: what is measured of a machine, how it ends early, and what becomes of devices that fail."""

import json
from pathlib import Path

import msgspec
import pytest
from decoding import run_child
from engine_driver import plan_for
from native_build import faulty_device

from app.engine import disk_reads, protocol
from app.engine.client import EngineClient
from app.errors import AppError, ErrorCode
from app.hardware.cpu import read_cpu
from app.placement.speed.calibration import Calibration
from app.units import format_share

PROGRAM = Path(__file__).parent / "calibrate_faulty.py"
REQUEST = {"types": ("q4_0",), "threads": (1,), "devices": (), "seconds": 3.0, "machine": "this one"}
FAULTS = [
    ("", 0),
    ("start", 1),
    ("allocate", 1),
    ("allocate", 4),
    ("allocate_throw", 3),
    ("copy", 2),
    ("upload", 5),
    ("download", 3),
    ("compute_status", 9),
    ("compute_throw", 9),
    ("wait", 60),
]


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory):
    """Progress and result of a short calibration of the processor and the disk, and the child's memory."""
    folder = tmp_path_factory.mktemp("models")
    with EngineClient() as client:
        request = client.send(protocol.Calibrate, **REQUEST | {"seconds": 30.0}, disk_folder=str(folder))
        events = list(client.events(request, protocol.Calibrated, timeout=240))
    assert not list(folder.iterdir()), "what was written for the disk is gone"
    return events[:-1], events[-1].calibration


def test_the_processor_is_measured_with_one_token_and_with_a_batch(calibrated):
    _, calibration = calibrated
    rates = [rate for rate in calibration.compute if rate.layout == "plain"]
    assert {(rate.device, rate.type, rate.threads) for rate in rates} == {("CPU", "q4_0", 1)}
    one = next(rate for rate in rates if rate.tokens == 1)
    assert 1e8 < one.bytes_per_second < 1e12
    # Q4_0 has 18 bytes for 32 weights, and each weight takes two operations.
    assert one.flops_per_second == pytest.approx(one.bytes_per_second * 32 / 18 * 2)


def test_the_faster_layout_is_measured_where_the_processor_has_one(calibrated):
    _, calibration = calibrated
    if "avx2" not in read_cpu(Path("/"))[0].isa:
        pytest.skip("the engine has a faster layout of Q4_0 for AVX2; this processor lacks it")
    assert {rate.layout for rate in calibration.compute} == {"plain", "repacked"}


def test_the_disk_is_read_in_slices_alone_and_several_at_once(calibrated):
    _, calibration = calibrated
    if not calibration.disk:
        assert any("disk" in sentence for sentence in calibration.skipped)
        pytest.skip("this file system cannot be read past the cache")
    assert {(rate.slice_bytes, rate.parallel) for rate in calibration.disk} == {
        (size, parallel) for size in disk_reads.SLICES for parallel in disk_reads.PARALLEL
    }
    assert all(rate.bytes_per_second > 0 for rate in calibration.disk)


def test_the_calibration_says_whose_it_is(calibrated):
    _, calibration = calibrated
    assert calibration.machine == "this one"
    assert "llama-cpp-python 0.3.36" in calibration.engine
    assert calibration.measured_at.endswith("+00:00")
    assert calibration.seconds > 0


def test_how_busy_other_programs_were_is_kept_as_a_share_and_said_where_it_was_much(calibrated):
    _, calibration = calibrated
    assert 0 <= calibration.busy_share <= 1
    said = [sentence for sentence in calibration.skipped if sentence.startswith("Other programs kept")]
    assert bool(said) == (calibration.busy_share >= 0.1)
    assert all(format_share(calibration.busy_share) in sentence for sentence in said)


def test_progress_is_told_in_words_and_never_goes_back(calibrated):
    progress, _ = calibrated
    fractions = [event.fraction for event in progress]
    assert fractions == sorted(fractions)
    assert 0 <= fractions[0] <= fractions[-1] < 1
    assert any("processor" in event.what for event in progress)


def test_a_calibration_frees_the_loaded_model_and_can_be_cancelled(demo_model):
    with EngineClient() as client:
        client.request(protocol.Load, protocol.Loaded, plan=plan_for(demo_model))
        request = client.send(protocol.Calibrate, **REQUEST | {"seconds": 60.0})
        with pytest.raises(AppError) as cancelled:
            for event in client.events(request, protocol.Calibrated, timeout=240):
                assert isinstance(event, protocol.CalibrateProgress)
                client.send(protocol.Cancel, target=request)
        assert cancelled.value.code is ErrorCode.CANCELLED
        with pytest.raises(AppError, match="No model is loaded"):
            client.request(protocol.Generate, protocol.Finished, messages=())


def test_without_time_one_rate_is_measured_and_the_rest_is_named(loaded):
    wishes = REQUEST | {"seconds": 0.01, "types": ("q4_0", "q8_0")}
    calibration = loaded.request(protocol.Calibrate, protocol.Calibrated, **wishes).calibration
    assert {rate.type for rate in calibration.compute} == {"q4_0"}
    assert any(sentence.startswith("There was no time left for: ") for sentence in calibration.skipped)
    assert any("q8_0 on CPU" in sentence for sentence in calibration.skipped)


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        ({"types": ("q4_7",)}, ErrorCode.BAD_USAGE, "'q4_7' is no type"),
        ({"types": ()}, ErrorCode.BAD_USAGE, "no type"),
        ({"threads": ()}, ErrorCode.BAD_USAGE, "no counts of threads"),
        ({"threads": (0,)}, ErrorCode.BAD_USAGE, "no counts of threads"),
        ({"seconds": 0.0}, ErrorCode.BAD_USAGE, "impossible"),
        ({"devices": ("CUDA7",)}, ErrorCode.DEVICE_MISSING, "no device CUDA7"),
    ],
)
def test_impossible_wishes_are_refused_with_the_reason(loaded, change, code, words):
    with pytest.raises(AppError, match=words) as refused:
        loaded.request(protocol.Calibrate, protocol.Calibrated, **REQUEST | change)
    assert refused.value.code is code


def test_an_engine_without_the_expert_device_says_that_it_cannot_measure():
    from app.engine.client import engine_command

    with EngineClient([*engine_command(), "--stock"]) as client, pytest.raises(AppError, match="only with the expert"):
        client.request(protocol.Calibrate, protocol.Calibrated, **REQUEST)


@pytest.fixture(scope="module")
def faulty(tmp_path_factory):
    """By fault: the calibration, and allocations that were not freed."""
    library = faulty_device(tmp_path_factory.mktemp("faulty"))
    told = json.loads(run_child(PROGRAM, str(library), json.dumps(FAULTS), timeout=900).splitlines()[-1])
    calibrations = [msgspec.convert(case["calibration"], Calibration) for case in told]
    return dict(zip(FAULTS, zip(calibrations, (case["buffers"] for case in told), strict=True), strict=True))


def test_a_healthy_device_is_measured_in_every_way(faulty):
    calibration, _ = faulty["", 0]
    assert {(rate.device, rate.tokens > 1) for rate in calibration.compute} >= {("FAULTY", False), ("FAULTY", True)}
    assert {(rate.direction, rate.pinned) for rate in calibration.copies} == {
        ("to_device", False),
        ("from_device", False),
    }
    assert {cost.device for cost in calibration.layer_costs} == {"CPU", "FAULTY"}
    assert [overlap.device for overlap in calibration.overlaps] == ["FAULTY"]
    assert all(0 <= share <= 1 for share in msgspec.structs.astuple(calibration.overlaps[0])[1:])
    assert any("no page-locked memory" in sentence for sentence in calibration.skipped)


@pytest.mark.parametrize("fault", FAULTS[1:], ids=lambda fault: f"{fault[0]} {fault[1]}")
def test_a_device_that_fails_is_told_of_and_the_processor_is_measured_all_the_same(faulty, fault):
    calibration, _ = faulty[fault]
    assert any("FAULTY" in sentence for sentence in calibration.skipped)
    told = [sentence for sentence in calibration.skipped if sentence.startswith("Not measured")]
    assert told, "the failure has a sentence"
    assert any(rate.device == "CPU" and rate.tokens == 1 for rate in calibration.compute)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault[0]} {fault[1]}")
def test_no_memory_of_a_device_is_kept(faulty, fault):
    assert faulty[fault][1] == 0


def test_a_software_gpu_is_measured_only_when_it_is_named():
    from app.engine.calibrate import Calibrator
    from app.hardware.facts import Gpu, GpuKind

    gpu = Gpu(name="llvmpipe", backend="Vulkan", device="Vulkan0", kind=GpuKind.SOFTWARE, total_bytes=1, free_bytes=1)
    request = protocol.Calibrate(id=1, **REQUEST | {"seconds": 1e-6})
    calibration = Calibrator(request, (gpu,), "engine", lambda _event: None, lambda: False).run()
    assert "llvmpipe (Vulkan0) was not measured: it is a software device" in calibration.skipped[0]
