"""Rules about graphics cards: not seen, narrow link, old driver, memory taken by others, slower than the processor."""

from app.doctor.hints import NOTE, PROBLEM, SLOWER, Change, Hint, UnjudgedError
from app.doctor.observation import Observation
from app.doctor.programs import may_be_closed
from app.hardware.facts import Gpu, GpuKind, Pcie, UnusedCard, one_row_per_card
from app.hardware.matching import maker
from app.hardware.words import link_words
from app.placement.plan import CPU_LANE, DISK_LANE
from app.placement.speed.calibration import TO_DEVICE, Calibration
from app.units import format_bytes

GPU_UNSEEN, NARROW_LINK, OLD_DRIVER = "gpu-unseen", "narrow-link", "old-driver"
OTHER_PROGRAMS, SLOW_GPU = "other-programs", "slow-gpu"

NARROW_LANES = 4
"""As in slots of the chipset, M.2 adapters and Thunderbolt: a quarter of the sixteen of the main slot."""
LEAST_CUDA_DRIVER = (525, 0)
"""NVIDIA's table of CUDA compatibility: CUDA 12 needs a driver of the 525 series or newer."""
LEAST_CUDA = (12, 0)
MUCH_SHARE, LEAST_MUCH, MUCH_BYTES = 0.1, 512 * 1024**2, 1024**3
"""Other programs hold much where it is a tenth of the card (at least half a GiB), or a GiB."""

# Gigabytes a second of one lane and direction, by generation: transfers times coding, of the PCI Express standards.
_LANE_GB = {1: 0.25, 2: 0.5, 3: 0.985, 4: 1.969, 5: 3.938, 6: 7.563}
_MISMATCH = "unsupported display driver"
_INSUFFICIENT = "driver version is insufficient"  # CUDA's own words, in the engine's notes


def _discrete(seen: Observation) -> list[Gpu]:
    """The cards with memory of their own, each once: of the backends that offer it the one that the plan uses."""
    used = seen.plan.gpus if seen.plan is not None else ()
    cards = (sorted(row, key=lambda gpu: gpu.device not in used) for row in one_row_per_card(seen.machine.gpus))
    return [row[0] for row in cards if row[0].kind is GpuKind.DISCRETE]


def gpu_unseen(seen: Observation) -> tuple[Hint, ...]:
    """Cards that are in the machine and that the engine offers no device for."""
    engine = seen.machine.engine
    if engine is None:
        raise UnjudgedError("The engine did not list its devices.")
    used = any(gpu.kind is GpuKind.DISCRETE for gpu in seen.machine.gpus)
    notes = f" The engine says: {' '.join(engine.notes)}" if engine.notes else ""
    return tuple(
        Hint(
            rule=GPU_UNSEEN,
            title="A graphics card is not used",
            evidence=f"{_card(card)} is in this machine; the engine ({engine.build}) offers no device for it.{notes}",
            action=_how_to_see(card, " ".join(engine.notes)),
            severity=NOTE if used else PROBLEM,
            about=card.pci_id or card.name,
        )
        for card in seen.machine.unused_cards
    )


def _card(card: UnusedCard) -> str:
    driver = f"driver {card.driver}" if card.driver else "no driver runs it"
    return f"{card.name} ({card.maker}{f', at {card.pci_id}' if card.pci_id else ''}, {driver})"


def _how_to_see(card: UnusedCard, notes: str) -> str:
    if _MISMATCH in notes.lower():
        return "Restart the machine: the driver and its libraries are of two versions, as after an update."
    if not card.driver or "nouveau" in card.driver:
        return f"Install {card.maker}'s driver for this card and start the app again."
    return "Install the driver's Vulkan part (on Linux the package of Vulkan drivers) and start the app again."


def narrow_link(seen: Observation) -> tuple[Hint, ...]:
    """Cards on four lanes or fewer: experts that are copied over travel slowly."""
    cards = _discrete(seen)
    if not cards:
        return ()
    linked = [(gpu, gpu.pcie) for gpu in cards if gpu.pcie is not None]
    if not linked:
        raise seen.why_unseen("gpus.pcie", "No driver tells how the card is connected.", cards[0].device)
    return tuple(
        _narrow(seen, gpu, link)
        for gpu, link in linked
        if link.lanes <= NARROW_LANES or link.lanes < min(link.max_lanes, 2 * NARROW_LANES)
    )


