"""All rules in one table, and what they say of one observation."""

from collections.abc import Callable

import msgspec

from app.doctor import experts, files, gpu, machine, memory, reading, running, throttling
from app.doctor.hints import SEVERITIES, Hint, NotJudged, UnjudgedError
from app.doctor.observation import Observation

Judge = Callable[[Observation], Hint | tuple[Hint, ...] | None]


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One rule.

    Attributes:
        name: What it is called in hints, settings and JSON.
        about: What it looks at, in a few words.
        judge: Says what is the matter, if anything; raises UnjudgedError without its facts.
    """

    name: str
    about: str
    judge: Judge


RULES: tuple[Rule, ...] = tuple(
    Rule(name=name, about=about, judge=judge)
    for name, about, judge in (
        (files.ENGINE_FILES, "the engine's files", files.engine_files),
        (gpu.GPU_UNSEEN, "graphics cards without a device", gpu.gpu_unseen),
        (gpu.OLD_DRIVER, "the graphics driver's age", gpu.old_driver),
        (running.MISSING_EXPERTS, "experts meant for the GPU", running.missing_experts),
        (running.IDLE_POOL, "use of the expert pool", running.idle_pool),
        (running.SPILL, "graphics memory that spills", running.spill),
        (reading.THRASHING, "reading while answering", reading.thrashing),
        (reading.WARM_UP, "experts on their way into memory", reading.warm_up),
        (throttling.THROTTLED, "graphics cards that slow themselves down", throttling.gpu_throttled),
        (memory.LOCKED, "locked memory", memory.locked_memory),
        (memory.UNMAPPED, "experts copied from a file larger than memory", memory.unmapped_file),
        (memory.REPACKED, "experts in the processor's layout", memory.repacked),
        (machine.CPU_BUILD, "the engine's code for the processor", machine.cpu_build),
        (gpu.SLOW_GPU, "GPUs slower than the processor", gpu.slow_gpu),
        (experts.HOT_EXPERTS, "hot experts on the CPU", experts.hot_experts),
        (machine.THREADS, "threads against cores", machine.too_many_threads),
        (machine.EFFICIENCY_CORES, "threads on efficiency cores", machine.efficiency_cores),
        (machine.POWER_SAVER, "power saver", machine.power_saver),
        (memory.SINGLE_CHANNEL, "memory channels", memory.single_channel),
        (memory.RAM_SPEED, "speed of the memory modules", memory.ram_speed),
        (gpu.NARROW_LINK, "lanes to the graphics card", gpu.narrow_link),
        (gpu.OTHER_PROGRAMS, "graphics memory of other programs", gpu.other_programs),
        (memory.CONTEXT, "context against its use", memory.unused_context),
        (files.SILENT_DISK, "whether the model's file answers", files.silent_disk),
        (files.NETWORK_DISK, "models on a network disk", files.network_disk),
        (files.SLOW_DISK, "models on a slow disk", files.slow_disk),
    )
)


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """What the rules say.

    Attributes:
        hints: Worst first.
        fine: Names of the rules that found nothing.
        not_judged: Rules whose facts are missing.
    """

    hints: tuple[Hint, ...]
    fine: tuple[str, ...]
    not_judged: tuple[NotJudged, ...]


def examine(seen: Observation) -> Diagnosis:
    """Judge by every rule."""
    hints: list[Hint] = []
    fine: list[str] = []
    not_judged: list[NotJudged] = []
    for rule in RULES:
        try:
            found = rule.judge(seen)
        except UnjudgedError as error:
            not_judged.append(NotJudged(rule=rule.name, why=str(error)))
            continue
        if isinstance(found, Hint):
            hints.append(found)
        elif found:
            hints.extend(found)
        else:
            fine.append(rule.name)
    hints.sort(key=lambda hint: SEVERITIES.index(hint.severity))
    return Diagnosis(hints=tuple(hints), fine=tuple(fine), not_judged=tuple(not_judged))
