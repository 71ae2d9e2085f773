"""Recorded /proc and /sys trees, and an NVIDIA driver that can be told to misbehave."""

import contextlib
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from app.hardware.cards import CardMemory
from app.hardware.facts import Gpu, GpuKind, Pcie, Ram
from app.hardware.nvml import NvmlCard, NvmlDetails, NvmlLoad
from app.hardware.sampling import Sampler
from app.hardware.sources import NotSeenError

MIB = 1024**2
GIB = 1024**3
CPUS = "sys/devices/system/cpu"


def write(root: Path, path: str, text: object) -> Path:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{text}\n", encoding="utf-8")
    return file


def write_cpuinfo(root: Path, count: int, lines: str) -> None:
    blocks = "\n\n".join(f"processor\t: {index}\n{lines}" for index in range(count))
    write(root, "proc/cpuinfo", blocks)
    write(root, f"{CPUS}/online", f"0-{count - 1}")


def write_cores(root: Path, cores: list[str]) -> None:
    """`cores` are kernel lists of the threads of each core: "0-1"."""
    for core in cores:
        first, _, last = core.partition("-")
        for cpu in range(int(first), int(last or first) + 1):
            write(root, f"{CPUS}/cpu{cpu}/topology/core_cpus_list", core)


def hybrid_intel(root: Path) -> None:
    """A laptop with six performance cores of two threads and eight efficiency cores."""
    write_cpuinfo(
        root,
        20,
        "model name\t: 12th Gen Intel(R) Core(TM) i7-12700H\n"
        "flags\t\t: fpu sse sse2 pni ssse3 fma sse4_1 sse4_2 avx f16c bmi2 avx2 avx_vnni",
    )
    write_cores(root, [f"{2 * core}-{2 * core + 1}" for core in range(6)] + [str(cpu) for cpu in range(12, 20)])
    write(root, "sys/devices/cpu_core/cpus", "0-11")
    write(root, "sys/devices/cpu_atom/cpus", "12-19")


def plain_amd(root: Path) -> None:
    """A desktop with eight equal cores of two threads, numbered as AMD does: siblings eight apart."""
    write_cpuinfo(
        root,
        16,
        "model name\t: AMD Ryzen 7 7700X 8-Core Processor\n"
        "flags\t\t: fpu pni ssse3 sse4_1 sse4_2 avx f16c fma bmi2 avx2 avx512f avx512_vnni avx512_bf16",
    )
    for cpu in range(16):
        write(root, f"{CPUS}/cpu{cpu}/topology/core_cpus_list", f"{cpu % 8},{cpu % 8 + 8}")
        # The favoured cores clock a little higher; they are no class of their own.
        write(root, f"{CPUS}/cpu{cpu}/cpufreq/cpuinfo_max_freq", 5_573_000 if cpu % 8 < 2 else 5_400_000)


def pci_device(root: Path, path: str, vendor: str, speed: str = "", lanes: int = 0, most: str = "") -> Path:
    """A device below /sys/devices/pci0000:00, with a link where `speed` is given."""
    folder = root / "sys/devices/pci0000:00" / path
    write(folder, "vendor", vendor)
    if speed:
        write(folder, "current_link_speed", speed)
        write(folder, "max_link_speed", most or speed)
        write(folder, "current_link_width", lanes)
        write(folder, "max_link_width", 16)
    return folder


def drm_card(root: Path, number: int, device: Path, driver: str = "") -> None:
    card = root / f"sys/class/drm/card{number}"
    card.mkdir(parents=True)
    (card / "device").symlink_to(device)
    if driver:
        module = root / "sys/bus/pci/drivers" / driver
        module.mkdir(parents=True, exist_ok=True)
        (device / "driver").symlink_to(module)


def amd_card(root: Path, used: int = 3 * GIB, total: int = 16 * GIB) -> Path:
    """A Radeon whose chip sits behind the card's own switch, in a PCIe 4 slot that idles at 2.5 GT/s."""
    slot = "0000:00:01.1/0000:01:00.0"
    pci_device(root, "0000:00:01.1", "0x1022", "2.5 GT/s PCIe", 16, "16.0 GT/s PCIe")
    pci_device(root, slot, "0x1002", "2.5 GT/s PCIe", 16, "16.0 GT/s PCIe")
    pci_device(root, f"{slot}/0000:02:00.0", "0x1002", "32.0 GT/s PCIe", 16)
    chip = pci_device(root, f"{slot}/0000:02:00.0/0000:03:00.0", "0x1002", "32.0 GT/s PCIe", 16)
    for heap, heap_used, heap_total in (("vram", used, total), ("gtt", 100 * MIB, 8 * GIB)):
        write(chip, f"mem_info_{heap}_used", heap_used)
        write(chip, f"mem_info_{heap}_total", heap_total)
    drm_card(root, 1, chip, "amdgpu")
    write(root, "proc/sys/kernel/osrelease", "6.8.0")
    return chip


