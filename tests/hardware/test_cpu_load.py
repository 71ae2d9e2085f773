"""The processor's load is counted between two readings of recorded counters, by kind of cores, and never guessed."""

import contextlib
import os
import struct
import time

import pytest
from hardware_trees import CPUS, hybrid_intel, plain_amd, sampler, write
from hypothesis import given
from hypothesis import strategies as st

from app.hardware import cpu_load
from app.hardware.cores import EFFICIENCY, PERFORMANCE
from app.hardware.cpu_load import OLDEST_SECONDS, CpuLoadReader, parse_processor_times, parse_stat
from app.hardware.samples import CPU_LOAD, GPU_LOAD, PROCESS
from app.hardware.sampling import Sampler
from app.hardware.sources import NotSeenError


class Clock:
    """Time that passes by hand."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def write_stat(root, threads):
    """`threads`: busy and idle ticks of each, in order."""
    lines = [f"cpu{number} {busy} 0 0 {idle} 0 0 0 0 0 0" for number, (busy, idle) in enumerate(threads)]
    write(root, "proc/stat", "\n".join(["cpu  1 2 3 4 5 6 7 8 9 10", *lines, "intr 5 cpu 7", "ctxt 9"]))


def read_twice(root, before, after, system="linux"):
    clock = Clock()
    reader = CpuLoadReader(root, system, clock=clock)
    write_stat(root, before)
    first = reader.read()
    clock.now += 0.2
    write_stat(root, after)
    return first, reader.read()


def test_load_is_told_for_all_threads_and_each_kind_of_cores(tmp_path):
    hybrid_intel(tmp_path)
    before = [(1000, 5000)] * 20
    after = [(1015, 5005)] * 12 + [(1002, 5018)] * 8
    first, second = read_twice(tmp_path, before, after)
    assert [kind.name for kind in first.kinds] == ["", PERFORMANCE, EFFICIENCY]
    assert all(kind.busy_percent is None for kind in first.kinds)
    assert "none before" in first.reasons["busy_percent"]
    busy = {kind.name: kind.busy_percent for kind in second.kinds}
    assert busy == {"": pytest.approx(49.0), PERFORMANCE: pytest.approx(75.0), EFFICIENCY: pytest.approx(10.0)}
    assert "busy_percent" not in second.reasons


def test_cores_that_are_alike_have_one_figure(tmp_path):
    plain_amd(tmp_path)
    _, second = read_twice(tmp_path, [(0, 0)] * 16, [(5, 15)] * 16)
    assert [(kind.name, kind.busy_percent) for kind in second.kinds] == [("", 25.0)]


def test_waiting_for_disks_is_idle_and_what_a_host_takes_away_is_busy(tmp_path):
    times = parse_stat("cpu 0\ncpu0 10 1 5 100 50 2 3 4 7 7")
    assert times == {0: (25, 175)}, "guests' time is in the first two figures already"


def test_a_clock_is_that_of_the_busiest_thread_and_read_once_a_second(tmp_path):
    hybrid_intel(tmp_path)
    for cpu in range(20):
        write(tmp_path, f"{CPUS}/cpu{cpu}/cpufreq/scaling_cur_freq", 1_000_000 + 1000 * cpu)
    before = [(0, 0)] * 20
    after = [(20, 0) if cpu in (3, 15) else (1, 19) for cpu in range(20)]
    clock = Clock()
    reader = CpuLoadReader(tmp_path, "linux", clock=clock)
    write_stat(tmp_path, before)
    reader.read()
    clock.now += 0.2
    write_stat(tmp_path, after)
    read = reader.read()
    assert {kind.name: kind.clock_mhz for kind in read.kinds} == {"": 1003, PERFORMANCE: 1003, EFFICIENCY: 1015}
    assert read.reasons == {}
    write(tmp_path, f"{CPUS}/cpu3/cpufreq/scaling_cur_freq", 4_000_000)
    for passed, expected in ((0.2, 1003), (1.0, 4000)):
        clock.now += passed
        after = [(busy + 20, idle) if cpu == 3 else (busy, idle + 20) for cpu, (busy, idle) in enumerate(after)]
        write_stat(tmp_path, after)
        assert reader.read().kinds[0].clock_mhz == expected


def test_without_a_clock_the_reason_says_so_and_the_load_stays(tmp_path):
    plain_amd(tmp_path)
    _, second = read_twice(tmp_path, [(0, 0)] * 16, [(5, 15)] * 16)
    assert second.kinds[0].clock_mhz is None
    assert "does not tell the processor's clock" in second.reasons["clock_mhz"]


def test_a_reading_long_ago_is_no_before(tmp_path):
    plain_amd(tmp_path)
    clock = Clock()
    reader = CpuLoadReader(tmp_path, "linux", clock=clock)
    write_stat(tmp_path, [(0, 0)] * 16)
    reader.read()
    clock.now += OLDEST_SECONDS + 0.1
    write_stat(tmp_path, [(5, 15)] * 16)
    assert reader.read().kinds[0].busy_percent is None


@pytest.mark.parametrize("after", [[(5, 5)] * 16, [(0, 3)] * 16], ids=["still", "back"])
def test_counters_that_stand_still_or_go_back_are_no_load(tmp_path, after):
    plain_amd(tmp_path)
    _, second = read_twice(tmp_path, [(5, 5)] * 16, after)
    assert second.kinds[0].busy_percent is None
    assert "stand still" in second.reasons["busy_percent"]


def test_a_thread_that_was_switched_on_meanwhile_counts_from_then_on(tmp_path):
    plain_amd(tmp_path)
    _, second = read_twice(tmp_path, [(0, 0)] * 15, [(10, 10)] * 15 + [(999, 0)])
    assert second.kinds[0].busy_percent == 50.0


@pytest.mark.parametrize("text", [None, "", "cpu 1 2 3 4 5", "cpu0 1 2", "cpu0 a b c d e f"])
def test_counters_that_cannot_be_read_are_a_reason(tmp_path, text):
    if text is not None:
        write(tmp_path, "proc/stat", text)
    load = CpuLoadReader(tmp_path, "linux").read()
    assert load.kinds[0].busy_percent is None
    assert load.reasons["busy_percent"] == "The kernel does not tell how busy the processor is."


def test_other_systems_are_named(tmp_path):
    assert "darwin" in CpuLoadReader(tmp_path, "darwin").read().reasons["busy_percent"]


@given(st.lists(st.tuples(st.integers(0, 2**40), st.integers(0, 2**40)), min_size=2, max_size=2))
def test_a_share_is_never_outside_of_0_and_100(tmp_path_factory, readings):
    root = tmp_path_factory.mktemp("stat")
    _, second = read_twice(root, [readings[0]], [readings[1]])
    busy = second.kinds[0].busy_percent
    assert busy is None or 0 <= busy <= 100


# ---- Windows, as far as it can be played -------------------------------------------------------------


def windows_answer(threads):
    return b"".join(struct.pack("<3q24x", idle, kernel, user) for idle, kernel, user in threads)


def test_windows_counts_idle_time_in_kernel_time(tmp_path):
    answers = [windows_answer([(100, 150, 50)] * 4), windows_answer([(150, 210, 90)] * 4)]
    clock = Clock()
    reader = CpuLoadReader(tmp_path, "win32", windows=lambda: answers.pop(0), clock=clock)
    reader.read()
    clock.now += 0.2
    load = reader.read()
    assert [(kind.name, kind.busy_percent) for kind in load.kinds] == [("", 50.0)]
    assert "nominal" in load.reasons["clock_mhz"]


@pytest.mark.parametrize("answer", [b"", b"x" * 47, b"x" * 49])
def test_a_cut_answer_of_windows_is_refused(answer):
    with pytest.raises(NotSeenError, match="cannot be read"):
        parse_processor_times(answer)


def test_off_windows_its_call_is_a_reason(tmp_path):
    assert CpuLoadReader(tmp_path, "win32").read().reasons["busy_percent"] == "This is not Windows."


# ---- this machine ------------------------------------------------------------------------------------


def test_a_busy_loop_is_seen_on_this_machine(monkeypatch):
    monkeypatch.setattr(cpu_load, "OLDEST_SECONDS", 60.0)  # others may keep the processor meanwhile
    with contextlib.closing(Sampler(os.getpid(), ())) as made:
        made.sample({CPU_LOAD})
        begin, end = time.monotonic(), time.thread_time() + 0.2
        while time.thread_time() < end:
            pass
        # Others may be busy too, and a limit on this program may let it wait.
        thread_percent = 100 * 0.2 / (time.monotonic() - begin)
        load = made.sample({CPU_LOAD}).cpu
    threads = os.cpu_count() or 1
    # Ticks are 10 ms.
    assert 0.6 * thread_percent / threads <= load.kinds[0].busy_percent <= 100


def test_the_processor_is_read_only_where_it_is_wanted(tmp_path):
    plain_amd(tmp_path)
    write_stat(tmp_path, [(0, 0)] * 16)
    with sampler(tmp_path) as made:
        assert made.sample({PROCESS, GPU_LOAD}).cpu is None
        assert made.sample({CPU_LOAD}).cpu is not None
        assert made.sample({CPU_LOAD}).missing == (), "it has reasons of its own"
