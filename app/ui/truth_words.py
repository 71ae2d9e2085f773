"""The line of truth in words: where the model is, and predictions beside what was reported and measured."""

from PySide6.QtCore import QCoreApplication

from app.engine.protocol import Finished, Loaded
from app.hardware.facts import Machine
from app.placement.cache.facts import MemoryFacts
from app.placement.comparison import memory_table
from app.placement.memory import predicted_use
from app.placement.memory_learning import device_totals
from app.placement.plan import CPU_LANE, Plan
from app.placement.speed.types import SpeedPrediction
from app.ui.expert_cache import ExpertCache
from app.ui.words import in_bytes, in_percent, number, part_in_words


def devices_in_words(plan: Plan, report: Loaded) -> str:
    """Where attention and experts are, as the engine reports it.

    Attention is where its cache is; what the engine reports no cache of is named as planned.
    """
    translate = QCoreApplication.translate
    lanes = sorted(set(report.expert_layers.values()))
    caches = sorted({buffer.device for buffer in report.buffers if buffer.part == "kv" and buffer.bytes})
    if caches and lanes in ([], caches):
        return " + ".join(caches)
    attention = " + ".join(caches)
    if not caches:
        attention = translate("TruthLine", "{device} (planned)").format(device=plan.gpu or CPU_LANE)
    if not lanes:
        return attention
    words = translate("TruthLine", "attention on {attention}, experts on {lanes}")
    return words.format(attention=attention, lanes=" + ".join(lanes))


def lanes_in_words(report: Loaded) -> str:
    """How many layers' experts each lane holds, one line each."""
    counts: dict[str, int] = {}
    for lane in report.expert_layers.values():
        counts[lane] = counts.get(lane, 0) + 1
    words = QCoreApplication.translate("TruthLine", "Experts of {count} layers on {lane}")
    return "\n".join(words.format(count=number(counts[lane]), lane=lane) for lane in sorted(counts))


def memory_in_words(plan: Plan, report: Loaded) -> str:
    """Prediction and report, of the parts that both name: nothing else may be compared."""
    both = _both_named(plan, report)
    translate = QCoreApplication.translate
    if both is None:
        return translate("TruthLine", "The engine reports nothing that was predicted")
    words = translate("TruthLine", "Predicted {predicted} · reported by the engine {reported}")
    predicted, reported = both
    return words.format(predicted=in_bytes(predicted), reported=in_bytes(reported))


def memory_in_detail(plan: Plan, report: Loaded) -> str:
    """Prediction and report by device and part, also of what only one of them names."""
    translate = QCoreApplication.translate
    both = translate("TruthLine", "{device}, {part}: predicted {predicted}, reported {reported}")
    predicted_only = translate("TruthLine", "{device}, {part}: predicted {predicted}, not reported by the engine")
    reported_only = translate("TruthLine", "{device}, {part}: not predicted, reported {reported}")
    lines = []
    for row in memory_table(plan, report.buffers):
        words = both
        if row.reported_bytes is None:
            words = predicted_only
        elif row.predicted_bytes is None:
            words = reported_only
        lines.append(
            words.format(
                device=row.device,
                part=part_in_words(row.part),
                predicted=in_bytes(row.predicted_bytes or 0),
                reported=in_bytes(row.reported_bytes or 0),
            )
        )
    return "\n".join(lines)


def pool_in_words(cache: ExpertCache) -> tuple[str, str]:
    """The pool's three facts, and why it is not used; empty where none was asked for or nobody has looked.

    The latest facts count; who has not looked still has the last answer's report.
    """
    pool, last = cache.facts.pool if cache.facts else None, cache.last_answer
    told = pool or last
    if told is None or not told.requested_bytes:
        return "", ""
    translate = QCoreApplication.translate
    words = translate("TruthLine", "Expert pool: requested {requested}, allocated {allocated}, {used}").format(
        requested=in_bytes(told.requested_bytes),
        allocated=in_bytes(told.allocated_bytes),
        used=translate("TruthLine", "in use") if told.used else translate("TruthLine", "not in use"),
    )
    if last is not None and last.hits and last.misses is not None:
        share = in_percent(last.hits / (last.hits + last.misses))
        words += translate("TruthLine", ", hits {share}").format(share=share)
    return words, told.reason


def expert_device_in_words(report: Loaded, *, moe: bool) -> str:
    """Whether the routings of the CPU lane's experts are counted."""
    translate = QCoreApplication.translate
    if not moe:
        return translate("TruthLine", "Dense model: it has no experts")
    if report.expert_device:
        return translate("TruthLine", "Expert device on: routings on the CPU lane are counted")
    words = translate("TruthLine", "Expert device off: routings are not counted")
    return f"{words} ({report.reason})" if report.reason else words


