"""The rule about graphics cards whose clock is kept down for heat or lack of power while answers are computed."""

from app.doctor.hints import SLOWER, Hint, UnjudgedError
from app.doctor.observation import NO_ANSWER, Observation
from app.hardware.gpu_load import HARDWARE, HOT, HOT_HARDWARE, POWER_BRAKE
from app.hardware.samples import GpuLoad

THROTTLED = "gpu-throttled"
LEAST_SAMPLES = 5
"""Of one card during decoding; fewer are no rule of its behaviour."""
MUCH_SHARE = 0.5
"""Throttled in less of the samples is a moment, not a state."""
MOST_CELSIUS = 150
"""No chip works at more: a driver that tells it lies, and the figure is left out."""
_FAULTS = (HOT, HOT_HARDWARE, POWER_BRAKE, HARDWARE)
"""Not the power limit, which well used cards work at."""


def gpu_throttled(seen: Observation) -> tuple[Hint, ...]:
    """Cards that the plan uses and that were throttled in half of the samples or more."""
    plan, _ = seen.needed_plan
    _ = seen.needed_load
    used = [device for device in (*plan.gpus, plan.pool_on) if device]
    if not used:
        return ()
    hints, reasons, judged = [], [], False
    for device in dict.fromkeys(used):
        loads = [load for sample in seen.decoding for load in sample.gpu_loads if load.device == device]
        known = [load for load in loads if load.throttled is not None]
        reasons += [load.reasons.get("throttled", "") for load in loads if load.throttled is None]
        if len(known) < LEAST_SAMPLES:
            continue
        judged = True
        faulty = [load for load in known if set(load.throttled or ()) & set(_FAULTS)]
        if len(faulty) >= MUCH_SHARE * len(known):
            hints.append(_throttled(device, faulty, len(known)))
    if not judged:
        raise UnjudgedError(next(filter(None, reasons), NO_ANSWER))
    return tuple(hints)


def _throttled(device: str, faulty: list[GpuLoad], samples: int) -> Hint:
    causes = [word for word in _FAULTS if any(word in (load.throttled or ()) for load in faulty)]
    last = faulty[-1]
    figures = []
    if last.celsius is not None and 0 < last.celsius < MOST_CELSIUS:
        figures.append(f"{last.celsius:.0f} °C")
    if last.core_mhz is not None and last.core_mhz > 0:
        most = f" of {last.core_max_mhz:.0f}" if last.core_max_mhz and last.core_max_mhz >= last.core_mhz else ""
        figures.append(f"{last.core_mhz:.0f}{most} MHz")
    told = f" In the last of them it had {' and '.join(figures)}." if figures else ""
    hot = HOT in causes or HOT_HARDWARE in causes
    return Hint(
        rule=THROTTLED,
        title="The graphics card slows itself down",
        evidence=f"{device}: in {len(faulty)} of {samples} samples during an answer its driver kept the clock down "
        f"({', '.join(causes)}).{told}",
        action="Give the card cooler air: clean its fans and raise their speed."
        if hot
        else "Look at the card's power cables and, on a laptop, use its own charger.",
        severity=SLOWER,
        about=device,
    )
