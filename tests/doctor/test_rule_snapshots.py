"""Every rule against files: one snapshot or record fires it with its figures, and another, judged, does not.

Files are read as `doctor --snapshot` and `doctor --replay` read them; no observation is made here.
"""

import pytest
from doctor_factories import SNAPSHOTS
from rule_cases import CASES, MACHINES, MORE, OF_THE_MACHINE, RECORDS, seen_in

from app.doctor.diagnosis import RULES, examine
from app.doctor.hints import SEVERITIES
from app.doctor.record import read_record
from app.hardware.snapshot import COMPOSED, RECORDED


def test_every_rule_has_a_file_that_fires_it_and_one_that_must_not():
    assert [rule.name for rule in RULES if rule.name not in CASES] == []
    assert CASES.keys() - {rule.name for rule in RULES} == set()
    named = {name for case in CASES.values() for name in (case.fires, case.silent)} | set(MORE)
    assert named <= {*MACHINES, *RECORDS}
    assert {name for name in RECORDS if read_record(SNAPSHOTS / name).head.origin == COMPOSED} <= named


@pytest.mark.parametrize("rule", sorted(CASES))
def test_the_file_with_the_fault_fires_the_rule_with_its_figures_and_one_action(rule):
    case = CASES[rule]
    found = [hint for hint in examine(seen_in(case.fires)).hints if hint.rule == rule]
    assert len(found) == 1
    (hint,) = found
    assert all(figure in hint.evidence for figure in case.figures), hint.evidence
    assert case.figures
    assert hint.severity in SEVERITIES
    assert hint.title
    assert hint.action.endswith(".")
    assert ". " not in hint.action, "one sentence"
    assert ", or " not in hint.action, "one thing to do"
    assert tuple((change.key, change.value) for change in hint.fix) == case.fix


@pytest.mark.parametrize("rule", sorted(CASES))
def test_the_file_without_the_fault_is_judged_and_found_to_be_fine(rule):
    assert rule in examine(seen_in(CASES[rule].silent)).fine


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_fires_the_rule_that_it_was_made_for_and_no_other(name):
    meant = {rule for rule, case in CASES.items() if case.fires == name} | MORE.get(name, set())
    assert {hint.rule for hint in examine(seen_in(name)).hints} - OF_THE_MACHINE == meant - OF_THE_MACHINE


def test_experts_that_go_and_come_at_little_cost_are_no_thrashing():
    """Recorded: the budget is full and 8 MB are read for each token, but 3 % of the time went by waiting for it."""
    seen = seen_in("vm_limited_memory_recorded.jsonl")
    first, last = seen.earlier[0], seen.cache
    assert last.memory.resident_bytes > 0.99 * last.memory.budget_bytes
    assert last.memory.evictions > first.memory.evictions
    assert {"thrashing", "warm-up"} <= set(examine(seen).fine)


def test_a_real_engine_that_thrashes_is_told_with_what_it_counted():
    """Recorded: 100 MiB of 380 MiB may stay, and more than half of what each token needs is read again."""
    (hint,) = [hint for hint in examine(seen_in("vm_demo_thrashes_recorded.jsonl")).hints if hint.rule == "thrashing"]
    assert "99.7 MiB of the 379.7 MiB" in hint.evidence
    assert "59.7 MB and, 30 tokens later, still 58.1 MB" in hint.evidence
    assert "21 % of the time" in hint.evidence
    assert hint.action == "Keep up to 379.7 MiB of experts in main memory."
    assert [change.key for change in hint.fix] == ["resident_bytes"]


def test_records_say_whether_they_were_recorded_or_composed():
    heads = [read_record(SNAPSHOTS / name).head for name in RECORDS]
    assert {head.origin for head in heads} == {RECORDED, COMPOSED}
    assert all("composed from" in head.about for head in heads if head.origin == COMPOSED)