def pool_in_short(cache: ExpertCache) -> str:
    """Allocated of requested bytes, and whether they are in use; empty where `pool_in_words` is."""
    told = (cache.facts.pool if cache.facts else None) or cache.last_answer
    if told is None or not told.requested_bytes:
        return ""
    words = (
        QCoreApplication.translate("TruthLine", "Pool {allocated} of {requested}, in use")
        if told.used
        else QCoreApplication.translate("TruthLine", "Pool {allocated} of {requested}, not in use")
    )
    return words.format(allocated=in_bytes(told.allocated_bytes), requested=in_bytes(told.requested_bytes))


def planned_pool_in_words(plan: Plan, *, loaded: bool) -> str:
    """The pool that a plan asks for, where the engine has not told of it yet."""
    translate = QCoreApplication.translate
    if not plan.pool_bytes:
        return translate("TruthLine", "No expert pool is asked for")
    words = (
        translate("TruthLine", "Expert pool: requested {requested}, the engine has not told yet what it has")
        if loaded
        else translate("TruthLine", "Expert pool: requested {requested}, nothing allocated")
    )
    return words.format(requested=in_bytes(plan.pool_bytes))


def pool_detail(cache: ExpertCache) -> str:
    """The pool's places, and what else it keeps of the device; empty where nobody has looked."""
    pool = cache.facts.pool if cache.facts else None
    if pool is None or not pool.requested_bytes:
        return ""
    translate = QCoreApplication.translate
    words = translate("TruthLine", "{resident} of {slots} places hold an expert, on {device}.").format(
        resident=number(pool.resident), slots=number(pool.slots), device=pool.device
    )
    if pool.locked_bytes:
        words += " " + translate("TruthLine", "{size} of main memory are locked for copies.").format(
            size=in_bytes(pool.locked_bytes)
        )
    return words


def expert_memory_in_words(plan: Plan, memory: MemoryFacts | None) -> str:
    """Requested budget of main memory for experts in the file, and what is in it; empty where none runs."""
    if memory is None or not memory.budget_bytes:
        return ""
    translate = QCoreApplication.translate
    requested = translate("TruthLine", "what fits")
    if plan.resident_bytes is not None:
        requested = in_bytes(plan.resident_bytes)
    words = translate(
        "TruthLine",
        "Experts in main memory: requested {requested}, budget {budget}, {resident} of {total} in memory or being read",
    )
    return words.format(
        requested=requested,
        budget=in_bytes(memory.budget_bytes),
        resident=in_bytes(memory.resident_bytes),
        total=in_bytes(memory.total_bytes),
    )


def expert_memory_in_short(memory: MemoryFacts | None) -> str:
    """What is in memory of the budget; empty where `expert_memory_in_words` is."""
    if memory is None or not memory.budget_bytes:
        return ""
    words = QCoreApplication.translate("TruthLine", "Experts {resident} of {budget} in memory or being read")
    return words.format(resident=in_bytes(memory.resident_bytes), budget=in_bytes(memory.budget_bytes))


def expert_memory_detail(memory: MemoryFacts | None) -> str:
    """What is to be known beside: a budget that cannot be used whole, and what the system may not take."""
    if memory is None or not memory.budget_bytes:
        return ""
    translate, lines = QCoreApplication.translate, []
    if memory.trusted_bytes < min(memory.budget_bytes, memory.total_bytes):
        words = translate("TruthLine", "The system took experts back: only {size} of the budget are used.")
        lines.append(words.format(size=in_bytes(memory.trusted_bytes)))
    if memory.locked_bytes:
        words = translate("TruthLine", "{size} of them are locked: the system may not take them.")
        lines.append(words.format(size=in_bytes(memory.locked_bytes)))
    return "\n".join((*lines, memory.reason) if memory.reason else lines)


def memory_in_short(plan: Plan, report: Loaded) -> str:
    """Reported of predicted bytes, of the parts that both name."""
    both = _both_named(plan, report)
    if both is None:
        return memory_in_words(plan, report)
    predicted, reported = both
    return QCoreApplication.translate("TruthLine", "Memory {reported} ({predicted} predicted)").format(
        reported=in_bytes(reported), predicted=in_bytes(predicted)
    )


def planned_memory_in_words(plan: Plan) -> str:
    """What a plan is predicted to take, by device, where it is not loaded."""
    parts = [f"{device} {in_bytes(predicted_use(plan, device))}" for device in (*plan.gpus, CPU_LANE)]
    return QCoreApplication.translate("TruthLine", "Memory predicted: {parts}").format(parts=", ".join(parts))


