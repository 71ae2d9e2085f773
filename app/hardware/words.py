"""Short sentences about the machine, shared by the window and the command line."""

from app.hardware.facts import Cpu, Disk, EngineBuild, Gpu, GpuKind, Machine, Pcie, Power, Ram
from app.units import format_bytes

# What a reader can use of `Cpu.isa`: the names that decide how fast the engine's kernels are.
_NOTABLE = {
    "avx2": "AVX2",
    "avx_vnni": "AVX-VNNI",
    "avx512f": "AVX-512",
    "avx512_vnni": "AVX-512 VNNI",
    "avx512_bf16": "AVX-512 BF16",
    "amx": "AMX",
    "neon": "NEON",
    "dotprod": "dot product",
    "i8mm": "int8 matrix",
    "sve": "SVE",
    "sme": "SME",
}
_SHOWN_PROGRAMS = 4


def describe_cpu(cpu: Cpu) -> str:
    """The processor: "Intel Core i7-12700H: 14 cores (6 fast, 8 efficient), 20 threads, AVX2"."""
    cores = _count(cpu.physical_cores, "core")
    efficient = cpu.physical_cores - cpu.performance_cores
    if efficient:
        cores += f" ({cpu.performance_cores} fast, {efficient} efficient)"
    words = [cores]
    if cpu.logical_cores != cpu.physical_cores:
        words.append(_count(cpu.logical_cores, "thread"))
    if cpu.allowed_threads is not None:
        words.append(f"{cpu.allowed_threads} allowed to this program")
    words += [name for flag, name in _NOTABLE.items() if flag in cpu.isa]
    return f"{cpu.name}: {', '.join(words)}"


def describe_ram(ram: Ram) -> str:
    """Main memory: "15.5 GiB, 12.1 GiB available"."""
    return f"{format_bytes(ram.total_bytes)}, {format_bytes(ram.available_bytes)} available"


def describe_gpu(gpu: Gpu) -> str:
    """A GPU without its engine name: "NVIDIA GeForce RTX 3060, 12.0 GiB, 11.2 GiB free, PCIe 4.0 ×16"."""
    if gpu.kind is GpuKind.SOFTWARE:
        return f"{gpu.name}, a software device: the processor computes, in main memory"
    words = [gpu.name, format_bytes(gpu.total_bytes), f"{format_bytes(gpu.free_bytes)} free"]
    if gpu.kind is GpuKind.INTEGRATED:
        words.insert(1, "built into the processor, uses main memory")
    if gpu.pcie:
        words.append(describe_link(gpu.pcie))
    if gpu.driver:
        words.append(f"driver {gpu.driver}")
    return ", ".join(words)


def link_words(generation: int, lanes: int) -> str:
    """A PCIe link as standards and motherboards write it: "PCIe 4.0 ×16"."""
    return f"PCIe {generation}.0 ×{lanes}"


def describe_link(link: Pcie) -> str:
    """A card's link now and at its best: "PCIe 1.0 ×16 now (saves power when idle), up to 4.0 ×16"."""
    now, most = (link.generation, link.lanes), (link.max_generation, link.max_lanes)
    words = link_words(*most)
    if now != most:
        # Cards slow their link down when idle, so the lower figure alone would mislead.
        idle = " (saves power when idle)" if link.generation < link.max_generation else ""
        words = f"{link_words(*now)} now{idle}, up to {words.removeprefix('PCIe ')}"
    if link.card_lanes is not None and link.card_lanes > link.max_lanes:
        words += f" of the card's ×{link.card_lanes}"
    return words


def describe_disk(disk: Disk) -> str:
    """The models' disk: "120.3 GiB free of 476.4 GiB at /home/me/models (ext4, solid-state disk)"."""
    sort = {None: None, True: "hard disk", False: "solid-state disk"}[disk.rotational]
    bus = f"connected by {disk.bus}" if disk.bus in {"NVMe", "SATA", "USB", "SAS", "RAID", "MMC"} else None
    kind = {"network": "on the network", "virtual": "virtual disk", "shared folder": "another system's folder"}
    known = ", ".join(word for word in (disk.filesystem, sort, bus, kind.get(disk.bus or "")) if word)
    place = f"at {disk.path}" + (f" ({known})" if known else "")
    if disk.total_bytes is None or disk.free_bytes is None:
        return f"size unknown {place}"
    room = f"{format_bytes(disk.free_bytes)} free of {format_bytes(disk.total_bytes)} {place}"
    if disk.read_bytes_per_second is not None:
        room += f", measured to read {format_bytes(round(disk.read_bytes_per_second))} a second"
    return room


def describe_identity(machine: Machine) -> str:
    """What the machine is called and whether it is a virtual one; empty where neither is known."""
    virtual = f"virtual machine ({machine.virtual})" if machine.virtual else ""
    if machine.virtual == "a virtual machine":
        virtual = "virtual machine"
    return ", ".join(word for word in (machine.product, virtual) if word)


