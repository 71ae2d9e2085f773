"""What was measured before, on the plan page: read off the UI thread, used as soon as it is there, and said."""

import threading
from datetime import UTC, datetime

import msgspec
import pytest
from ui_factories import make_machine
from wizard_driver import PATIENCE, choose, go_to, opened_wizards, write_listed_model

from app.hardware.fingerprint import engine_name, fingerprint
from app.library import calibrations, tuned_plans
from app.model.reader import read_facts
from app.placement.evidence import planned
from app.placement.scenarios.figure import Figure
from app.placement.speed.calibration import Calibration, ComputeRate
from app.placement.tuner.types import Tried, TunedPlan
from app.ui.wizard import plan_evidence
from app.ui.wizard.flow import View

MACHINE = make_machine()


@pytest.fixture
def make_wizard(qtbot, theme, store):
    with opened_wizards(qtbot, theme, store) as make:
        yield make


@pytest.fixture
def model(home):
    return write_listed_model()


def plan_page(qtbot, wizard, model):
    choose(qtbot, wizard, model)
    go_to(qtbot, wizard, View.PLAN)
    return wizard.plan_page


def keep_calibration(busy_share=0.0):
    rates = [("CPU", 2, 9e9), (MACHINE.gpus[0].device, 0, 90e9)]
    calibrations.keep(
        Calibration(
            machine=fingerprint(MACHINE),
            engine=engine_name(MACHINE.engine),
            measured_at=datetime.now(UTC).isoformat(),
            seconds=20,
            busy_share=busy_share,
            compute=tuple(
                ComputeRate(device=device, type="mxfp4", threads=threads, bytes_per_second=rate, flops_per_second=1e12)
                for device, threads, rate in rates
            ),
        )
    )


def keep_tuned(model):
    facts = read_facts(model)
    names = tuned_plans.key(facts, MACHINE)
    before, after = (
        Tried(words="", decode=Figure(median=its, least=its, most=its, samples=5), prompt=None) for its in (20, 22.8)
    )
    record = TunedPlan(
        model=names[0], machine=names[1], engine=names[2], words="1 thread", before=before, after=after,
        plan=msgspec.structs.replace(planned(facts, MACHINE), threads=1), tuned_at="2026-01-02T10:00:00+00:00",
    )  # fmt: skip
    tuned_plans.keep_tuned(record, facts, MACHINE)


def basis(wizard):
    return wizard.flow.choices.plan.speed.basis


def test_the_plan_is_made_anew_by_a_calibration_as_soon_as_it_is_read(make_wizard, model, qtbot):
    keep_calibration()
    wizard = make_wizard("--dry-run", "8", machine=MACHINE)
    page = plan_page(qtbot, wizard, model)
    assert basis(wizard) == "assumed"
    qtbot.waitUntil(lambda: basis(wizard) == "calibrated", timeout=PATIENCE)
    assert "predicted from this machine's measured rates" in page.text
    qtbot.waitUntil(lambda: wizard.flow.choices.plan.dry_run, timeout=PATIENCE)
    assert basis(wizard) == "calibrated"


def test_nothing_is_read_on_the_ui_thread_and_a_slow_disk_holds_nothing_up(make_wizard, model, qtbot, monkeypatch):
    go_on, threads = threading.Event(), []

    def slow(facts, machine, read=plan_evidence.evidence_of):
        threads.append(threading.current_thread())
        go_on.wait(PATIENCE / 1000)
        return read(facts, machine)

    monkeypatch.setattr(plan_evidence, "evidence_of", slow)
    keep_calibration()
    wizard = make_wizard(machine=MACHINE)
    plan_page(qtbot, wizard, model)
    qtbot.waitUntil(lambda: bool(threads), timeout=PATIENCE)
    assert wizard.next_button.isEnabled()
    assert basis(wizard) == "assumed"
    go_on.set()
    qtbot.waitUntil(lambda: basis(wizard) == "calibrated", timeout=PATIENCE)
    assert threading.main_thread() not in threads


def test_a_calibration_made_beside_busy_programs_is_not_used_and_the_page_says_to_measure_again(
    make_wizard, model, qtbot
):
    keep_calibration(busy_share=0.6)
    wizard = make_wizard(machine=MACHINE)
    page = plan_page(qtbot, wizard, model)
    qtbot.waitUntil(lambda: "measured while other programs were busy" in page.text, timeout=PATIENCE)
    assert "measure again" in page.text
    assert basis(wizard) == "assumed"


def test_a_tuned_plan_is_offered_said_and_can_be_left_aside(make_wizard, model, qtbot):
    keep_tuned(model)
    wizard = make_wizard("--dry-run", "8", machine=MACHINE)
    page = plan_page(qtbot, wizard, model)
    assert not page.controls.tuned.isVisible()
    qtbot.waitUntil(lambda: bool(wizard.flow.choices.plan.tuned), timeout=PATIENCE)
    assert wizard.flow.choices.plan.threads == 1
    assert "tuned on 2026-01-02 (1 thread): decoding 1.14× the default, measured" in page.text
    assert page.controls.tuned.isVisible()
    assert page.controls.tuned.isChecked()
    qtbot.waitUntil(lambda: wizard.flow.choices.plan.dry_run, timeout=PATIENCE)
    assert wizard.flow.choices.plan.tuned
    page.controls.tuned.click()
    assert not wizard.flow.choices.plan.tuned
    assert wizard.flow.choices.plan.threads != 1
    page.controls.tuned.click()
    assert wizard.flow.choices.plan.threads == 1


def test_a_tuned_plan_whose_dry_run_does_not_fit_gives_way_to_the_planners_with_the_reason(make_wizard, model, qtbot):
    keep_tuned(model)
    wizard = make_wizard("--dry-run", "1500", machine=MACHINE)
    page = plan_page(qtbot, wizard, model)
    qtbot.waitUntil(lambda: bool(wizard.flow.choices.plan.tuned), timeout=PATIENCE)
    qtbot.waitUntil(lambda: wizard.flow.choices.plan.dry_run, timeout=PATIENCE)
    assert not wizard.flow.choices.plan.tuned
    assert "Tuned plan not used" in page.text
    assert "it does not fit now" in page.text


def test_another_models_evidence_that_comes_late_is_dropped(make_wizard, model, qtbot):
    keep_tuned(model)
    wizard = make_wizard(machine=MACHINE)
    plan_page(qtbot, wizard, model)
    other = msgspec.structs.replace(wizard.flow.choices.facts, fingerprint="another")
    evidence = wizard.flow.choices.evidence
    wizard._evidence._take(other, MACHINE, evidence)
    assert wizard.flow.choices.evidence is evidence
