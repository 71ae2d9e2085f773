"""The knobs in words: names, what each value does in one plain sentence, and predictions beside it."""

from collections.abc import Iterable

from PySide6.QtCore import QCoreApplication

from app.hardware.facts import GpuKind, Machine
from app.placement.active_experts import facts_with
from app.placement.cache.recorded_hits import layers_off_gpus
from app.placement.kv_cache import kv_bytes
from app.placement.memory import bytes_off_gpus, expert_bytes
from app.placement.plan import CPU_LANE
from app.placement.speed.types import Range
from app.ui.lanes.words import budget_text, residency_word
from app.ui.tuning.consequences import Outlook, compared_speeds
from app.ui.tuning.knob_values import POLICY, Situation, Value
from app.ui.words import in_bytes, in_percent, in_tokens, number

translate = QCoreApplication.translate

_MINUS = "−"


def section_title(section: str) -> str:
    """The heading over some knobs."""
    return {
        "conversation": translate("Knobs", "The conversation"),
        "processor": translate("Knobs", "The processor"),
        "prompts": translate("Knobs", "Prompts"),
        "gpu": translate("Knobs", "The graphics card"),
        "filling": translate("Knobs", "Which experts the pool holds"),
        "answers": translate("Knobs", "Answers"),
    }[section]


def knob_name(key: str) -> str:
    """A knob's name."""
    return {
        "n_ctx": translate("Knobs", "Context"),
        "kv_type": translate("Knobs", "KV cache type"),
        "threads": translate("Knobs", "Threads for answers"),
        "threads_batch": translate("Knobs", "Threads for prompts"),
        "residency": translate("Knobs", "Experts on the processor"),
        "resident_bytes": translate("Knobs", "Memory for experts"),
        "n_ubatch": translate("Knobs", "Micro-batch"),
        "n_batch": translate("Knobs", "Batch"),
        "gpu": translate("Knobs", "Attention computes on"),
        "pool_bytes": translate("Knobs", "Expert pool"),
        "lock_bytes": translate("Knobs", "Locked memory"),
        "kind": translate("Knobs", "Policy"),
        "window": translate("Knobs", "Window"),
        "decay": translate("Knobs", "Memory of heat (decay)"),
        "insert_cap": translate("Knobs", "Inserts a token"),
        "threshold": translate("Knobs", "Admission threshold"),
        "stream": translate("Knobs", "Streaming"),
        "experts_used": translate("Knobs", "Active experts"),
    }[key]


def choice_word(key: str, value: Value, machine: Machine) -> str:
    """One of a knob's choices."""
    if key == "gpu":
        if value is None:
            return translate("Knobs", "No GPU: the processor computes everything")
        gpu = next((gpu for gpu in machine.gpus if gpu.device == value), None)
        if gpu is None:
            return translate("Knobs", "{device} (not found any more)").format(device=value)
        soft = translate("Knobs", " (software driver)") if gpu.kind is GpuKind.SOFTWARE else ""
        return f"{gpu.device} · {gpu.name}{soft}"
    if key == "residency":
        word = residency_word(str(value))
        return word[:1].upper() + word[1:]
    words = {
        "lru": translate("Knobs", "Last used"),
        "decay": translate("Knobs", "Most used"),
        "frozen": translate("Knobs", "A saved profile's"),
        "manual": translate("Knobs", "Only those you keep there"),
        "off": translate("Knobs", "Never"),
        "auto": translate("Knobs", "Where it is faster"),
        "always": translate("Knobs", "Always"),
    }
    return words.get(str(value), str(value))


def value_word(key: str, value: Value, machine: Machine) -> str:
    """A value inside a sentence: "4,096", "64.0 MiB", "none"."""
    if key in ("pool_bytes", "lock_bytes"):
        return in_bytes(int(value)) if isinstance(value, int) and value else translate("Knobs", "none")
    if key == "resident_bytes":
        return budget_text(value if isinstance(value, int) else None)
    if key in ("decay", "threshold") and isinstance(value, float):
        return number(value, 3)
    if key == "gpu":
        return str(value) if value is not None else translate("Knobs", "CPU")
    if isinstance(value, int):
        return number(value)
    return choice_word(key, value, machine)


