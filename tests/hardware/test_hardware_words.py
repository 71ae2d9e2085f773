"""The machine in sentences."""

from hardware_trees import GEFORCE, GIB, LLVMPIPE, gpu

from app.hardware.facts import (
    Cache,
    CoreClass,
    Cpu,
    Disk,
    EngineBuild,
    GpuKind,
    GpuProgram,
    Machine,
    Pcie,
    Power,
    Ram,
    RamModule,
    Unseen,
)
from app.hardware.words import (
    cpu_details,
    describe_cpu,
    describe_disk,
    describe_engine_cpu,
    describe_gpu,
    describe_identity,
    describe_link,
    describe_power,
    describe_ram,
    gpu_details,
    ram_details,
    unseen_words,
)


def test_a_hybrid_processor_names_its_fast_and_efficient_cores():
    cpu = Cpu(
        name="Intel Core i7",
        physical_cores=14,
        performance_cores=6,
        logical_cores=20,
        isa=("sse3", "avx2", "avx_vnni"),
    )
    assert describe_cpu(cpu) == "Intel Core i7: 14 cores (6 fast, 8 efficient), 20 threads, AVX2, AVX-VNNI"


def test_a_limited_processor_says_how_much_this_program_gets():
    cpu = Cpu(name="X", physical_cores=1, performance_cores=1, logical_cores=1, isa=(), allowed_threads=1)
    assert describe_cpu(cpu) == "X: 1 core, 1 allowed to this program"


def test_main_memory_says_how_much_is_available():
    assert describe_ram(Ram(total_bytes=32 * GIB, available_bytes=24 * GIB)) == "32.0 GiB, 24.0 GiB available"


def test_a_card_says_its_memory_link_and_driver():
    idle = Pcie(generation=1, lanes=16, max_generation=4, max_lanes=16)
    card = gpu(GEFORCE.name, "CUDA0", pcie=idle, driver="550.54.14")
    assert describe_gpu(card) == (
        "NVIDIA GeForce RTX 3060, 16.0 GiB, 15.0 GiB free, PCIe 1.0 ×16 now (saves power when idle), up to 4.0 ×16, "
        "driver 550.54.14"
    )


def test_a_link_at_its_most_is_said_once():
    full = Pcie(generation=4, lanes=8, max_generation=4, max_lanes=8)
    assert "PCIe 4.0 ×8, driver" in describe_gpu(gpu("X", pcie=full, driver="y"))


def test_a_gpu_in_the_processor_says_whose_memory_it_uses():
    assert "uses main memory, 16.0 GiB" in describe_gpu(gpu("Iris Xe", kind=GpuKind.INTEGRATED))


def test_a_software_device_shows_no_memory_of_its_own():
    assert "GiB" not in describe_gpu(LLVMPIPE)
    assert "software device" in describe_gpu(LLVMPIPE)


def test_a_disk_says_what_it_is_and_its_room():
    disk = Disk(path="/m", total_bytes=100 * GIB, free_bytes=10 * GIB, filesystem="ext4", rotational=False)
    assert describe_disk(disk) == "10.0 GiB free of 100.0 GiB at /m (ext4, solid-state disk)"


def test_a_disk_that_did_not_answer_claims_no_size():
    assert describe_disk(Disk(path="/m", total_bytes=None, free_bytes=None)) == "size unknown at /m"


def test_kinds_of_cores_caches_and_memory_nodes_are_said():
    cpu = Cpu(
        name="X",
        physical_cores=10,
        performance_cores=6,
        logical_cores=16,
        isa=(),
        core_classes=(
            CoreClass(name="performance", cores=6, cpus=tuple(range(12)), max_mhz=4600),
            CoreClass(name="efficiency", cores=4, cpus=(12, 13, 14, 15)),
        ),
        caches=(
            Cache(level=1, kind="data", size_bytes=49152, total_bytes=2**19),
            Cache(level=3, kind="unified", size_bytes=20 * 2**20, total_bytes=20 * 2**20),
        ),
        numa_nodes=2,
    )
    assert cpu_details(cpu) == (
        "6 performance cores (12 threads, up to 4.6 GHz); 4 efficiency cores (4 threads)",
        "caches of all cores together: 20.0 MiB level 3",
        "2 memory nodes: each core reaches one of them faster than the others",
    )