def gpu(name: str, device: str = "Vulkan0", kind: GpuKind = GpuKind.DISCRETE, **fields: object) -> Gpu:
    backend = device.rstrip("0123456789")
    values = {"total_bytes": 16 * GIB, "free_bytes": 15 * GIB} | fields
    return Gpu(name=name, backend=backend, device=device, kind=kind, **values)


RADEON = gpu("AMD Radeon RX 6800 (RADV NAVI21)")
GEFORCE = gpu("NVIDIA GeForce RTX 3060", "CUDA0", total_bytes=12 * GIB, free_bytes=11 * GIB)
LLVMPIPE = gpu("llvmpipe (LLVM 19.1.7, 256 bits)", kind=GpuKind.SOFTWARE)


TWO_OF_TWELVE_GIB = CardMemory(used_bytes=2 * GIB, total_bytes=12 * GIB)
NO_DETAILS = NvmlDetails()
NO_LOAD = NvmlLoad()
IDLE_LINK = Pcie(generation=1, lanes=8, max_generation=4, max_lanes=16)


@dataclass
class PlayedNvml:
    """An NVIDIA driver for tests. What maps to an exception is raised; `hang` blocks until `released`."""

    found: tuple[NvmlCard, ...] = (NvmlCard(0, GEFORCE.name, "0000:01:00.0"),)
    told_memory: CardMemory | Exception = TWO_OF_TWELVE_GIB
    told_process: int | Exception = 1 * GIB
    told_link: Pcie | Exception = IDLE_LINK
    told_details: NvmlDetails | Exception = NO_DETAILS
    told_load: NvmlLoad | Exception = NO_LOAD
    hang: bool = False
    released: threading.Event = field(default_factory=threading.Event)
    entered: threading.Event = field(default_factory=threading.Event)
    closed: threading.Event = field(default_factory=threading.Event)

    def driver(self) -> str:
        return "550.54.14"

    def cards(self) -> tuple[NvmlCard, ...]:
        return self.found

    def memory(self, card: NvmlCard) -> CardMemory:
        self.entered.set()
        if self.hang:
            self.released.wait()
        return told(self.told_memory)

    def link(self, card: NvmlCard) -> Pcie:
        return told(self.told_link)

    def details(self, card: NvmlCard) -> NvmlDetails:
        return told(self.told_details)

    def process_bytes(self, card: NvmlCard, pid: int) -> int:
        return told(self.told_process)

    def load(self, card: NvmlCard) -> NvmlLoad:
        return told(self.told_load)

    def close(self) -> None:
        self.closed.set()


def told(value):
    if isinstance(value, Exception):
        raise value
    return value


def no_nvml():
    raise NotSeenError("The NVIDIA driver's library (NVML) is not installed.")


def machine_of_32_gib() -> Ram:
    return Ram(total_bytes=32 * GIB, available_bytes=24 * GIB)


PID = 4242


def write_process(root, pages=25_600, faults=17, started=9000, state="S", name="(python (x) 3)"):
    before = "0 " * 6  # ppid .. cminflt, with what lies before majflt
    fields = f"{state} {before}0 0 {faults} " + "0 " * 9 + f"{started} 123456 {pages} 18446744073709551615"
    write(root, f"proc/{PID}/stat", f"{PID} {name} {fields}")
    write(root, f"proc/{PID}/status", "Name:\tpython\nVmPeak:\t  999 kB\nVmHWM:\t  204800 kB\nVmRSS:\t  102400 kB")
    write(root, f"proc/{PID}/io", "rchar: 99999999\nsyscr: 12\nread_bytes: 5242880\nwrite_bytes: 0")


@contextlib.contextmanager
def sampler(root, gpus=(), **fields):
    fields = {"root": root, "nvml": no_nvml, "machine_memory": machine_of_32_gib, "system": "linux"} | fields
    with contextlib.closing(Sampler(PID, gpus, **fields)) as made:
        yield made


def taken_by(call, seconds):
    """What `call` gives and how many seconds it took: the first of a few times that was below `seconds`.

    Whoever waits for something waits every time; another program keeps the processor only now and then.
    """
    for _ in range(5):
        begin = time.monotonic()
        given = call()
        if (taken := time.monotonic() - begin) < seconds:
            break
    return given, taken


def first_answer(made):
    """The first NVIDIA sample that came in time: a thread may need longer than one sample waits."""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        (sample,) = made.sample().gpus
        if "in time" not in sample.missing:
            return sample
    raise AssertionError("the driver never answered")