def totals_in_detail(plan: Plan, machine: Machine, report: Loaded) -> str:
    """Each device in all: predicted, reported by the engine, and seen by system or driver."""
    translate = QCoreApplication.translate
    lines = []
    for total in device_totals(plan, machine, report.buffers, report.observed):
        words = translate("TruthLine", "{device} in all: predicted {predicted}, reported {reported}").format(
            device=total.device, predicted=in_bytes(total.predicted_bytes), reported=in_bytes(total.reported_bytes)
        )
        if total.observed_bytes is not None:
            words += translate("TruthLine", ", measured {observed} ({source})").format(
                observed=in_bytes(total.observed_bytes), source=total.source
            )
        lines.append(words)
    return "\n".join(lines)


def speed_in_words(
    speed: SpeedPrediction | None, finished: Finished | None, *, loaded: bool, after: bool = False
) -> str:
    """Predicted decoding speed beside that of the last answer, and which of them came first.

    Args:
        speed: The prediction.
        finished: The last answer; None before the first one.
        loaded: Whether the plan is.
        after: Whether the prediction was made after that answer, for what was changed since.
    """
    translate = QCoreApplication.translate
    predicted = _rates(speed)
    measured = finished.tokens_per_second if finished is not None else 0.0
    told = translate("TruthLine", "Predicted {rates} tokens/s").format(rates=predicted) if predicted else ""
    if measured:
        last = translate("TruthLine", "measured {rate} in the last answer").format(rate=_rate(measured))
        if told:
            words = translate("TruthLine", "Predicted beforehand {rates} tokens/s · {last}")
            if after:
                words = translate("TruthLine", "Predicted since the change {rates} tokens/s · {last}, before it")
            return words.format(rates=predicted, last=last)
        return translate("TruthLine", "Last answer {rate} tokens/s, measured").format(rate=_rate(measured))
    if not told:
        return translate("TruthLine", "Speed: nothing predicted or measured yet") if loaded else ""
    return f"{told} · {translate('TruthLine', 'not measured yet')}"


def speed_in_short(speed: SpeedPrediction | None, finished: Finished | None) -> str:
    """Measured and predicted tokens a second; empty where there is nothing of either."""
    translate = QCoreApplication.translate
    predicted = _rates(speed)
    measured = finished.tokens_per_second if finished is not None else 0.0
    if measured and predicted:
        words = translate("TruthLine", "{measured} tokens/s ({predicted} predicted)")
        return words.format(measured=_rate(measured), predicted=predicted)
    if measured:
        return translate("TruthLine", "{measured} tokens/s").format(measured=_rate(measured))
    return translate("TruthLine", "{predicted} tokens/s predicted").format(predicted=predicted) if predicted else ""


def speed_in_detail(speed: SpeedPrediction | None, finished: Finished | None, *, after: bool = False) -> str:
    """What bounds the speed and what the prediction rests on; prompts, too."""
    translate = QCoreApplication.translate
    lines = [speed.sentence] if speed is not None else []
    if speed is not None:
        words = translate("TruthLine", "Prompts: predicted {rates} tokens/s")
        lines.append(words.format(rates=f"{_rate(speed.prompt.low)}–{_rate(speed.prompt.high)}"))
    if speed is not None and finished is not None and not after:
        lines.append(
            translate(
                "TruthLine",
                "This was predicted before the answer and is not corrected by it; the curve and the knobs are.",
            )
        )
    if finished is not None and finished.prompt_tokens_per_second:
        words = translate("TruthLine", "Prompt of the last answer: {rate} tokens/s, measured")
        lines.append(words.format(rate=_rate(finished.prompt_tokens_per_second)))
    return "\n".join(lines)


def _both_named(plan: Plan, report: Loaded) -> tuple[int, int] | None:
    """Predicted and reported bytes of the parts that both name; None where there are none."""
    both = [
        (row.predicted_bytes, row.reported_bytes)
        for row in memory_table(plan, report.buffers)
        if row.predicted_bytes is not None and row.reported_bytes is not None
    ]
    return (sum(its for its, _ in both), sum(its for _, its in both)) if both else None


def _rates(speed: SpeedPrediction | None) -> str:
    if speed is None:
        return ""
    low, high = _rate(speed.decode.low), _rate(speed.decode.high)
    return low if low == high else f"{low}–{high}"


def _rate(tokens_per_second: float) -> str:
    return number(tokens_per_second, 1 if tokens_per_second < 10 else 0)