def _narrow(seen: Observation, gpu: Gpu, link: Pcie) -> Hint:
    # Links slow down while idle, lanes do not leave: the generation is judged by its best.
    most = _LANE_GB.get(link.max_generation, 0) * link.lanes
    evidence = f"{gpu.name} ({gpu.device}) is connected by {link_words(link.max_generation, link.lanes)}"
    if link.lanes < link.max_lanes:
        evidence += f", though ×{link.max_lanes} is possible"
    if most:
        evidence += f": at most {most:.1f} GB/s each way (by the standard)"
    measured = _copied(seen.calibration, gpu.device)
    if measured:
        evidence += f"; measured {measured / 1e9:.1f} GB/s"
    power = seen.machine.power
    action = "Move the card to the slot nearest to the processor, which mostly has 16 lanes"
    if power is not None and power.laptop:
        action = "Keep more experts on the card for good, so that fewer have to be copied to it"
    return Hint(
        rule=NARROW_LINK,
        title=f"The card has {link.lanes} {'lane' if link.lanes == 1 else 'lanes'} only",
        evidence=f"{evidence}.",
        action=f"{action}.",
        severity=SLOWER if link.lanes < link.max_lanes else NOTE,
        about=gpu.device,
    )


def _copied(calibration: Calibration | None, device: str) -> float:
    rates = calibration.copies if calibration is not None and not calibration.misleads else ()
    found = [copy.bytes_per_second for copy in rates if copy.device == device and copy.direction == TO_DEVICE]
    return max(found, default=0.0)


def old_driver(seen: Observation) -> tuple[Hint, ...]:
    """NVIDIA's drivers that are older than what CUDA 12 needs."""
    engine = seen.machine.engine
    if engine is not None and (told := [note for note in engine.notes if _INSUFFICIENT in note.lower()]):
        return (_old(f"The engine says: {' '.join(told)}", ""),)
    cards = [gpu for gpu in seen.machine.gpus if maker(gpu) == "NVIDIA"]
    if not cards:
        if any(gpu.kind is not GpuKind.SOFTWARE for gpu in seen.machine.gpus):
            raise UnjudgedError("For this maker's drivers no oldest version that works is known.")
        return ()
    known = [gpu for gpu in cards if gpu.driver_version or gpu.cuda]
    if not known:
        raise seen.why_unseen("gpus.driver_version", "NVIDIA's driver does not tell its version.", cards[0].device)
    hints = []
    for gpu in known:
        version, cuda = _numbers(gpu.driver_version), _numbers(gpu.cuda)
        if (version and version < LEAST_CUDA_DRIVER) or (cuda and cuda < LEAST_CUDA):
            told_cuda = f", which runs CUDA up to {gpu.cuda}" if gpu.cuda else ""
            words = f"{gpu.name} has driver {gpu.driver_version or 'of unknown version'}{told_cuda}"
            words += f"; CUDA 12 needs {LEAST_CUDA_DRIVER[0]} or newer"
            without = engine is not None and "CUDA" not in engine.backends
            words += ". This engine uses the card without CUDA" if without else ""
            hints.append(_old(f"{words}.", gpu.device, NOTE if without else PROBLEM))
    return tuple(hints)


def _old(evidence: str, device: str, severity: str = PROBLEM) -> Hint:
    return Hint(
        rule=OLD_DRIVER,
        title="The graphics driver is too old",
        evidence=evidence,
        action="Install NVIDIA's current driver.",
        severity=severity,
        about=device,
    )


def _numbers(version: str | None) -> tuple[int, ...]:
    parts = (version or "").split(".")
    return tuple(int(part) for part in parts) if all(part.isdigit() for part in parts) else ()


