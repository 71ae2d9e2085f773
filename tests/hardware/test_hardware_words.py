"""The machine in sentences."""

from hardware_trees import GEFORCE, GIB, LLVMPIPE, gpu

from app.hardware.facts import Cpu, Disk, GpuKind, Pcie, Ram
from app.hardware.words import describe_cpu, describe_disk, describe_gpu, describe_ram


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
        "NVIDIA GeForce RTX 3060, 16.0 GiB, 15.0 GiB free, PCIe 4 x16 (now 1 x16), driver 550.54.14"
    )


def test_a_link_at_its_most_is_said_once():
    full = Pcie(generation=4, lanes=8, max_generation=4, max_lanes=8)
    assert "PCIe 4 x8, driver" in describe_gpu(gpu("X", pcie=full, driver="y"))


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
