"""What drivers tell of GPUs beside speed and free memory: which card it is, whose memory, power, programs on it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from app.hardware import matching
from app.hardware.cards import normal_pci_id
from app.hardware.drm import DrmCard
from app.hardware.facts import Gpu, GpuKind, GpuProgram, Pcie, Unseen
from app.hardware.gpu_programs import CardUse, CountedCards
from app.hardware.graphics import NvidiaCard
from app.hardware.sources import NotSeenError
from app.hardware.windows_gpu import adapter_of

_T = TypeVar("_T")
_MOST_WATTS = 5000


@dataclass(frozen=True)
class Seen:
    """What the sources told; None for one that did not answer, with the reason in `refusals`.

    Attributes:
        nvidia: From the NVIDIA driver.
        cards: From the kernel.
        programs: From the kernel, by program.
        counted: From Windows.
        drivers: From Windows: cards' names and driver versions.
        refusals: Why a source ("nvidia", "programs", "counted", "drivers") did not answer.
    """

    nvidia: Sequence[NvidiaCard] | None
    cards: Sequence[DrmCard]
    programs: Sequence[CardUse] | None
    counted: CountedCards | None
    drivers: Sequence[tuple[str, str]]
    refusals: dict[str, str]


def with_details(gpus: Sequence[Gpu], seen: Seen) -> tuple[tuple[Gpu, ...], tuple[Unseen, ...]]:
    """The devices with what was told of them, and what was not."""
    unseen: list[Unseen] = []
    detailed = tuple(_detailed(gpu, seen, unseen) for gpu in gpus)
    return detailed, tuple(unseen)


def _detailed(gpu: Gpu, seen: Seen, unseen: list[Unseen]) -> Gpu:
    if gpu.kind is GpuKind.SOFTWARE:
        return msgspec.structs.replace(gpu, unified=True)
    facts: dict[str, Any] = {"card": normal_pci_id(gpu.pci_id or ""), "unified": gpu.kind is GpuKind.INTEGRATED}
    reasons: list[str] = []
    told = [
        _attempt(lambda: _by_kernel(gpu, seen, reasons), reasons),
        _attempt(lambda: _by_windows(gpu, seen), reasons),
        _attempt(lambda: _by_nvidia(gpu, seen, reasons), reasons),
    ]
    for found in told:
        facts |= {name: value for name, value in (found or {}).items() if value is not None}
    programs = facts.pop("programs", None)
    facts["programs"] = programs or ()
    if programs is None:
        why = next((reason for reason in reasons if reason), "Nothing here tells which programs use this card.")
        unseen.append(Unseen(fact="gpus.programs", why=why, device=gpu.device))
    if facts.get("dedicated_bytes") is None and gpu.kind is GpuKind.DISCRETE:
        why = "Its driver does not tell the card's own memory; the engine's figure is shown."
        unseen.append(Unseen(fact="gpus.dedicated_bytes", why=why, device=gpu.device))
    if gpu.pcie is None and gpu.kind is GpuKind.DISCRETE:
        why = "Neither its driver nor the system tells the card's PCIe link."
        unseen.append(Unseen(fact="gpus.pcie", why=why, device=gpu.device))
    for fact, source in (("shared_bytes", "counted"), ("driver_version", "drivers")):
        if facts.get(fact) is None and (refusal := seen.refusals.get(source)):
            unseen.append(Unseen(fact=f"gpus.{fact}", why=refusal, device=gpu.device))
    return msgspec.structs.replace(gpu, **facts)


def _by_nvidia(gpu: Gpu, seen: Seen, reasons: list[str]) -> dict[str, Any]:
    if matching.maker(gpu) != "NVIDIA":
        raise NotSeenError("")
    if seen.nvidia is None:
        raise NotSeenError(seen.refusals.get("nvidia", ""))
    card = matching.nvml_card(gpu, [known.card for known in seen.nvidia])
    (known,) = (known for known in seen.nvidia if known.card == card)
    details = known.details
    memory = known.memory if known.memory and not known.memory.doubt else None
    # A program that draws only may hold memory too small to be told; Windows tells none by program.
    programs = None if details.programs_refused else _programs(details.programs)
    reasons.append(details.programs_refused)
    if programs and all(program.used_bytes is None for program in programs) and seen.counted is not None:
        programs = None  # Windows counts what its driver does not tell
    return {
        "card": card.pci_id or details.uuid,
        "uuid": details.uuid,
        "cuda": details.cuda,
        "driver_version": known.driver,
        "dedicated_bytes": memory.total_bytes if memory else None,
        "power_limit_watts": _watts(details.power_limit_watts),
        "power_max_watts": _watts(details.power_max_watts),
        "programs": programs,
    }


def _by_kernel(gpu: Gpu, seen: Seen, reasons: list[str]) -> dict[str, Any]:
    if not seen.cards:
        raise NotSeenError("")
    card = matching.drm_card(gpu, seen.cards)
    told = card.driver or ""
    version = told.partition(" ")[2]
    limit, most = card.power_watts()
    facts: dict[str, Any] = {
        "pcie": _card_link(gpu, card),
        "power_limit_watts": _watts(limit),
        "power_max_watts": _watts(most),
        "card": card.pci_id,
        "driver_version": None if version.startswith("(") else version or None,
        "dedicated_bytes": card.heap_bytes("vram"),
        "shared_bytes": card.heap_bytes("gtt"),
    }
    if seen.programs is None:
        reasons.append(seen.refusals.get("programs", ""))
    elif card.vendor != "NVIDIA":
        integrated = gpu.kind is GpuKind.INTEGRATED
        uses = [use for use in seen.programs if use.pci_id == card.pci_id]
        facts["programs"] = tuple(
            GpuProgram(name=use.name, pid=use.pid, used_bytes=use.own_bytes + (use.shared_bytes if integrated else 0))
            for use in uses
        )
    return facts


def _card_link(gpu: Gpu, card: DrmCard) -> Pcie | None:
    """The link with what the card could do in a better slot, which NVIDIA's driver does not tell."""
    link = _attempt(card.link, []) if gpu.pcie else None
    if gpu.pcie is None or link is None:
        return None
    return msgspec.structs.replace(gpu.pcie, card_generation=link.card_generation, card_lanes=link.card_lanes)


def _by_windows(gpu: Gpu, seen: Seen) -> dict[str, Any]:
    if seen.counted is None:
        raise NotSeenError(seen.refusals.get("counted", ""))
    adapter = adapter_of(gpu, seen.counted.adapters)
    versions = {version for name, version in seen.drivers if name == adapter.name}
    return {
        "card": None if gpu.pci_id else f"luid {adapter.luid:#x}",
        "dedicated_bytes": adapter.dedicated_bytes,
        "shared_bytes": adapter.shared_bytes,
        "driver_version": versions.pop() if len(versions) == 1 else None,
        "programs": tuple(program for luid, program in seen.counted.programs if luid == adapter.luid),
    }


def _programs(told: Sequence[tuple[int, str, int | None]]) -> tuple[GpuProgram, ...]:
    found = [GpuProgram(name=name, pid=pid, used_bytes=size) for pid, name, size in told]
    return tuple(sorted(found, key=lambda program: -(program.used_bytes or 0)))


def _watts(told: float | None) -> float | None:
    return told if told is not None and 0 < told <= _MOST_WATTS else None


def _attempt(read: Callable[[], _T], reasons: list[str]) -> _T | None:
    try:
        return read()
    except NotSeenError as error:
        reasons.append(str(error))
        return None
