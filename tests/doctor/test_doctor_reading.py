"""Thrashing told from warm-up by the engine's own counts, and what is advised against it: variations of records."""

import pytest
from doctor_factories import GIB, AnswerFigures, hint, hints, is_fine, layer, replaced, why
from rule_cases import seen_in

from app.hardware.ram_programs import RamProgram, read_ram_programs

THRASH, WARM, TAKEN = "experts_thrash.jsonl", "experts_warm_up.jsonl", "experts_taken_back.jsonl"


def changed(seen, change):
    """`seen` with `change(facts, index)` in place of each of the cache's facts."""
    every = [change(facts, index) for index, facts in enumerate((*seen.earlier, seen.cache))]
    return replaced(seen, earlier=tuple(every[:-1]), cache=every[-1])


def with_memory(facts, **fields):
    return replaced(facts, memory=replaced(facts.memory, **fields))


def with_decode(facts, **fields):
    return replaced(facts, decode=replaced(facts.decode, **fields))


def without_programs(name=THRASH):
    return replaced(seen_in(name), programs=())


@pytest.mark.parametrize("name", [THRASH, WARM, TAKEN, "mapped_file_thrashes.jsonl", "mapped_file_warms_up.jsonl"])
def test_what_reads_is_thrashing_or_a_warm_up_and_never_both(name):
    seen = seen_in(name)
    assert len(hints(seen, "thrashing")) + len(hints(seen, "warm-up")) == 1


def test_the_only_thing_to_do_in_a_warm_up_is_to_wait_or_to_have_it_done_at_once():
    found = hint(seen_in(WARM), "warm-up")
    assert found.action.startswith("Wait")
    assert "Warm up" in found.action
    assert (found.severity, found.fix) == ("note", ())
    plain = hint(seen_in("mapped_file_warms_up.jsonl"), "warm-up")
    assert plain.action.startswith("Wait")
    assert "Warm up" not in plain.action, "without the engine's table there is nothing to warm up with"


def test_a_full_budget_without_losses_is_no_thrashing():
    still = changed(seen_in(THRASH), lambda facts, _: with_memory(facts, evictions=0, stale=0))
    assert is_fine(still, "thrashing")


def test_reading_that_nobody_waits_for_is_no_thrashing():
    seen = changed(seen_in(THRASH), lambda facts, _: with_decode(facts, stall_seconds=facts.decode.seconds * 0.05))
    assert is_fine(seen, "thrashing")
    assert is_fine(seen, "warm-up")


def test_experts_that_are_all_in_memory_are_neither():
    seen = changed(seen_in(THRASH), lambda facts, _: with_memory(facts, reads=False))
    assert is_fine(seen, "thrashing")
    assert is_fine(seen, "warm-up")


def test_a_short_answer_is_not_judged_unless_its_tokens_are_slow():
    seen = changed(seen_in(WARM), lambda facts, index: with_decode(facts, tokens=index))
    assert "32 tokens" in why(seen, "thrashing")
    assert "none yet" in why(replaced(seen_in(WARM), earlier=()), "warm-up")
    slow = changed(seen_in(THRASH), lambda facts, index: with_decode(facts, tokens=2 * index, seconds=2.0 * index))
    slow = changed(slow, lambda facts, index: with_decode(facts, stall_seconds=1.0 * index))
    assert "50 %" in hint(slow, "thrashing").evidence


def test_counts_that_go_back_are_not_judged_by():
    seen = changed(seen_in(THRASH), lambda facts, index: with_decode(facts, cold_bytes=10**12 - index))
    assert "went back" in why(seen, "thrashing")


def test_facts_of_the_answer_before_are_left_out():
    """Another load begins to count anew: only what follows is one course."""
    seen = seen_in(THRASH)
    before = with_decode(seen.cache, tokens=10**6)
    assert hint(replaced(seen, earlier=(before, *seen.earlier)), "thrashing") == hint(seen, "thrashing")


def test_pages_that_the_system_took_back_are_told():
    assert "the system took pages back, so that only 7.4 GiB" in hint(seen_in(TAKEN), "thrashing").evidence


# ---- the one thing to do -----------------------------------------------------------------------


