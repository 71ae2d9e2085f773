"""Main memory respects the limits of containers and slices."""

import os
from pathlib import Path

import psutil
import pytest
from hardware_trees import GIB, MIB, machine_of_32_gib, write

from app.hardware import cgroups
from app.hardware.facts import Ram
from app.hardware.memory import kernel_memory, machine_memory, parse_meminfo, read_ram


def test_without_limits_the_machines_memory_is_reported(tmp_path):
    assert read_ram(tmp_path, machine_of_32_gib) == (machine_of_32_gib(), ())


def test_a_slices_limit_counts_the_file_cache_as_available(tmp_path):
    write(tmp_path, "proc/self/cgroup", "0::/user.slice/app.scope")
    scope = tmp_path / "sys/fs/cgroup/user.slice/app.scope"
    write(scope, "memory.max", 8 * GIB)
    write(scope, "memory.high", "max")
    write(scope, "memory.current", 6 * GIB)
    write(scope, "memory.stat", f"anon {2 * GIB}\ninactive_file {3 * GIB}\nactive_file {1 * GIB}")
    ram, notes = read_ram(tmp_path, machine_of_32_gib)
    assert ram == Ram(total_bytes=8 * GIB, available_bytes=6 * GIB)
    assert "8.0 GiB" in notes[0]
    assert "32.0 GiB" in notes[0]


def test_the_tightest_limit_above_this_group_binds(tmp_path):
    write(tmp_path, "proc/self/cgroup", "0::/a/b")
    write(tmp_path, "sys/fs/cgroup/a/memory.high", 4 * GIB)
    write(tmp_path, "sys/fs/cgroup/a/memory.current", 1 * GIB)
    write(tmp_path, "sys/fs/cgroup/a/b/memory.max", 16 * GIB)
    write(tmp_path, "sys/fs/cgroup/a/b/memory.current", 1 * GIB)
    assert read_ram(tmp_path, machine_of_32_gib)[0] == Ram(total_bytes=4 * GIB, available_bytes=3 * GIB)


def test_a_full_group_above_leaves_nothing_though_its_limit_is_wider(tmp_path):
    write(tmp_path, "proc/self/cgroup", "0::/a/b")
    write(tmp_path, "sys/fs/cgroup/a/memory.max", 8 * GIB)
    write(tmp_path, "sys/fs/cgroup/a/memory.current", 8 * GIB)
    write(tmp_path, "sys/fs/cgroup/a/b/memory.max", 4 * GIB)
    write(tmp_path, "sys/fs/cgroup/a/b/memory.current", 1 * GIB)
    assert read_ram(tmp_path, machine_of_32_gib)[0] == Ram(total_bytes=4 * GIB, available_bytes=0)


def test_inside_a_container_the_mounted_top_is_the_group(tmp_path):
    write(tmp_path, "proc/self/cgroup", "4:memory:/docker/0123abc")
    top = tmp_path / "sys/fs/cgroup/memory"
    write(top, "memory.limit_in_bytes", 2 * GIB)
    write(top, "memory.usage_in_bytes", 512 * MIB)
    write(top, "memory.stat", f"total_inactive_file {256 * MIB}\ntotal_active_file 0")
    ram, _ = read_ram(tmp_path, machine_of_32_gib)
    assert ram == Ram(total_bytes=2 * GIB, available_bytes=2 * GIB - 256 * MIB)


def test_version_1s_number_for_no_limit_is_none(tmp_path):
    write(tmp_path, "proc/self/cgroup", "4:memory:/")
    write(tmp_path, "sys/fs/cgroup/memory/memory.limit_in_bytes", 9223372036854771712)
    write(tmp_path, "sys/fs/cgroup/memory/memory.usage_in_bytes", 5 * GIB)
    assert read_ram(tmp_path, machine_of_32_gib) == (machine_of_32_gib(), ())


def test_a_limit_never_makes_more_available_than_the_machine_has(tmp_path):
    write(tmp_path, "proc/self/cgroup", "0::/")
    write(tmp_path, "sys/fs/cgroup/memory.max", 30 * GIB)
    write(tmp_path, "sys/fs/cgroup/memory.current", 0)
    assert read_ram(tmp_path, machine_of_32_gib)[0].available_bytes == 24 * GIB


@pytest.mark.parametrize("text", ["", "0", "0::", "nonsense", "0::/../outside", "::::"])
def test_odd_group_files_limit_nothing(tmp_path, text):
    write(tmp_path, "proc/self/cgroup", text)
    assert read_ram(tmp_path, machine_of_32_gib) == (machine_of_32_gib(), ())


def test_the_last_resort_agrees_with_the_operating_systems_own_report():
    whole, plain = machine_memory(), kernel_memory()
    assert abs(plain.total_bytes - whole.total_bytes) < whole.total_bytes * 0.05
    assert 0 < plain.available_bytes <= plain.total_bytes


@pytest.mark.skipif(not Path("/proc/meminfo").exists(), reason="of Linux only")
def test_the_machines_memory_is_what_psutil_tells():
    here, known = machine_memory(), psutil.virtual_memory()
    assert here.total_bytes == known.total
    assert here.available_bytes == pytest.approx(known.available, rel=0.2)


@pytest.mark.parametrize("text", ["", "MemTotal: 16 kB", "MemTotal: many kB\nMemAvailable: 3 kB", "MemAvailable: 3 kB"])
def test_words_that_do_not_tell_memory_are_no_memory(text):
    assert parse_meminfo(text) is None


def test_more_available_than_there_is_is_not_believed():
    assert parse_meminfo("MemTotal: 16 kB\nMemFree: 2 kB\nMemAvailable: 30 kB") == Ram(
        total_bytes=16 * 1024, available_bytes=16 * 1024
    )


def test_limits_are_of_linux(tmp_path):
    write(tmp_path, "proc/self/cgroup", "0::/")
    write(tmp_path, "sys/fs/cgroup/memory.max", 4 * GIB)
    assert read_ram(tmp_path, machine_of_32_gib, "win32") == (machine_of_32_gib(), ())


def test_an_engine_in_another_group_is_limited_by_its_own(tmp_path):
    write(tmp_path, "proc/self/cgroup", "0::/app.scope")
    write(tmp_path, "sys/fs/cgroup/app.scope/memory.max", 4 * GIB)
    engine = tmp_path / "sys/fs/cgroup/engine.scope"
    write(engine, "memory.max", 8 * GIB)
    write(engine, "memory.current", 1 * GIB)
    write(engine, "cpu.max", "200000 100000")
    ram, notes = read_ram(tmp_path, machine_of_32_gib, groups="0::/engine.scope")
    assert ram == Ram(total_bytes=8 * GIB, available_bytes=7 * GIB)
    assert "the engine's memory" in notes[0]
    assert read_ram(tmp_path, machine_of_32_gib)[0].total_bytes == 4 * GIB
    assert cgroups.allowed_cpus(tmp_path, "0::/engine.scope") == 2
    assert cgroups.allowed_cpus(tmp_path, cgroups.groups_of(tmp_path)) is None


def test_a_process_in_its_parents_groups_names_none_of_its_own(tmp_path):
    write(tmp_path, "proc/self/cgroup", "0::/app.scope")
    assert cgroups.groups_apart(tmp_path) == "", "nothing is known of the parent"
    write(tmp_path, f"proc/{os.getppid()}/cgroup", "0::/app.scope")
    assert cgroups.groups_apart(tmp_path) == ""
    write(tmp_path, f"proc/{os.getppid()}/cgroup", "0::/")
    assert cgroups.groups_apart(tmp_path) == "0::/app.scope"