def cpu_details(cpu: Cpu) -> tuple[str, ...]:
    """Kinds of cores, caches and memory nodes, a line each."""
    lines = []
    if cpu.core_classes:
        kinds = []
        for each in cpu.core_classes:
            clock = f", up to {each.max_mhz / 1000:.1f} GHz" if each.max_mhz else ""
            kinds.append(f"{_count(each.cores, f'{each.name} core')} ({_count(len(each.cpus), 'thread')}{clock})")
        lines.append("; ".join(kinds))
    if cpu.caches:
        shown = [each for each in cpu.caches if each.kind != "instruction" and each.level > 1] or cpu.caches[-1:]
        sizes = ", ".join(f"{format_bytes(each.total_bytes)} level {each.level}" for each in shown)
        lines.append(f"caches of all cores together: {sizes}")
    if cpu.numa_nodes is not None and cpu.numa_nodes > 1:
        lines.append(f"{cpu.numa_nodes} memory nodes: each core reaches one of them faster than the others")
    return tuple(lines)


def ram_details(ram: Ram) -> tuple[str, ...]:
    """Modules, channels and the page file, a line each."""
    lines = []
    filled = [module for module in ram.modules if module.size_bytes]
    if filled:
        kinds: dict[str, int] = {}
        for module in filled:
            words = f"{format_bytes(module.size_bytes)} {module.type or 'of an unknown kind'}"
            if module.speed_mts:
                words += f" at {module.speed_mts} MT/s"
            if module.rated_mts and module.speed_mts and module.speed_mts < module.rated_mts:
                words += f" (made for {module.rated_mts})"
            kinds[words] = kinds.get(words, 0) + 1
        words = ", ".join(f"{number} × {kind}" for kind, number in kinds.items())
        words += f"; {_count(ram.channels, 'channel')}" if ram.channels else "; number of channels not known"
        if ram.free_slots:
            words += f", {_count(ram.free_slots, 'slot')} free"
        lines.append(words)
    if ram.swap_total_bytes is not None and ram.swap_free_bytes is not None:
        if not ram.swap_total_bytes:
            lines.append("no page file or swap")
        else:
            used = format_bytes(max(0, ram.swap_total_bytes - ram.swap_free_bytes))
            kind = " (compressed memory)" if ram.swap_kind == "compressed memory" else ""
            lines.append(f"page file or swap: {used} of {format_bytes(ram.swap_total_bytes)} in use{kind}")
    return tuple(lines)


def gpu_details(gpu: Gpu) -> tuple[str, ...]:
    """Whose memory, power, and programs on it, a line each."""
    lines = []
    if gpu.kind is not GpuKind.SOFTWARE:
        memory = []
        if gpu.dedicated_bytes is not None:
            memory.append(f"{format_bytes(gpu.dedicated_bytes)} of its own")
        if gpu.shared_bytes is not None:
            memory.append(f"up to {format_bytes(gpu.shared_bytes)} of main memory")
        if memory:
            lines.append(f"memory: {', '.join(memory)}")
    facts = []
    if gpu.power_limit_watts:
        most = f" of {gpu.power_max_watts:.0f}" if gpu.power_max_watts else ""
        facts.append(f"power limit {gpu.power_limit_watts:.0f}{most} W")
    if gpu.cuda:
        facts.append(f"runs CUDA up to {gpu.cuda}")
    if facts:
        lines.append(", ".join(facts))
    if gpu.programs:
        shown = [
            program.name if program.used_bytes is None else f"{program.name} {format_bytes(program.used_bytes)}"
            for program in gpu.programs[:_SHOWN_PROGRAMS]
        ]
        more = len(gpu.programs) - len(shown)
        lines.append(f"in use by {', '.join(shown)}" + (f" and {more} more" if more > 0 else ""))
    return tuple(lines)


def describe_power(power: Power) -> str:
    """Battery, saver and profile: "laptop on battery (41 %), power saver on"; empty where nothing is known."""
    words = []
    if power.on_battery is not None and power.laptop:
        level = f" ({power.battery_percent} %)" if power.battery_percent is not None else ""
        words.append(f"laptop on battery{level}" if power.on_battery else f"laptop on mains power{level}")
    elif power.laptop is not None:
        words.append("laptop" if power.laptop else "no battery")
    if power.saver is not None:
        words.append("power saver on" if power.saver else "no power saver")
    if power.profile:
        words.append(f"profile {power.profile}")
    if power.governor:
        words.append(
            f"clocks by rule {power.governor}" + (f", preferring {power.preference}" if power.preference else "")
        )
    return ", ".join(words)


def describe_engine_cpu(engine: EngineBuild) -> str:
    """What of the processor the engine's own code uses; empty where it does not tell."""
    if not engine.cpu_features:
        return f"built for {engine.cpu_variant}" if engine.cpu_variant else ""
    variant = f" (build {engine.cpu_variant})" if engine.cpu_variant else ""
    return f"its code for the processor{variant} uses {', '.join(engine.cpu_features)}"


def unseen_words(machine: Machine) -> tuple[str, ...]:
    """What could not be seen and why, each once."""
    return tuple(
        dict.fromkeys(f"{unseen.device}: {unseen.why}" if unseen.device else unseen.why for unseen in machine.unseen)
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