def other_programs(seen: Observation) -> tuple[Hint, ...]:
    """Other programs that hold much of a card's memory."""
    cards = _discrete(seen)
    hints, why = [], None
    for gpu in cards:
        held = _held(seen, gpu)
        if held is None:
            why = seen.why_unseen(
                "gpus.programs", f"Nothing tells what other programs hold of {gpu.device}.", gpu.device
            )
        elif held[0] >= min(max(gpu.total_bytes * MUCH_SHARE, LEAST_MUCH), MUCH_BYTES):
            hints.append(_taken(gpu, *held))
    if why is not None and not hints:
        raise why
    return tuple(hints)


def _held(seen: Observation, gpu: Gpu) -> tuple[int, str, str] | None:
    """What others hold of `gpu` in bytes, who, and the largest to be closed; None where nobody tells."""
    others = [program for program in gpu.programs if program.pid != seen.engine_pid]
    counted = [(program.used_bytes, program.name) for program in others if program.used_bytes is not None]
    words = ", ".join(f"{name} ({format_bytes(used)})" for used, name in counted[:4])
    words = words or ", ".join(program.name for program in others[:4])
    closable = [name for _, name in counted if may_be_closed(name)]
    if not counted and len(others) == 1 and may_be_closed(others[0].name):
        closable = [others[0].name]
    largest = closable[0] if closable else ""
    sampled = seen.card_now(gpu.device)
    if seen.loaded is not None and sampled is not None and sampled.others_bytes is not None:
        return sampled.others_bytes, words, largest  # newer than the probe, which may name an engine of before
    if counted:
        return sum(used for used, _ in counted), words, largest
    if seen.loaded is None and others:
        return max(gpu.total_bytes - gpu.free_bytes, 0), words, largest
    return (0, "", "") if not others and not _unseen(seen, gpu) else None


def _unseen(seen: Observation, gpu: Gpu) -> bool:
    return any(its.fact == "gpus.programs" and its.device in ("", gpu.device) for its in seen.machine.unseen)


def _taken(gpu: Gpu, held: int, words: str, largest: str) -> Hint:
    named = f": {words}" if words else ""
    return Hint(
        rule=OTHER_PROGRAMS,
        title="Other programs hold graphics memory",
        evidence=f"Other programs hold {format_bytes(held)} of the {format_bytes(gpu.total_bytes)} of {gpu.name} "
        f"({gpu.device}){named}.",
        action=f"Close {largest or 'programs that use the graphics card'} and plan the model again.",
        about=gpu.device,
    )


def slow_gpu(seen: Observation) -> Hint | None:
    """A GPU in main memory, or a software driver, that was measured to be slower than the processor."""
    if seen.plan is None:
        raise UnjudgedError(seen.no_plan)
    doubtful = {gpu.device: gpu for gpu in seen.machine.gpus if gpu.kind is not GpuKind.DISCRETE}
    used = [device for device in seen.plan.gpus if device in doubtful]
    if not used:
        return None
    calibration = seen.needed_calibration
    for device in used:
        best = _decoding(calibration, device)
        processor = _decoding(calibration, CPU_LANE)
        shared = sorted(best.keys() & processor.keys())
        slower = [kind for kind in shared if best[kind] < processor[kind]]
        if shared and len(slower) == len(shared):
            kind = slower[0]
            on = [layer for layer, lane in seen.plan.expert_lanes.items() if lane not in (CPU_LANE, DISK_LANE)]
            return Hint(
                rule=SLOW_GPU,
                title="The processor is faster than this GPU",
                evidence=f"{doubtful[device].name} ({device}) was measured to read {kind} weights at "
                f"{best[kind] / 1e9:.1f} GB/s while decoding, the processor at {processor[kind] / 1e9:.1f} GB/s; the "
                f"plan computes attention{f' and {len(on)} expert layers' if on else ''} there.",
                action="Load the model without a GPU.",
                fix=(Change(key="gpu", value=None),),
                about=device,
            )
        if shared:
            return None
    raise UnjudgedError(f"The speed of {used[0]} was not measured: `calibrate --gpu {used[0]}` does that.")


def _decoding(calibration: Calibration, device: str) -> dict[str, float]:
    """The best measured rate of decoding by weight type, bytes a second."""
    best: dict[str, float] = {}
    for rate in calibration.compute:
        if rate.device == device and rate.tokens == 1:
            best[rate.type] = max(best.get(rate.type, 0.0), rate.bytes_per_second)
    return best
