"""Rules about the processor and its power: power saver, threads, efficiency cores, the engine's own build."""

from app.doctor.hints import PROBLEM, SLOWER, Change, Hint, UnjudgedError
from app.doctor.observation import Observation
from app.hardware.facts import Cpu
from app.placement.plan import CPU_LANE, DISK_LANE, Plan
from app.placement.speed.calibration import Calibration

POWER_SAVER, THREADS, EFFICIENCY_CORES, CPU_BUILD = "power-saver", "threads", "efficiency-cores", "cpu-build"

# What the engine's kernels gain most from, in the words of `Cpu.isa` and in the engine's.
_NEEDED_FEATURES = {"avx2": "AVX2", "fma": "FMA", "f16c": "F16C"}


def power_saver(seen: Observation) -> Hint | None:
    """A power saver keeps the processor's clocks low."""
    power = seen.machine.power
    if power is None or power.saver is None:
        raise seen.why_unseen("power.saver", "Nothing tells how this machine saves power.")
    if not power.saver:
        return None
    told = {"profile": power.profile, "governor": power.governor, "preference": power.preference}
    words = "; ".join(f"{name} {value}" for name, value in told.items() if value)
    # Windows' own saver works beside any profile: choosing another one does not end it.
    of_battery = not power.governor and not power.preference and power.profile not in ("low-power", "power saver")
    evidence = f"{'The battery saver' if of_battery else 'A power saver'} is on{f' ({words})' if words else ''}"
    if power.on_battery:
        percent = "" if power.battery_percent is None else f" at {power.battery_percent} %"
        evidence += f", and the machine runs on its battery{percent}"
    action = "Choose a balanced or fast power mode in the system's settings"
    if of_battery:
        action = "Switch the battery saver off in the system's settings"
    return Hint(
        rule=POWER_SAVER, title="A power saver is on", evidence=f"{evidence}.", action=f"{action}.", severity=SLOWER
    )


def too_many_threads(seen: Observation) -> Hint | None:
    """More threads than cores share them, and wait for each other at every layer."""
    plan, _ = seen.needed_plan
    cpu = seen.machine.cpu
    most = _usable_cores(cpu)
    if plan.threads <= most or plan.tuned or not _computes(plan):
        return None
    if _measured_faster(seen.calibration, plan.threads, most):
        return None
    evidence = f"Answers are computed with {plan.threads} threads; the processor has {_cores(cpu.physical_cores)}"
    if cpu.allowed_threads is not None and cpu.allowed_threads < cpu.physical_cores:
        evidence += f", of which this program may use {cpu.allowed_threads}"
    return Hint(
        rule=THREADS,
        title="More threads than cores",
        evidence=f"{evidence}.{_measured(seen.calibration, plan.threads, most)}",
        action=f"Compute answers with {_threads(_fast_threads(cpu))}.",
        fix=(Change(key="threads", value=_fast_threads(cpu)),),
    )


def efficiency_cores(seen: Observation) -> Hint | None:
    """Threads on slow cores hold up the others: a layer ends with its last thread."""
    plan, _ = seen.needed_plan
    cpu = seen.machine.cpu
    fast = _fast_threads(cpu)
    if cpu.performance_cores >= cpu.physical_cores or plan.tuned or not _computes(plan):
        return None  # alike, measured to be best, or with little to compute
    if plan.threads > _usable_cores(cpu):
        return None  # `too_many_threads` tells of it
    slow = sorted(set(plan.cpu_cores) - set(cpu.performance_cpus)) if cpu.performance_cpus else []
    if plan.threads <= fast and not slow:
        return None
    if _measured_faster(seen.calibration, plan.threads, fast):
        return None
    classes = (
        ", ".join(
            f"{kind.cores} {kind.name}" + (f" (at most {kind.max_mhz / 1000:.1f} GHz)" if kind.max_mhz else "")
            for kind in cpu.core_classes
        )
        or f"{cpu.performance_cores} performance, {cpu.physical_cores - cpu.performance_cores} slower ones"
    )
    where = f", also on the processors {_list(slow)} of slower cores" if slow else ""
    change = [Change(key="threads", value=fast)] if plan.threads > fast else []
    if slow:
        change.append(Change(key="cpu_cores", value=cpu.performance_cpus))
    return Hint(
        rule=EFFICIENCY_CORES,
        title="Threads on efficiency cores",
        evidence=f"Answers are computed with {plan.threads} threads{where}. Cores: {classes}."
        + _measured(seen.calibration, plan.threads, fast),
        action=f"Compute answers on the performance cores only: {_threads(min(fast, plan.threads))}.",
        fix=tuple(change),
    )


