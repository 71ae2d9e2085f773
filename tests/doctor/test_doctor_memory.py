"""Rules about main memory: each with the plan or the sample that fires it, and one that must not."""

from doctor_factories import (
    GIB,
    AnswerFigures,
    cache,
    hint,
    hints,
    is_fine,
    loaded,
    machine,
    planned,
    pool,
    replaced,
    sample,
    seen_of,
    why,
)

from app.placement.plan import CachePolicy

BIG = "workstation_two_gpus"
CARD = "desktop_nvidia_x16_dual_channel"


def locking(size):
    return {"policy": CachePolicy(lock_bytes=size)}


def test_locking_more_than_half_of_what_is_left_is_told_with_both_figures_and_brought_down():
    its = machine(CARD)
    size = its.ram.total_bytes
    found = hint(planned(its, change=locking(size)), "locked-memory")
    assert "are to be page-locked" in found.evidence
    assert "predicted" in found.evidence
    assert found.fix[0].key == "lock_bytes"
    assert 0 <= found.fix[0].value < size // 2


def test_locking_a_little_where_much_is_left_is_fine():
    assert is_fine(planned(BIG, change=locking(GIB)), "locked-memory")


def test_locked_memory_is_judged_by_what_is_available_once_it_is_loaded():
    seen = loaded(planned(CARD), cache=cache(pool(locked_bytes=6 * GIB)))
    assert "not looked at" in why(seen, "locked-memory")
    assert is_fine(replaced(seen, latest=sample(1, available=9 * GIB)), "locked-memory")
    found = hint(replaced(seen, latest=sample(1, available=GIB // 8)), "locked-memory")
    assert "6.0 GiB" in found.evidence
    assert "128.0 MiB" in found.evidence


def with_ram(name, total, available):
    its = machine(name)
    return replaced(its, ram=replaced(its.ram, total_bytes=total, available_bytes=available))


def test_repacked_experts_are_left_in_the_file_where_memory_is_short():
    seen = planned(with_ram(CARD, 24 * GIB, 22 * GIB), gpu=None, change={"residency": "repacked"})
    short = replaced(seen, machine=with_ram(CARD, 24 * GIB, 10 * GIB))
    found = hint(short, "repacked")
    assert "16.3 GiB" in found.evidence
    assert "lack" in found.evidence
    assert [(its.key, its.value) for its in found.fix] == [("residency", "mapped")]
    assert is_fine(seen, "repacked")
    assert is_fine(replaced(short, plan=replaced(short.plan, residency="mapped")), "repacked")


def test_experts_copied_from_a_file_larger_than_memory_are_told_with_both_sizes():
    seen = planned(with_ram(CARD, 24 * GIB, 22 * GIB), gpu=None, change={"residency": "repacked"})
    small = replaced(seen, machine=with_ram(CARD, 12 * GIB, 10 * GIB))
    found = hint(small, "unmapped-file")
    assert "12.0 GiB" in found.evidence
    assert "17." in found.evidence
    assert not hints(small, "repacked")
    assert is_fine(seen, "unmapped-file")


def test_repacked_experts_of_a_load_are_judged_by_what_is_available_now():
    seen = loaded(planned(with_ram(CARD, 24 * GIB, 22 * GIB), gpu=None, change={"residency": "repacked"}))
    assert hint(replaced(seen, latest=sample(1, available=GIB // 2)), "repacked")
    assert is_fine(replaced(seen, latest=sample(1, available=4 * GIB)), "repacked")


def answered(seen, *, answers, longest):
    return replaced(seen, answers=AnswerFigures(answers=answers, longest_tokens=longest))


def test_a_context_far_above_its_use_is_told_with_what_it_takes_and_what_would_become_free():
    seen = loaded(planned(CARD, n_ctx=32768))
    found = hint(answered(seen, answers=5, longest=1400), "context")
    assert "32,768" in found.evidence
    assert "1,400" in found.evidence
    assert "3.0 GiB" in found.evidence
    assert "Predicted" in found.evidence
    assert [(its.key, its.value) for its in found.fix] == [("n_ctx", 4096)]


def test_a_context_that_is_used_is_fine():
    assert is_fine(answered(loaded(planned(CARD, n_ctx=32768)), answers=5, longest=12000), "context")


def test_a_context_is_not_judged_by_one_answer():
    seen = loaded(planned(CARD, n_ctx=32768))
    assert "3 answers" in why(answered(seen, answers=1, longest=300), "context")


def test_without_a_model_plans_are_not_judged():
    assert "name a model" in why(seen_of(CARD), "repacked")
