"""Which file of `tests/snapshots` fires each rule and which must not, read as `doctor` itself reads them."""

from dataclasses import dataclass

from doctor_factories import SNAPSHOTS

from app.doctor.observation import Observation
from app.doctor.record import read_record
from app.hardware.snapshot import read_snapshot

RECORDS = sorted(path.name for path in SNAPSHOTS.glob("*.jsonl"))
MACHINES = sorted(path.name for path in SNAPSHOTS.glob("*.json"))
ROOMY = "desktop_nvidia_x16_dual_channel.json"


@dataclass(frozen=True)
class Case:
    """One file that fires a rule, what its words must hold, and one that must not fire it."""

    fires: str
    silent: str
    figures: tuple[str, ...]
    fix: tuple[tuple[str, object], ...] = ()


CASES = {
    "engine-files": Case(
        "engine_in_quarantine.jsonl",
        "engine_intact.jsonl",
        ("Of 14 files", "ggml-vulkan.dll is missing", "ggml-cpu-alderlake.dll was changed"),
    ),
    "gpu-unseen": Case("desktop_nvidia_no_driver.json", ROOMY, ("no driver runs it", "0000:01:00.0")),
    "old-driver": Case("desktop_nvidia_old_driver.json", ROOMY, ("470.256.02", "11.4", "525 or newer", "without CUDA")),
    "missing-experts": Case(
        "experts_left_on_cpu.jsonl", "loaded_as_planned.jsonl", ("10 expert layers on CUDA0; 10 of them, 3.1 GiB",)
    ),
    "idle-pool": Case(
        "pool_never_hit.jsonl",
        "loaded_as_planned.jsonl",
        ("1.5 GiB was asked for", "21,120 routed experts in 220 tokens 0 were"),
        (("pool_bytes", 0),),
    ),
    "spill": Case(
        "memory_spills.jsonl",
        "memory_nearly_full.jsonl",
        ("7.9 GiB of 8.0 GiB", "1.4 GiB of main memory"),
        (("pool_bytes", 640 * 1024**2),),
    ),
    "thrashing": Case(
        "experts_thrash.jsonl",
        "experts_warm_up.jsonl",
        ("9.0 GiB of the 16.3 GiB", "325 MB", "324 MB", "60 %", "6,153 experts", "firefox holds 3.2 GiB"),
    ),
    "warm-up": Case(
        "experts_warm_up.jsonl",
        "experts_thrash.jsonl",
        ("8.3 GiB of the 16.3 GiB", "7.1 GiB came in", "426 MB in the first half and 145 MB in the second"),
    ),
    "gpu-throttled": Case(
        "card_too_hot.jsonl", "loaded_as_planned.jsonl", ("7 of 8 samples", "87 °C and 1320 of 3105 MHz")
    ),
    "locked-memory": Case(
        "much_memory_locked.jsonl",
        "little_memory_locked.jsonl",
        ("44.0 GiB are to be page-locked", "predicted"),
        (("lock_bytes", 23_979_884_544),),
    ),
    "unmapped-file": Case(
        "copies_of_a_file_larger_than_memory.jsonl",
        "experts_thrash.jsonl",
        ("16.3 GiB of experts are copied", "file has 17.3 GiB, main memory 15.3 GiB"),
        (("residency", "mapped"),),
    ),
    "repacked": Case(
        "repacked_where_memory_is_short.jsonl",
        "repacked_where_memory_is_ample.jsonl",
        ("8.1 GiB of experts are copied", "predicted to lack"),
        (("residency", "mapped"),),
    ),
    "cpu-build": Case("desktop_radeon_engine_without_avx2.json", ROOMY, ("AVX2, FMA, F16C", "(x64)", "only SSE3")),
    "slow-gpu": Case(
        "integrated_gpu_slower.jsonl",
        "integrated_gpu_faster.jsonl",
        ("27.5 GB/s", "41.2"),
        (("gpu", None),),
    ),
    "hot-experts": Case(
        "pool_of_cold_experts.jsonl",
        "pool_of_hot_experts.jsonl",
        ("21,136 routed experts in 220 tokens 10 % are", "64 %"),
        (("kind", "decay"),),
    ),
    "threads": Case(
        "threads_twice_the_cores.jsonl", "threads_as_cores.jsonl", ("16 threads", "8 cores"), (("threads", 8),)
    ),
    "efficiency-cores": Case(
        "threads_on_efficiency_cores.jsonl",
        "threads_on_performance_cores.jsonl",
        ("14 threads", "6 performance (at most 4.7 GHz), 8 efficiency (at most 3.5 GHz)"),
        (("threads", 6),),
    ),
    "power-saver": Case("laptop_intel_igpu_power_saver.json", ROOMY, ("low-power", "34 %")),
    "single-channel": Case("laptop_nvidia_hybrid_single_channel.json", ROOMY, ("15.3 GiB", "38.4 GB/s")),
    "ram-speed": Case("desktop_nvidia_pcie_x4.json", ROOMY, ("DIMM_A2: 2133 of 3200 MT/s",)),
    "narrow-link": Case("desktop_nvidia_pcie_x4.json", ROOMY, ("PCIe 4.0 ×4", "7.9 GB/s")),
    "other-programs": Case("laptop_windows_nvidia_battery.json", ROOMY, ("3.1 GiB of the 8.0 GiB", "game.exe")),
    "context": Case(
        "context_hardly_used.jsonl",
        "context_used.jsonl",
        ("65,536 tokens takes 1.9 GiB of CUDA0", "4 answers used 1,420", "Predicted"),
        (("n_ctx", 4096),),
    ),
    "silent-disk": Case(
        "disk_of_model_silent.jsonl",
        "loaded_as_planned.jsonl",
        ("/media/disk/qwen3-30b-a3b-q4_k_m.gguf", "its tables", "15 seconds"),
    ),
    "network-disk": Case("desktop_models_on_network.json", ROOMY, ("/mnt/nas/models", "nfs4")),
    "slow-disk": Case("desktop_models_on_usb_hard_disk.json", ROOMY, ("hard disk",)),
}

# Beside the file that fires each rule: other ways to the same one, and recorded ones.
MORE = {
    "vm_demo_thrashes_recorded.jsonl": {"thrashing"},
    "experts_taken_back.jsonl": {"thrashing"},
    "mapped_file_thrashes.jsonl": {"thrashing"},
    "mapped_file_warms_up.jsonl": {"warm-up"},
}
OF_THE_MACHINE = {"single-channel", "ram-speed", "narrow-link", "power-saver", "other-programs", "slow-disk"}
"""Rules that fire for a machine whatever runs on it; records do not repeat them."""


def seen_in(name):
    """What a file tells, read as the command reads it."""
    path = SNAPSHOTS / name
    return read_record(path).observation() if name in RECORDS else Observation(machine=read_snapshot(path).machine())
