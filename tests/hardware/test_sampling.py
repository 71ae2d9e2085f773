"""Samples hold what is true now, None with a reason for the rest, and never a made-up zero."""

import contextlib
import os
import resource
import subprocess
import sys
import time

import psutil
import pytest
from hardware_trees import (
    GEFORCE,
    GIB,
    LLVMPIPE,
    MIB,
    PID,
    RADEON,
    PlayedNvml,
    amd_card,
    first_answer,
    gpu,
    no_nvml,
    sampler,
    taken_by,
    write,
    write_process,
)

from app.hardware.cards import CardMemory
from app.hardware.facts import GpuKind
from app.hardware.sampling import GpuSample, Sampler
from app.hardware.sources import NotSeenError


def test_the_engines_memory_and_faults_come_from_its_own_line(tmp_path):
    write_process(tmp_path)
    with sampler(tmp_path) as made:
        sample = made.sample()
    assert sample.engine_rss_bytes == 25_600 * os.sysconf("SC_PAGE_SIZE")
    assert sample.engine_major_faults == 17
    assert sample.engine_peak_bytes == 200 * MIB
    assert sample.engine_read_bytes == 5 * MIB
    assert sample.ram_available_bytes == 24 * GIB
    assert sample.missing == ()


def test_an_engine_that_ends_becomes_none_with_a_reason(tmp_path):
    write_process(tmp_path)
    with sampler(tmp_path) as made:
        assert made.sample().engine_rss_bytes
        (tmp_path / f"proc/{PID}/stat").unlink()
        sample = made.sample()
    assert sample.engine_rss_bytes is None
    assert sample.engine_major_faults is None
    assert sample.missing == ("The engine's process has ended.",)


@pytest.mark.parametrize("change", [{"started": 9999}, {"state": "Z", "pages": 0}, {"state": "X"}])
def test_another_process_with_its_number_or_its_remains_are_not_the_engine(tmp_path, change):
    write_process(tmp_path)
    with sampler(tmp_path) as made:
        write_process(tmp_path, **change)
        assert made.sample().engine_rss_bytes is None


def test_a_cut_process_line_is_an_ended_process(tmp_path):
    write(tmp_path, f"proc/{PID}/stat", f"{PID} (python) S 1 2")
    with sampler(tmp_path) as made:
        assert made.sample().engine_rss_bytes is None


def test_available_memory_respects_this_programs_limit(tmp_path):
    write(tmp_path, "proc/self/cgroup", "0::/")
    write(tmp_path, "sys/fs/cgroup/memory.max", 4 * GIB)
    write(tmp_path, "sys/fs/cgroup/memory.current", 1 * GIB)
    with sampler(tmp_path) as made:
        assert made.sample().ram_available_bytes == 3 * GIB


