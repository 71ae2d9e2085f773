"""What GPUs do now: load, clocks, temperature, power and throttling, with what cannot be true left out."""

from collections.abc import Mapping, Sequence

from app.hardware import amd_throttling, matching
from app.hardware.drm import DrmCard
from app.hardware.facts import Gpu
from app.hardware.files import read_int, read_text
from app.hardware.gpu_memory import KERNEL, NVML, SOFTWARE
from app.hardware.nvml import Nvml, NvmlCard
from app.hardware.samples import GpuLoad
from app.hardware.sources import NotSeenError
from app.hardware.tree import KernelPath, children

THROTTLED = "throttled"
POWER_LIMIT, HOT, HOT_HARDWARE = "power limit", "temperature", "temperature (hardware)"
POWER_BRAKE, HARDWARE = "power brake", "hardware slowdown"
CURRENT_LIMIT, OTHER_LIMIT = "current limit", "another limit"
_MOST = {
    "busy_percent": 100.0,
    "core_mhz": 10_000.0,
    "core_max_mhz": 10_000.0,
    "memory_mhz": 50_000.0,
    "memory_max_mhz": 50_000.0,
    "celsius": 150.0,
    "watts": 5_000.0,
}
"""Figures and what is believed of each at most."""
# Bits of NVML's clocks event reasons. Left out: idle (0x1), clocks that somebody set (0x2, 0x100), cards kept in
# step (0x10). 0x8 comes with either of the two that say more.
_EVENTS = ((0x4, POWER_LIMIT), (0x20, HOT), (0x40, HOT_HARDWARE), (0x80, POWER_BRAKE))
_ANY_HARDWARE = 0x8
_LEVEL_END = "Mhz"
_AMD_WORDS = {
    amd_throttling.POWER: POWER_LIMIT,
    amd_throttling.CURRENT: CURRENT_LIMIT,
    amd_throttling.HEAT: HOT,
    amd_throttling.HARDWARE: HARDWARE,
    amd_throttling.OTHER: OTHER_LIMIT,
}


def throttle_words(events: int) -> tuple[str, ...]:
    """Why an NVIDIA card's clock is kept down, from NVML's bits; empty where it is not."""
    words = [word for bit, word in _EVENTS if events & bit]
    if events & _ANY_HARDWARE and not events & (0x40 | 0x80):
        words.append(HARDWARE)
    return tuple(words)


def checked_load(
    device: str,
    source: str,
    figures: Mapping[str, float | None],
    throttled: tuple[str, ...] | None,
    reasons: Mapping[str, str],
    otherwise: str,
) -> GpuLoad:
    """The figures that can be true, and a reason for each of the others.

    Args:
        device: The engine's name.
        source: What was asked.
        figures: By name in `GpuLoad`.
        throttled: As there.
        reasons: Why a figure is missing, where that is known.
        otherwise: The reason where it is not.
    """
    kept: dict[str, float] = {}
    why: dict[str, str] = {}
    for name, most in _MOST.items():
        told = figures.get(name)
        if told is None:
            why[name] = reasons.get(name) or otherwise
        elif not 0 <= told <= most:
            why[name] = f"{device}: its driver reports {told:g}, which cannot be."
        else:
            kept[name] = told
    if throttled is None:
        why[THROTTLED] = reasons.get(THROTTLED) or otherwise
    return GpuLoad(device=device, throttled=throttled, source=source, reasons=why, **kept)


def unseen_load(device: str, source: str, why: str) -> GpuLoad:
    """A device of which nothing is known."""
    return checked_load(device, source, {}, None, {}, why)


def software_load(gpu: Gpu) -> GpuLoad:
    """A device that the processor plays."""
    return unseen_load(gpu.device, SOFTWARE, "The processor computes for it: its load is among the processor's.")


def nvidia_load(gpu: Gpu, nvml: Nvml, cards: Sequence[NvmlCard]) -> GpuLoad:
    """A device as its driver tells; with the reasons where it does not."""
    try:
        told = nvml.load(matching.nvml_card(gpu, cards))
    except NotSeenError as error:
        return unseen_load(gpu.device, NVML, str(error))
    throttled = None if told.events is None else throttle_words(told.events)
    return checked_load(gpu.device, NVML, told.figures, throttled, told.refusals, "The NVIDIA driver does not tell.")


class KernelLoad:
    """Reads what AMD's kernel driver tells of one card; other drivers tell nothing here, and that is said."""

    def __init__(self, gpu: Gpu, cards: Sequence[DrmCard]) -> None:
        """Finds the card among those the kernel shows."""
        self._gpu = gpu
        self._card: DrmCard | None = None
        self._files: dict[str, KernelPath] = {}
        self._refusal = ""
        try:
            self._card = matching.drm_card(gpu, cards)
        except NotSeenError as error:
            self._refusal = str(error)
            return
        folder = self._card.folder
        # Put together once: a path made anew costs more than a small file read.
        names = ("power/runtime_status", "pp_dpm_sclk", "pp_dpm_mclk", "gpu_busy_percent")
        self._files = {name: folder / name for name in names}
        for sensors in children(folder / "hwmon")[:1]:
            self._files |= {name: sensors / name for name in ("temp1_input", "power1_average", "power1_input")}

    def read(self) -> GpuLoad:
        """The device now."""
        device, card = self._gpu.device, self._card
        if card is None:
            return unseen_load(device, KERNEL, self._refusal)
        if card.vendor != "AMD":
            why = (
                f"The driver {card.driver or 'of this card'} does not tell load, clocks or heat in the files read here."
            )
            return unseen_load(device, KERNEL, why)
        # Some of these files wake a card that sleeps, as the second one of a laptop does: a look must not.
        if read_text(self._files["power/runtime_status"]) == "suspended":
            return unseen_load(device, KERNEL, "The card sleeps; it is not woken to be looked at.")
        core, core_most = read_levels(self._files["pp_dpm_sclk"])
        memory, memory_most = read_levels(self._files["pp_dpm_mclk"])
        figures: dict[str, float | None] = {
            "busy_percent": read_int(self._files["gpu_busy_percent"]),
            "core_mhz": core,
            "core_max_mhz": core_most,
            "memory_mhz": memory,
            "memory_max_mhz": memory_most,
            # From thousandths of a degree, and millionths of a watt; newer chips have only the power of the moment.
            "celsius": self._sensor(1e3, "temp1_input"),
            "watts": self._sensor(1e6, "power1_average", "power1_input"),
        }
        otherwise = f"The driver {card.driver or 'of this card'} does not tell."
        throttled, reasons = None, {}
        try:
            throttled = tuple(_AMD_WORDS[cause] for cause in amd_throttling.read_causes(card.folder))
        except NotSeenError as error:
            reasons[THROTTLED] = str(error)
        return checked_load(device, KERNEL, figures, throttled, reasons, otherwise)

    def _sensor(self, unit: float, *names: str) -> float | None:
        for name in names:
            if name in self._files and (told := read_int(self._files[name])) is not None:
                return told / unit
        return None


def read_levels(path: KernelPath) -> tuple[float | None, float | None]:
    """The clock in force and the highest of a list such as "1: 2475Mhz *", in MHz.

    The one in force may be none of the numbered levels ("S: 19Mhz *", a chip that rests).
    """
    now = most = None
    for line in (read_text(path) or "").splitlines():
        number, _, marked = line.partition(":")[2].strip().partition(_LEVEL_END)
        if not number.isdecimal():
            continue
        if marked.strip() == "*":
            now = float(number)
        most = max(most or 0.0, float(number))
    return now, most
