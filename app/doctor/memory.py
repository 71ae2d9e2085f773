"""Rules about main memory and the KV cache: channels, speed, locked and repacked experts, unused context."""

from app.doctor.hints import NOTE, PROBLEM, SLOWER, Change, Hint, UnjudgedError
from app.doctor.observation import NO_ANSWER, NOT_LOADED, Observation
from app.hardware.facts import Ram, RamModule
from app.placement.kv_cache import CONTEXT_BLOCK, kv_bytes
from app.placement.memory import expert_bytes, spare_bytes, uses_main_memory
from app.placement.plan import CPU_LANE, DISK_LANE, Plan
from app.units import format_bytes

SINGLE_CHANNEL, RAM_SPEED = "single-channel", "ram-speed"
LOCKED, UNMAPPED, REPACKED, CONTEXT = "locked-memory", "unmapped-file", "repacked", "context"

ANSWERS_TO_JUDGE = 3
"""A context is not called too large before so many answers."""
LEAST_CONTEXT = 4096
"""Tokens; less frees little and ends a conversation after a few long answers."""
LEAST_FREED = 256 * 1024**2
"""Bytes of KV cache that are worth a reload: about what a pool needs to help."""

_CHANNEL_BYTES = 8  # 64 bits a transfer
_MIB = 1024**2


def single_channel(seen: Observation) -> Hint | None:
    """One channel carries half of what two do, and decoding waits for main memory."""
    ram = seen.machine.ram
    if seen.machine.virtual:
        raise _virtual(seen)
    if ram.channels is None:
        raise seen.why_unseen("ram.channels", "The firmware's tables do not tell how many channels hold memory.")
    if ram.channels != 1:
        return None
    evidence = f"All of the {format_bytes(ram.total_bytes)} lie on one channel: {_modules(ram)}"
    if ram.free_slots:
        evidence += f"; {ram.free_slots} {'slot is' if ram.free_slots == 1 else 'slots are'} free"
    if ram.speed_mts:
        most = ram.speed_mts * _CHANNEL_BYTES / 1000
        evidence += (
            f". At {ram.speed_mts} MT/s that carries at most {most:.1f} GB/s (by the standard); two channels carry "
            "twice that, and answers of experts in main memory are predicted to be up to twice as fast"
        )
    action = "Add a module like this one in the other channel's slot"
    if sum(module.size_bytes > 0 for module in ram.modules) > 1:
        action = "Move a module into the other channel's slot"
    elif ram.free_slots == 0:
        action = "Put a module into each channel: two of half the size are faster than one"
    return Hint(rule=SINGLE_CHANNEL, title="Memory on a single channel", evidence=f"{evidence}.", action=f"{action}.")


def ram_speed(seen: Observation) -> Hint | None:
    """Modules that run below what they are made for: a profile of theirs is not switched on."""
    if seen.machine.virtual:
        raise _virtual(seen)
    known = [module for module in seen.machine.ram.modules if module.rated_mts and module.speed_mts]
    if not known:
        raise seen.why_unseen("ram.modules", "The firmware's tables do not tell how fast the modules are.")
    slow = [module for module in known if (module.speed_mts or 0) < (module.rated_mts or 0)]
    if not slow:
        return None
    words = ", ".join(f"{its.slot}: {its.speed_mts} of {its.rated_mts} MT/s" for its in slow)
    return Hint(
        rule=RAM_SPEED,
        title="Memory runs below its speed",
        evidence=f"Modules run slower than they are made for: {words}.",
        action="Switch on the modules' profile (XMP or EXPO) in the firmware, where the mainboard supports it.",
    )


def _virtual(seen: Observation) -> UnjudgedError:
    return UnjudgedError(f"In {seen.machine.virtual} the firmware's tables tell nothing of real modules.")


def locked_memory(seen: Observation) -> Hint | None:
    """Locked memory that the system lacks elsewhere: other programs and the file's pages have to give way."""
    plan, _ = seen.needed_plan
    machine = seen.machine
    pool = seen.cache.pool if seen.cache is not None else None
    if seen.loaded is not None:
        locked = pool.locked_bytes if pool is not None else 0
        if not locked:
            return None
        available, margin = _available_now(seen), left_free(plan)
        if available >= margin:
            return None
        evidence = (
            f"{format_bytes(locked)} are page-locked, and {format_bytes(available)} of "
            f"{format_bytes(machine.ram.total_bytes)} are available; {format_bytes(margin)} should be left free"
        )
        sensible = max(locked - (margin - available), 0) // _MIB * _MIB
    else:
        locked, spare = plan.policy.lock_bytes, spare_bytes(plan, machine, CPU_LANE)
        sensible = max(spare, 0) // 2 // _MIB * _MIB
        if locked <= sensible:
            return None
        left = format_bytes(spare) if spare >= 0 else "nothing"
        evidence = f"{format_bytes(locked)} are to be page-locked; the plan is predicted to leave {left} of main memory"
    action = f"Lock at most {format_bytes(sensible)}" if sensible else "Lock no memory"
    return Hint(
        rule=LOCKED,
        title="Too much memory is locked",
        evidence=f"{evidence}.",
        action=f"{action}.",
        severity=PROBLEM,
        fix=(Change(key="lock_bytes", value=sensible),),
    )