def test_memory_says_its_modules_channels_and_page_file():
    filled = RamModule(slot="A", size_bytes=16 * GIB, type="DDR4", rated_mts=3200, speed_mts=2133)
    ram = Ram(
        total_bytes=16 * GIB,
        available_bytes=GIB,
        modules=(filled, RamModule(slot="B", size_bytes=0)),
        channels=1,
        free_slots=1,
        swap_total_bytes=8 * GIB,
        swap_free_bytes=7 * GIB,
        swap_kind="compressed memory",
    )
    assert ram_details(ram) == (
        "1 × 16.0 GiB DDR4 at 2133 MT/s (made for 3200); 1 channel, 1 slot free",
        "page file or swap: 1.0 GiB of 8.0 GiB in use (compressed memory)",
    )
    assert ram_details(Ram(total_bytes=1, available_bytes=1)) == ()


def test_a_card_says_whose_memory_it_uses_its_power_and_its_programs():
    card = gpu(
        "X",
        dedicated_bytes=8 * GIB,
        shared_bytes=16 * GIB,
        power_limit_watts=115.0,
        power_max_watts=170.0,
        cuda="12.4",
        programs=(GpuProgram(name="game", pid=1, used_bytes=2 * GIB), *[GpuProgram(name="other", pid=2)] * 5),
    )
    assert gpu_details(card) == (
        "memory: 8.0 GiB of its own, up to 16.0 GiB of main memory",
        "power limit 115 of 170 W, runs CUDA up to 12.4",
        "in use by game 2.0 GiB, other, other, other and 2 more",
    )
    assert gpu_details(LLVMPIPE) == ()


def test_a_slot_that_gives_less_than_the_card_could_use_is_said():
    narrow = Pcie(generation=3, lanes=4, max_generation=4, max_lanes=4, card_generation=4, card_lanes=16)
    words = describe_gpu(gpu("X", pcie=narrow))
    assert "PCIe 3.0 ×4 now (saves power when idle), up to 4.0 ×4 of the card's ×16" in words


def test_lanes_that_are_not_there_are_no_saving_of_power():
    badly_seated = Pcie(generation=4, lanes=4, max_generation=4, max_lanes=16)
    assert describe_link(badly_seated) == "PCIe 4.0 ×4 now, up to 4.0 ×16"


def test_a_disk_says_how_it_is_connected_and_what_was_measured():
    disk = Disk(
        path="/m", total_bytes=2 * GIB, free_bytes=GIB, filesystem="ext4", bus="USB", read_bytes_per_second=GIB * 1.0
    )
    assert describe_disk(disk) == (
        "1.0 GiB free of 2.0 GiB at /m (ext4, connected by USB), measured to read 1.0 GiB a second"
    )
    share = Disk(path="/m", total_bytes=2 * GIB, free_bytes=GIB, filesystem="nfs4", bus="network", network=True)
    assert describe_disk(share).endswith("(nfs4, on the network)")


def test_power_says_battery_saver_and_clocks():
    power = Power(laptop=True, on_battery=True, battery_percent=41, saver=True, profile="low-power")
    assert describe_power(power) == "laptop on battery (41 %), power saver on, profile low-power"
    assert describe_power(Power(laptop=False, governor="schedutil")) == "no battery, clocks by rule schedutil"
    assert describe_power(Power()) == ""


def test_what_could_not_be_seen_is_said_once_with_its_device():
    machine = Machine(
        os="Linux",
        cpu=Cpu(name="X", physical_cores=1, performance_cores=1, logical_cores=1, isa=()),
        ram=Ram(total_bytes=1, available_bytes=1),
        gpus=(),
        disk=Disk(path="/", total_bytes=None, free_bytes=None),
        engine=None,
        product="Acme",
        virtual="KVM",
        unseen=(Unseen(fact="a", why="No."), Unseen(fact="b", why="No."), Unseen(fact="c", why="No.", device="CUDA0")),
    )
    assert unseen_words(machine) == ("No.", "CUDA0: No.")
    assert describe_identity(machine) == "Acme, virtual machine (KVM)"


def test_the_engine_says_what_of_the_processor_it_uses():
    build = EngineBuild(
        llama_cpp_python="1", ggml="1", build="CPU", backends=("CPU",), expert_device=True, cpu_features=("AVX2", "FMA")
    )
    assert describe_engine_cpu(build) == "its code for the processor uses AVX2, FMA"