def test_available_memory_respects_a_limit_on_the_engine_alone(tmp_path):
    write(tmp_path, "proc/self/cgroup", "0::/app")
    write(tmp_path, "sys/fs/cgroup/app/memory.max", 8 * GIB)
    write(tmp_path, "sys/fs/cgroup/app/memory.current", 1 * GIB)
    write(tmp_path, f"proc/{PID}/cgroup", "0::/engine")
    write(tmp_path, "sys/fs/cgroup/engine/memory.max", 2 * GIB)
    write(tmp_path, "sys/fs/cgroup/engine/memory.current", GIB // 2)
    with sampler(tmp_path) as made:
        assert made.sample().ram_available_bytes == 2 * GIB - GIB // 2


def test_unreadable_main_memory_is_none_with_a_reason(tmp_path):
    write_process(tmp_path)

    def broken():
        raise OSError("no meminfo")

    with sampler(tmp_path, machine_memory=broken) as made:
        sample = made.sample()
    assert sample.ram_available_bytes is None
    assert "no meminfo" in sample.missing[0]


def test_an_amd_card_is_sampled_from_the_kernel_each_time_anew(tmp_path):
    chip = amd_card(tmp_path)
    with sampler(tmp_path, (RADEON,)) as made:
        (before,) = made.sample().gpus
        write(chip, "mem_info_vram_used", 5 * GIB)
        (after,) = made.sample().gpus
    assert (before.used_bytes, before.total_bytes) == (3 * GIB, 16 * GIB)
    assert after.used_bytes == 5 * GIB
    assert after.process_bytes is None
    assert after.missing


def test_a_gpu_in_the_processor_counts_the_main_memory_it_may_use(tmp_path):
    amd_card(tmp_path)
    with sampler(tmp_path, (gpu("AMD Radeon 780M", kind=GpuKind.INTEGRATED),)) as made:
        (sample,) = made.sample().gpus
    assert (sample.used_bytes, sample.total_bytes) == (3 * GIB + 100 * MIB, 24 * GIB)


def test_an_amd_card_that_lies_is_not_believed(tmp_path):
    amd_card(tmp_path, used=17 * GIB)
    with sampler(tmp_path, (RADEON,)) as made:
        (sample,) = made.sample().gpus
    assert sample.used_bytes is sample.total_bytes is None
    assert "cannot be" in sample.missing


def test_a_card_that_vanishes_is_none_with_a_reason(tmp_path):
    chip = amd_card(tmp_path)
    with sampler(tmp_path, (RADEON,)) as made:
        (chip / "mem_info_vram_used").unlink()
        (sample,) = made.sample().gpus
    assert sample.used_bytes is None
    assert sample.missing


def test_a_software_device_says_that_it_uses_main_memory(tmp_path):
    with sampler(tmp_path, (LLVMPIPE,)) as made:
        (sample,) = made.sample().gpus
    assert sample.source == "software device: uses main memory"
    assert sample.used_bytes is sample.total_bytes is sample.process_bytes is None


def test_an_nvidia_card_is_sampled_through_its_driver(tmp_path):
    played = PlayedNvml()
    with sampler(tmp_path, (GEFORCE,), nvml=lambda: played) as made:
        sample = first_answer(made)
    assert sample == GpuSample(
        device="CUDA0",
        used_bytes=2 * GIB,
        total_bytes=12 * GIB,
        process_bytes=1 * GIB,
        source="NVIDIA driver (NVML)",
    )
    assert played.closed.wait(5)


def test_devices_keep_their_order_whatever_reads_them(tmp_path):
    amd_card(tmp_path)
    gpus = (gpu(RADEON.name, "Vulkan1"), GEFORCE, LLVMPIPE)
    with sampler(tmp_path, gpus, nvml=PlayedNvml) as made:
        assert [sample.device for sample in made.sample().gpus] == ["Vulkan1", "CUDA0", "Vulkan0"]


def test_without_an_nvidia_driver_its_devices_are_none_and_it_is_not_tried_again(tmp_path):
    tries = []

    def missing():
        tries.append(1)
        no_nvml()

    with sampler(tmp_path, (GEFORCE,), nvml=missing) as made:
        samples = [first_answer(made) for _ in range(3)]
    assert all(sample.used_bytes is None and "not installed" in sample.missing for sample in samples)
    assert len(tries) == 1


def test_a_driver_that_raises_is_a_reason_and_recovers(tmp_path):
    played = PlayedNvml(told_memory=NotSeenError("GPU is lost."))
    with sampler(tmp_path, (GEFORCE,), nvml=lambda: played) as made:
        assert first_answer(made).missing == "GPU is lost."
        played.told_memory = CardMemory(1 * GIB, 12 * GIB)
        assert first_answer(made).used_bytes == 1 * GIB


def test_a_driver_that_breaks_in_unknown_ways_is_a_reason_too(tmp_path, caplog):
    played = PlayedNvml(told_memory=ValueError("odd"))
    with sampler(tmp_path, (GEFORCE,), nvml=lambda: played) as made:
        sample = first_answer(made)
    assert sample.used_bytes is None
    assert "odd" in sample.missing
    assert "odd" in caplog.text


def test_a_hanging_driver_delays_a_sample_a_little_and_recovers(tmp_path):
    write_process(tmp_path)
    played = PlayedNvml(hang=True)
    try:
        with sampler(tmp_path, (GEFORCE,), nvml=lambda: played) as made:
            made.sample()
            assert played.entered.wait(5)
            # 30 ms by design; the rest is for a busy machine.
            sample, taken = taken_by(made.sample, 0.5)
            assert taken < 0.5
            assert sample.gpus[0].missing == "The NVIDIA driver did not answer in time."
            assert sample.gpus[0].used_bytes is None
            assert sample.engine_rss_bytes
            played.hang = False
            played.released.set()
            assert first_answer(made).used_bytes == 2 * GIB
    finally:
        played.released.set()


@pytest.mark.parametrize("lie", [CardMemory(13 * GIB, 12 * GIB), CardMemory(0, 0), CardMemory(2**64 - 1, 12 * GIB)])
def test_a_driver_that_lies_is_not_believed(tmp_path, lie):
    with sampler(tmp_path, (GEFORCE,), nvml=lambda: PlayedNvml(told_memory=lie)) as made:
        sample = first_answer(made)
    assert sample.used_bytes is sample.total_bytes is sample.process_bytes is None
    assert sample.missing


@pytest.mark.parametrize("told", [13 * GIB, NotSeenError("Not by program.")])
def test_an_engine_share_that_is_not_known_leaves_the_cards_own_figures(tmp_path, told):
    with sampler(tmp_path, (GEFORCE,), nvml=lambda: PlayedNvml(told_process=told)) as made:
        sample = first_answer(made)
    assert sample.process_bytes is None
    assert sample.used_bytes == 2 * GIB
    assert sample.missing


def test_a_real_child_is_seen_alive_and_then_gone():
    child = subprocess.Popen([sys.executable, "-c", "print(flush=True); input()"], stdin=-1, stdout=-1)
    with child, contextlib.closing(Sampler(child.pid, (LLVMPIPE,))) as made:
        child.stdout.readline()
        first, second = made.sample(), made.sample()
        assert first.engine_rss_bytes > MIB
        assert first.engine_major_faults >= 0
        assert first.ram_available_bytes > 0
        assert second.time_seconds >= first.time_seconds
        assert first.missing == ()
        child.kill()
        # Not waited for yet: what is left of it must not count as an engine of no size.
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert made.sample().engine_rss_bytes is None
    assert made.sample().engine_rss_bytes is None


def test_faults_that_waited_for_the_disk_agree_with_the_kernels_own_count():
    with contextlib.closing(Sampler(os.getpid(), ())) as made:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_majflt
        sampled = made.sample().engine_major_faults
        assert before <= sampled <= resource.getrusage(resource.RUSAGE_SELF).ru_majflt


def test_resident_memory_grows_by_what_the_engine_touches():
    # In a process of its own: this one may give back memory of other tests meanwhile.
    touch = (
        "print('ready', flush=True); input(); held = bytearray(b'x') * (64 << 20); print('held', flush=True); input()"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with (
        subprocess.Popen([sys.executable, "-c", touch], **pipes) as child,
        contextlib.closing(Sampler(child.pid, ())) as made,
    ):
        assert child.stdout.readline() == "ready\n"
        before = made.sample().engine_rss_bytes
        child.stdin.write("\n")
        child.stdin.flush()
        assert child.stdout.readline() == "held\n"
        assert made.sample().engine_rss_bytes - before > 0.9 * 64 * MIB
        child.kill()


def test_a_pid_that_never_was_is_none():
    with contextlib.closing(Sampler(2**22 + 1, ())) as made:
        assert made.sample().engine_rss_bytes is None


def test_a_sample_without_nvidia_takes_less_than_a_millisecond():
    with contextlib.closing(Sampler(os.getpid(), (LLVMPIPE,))) as made:
        times = []
        for _ in range(50):
            begin = time.perf_counter()
            made.sample()
            times.append(time.perf_counter() - begin)
    # The best of many is the cost; the others were interrupted by other programs.
    assert min(times) < 0.001


def test_on_other_systems_the_process_is_read_without_counting_faults():
    with contextlib.closing(Sampler(os.getpid(), (), system="win32")) as made:
        sample = made.sample()
    assert sample.engine_rss_bytes > MIB
    assert sample.engine_major_faults is None
    assert "faults" in sample.missing[0]


def test_on_other_systems_a_dead_process_is_none_too():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=-1)
    with child, contextlib.closing(Sampler(child.pid, (), system="win32")) as made:
        assert made.sample().engine_rss_bytes > 0
        child.kill()
        child.wait()
        assert made.sample().engine_rss_bytes is None


def test_on_other_systems_counters_that_stand_at_zero_are_no_reads(monkeypatch):
    monkeypatch.setattr(psutil.Process, "io_counters", lambda _process: (0, 0, 0, 0), raising=False)
    with contextlib.closing(Sampler(os.getpid(), (), system="win32")) as made:
        sample = made.sample()
    assert sample.engine_read_bytes is None
    assert "does not count what the engine reads" in sample.reasons["engine_read_bytes"]