def test_the_largest_other_program_is_named_where_closing_it_would_help():
    assert hint(seen_in(THRASH), "thrashing").action == "Close firefox."
    little = replaced(seen_in(THRASH), programs=(RamProgram(name="clock", bytes=200 * 1024**2),))
    assert "clock" not in hint(little, "thrashing").action
    desktop = replaced(seen_in(THRASH), programs=(RamProgram(name="gnome-shell", bytes=2 * GIB),))
    assert "Close" not in hint(desktop, "thrashing").action
    impossible = replaced(seen_in(THRASH), programs=(RamProgram(name="liar", bytes=900 * GIB),))
    assert "liar" not in hint(impossible, "thrashing").evidence


def test_without_anything_to_close_a_smaller_quantisation_is_advised_with_its_size():
    found = hint(without_programs(), "thrashing")
    assert found.action == "Choose a smaller quantisation of this model, with about 12.9 GiB of experts."
    assert found.fix == ()


def test_one_more_gibibyte_is_predicted_from_what_was_routed_to():
    seen = without_programs()
    counts = tuple(range(128, 0, -1))
    layers = dict.fromkeys(range(48), layer(counts, "c" * 128))
    told = hint(replaced(seen, cache=replaced(seen.cache, layers=layers)), "thrashing").evidence
    assert "Predicted from the experts that were routed to: the hottest 9.0 GiB of them make up 80 %" in told
    assert "10.0 GiB would 85 %" in told


def test_a_budget_below_what_is_free_is_raised_by_the_fix():
    seen = without_programs()
    lower = changed(seen, lambda facts, _: with_memory(facts, budget_bytes=4 * GIB, trusted_bytes=4 * GIB))
    lower = changed(lower, lambda facts, _: with_memory(facts, resident_bytes=4 * GIB - 2**20))
    found = hint(replaced(lower, latest=replaced(seen.latest, ram_available_bytes=12 * GIB)), "thrashing")
    (change,) = found.fix
    assert change.key == "resident_bytes"
    assert 10 * GIB < change.value < 12 * GIB
    assert found.action.startswith("Keep up to 11.")


def test_locked_experts_are_not_taken_off_what_is_available_for_they_are_not_in_it():
    seen = without_programs()
    held = {"budget_bytes": 4 * GIB, "trusted_bytes": 4 * GIB, "locked_bytes": 2 * GIB}
    lower = changed(seen, lambda facts, _: with_memory(facts, **held))
    lower = changed(lower, lambda facts, _: with_memory(facts, resident_bytes=4 * GIB - 2**20))
    found = hint(replaced(lower, latest=replaced(seen.latest, ram_available_bytes=10 * GIB)), "thrashing")
    assert found.action.startswith("Keep up to 11.")
    assert "10.0 GiB are available and 2.0 GiB locked, those experts included" in found.evidence


def test_a_budget_is_not_raised_where_nothing_more_is_free():
    seen = without_programs()
    assert "resident_bytes" not in [change.key for change in hint(seen, "thrashing").fix]


def test_a_context_in_main_memory_that_is_hardly_used_gives_way_first():
    seen = seen_in(THRASH)
    plan = replaced(seen.plan, gpu=None, n_ctx=32768)
    used = replaced(seen, plan=plan, answers=AnswerFigures(answers=2, longest_tokens=900))
    found = hint(used, "thrashing")
    assert [(its.key, its.value) for its in found.fix] == [("n_ctx", 4096)]
    assert "no answer used more than 900 tokens" in found.evidence


def test_locked_memory_and_second_copies_are_given_up_before_anything_else():
    seen = seen_in(THRASH)
    locking = replaced(seen.plan, policy=replaced(seen.plan.policy, lock_bytes=2 * GIB))
    assert [its.key for its in hint(replaced(seen, plan=locking), "thrashing").fix] == ["lock_bytes"]
    lanes = dict.fromkeys(seen.plan.expert_lanes, "CPU")
    copied = replaced(seen.plan, residency="repacked", expert_lanes=lanes)
    system = replaced(seen_in("mapped_file_thrashes.jsonl"), plan=copied)
    assert [its.key for its in hint(system, "thrashing").fix] == ["residency"]


def test_this_machines_programs_are_told_largest_first():
    programs = read_ram_programs()
    assert [its.bytes for its in programs] == sorted((its.bytes for its in programs), reverse=True)
    assert all(its.name and its.bytes > 0 for its in programs)
