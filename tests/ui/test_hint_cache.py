"""How reading went over an answer, in the window: the cache's facts are kept, judged, and forgotten with the answer."""

import pytest
from doctor_factories import SNAPSHOTS, replaced
from rule_cases import CASES, seen_in

from app.doctor.diagnosis import examine
from app.hardware.ram_programs import RamProgram
from app.ui import hint_judge
from app.ui.hint_cache import AnswerCaches
from app.ui.hint_card import HintCard
from app.ui.hint_fixes import fixed
from app.ui.hint_judge import Judge

WITH_FIX = sorted(rule for rule, case in CASES.items() if case.fix)


def test_facts_of_one_answer_are_kept_in_order_and_forgotten_with_the_next(loaded_controller, qtbot):
    controller = loaded_controller("--tokens", 60, "--token-ms", 20)
    caches = AnswerCaches(controller, controller, between=0.0)
    controller.cache.watch(caches, experts=True)
    with qtbot.waitSignal(controller.finished, timeout=20000):
        controller.ask("Why?")
    tokens = [facts.decode.tokens for facts in caches.earlier]
    assert len(tokens) >= 2
    assert tokens == sorted(tokens)
    assert all(facts.layers == {} and facts.batches == () for facts in caches.earlier)
    with qtbot.waitSignal(controller.answer_started, timeout=20000):
        controller.ask("And then?")
    assert len(caches.earlier) <= 1
    with qtbot.waitSignal(controller.finished, timeout=20000):
        controller.stop()


def test_who_else_holds_main_memory_is_asked_only_where_experts_thrash(monkeypatch):
    asked = []

    def programs(but):
        asked.append(but)
        return (RamProgram(name="browser", bytes=4 * 1024**3),)

    monkeypatch.setattr(hint_judge, "read_ram_programs", programs)
    calm = replaced(seen_in("loaded_as_planned.jsonl"), engine_pid=4711)
    Judge().judge(calm, engine_failed=False)
    assert asked == []
    thrashing = replaced(seen_in("experts_thrash.jsonl"), engine_pid=4711, programs=())
    diagnosis = Judge().judge(thrashing, engine_failed=False)
    (hint,) = [hint for hint in diagnosis.hints if hint.rule == "thrashing"]
    assert hint.action == "Close browser."
    assert [4711 in but for but in asked] == [True]


@pytest.mark.parametrize("rule", WITH_FIX)
def test_a_card_shows_every_fix_as_a_difference_before_the_plan_is_changed(qtbot, rule):
    seen = seen_in(CASES[rule].fires)
    (hint,) = [hint for hint in examine(seen).hints if hint.rule == rule]
    card = HintCard(hint)
    qtbot.addWidget(card)
    accepted = []
    card.accepted.connect(accepted.append)
    card.show_hint(hint, fixable=True)
    assert not card.show_button.isHidden()
    result = fixed(hint.fix, seen.facts, seen.machine, seen.plan)
    card.show_fix(result)
    assert " → " in card.difference.text()
    assert not card.change_button.isHidden()
    assert accepted == []
    card.change_button.click()
    assert accepted == [result]


@pytest.mark.parametrize("rule", sorted(CASES))
def test_every_hint_can_be_hidden_from_its_card(qtbot, rule):
    (hint, *_) = [hint for hint in examine(seen_in(CASES[rule].fires)).hints if hint.rule == rule]
    card = HintCard(hint)
    qtbot.addWidget(card)
    with qtbot.waitSignal(card.hide_wanted, timeout=1000):
        card.hide_button.click()
    assert hint.title in card.hide_button.accessibleName()
    assert (SNAPSHOTS / CASES[rule].fires).exists()