def does(key: str, value: Value, situation: Situation) -> str:
    """What the knob at that value does, in one plain sentence."""
    special = {
        "n_ctx": _context_text,
        "threads": _answer_threads_text,
        "threads_batch": _prompt_threads_text,
        "gpu": _gpu_text,
        "pool_bytes": _pool_text,
        "resident_bytes": _memory_text,
        "lock_bytes": _lock_text,
        "experts_used": _active_text,
    }
    if key in special:
        return special[key](value, situation)
    if key in ("n_ubatch", "n_batch"):
        return _batch_text(key, value)
    return _policy_text(key, value)


def _context_text(value: Value, situation: Situation) -> str:
    plan, tokens = situation.plan, int(value or 0)
    size = kv_bytes(situation.facts, tokens, plan.n_ubatch, plan.kv_type, plan.n_seq_max)
    return translate(
        "Knobs", "It sees the last {tokens} of the conversation, about {words} words; they take {size}."
    ).format(tokens=in_tokens(tokens), words=number(tokens * 3 // 4), size=in_bytes(size))


def _batch_text(key: str, value: Value) -> str:
    text = (
        translate("Knobs", "A prompt is computed {tokens} at a time: more is faster and takes more memory.")
        if key == "n_ubatch"
        else translate("Knobs", "A prompt is handed over in pieces of {tokens}; never smaller than the micro-batch.")
    )
    return text.format(tokens=in_tokens(int(value or 0)))


def _gpu_text(value: Value, _situation: Situation) -> str:
    if value is None:
        return translate("Knobs", "Attention, KV cache and output are computed by the processor, like the experts.")
    return translate(
        "Knobs", "{device} holds attention, KV cache and output; experts are placed anew around them."
    ).format(device=value)


def _memory_text(value: Value, situation: Situation) -> str:
    if situation.plan.residency != "mapped":
        return translate("Knobs", "The processor's experts are all in memory: they are copied into its faster layout.")
    everything = bytes_off_gpus(situation.facts, situation.plan)
    running = situation.running
    if value is None and situation.chosen and running is not None and running.residency == "mapped":
        words = translate(
            "Knobs", "At the load the engine chose {size}: so much of the {all} of experts stays in memory."
        )
        return words.format(size=in_bytes(situation.chosen), all=in_bytes(everything))
    if value is None:
        words = translate("Knobs", "As much of the {all} of experts as fits when the model is loaded stays in memory.")
        return words.format(all=in_bytes(everything))
    if not value:
        return translate(
            "Knobs", "The system decides which experts stay in memory, and reads missing ones page by page."
        )
    words = translate(
        "Knobs",
        "Up to {size} of the {all} of experts stay in memory, the most needed ones; the others are read from the disk "
        "when a token needs them.",
    )
    return words.format(size=in_bytes(int(value)), all=in_bytes(everything))


def _lock_text(value: Value, situation: Situation) -> str:
    if not value:
        return translate("Knobs", "No memory is locked: the system may use all of it.")
    return translate(
        "Knobs",
        "{size} of the experts' main memory are locked from the pool's next size on: a card copies faster from "
        "there, and no other program gets it back meanwhile.",
    ).format(size=value_word("lock_bytes", value, situation.machine))


def _answer_threads_text(value: Value, situation: Situation) -> str:
    return _threads_text(translate("Knobs", "an answer"), value, situation)


def _prompt_threads_text(value: Value, situation: Situation) -> str:
    return _threads_text(translate("Knobs", "a prompt"), value, situation)


def _threads_text(what: str, value: Value, situation: Situation) -> str:
    cpu = situation.machine.cpu
    fast = max(min(cpu.performance_cores, cpu.physical_cores), 1)
    text = translate(
        "Knobs", "{count} compute {what}; this processor has {cores} fast cores, and one thread each is best."
    )
    if isinstance(value, int) and value > max(cpu.physical_cores, 1):
        text = translate("Knobs", "{count} compute {what}: more than there are cores ({all}), which only slows them.")
    count = translate("Knobs", "1 thread") if value == 1 else translate("Knobs", "{count} threads").format(count=value)
    return text.format(count=count, what=what, cores=number(fast), all=number(cpu.physical_cores))


def _pool_text(value: Value, situation: Situation) -> str:
    if not value:
        return translate(
            "Knobs", "No experts are kept on the GPU one by one: the processor computes those of its layers."
        )
    facts = facts_with(situation.facts, situation.plan.experts_used)
    layers = layers_off_gpus(situation.plan)
    share = int(value) / max(expert_bytes(facts, layers), 1)
    return translate(
        "Knobs",
        "The most needed experts lie on the GPU, {share} of those it is for; one token is routed to {cycle} of them, "
        "and less hardly helps.",
    ).format(
        share=in_percent(min(share, 1.0)),
        cycle=in_bytes(facts.experts_used * sum(facts.expert_bytes[layer] for layer in layers)),
    )


def _active_text(value: Value, situation: Situation) -> str:
    own, value = situation.facts.experts_used, int(value or 0)
    if value == own:
        return translate("Knobs", "Each token is computed by {own} of {all} experts, as the model was trained.").format(
            own=number(own), all=number(situation.facts.expert_count)
        )
    return translate(
        "Knobs",
        "Each token is computed by {count} of {all} experts instead of {own}: this changes answers, most often for the "
        "worse.",
    ).format(count=number(value), all=number(situation.facts.expert_count), own=number(own))


def _policy_text(key: str, value: Value) -> str:
    shown = number(value, 0) if isinstance(value, int) else str(value)
    sentences = {
        ("kv_type", "f16"): translate("Knobs", "The conversation is remembered at full precision (16 bits)."),
        ("kv_type", "q8_0"): translate(
            "Knobs", "The conversation is remembered in half the memory, with hardly any loss."
        ),
        ("kv_type", "q4_0"): translate(
            "Knobs", "The conversation is remembered in a quarter of the memory, with some loss."
        ),
        ("residency", "repacked"): translate(
            "Knobs", "Experts of the CPU lane are copied into the processor's faster layout, which takes main memory."
        ),
        ("residency", "mapped"): translate(
            "Knobs", "Experts are computed as they lie in the file, whose pages the system may drop and read again."
        ),
        ("kind", "lru"): translate("Knobs", "The expert that was not needed for longest makes room for a new one."),
        ("kind", "decay"): translate("Knobs", "The expert that is needed least often makes room for a hotter one."),
        ("kind", "frozen"): translate("Knobs", "The pool is filled once with the hottest experts known, and stays so."),
        ("kind", "manual"): translate("Knobs", "The pool holds only the experts that you keep on the GPU by hand."),
        ("stream", "off"): translate("Knobs", "Experts missing on the GPU are always computed by the processor."),
        ("stream", "auto"): translate(
            "Knobs", "Missing experts are copied to the GPU for a batch where that is faster."
        ),
        ("stream", "always"): translate("Knobs", "Missing experts are always copied to the GPU and computed there."),
        ("window", 0): translate("Knobs", "Every expert that is needed gets into the pool at once."),
        ("threshold", 0.0): translate("Knobs", "Experts get into the pool however little they weigh in a token."),
        ("insert_cap", 1): translate("Knobs", "At most 1 expert is copied into the pool for one layer and token."),
        ("decay", 1.0): translate("Knobs", "Heat never fades: what was needed long ago counts as much as now."),
    }
    found = sentences.get((key, value))
    if found is not None:
        return found
    general = {
        "window": translate("Knobs", "An expert gets into the pool when it is needed twice within {value} tokens."),
        "decay": translate("Knobs", "Heat fades to {value} with every token: higher remembers longer."),
        "insert_cap": translate("Knobs", "At most {value} experts are copied into the pool for one layer and token."),
        "threshold": translate("Knobs", "An expert must weigh at least {value} in a token to get into the pool."),
    }
    if isinstance(value, float):
        shown = number(value, 3)
    return general.get(key, "").format(value=shown)


def when_text(key: str, *, live: bool, loaded: bool) -> str:
    """When a change takes effect."""
    if not loaded:
        return translate("Knobs", "With the next load.")
    if not live:
        return translate("Knobs", "Needs a reload.")
    if key == "lock_bytes":
        return translate("Knobs", "Takes effect without a reload, with the pool's next size.")
    return translate("Knobs", "Takes effect at once, without a reload.")


def why_not_text(reason: str) -> str:
    """Why a knob cannot be turned; see `knob_values.why_not`."""
    return {
        "": "",
        "no experts": translate("Knobs", "The model has no experts."),
        "one number": translate("Knobs", "The number of this model's experts for each token cannot be changed."),
        "one cache type": translate("Knobs", "This model's heads allow only this type."),
        "no gpu": translate("Knobs", "Without a GPU there is no pool."),
        "no device": translate("Knobs", "The expert device is missing, so experts are not placed one by one."),
        "nothing off the gpu": translate("Knobs", "All experts are whole on a GPU."),
        "not this policy": translate("Knobs", "The chosen policy does not use it."),
        "not mapped": translate("Knobs", "Only for experts as they lie in the file: see “Experts on the processor”."),
        "no staging": translate("Knobs", "The plan has no room on the GPU for experts that pass."),
    }[reason]


# ---- predictions -------------------------------------------------------------------------------


def rate_range(rate: Range) -> str:
    """A predicted rate: "18–24", "3.2–4.1", "20" where both ends round to the same."""
    decimals = 0 if rate.likely >= 10 else 1 if rate.likely >= 1 else 2
    low, high = number(rate.low, decimals), number(rate.high, decimals)
    return low if low == high else f"{low}–{high}"


def outlook_text(now: Outlook) -> str:
    """A plan's prediction: "18–24 tokens/s in answers, 300–410 in prompts; 5.1 GiB on Vulkan0, 9.0 GiB of RAM"."""
    speed = translate("Knobs", "{decode} tokens/s in answers, {prompt} in prompts").format(
        decode=rate_range(now.speed.decode), prompt=rate_range(now.speed.prompt)
    )
    return f"{speed}; {', '.join(_on(device, in_bytes(size)) for device, size in now.memory.items())}"


def change_text(key: str, now: Outlook, without: Outlook) -> str:
    """What one knob changes: "Predicted: Vulkan0 +256.0 MiB; answers 18–24 → 17–23 tokens/s."."""
    devices = dict.fromkeys((*now.memory, *without.memory))
    memory = [
        f"{device} {signed_bytes(change)}"
        for device in devices
        if (change := now.memory.get(device, 0) - without.memory.get(device, 0))
    ]
    parts = [", ".join(memory)] if memory else [translate("Knobs", "memory as before")]
    before, after, by_rates = compared_speeds(without, now)
    speed = tuple(
        _speed_changes(
            (translate("Knobs", "answers"), before.decode, after.decode),
            (translate("Knobs", "prompts"), before.prompt, after.prompt),
        )
    )
    parts += speed or (translate("Knobs", "speed as before"),)
    sentences = [translate("Knobs", "Predicted: {changes}.").format(changes="; ".join(parts))]
    if by_rates and speed:
        words = translate(
            "Knobs", "Both speeds rest on the rates of the hardware alone: answers taught of the devices of one only."
        )
        sentences.append(words)
    if key in POLICY and not speed:
        # Predictions rest on hit rates of LRU by pool size alone.
        sentences.append(translate("Knobs", "No prediction tells policies apart: the measured hit rate will."))
    if now.shortage and not without.shortage:
        sentences.append(now.shortage)
    return " ".join(sentences)


def _speed_changes(*rates: tuple[str, Range, Range]) -> Iterable[str]:
    for what, before, now in rates:
        old, new = rate_range(before), rate_range(now)
        if old != new:
            yield translate("Knobs", "{what} {old} → {new} tokens/s").format(what=what, old=old, new=new)


def signed_bytes(change: int) -> str:
    """A difference in bytes: "+256.0 MiB", "−1.2 GiB"."""
    return f"{'+' if change >= 0 else _MINUS}{in_bytes(abs(change))}"


def _on(device: str, size: str) -> str:
    if device == CPU_LANE:
        return translate("Knobs", "{size} of RAM").format(size=size)
    return translate("Knobs", "{size} on {device}").format(size=size, device=device)


def basis_text(now: Outlook, hit_basis: str, compared: str) -> str:
    """What a plan's prediction rests on, and what its knobs are compared with (`Forecast.compared`)."""
    against = {
        "loaded": translate(
            "Knobs", "Changes are told against what runs now; what took effect since the load, against the load."
        ),
        "planner": translate("Knobs", "Changes are told against the planner's own choice."),
    }.get(compared, "")
    return " ".join(text for text in (now.speed.sentence, hit_basis, against) if text)