def unmapped_file(seen: Observation) -> Hint | None:
    """Copies of experts, of a file larger than main memory, that cannot be dropped and read again."""
    return _copied(seen, larger=True)


def repacked(seen: Observation) -> Hint | None:
    """The processor's faster layout is a copy, and memory is short."""
    return _copied(seen, larger=False)


def _copied(seen: Observation, *, larger: bool) -> Hint | None:
    plan, facts = seen.needed_plan
    machine = seen.machine
    copied = expert_bytes(facts, (layer for layer, lane in plan.expert_lanes.items() if lane == CPU_LANE))
    if plan.residency != "repacked" or not copied or (facts.file_bytes > machine.ram.total_bytes) != larger:
        return None
    if seen.loaded is not None:
        available, margin = _available_now(seen), left_free(plan)
        short = margin - available
        words = f"{format_bytes(available)} are available now; {format_bytes(margin)} should be left free"
    else:
        short = -spare_bytes(plan, machine, CPU_LANE)
        words = f"the plan is predicted to lack {format_bytes(max(short, 0))} of main memory"
    if short <= 0:
        return None
    evidence = f"{format_bytes(copied)} of experts are copied into the processor's faster layout, and {words}"
    if larger:
        evidence += f"; the model file has {format_bytes(facts.file_bytes)}"
        evidence += f", main memory {format_bytes(machine.ram.total_bytes)}"
    return Hint(
        rule=UNMAPPED if larger else REPACKED,
        title="Experts are copied though the file exceeds main memory" if larger else "Repacked experts use up memory",
        evidence=f"{evidence}.",
        action="Leave the experts in the mapped file, whose pages the system can drop and read again.",
        severity=PROBLEM,
        fix=(Change(key="residency", value="mapped"),),
    )


def unused_context(seen: Observation) -> Hint | None:
    """A KV cache much larger than the conversations: its memory could hold experts."""
    plan, facts = seen.needed_plan
    answers = seen.answers
    if seen.loaded is None:
        raise UnjudgedError(NOT_LOADED)
    if answers is None or not answers.answers:
        raise UnjudgedError(NO_ANSWER)
    if answers.answers < ANSWERS_TO_JUDGE:
        raise UnjudgedError(f"It is judged after {ANSWERS_TO_JUDGE} answers; there were {answers.answers}.")
    wanted = enough_context(answers.longest_tokens)
    if plan.n_ctx < 2 * wanted:
        return None
    now, then = (kv_bytes(facts, n_ctx, plan.n_ubatch, plan.kv_type, plan.n_seq_max) for n_ctx in (plan.n_ctx, wanted))
    freed = now - then
    if freed < LEAST_FREED or not _of_use(seen, plan):
        return None
    device = plan.gpu or CPU_LANE
    where = "main memory" if device == CPU_LANE else device
    return Hint(
        rule=CONTEXT,
        title="Context larger than is used",
        evidence=f"The context of {plan.n_ctx:,} tokens takes {format_bytes(now)} of {where} (by the model's tables); "
        f"the longest of {answers.answers} answers used {answers.longest_tokens:,} of them. Predicted: with "
        f"{wanted:,} tokens {format_bytes(freed)} become free.",
        action=f"Load the model with a context of {wanted:,} tokens.",
        severity=NOTE if device == CPU_LANE else SLOWER,
        fix=(Change(key="n_ctx", value=wanted),),
    )


def _of_use(seen: Observation, plan: Plan) -> bool:
    """Whether freed memory helps: experts that could move to the card, or main memory that is short."""
    gpu = seen.gpu(plan.gpu)
    if gpu is not None and not uses_main_memory(gpu):
        return any(lane in (CPU_LANE, DISK_LANE) for lane in plan.expert_lanes.values())
    return DISK_LANE in plan.expert_lanes.values() or (
        seen.latest is not None
        and seen.latest.ram_available_bytes is not None
        and seen.latest.ram_available_bytes < left_free(plan)
    )


def enough_context(tokens: int) -> int:
    """A context that holds twice as much as was used, as a power of two."""
    wanted = max(LEAST_CONTEXT, CONTEXT_BLOCK)
    while wanted < 2 * tokens:
        wanted *= 2
    return wanted


def _available_now(seen: Observation) -> int:
    latest = seen.latest
    if latest is None:
        raise UnjudgedError("Main memory was not looked at since the load.")
    if latest.ram_available_bytes is None:
        raise UnjudgedError(latest.reasons.get("ram_available_bytes", "Nothing tells how much memory is available."))
    if not 0 <= latest.ram_available_bytes <= seen.machine.ram.total_bytes:
        raise UnjudgedError("What the system says to be available is more than all of its memory.")
    return latest.ram_available_bytes


def left_free(plan: Plan) -> int:
    """What the plan leaves free of main memory."""
    return sum(part.bytes for part in plan.memory if part.device == CPU_LANE and part.part == "margin")


def _modules(ram: Ram) -> str:
    filled = [module for module in ram.modules if module.size_bytes]
    return ", ".join(map(_module, filled)) or "the firmware names no modules"


def _module(module: RamModule) -> str:
    kind = f" {module.type}" if module.type else ""
    return f"{module.slot} {format_bytes(module.size_bytes)}{kind}"
