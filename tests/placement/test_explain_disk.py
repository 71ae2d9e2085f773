"""Explanations of a plan that reads experts from the disk: what bounds it, what would spare it the reads."""

import msgspec
import pytest
from factories import GIB, MIB, make_machine, qwen3_30b

from app.placement.cache.facts import CacheTotals
from app.placement.evidence import planned
from app.placement.explain import Seen, explain
from app.placement.explain_changes import change_words, changes_of
from app.placement.memory import bytes_off_gpus, fits, predict
from app.placement.speed.prediction import predict_speed
from app.placement.speed.rates import weight_bytes
from app.placement.wishes import Wishes

FACTS = qwen3_30b(quantization="Q8_0", expert_sizes=4_980_736)
"""28.5 GiB of experts."""
MACHINE = make_machine(ram=14 * GIB)


def plan_of(**wishes):
    return planned(FACTS, MACHINE, Wishes(**wishes))


def advice_of(told, kind):
    return next((its for its in told.advice if its.kind == kind), None)


def test_the_disk_is_named_as_what_bounds_a_plan_that_reads_experts():
    told = explain(FACTS, MACHINE, plan_of())
    assert told.bound.startswith("Bound by the disk: ")
    assert "are not in main memory and are read at" in told.bound
    assert any("what memory finds there is assumed from other models" in doubt for doubt in told.doubts)


def test_memory_that_was_not_given_to_experts_is_what_would_help_most():
    told = explain(FACTS, MACHINE, plan_of(resident_bytes=5 * GIB))
    best = told.advice[0]
    assert best.kind == "resident_bytes"
    assert best.words.endswith(" of experts in main memory instead of 5.0 GiB")
    assert told.verdict == f"What would help most: {best.words[0].lower()}{best.words[1:]}."
    assert best.plan.resident_bytes > 5 * GIB
    assert fits(best.plan, MACHINE) == ()
    assert "Reads of experts from the disk would take" in best.evidence
    assert "more of main memory (predicted)" in best.costs
    assert best.decode.low <= best.decode.likely <= best.decode.high


def test_a_budget_of_ones_own_helps_where_the_system_decides():
    told = explain(FACTS, MACHINE, plan_of(resident_bytes=0))
    best = advice_of(told, "resident_bytes")
    assert best is told.advice[0]
    assert "instead of leaving that to the system" in best.words


def test_memory_that_is_full_is_no_advice_and_more_of_it_is_told_apart():
    plan = plan_of()
    told = explain(FACTS, MACHINE, plan)
    assert advice_of(told, "resident_bytes") is None
    more = next(words for words in told.beyond if "more of free main memory" in words)
    assert "all experts would stay there: decoding +" in more
    assert more.endswith("predicted.")


def test_more_memory_is_not_told_where_reads_run_beside_computing_that_takes_longer():
    machine = make_machine(ram=20 * GIB, ram_total=64 * GIB)
    slow, fast = (planned(FACTS, machine, Wishes(threads=threads)) for threads in (1, 6))
    busy = [part.seconds for part in slow.speed.decode_parts if part.name == "disk"]
    assert sum(busy) * slow.speed.decode.likely > 0.2
    told = [" ".join(explain(FACTS, machine, plan).beyond) for plan in (slow, fast)]
    assert ["more of free main memory" in words for words in told] == [False, True]


def test_a_smaller_file_is_told_with_the_speeds_of_both():
    smaller = next(words for words in explain(FACTS, MACHINE, plan_of()).beyond if "tokens/s instead of" in words)
    assert smaller.startswith("As a file of Q4_K (now Q8_0) this model would be expected to decode ")
    assert "answer less well" in smaller


