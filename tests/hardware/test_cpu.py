"""The processor is read from recorded /proc and /sys trees."""

from hardware_trees import CPUS, hybrid_intel, plain_amd, write, write_cores, write_cpuinfo
from hypothesis import given
from hypothesis import strategies as st

from app.hardware.cpu import read_cpu
from app.hardware.files import parse_cpu_list


def test_a_hybrid_intel_has_its_p_cores_counted_apart(tmp_path):
    hybrid_intel(tmp_path)
    cpu, notes = read_cpu(tmp_path, "linux")
    assert (cpu.physical_cores, cpu.performance_cores, cpu.logical_cores) == (14, 6, 20)
    assert cpu.name == "12th Gen Intel Core i7-12700H"
    assert cpu.isa[-2:] == ("avx2", "avx_vnni")
    assert notes == ()


def test_equal_cores_are_all_performance_cores_though_some_clock_higher(tmp_path):
    plain_amd(tmp_path)
    cpu, notes = read_cpu(tmp_path, "linux")
    assert (cpu.physical_cores, cpu.performance_cores, cpu.logical_cores) == (8, 8, 16)
    assert {"avx512f", "avx512_vnni", "avx512_bf16"} < set(cpu.isa)
    assert "avx_vnni" not in cpu.isa
    assert notes == ()


def test_arm_cores_are_told_apart_by_their_capacity(tmp_path):
    write_cpuinfo(tmp_path, 8, "CPU part\t: 0xd4d\nFeatures\t: fp asimd asimdhp asimddp i8mm bf16")
    write_cores(tmp_path, [str(cpu) for cpu in range(8)])
    for cpu, capacity in enumerate([325] * 4 + [780] * 3 + [1024]):
        write(tmp_path, f"{CPUS}/cpu{cpu}/cpu_capacity", capacity)
    write(tmp_path, "proc/device-tree/model", "Some Board 5\0")
    cpu, _ = read_cpu(tmp_path, "linux")
    assert (cpu.physical_cores, cpu.performance_cores) == (8, 4)
    assert cpu.isa == ("neon", "fp16", "dotprod", "bf16", "i8mm")
    assert cpu.name.endswith("(Some Board 5)")


def test_an_instruction_set_that_one_core_lacks_is_not_the_processors(tmp_path):
    write(tmp_path, "proc/cpuinfo", "processor: 0\nFeatures: asimd sve\n\nprocessor: 1\nFeatures: asimd")
    write_cores(tmp_path, ["0", "1"])
    assert read_cpu(tmp_path, "linux")[0].isa == ("neon",)


def test_offline_threads_are_not_counted(tmp_path):
    plain_amd(tmp_path)
    write(tmp_path, f"{CPUS}/online", "0-7")
    cpu, _ = read_cpu(tmp_path, "linux")
    assert (cpu.physical_cores, cpu.logical_cores) == (8, 8)


def test_threads_without_topology_count_as_cores_with_a_note(tmp_path):
    write_cpuinfo(tmp_path, 4, "model name: X\nflags: avx2")
    cpu, notes = read_cpu(tmp_path, "linux")
    assert (cpu.physical_cores, cpu.logical_cores) == (4, 4)
    assert any("share a core" in note for note in notes)


def test_a_processor_that_cannot_be_read_gives_the_plain_count_and_a_note(tmp_path):
    cpu, notes = read_cpu(tmp_path, "linux")
    assert cpu.logical_cores >= cpu.physical_cores >= 1
    assert cpu.isa == ()
    assert len(notes) == 1


def test_affinity_limits_the_threads_this_program_may_use(tmp_path):
    plain_amd(tmp_path)
    write(tmp_path, "proc/self/status", "Name:\tpython\nCpus_allowed_list:\t0-3")
    cpu, notes = read_cpu(tmp_path, "linux")
    assert (cpu.logical_cores, cpu.allowed_threads) == (16, 4)
    assert "only 4 of the processor's 16 threads" in notes[0]
    assert "affinity" in notes[0]


def test_a_cpu_quota_limits_the_threads_rounded_up(tmp_path):
    plain_amd(tmp_path)
    write(tmp_path, "proc/self/status", "Cpus_allowed_list:\t0-15")
    write(tmp_path, "proc/self/cgroup", "0::/a.slice/b.scope")
    write(tmp_path, "sys/fs/cgroup/a.slice/cpu.max", "250000 100000")
    write(tmp_path, "sys/fs/cgroup/a.slice/b.scope/cpu.max", "max 100000")
    cpu, notes = read_cpu(tmp_path, "linux")
    assert cpu.allowed_threads == 3
    assert "quota" in notes[0]


def test_a_version_1_cpu_quota_counts_too(tmp_path):
    plain_amd(tmp_path)
    write(tmp_path, "proc/self/cgroup", "3:cpu,cpuacct:/docker/abc")
    write(tmp_path, "sys/fs/cgroup/cpu/cpu.cfs_quota_us", 150000)
    write(tmp_path, "sys/fs/cgroup/cpu/cpu.cfs_period_us", 100000)
    assert read_cpu(tmp_path, "linux")[0].allowed_threads == 2


def test_a_quota_that_is_not_set_limits_nothing(tmp_path):
    plain_amd(tmp_path)
    write(tmp_path, "proc/self/cgroup", "3:cpu,cpuacct:/")
    write(tmp_path, "sys/fs/cgroup/cpu/cpu.cfs_quota_us", -1)
    write(tmp_path, "sys/fs/cgroup/cpu/cpu.cfs_period_us", 100000)
    cpu, notes = read_cpu(tmp_path, "linux")
    assert cpu.allowed_threads is None
    assert notes == ()


def test_an_unknown_system_gives_the_plain_count_and_says_so(tmp_path):
    cpu, notes = read_cpu(tmp_path, "haiku")
    assert cpu.logical_cores >= 1
    assert "haiku" in notes[0]


@given(st.sets(st.integers(0, 300), min_size=1))
def test_every_written_cpu_list_reads_back(cpus):
    assert parse_cpu_list(",".join(str(cpu) for cpu in sorted(cpus))) == cpus


@given(st.integers(0, 200), st.integers(0, 200))
def test_a_cpu_range_holds_both_its_ends(first, more):
    assert parse_cpu_list(f"{first}-{first + more}\n") == set(range(first, first + more + 1))


@given(st.text(max_size=12))
def test_any_text_is_a_cpu_list_or_none(text):
    found = parse_cpu_list(text)
    assert found is None or all(isinstance(cpu, int) for cpu in found)