def cpu_build(seen: Observation) -> Hint | None:
    """The engine's code for the processor does without instructions that the processor has."""
    engine, cpu = seen.machine.engine, seen.machine.cpu
    if engine is None:
        raise UnjudgedError("The engine did not say how it was built.")
    if not engine.cpu_features:
        raise seen.why_unseen("engine.cpu_features", "The engine does not tell which instructions it uses.")
    unused = [name for isa, name in _NEEDED_FEATURES.items() if isa in cpu.isa and name not in engine.cpu_features]
    if not unused:
        return None
    variant = f" ({engine.cpu_variant})" if engine.cpu_variant else ""
    return Hint(
        rule=CPU_BUILD,
        title="The engine does not use all of the processor",
        evidence=f"The processor has {', '.join(unused)}; the engine's code for it{variant} uses only "
        f"{', '.join(engine.cpu_features)}.",
        action="Install a build of this app for this kind of processor.",
        severity=PROBLEM,
    )


def _computes(plan: Plan) -> bool:
    """Whether the processor computes attention or experts, so that its threads matter."""
    return plan.gpu is None or any(lane in (CPU_LANE, DISK_LANE) for lane in plan.expert_lanes.values())


def _usable_cores(cpu: Cpu) -> int:
    return max(min(cpu.physical_cores, cpu.allowed_threads or cpu.physical_cores), 1)


def _fast_threads(cpu: Cpu) -> int:
    return max(min(cpu.performance_cores, _usable_cores(cpu)), 1)


def _rates(calibration: Calibration | None, threads: int) -> dict[tuple[str, str], float]:
    """Measured decoding rates of the processor with exactly so many threads, by type and layout, bytes a second."""
    rates = calibration.compute if calibration is not None and not calibration.misleads else ()
    return {
        (rate.type, rate.layout): rate.bytes_per_second
        for rate in rates
        if rate.device == CPU_LANE and rate.tokens == 1 and rate.threads == threads
    }


def _both(calibration: Calibration | None, threads: int, instead: int) -> tuple[str, float, float] | None:
    """One weight type that was measured with both counts, and the rates with `threads` and `instead`."""
    here, there = _rates(calibration, threads), _rates(calibration, instead)
    for key in here.keys() & there.keys():
        return key[0], here[key], there[key]
    return None


def _measured_faster(calibration: Calibration | None, threads: int, instead: int) -> bool:
    """Whether this machine was measured to be no slower with `threads`: what is measured beats what is usual."""
    both = _both(calibration, threads, instead)
    return both is not None and both[1] >= both[2]


def _measured(calibration: Calibration | None, threads: int, instead: int) -> str:
    both = _both(calibration, threads, instead)
    if both is None:
        return ""
    kind, here, there = both
    return (
        f" Measured with {kind} weights: {here / 1e9:.1f} GB/s with {threads}, {there / 1e9:.1f} GB/s with {instead}."
    )


def _cores(count: int) -> str:
    return "1 core" if count == 1 else f"{count} cores"


def _threads(count: int) -> str:
    return "1 thread" if count == 1 else f"{count} threads"


def _list(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers))