def test_a_smaller_file_has_all_of_its_weights_of_the_smaller_type_and_is_predicted_so():
    plan = plan_of()
    smaller = next(words for words in explain(FACTS, MACHINE, plan).beyond if "tokens/s instead of" in words)
    share = weight_bytes("q4_k") / weight_bytes("q8_0")
    q4 = msgspec.structs.replace(
        FACTS,
        quantization="q4_k",
        expert_bytes={layer: round(size * share) for layer, size in FACTS.expert_bytes.items()},
        layer_bytes=tuple(round(size * share) for size in FACTS.layer_bytes),
        bytes=msgspec.structs.replace(FACTS.bytes, output=round(FACTS.bytes.output * share)),
    )
    file_bytes = FACTS.file_bytes - (FACTS.bytes.total - FACTS.bytes.router - FACTS.bytes.other) * (1 - share)
    q4 = msgspec.structs.replace(q4, file_bytes=int(file_bytes))
    there = msgspec.structs.replace(plan, resident_bytes=min(plan.resident_bytes, bytes_off_gpus(q4, plan)))
    there = msgspec.structs.replace(there, memory=predict(q4, MACHINE, there))
    decode = predict_speed(q4, MACHINE, there).decode
    assert f"decode {decode.low:.1f} to {decode.high:.1f} tokens/s instead of" in smaller


def test_a_smaller_context_gives_its_memory_to_experts():
    plan = plan_of(n_ctx=32768)
    change = next(its for its in changes_of(FACTS, MACHINE, plan) if its.kind == "n_ctx")
    freed = sum(part.bytes for part in plan.memory if part.part == "kv") // 2
    assert change.plan.resident_bytes - plan.resident_bytes == pytest.approx(freed, rel=0.1)
    assert change.plan.n_ctx == 16384
    assert " of experts in main memory instead of " in change.words
    assert fits(change.plan, MACHINE) == ()


def test_fewer_experts_a_token_are_read_less():
    told = explain(FACTS, MACHINE, plan_of())
    fewer = advice_of(told, "experts_used")
    assert fewer.changes_answers
    assert fewer.decode.likely > 0.05


def test_nothing_is_said_of_the_disk_where_it_is_not_read():
    roomy = make_machine(ram=60 * GIB)
    told = explain(FACTS, roomy, planned(FACTS, roomy))
    assert told.beyond == ()
    assert "disk" not in told.bound


def test_what_was_read_is_told_as_measured():
    zero = dict.fromkeys(CacheTotals.__struct_fields__, 0)
    counted = {"tokens": 32, "seconds": 1.0, "cold_experts": 73, "cold_bytes": 32 * 11 * MIB, "stall_seconds": 0.17}
    told = explain(FACTS, MACHINE, plan_of(), seen=Seen(totals=CacheTotals(**{**zero, **counted})))
    assert told.measured[-1] == (
        "A token had 2.3 experts (11.0 MiB) read from the disk, and 17 % of that time went by waiting for it "
        "(measured since the load)."
    )
    none = explain(FACTS, MACHINE, plan_of(), seen=Seen(totals=CacheTotals(**{**zero, "seconds": 1.0, "tokens": 32})))
    assert "disk" not in " ".join(none.measured)


def test_words_tell_each_way_to_change_the_memory():
    plan = msgspec.structs.replace(plan_of(), resident_bytes=4 * GIB)
    none = msgspec.structs.replace(plan, resident_bytes=0)
    assert change_words(plan, none, FACTS) == "Leave it to the system which experts stay in main memory"
    assert change_words(none, plan, FACTS).startswith("Keep 4.0 GiB of experts in main memory by use")
    fitting = msgspec.structs.replace(plan, resident_bytes=None)
    assert change_words(fitting, plan, FACTS) == (
        "Keep 4.0 GiB of experts in main memory instead of all that there is room for"
    )
    whole = msgspec.structs.replace(plan, resident_bytes=bytes_off_gpus(FACTS, plan))
    assert change_words(plan, whole, FACTS) == "Keep 28.5 GiB of experts in main memory instead of 4.0 GiB"
    assert predict(FACTS, MACHINE, whole) != predict(FACTS, MACHINE, plan)
