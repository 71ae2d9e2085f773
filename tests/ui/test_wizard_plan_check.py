"""The wizard's plan, laid out by the engine while it is looked at; what a load then shows is kept."""

import json

import pytest
from PySide6.QtCore import Qt
from ui_factories import make_machine
from wizard_driver import PATIENCE, choose, go_to, load, opened_wizards, write_listed_model

from app.errors import AppError, ErrorCode
from app.library import folders, load_memory
from app.placement.planner import Wishes
from app.placement.refine import STEP_DRY_RUN, STEP_NO_DRY_RUN
from app.ui.wizard import plan_check
from app.ui.wizard.flow import View

MIB = 1024**2


@pytest.fixture
def make_wizard(qtbot, theme, store):
    with opened_wizards(qtbot, theme, store) as make:
        yield make


@pytest.fixture
def model(home):
    return write_listed_model()


def checked(qtbot, wizard):
    qtbot.waitUntil(lambda: wizard.flow.choices.plan.dry_run, timeout=PATIENCE)
    return wizard.flow.choices.plan


def names(wizard):
    return [step.name for step in wizard.flow.choices.plan.steps]


def _raiser(error):
    def take(_refinement, _buffers):
        raise error

    return take


def compute(plan):
    return next(part.bytes for part in plan.memory if (part.device, part.part) == ("Vulkan0", "compute"))


def test_the_plan_page_shows_the_engines_own_figures_once_it_has_them(make_wizard, model, qtbot):
    wizard = make_wizard("--dry-run", "-8")
    choose(qtbot, wizard, model)
    go_to(qtbot, wizard, View.PLAN)
    before = wizard.flow.choices.plan
    assert "buffers are estimated" in wizard.plan_page.text
    plan = checked(qtbot, wizard)
    assert plan.loads_like(before)
    assert compute(plan) == compute(before) - 8 * MIB
    assert "buffers by llama.cpp's own dry run" in wizard.plan_page.text


def test_a_plan_that_would_not_fit_is_made_again_and_says_so(make_wizard, model, qtbot):
    wizard = make_wizard("--dry-run", "1500")
    choose(qtbot, wizard, model)
    go_to(qtbot, wizard, View.PLAN)
    before = wizard.flow.choices.plan
    plan = checked(qtbot, wizard)
    assert not plan.loads_like(before)
    [step] = [step for step in plan.steps if step.name == STEP_DRY_RUN]
    assert step.reason in wizard.plan_page.text


def test_a_plan_that_the_engine_cannot_lay_out_says_so_once_and_is_not_asked_for_again(
    make_wizard, model, qtbot, monkeypatch
):
    wizard = make_wizard("--dry-run", "8")
    refused = AppError(ErrorCode.ENGINE_FAILED, "The engine failed.")
    monkeypatch.setattr(plan_check.Refinement, "take", _raiser(refused))
    choose(qtbot, wizard, model)
    go_to(qtbot, wizard, View.PLAN)
    qtbot.waitUntil(lambda: STEP_NO_DRY_RUN in names(wizard), timeout=PATIENCE)
    assert names(wizard).count(STEP_NO_DRY_RUN) == 1
    assert not wizard._check._wait.isActive()
    assert not wizard._check._request
    wizard.plan_page.wished.emit(Wishes(n_ctx=2048))
    assert wizard._check._wait.isActive(), "another plan is another question"


def test_another_choice_is_checked_again_and_the_late_answer_for_the_first_changes_nothing(make_wizard, model, qtbot):
    wizard = make_wizard("--dry-run", "8")
    choose(qtbot, wizard, model)
    go_to(qtbot, wizard, View.PLAN)
    first = checked(qtbot, wizard)
    wizard.plan_page.wished.emit(Wishes(n_ctx=2048))
    assert not wizard.flow.choices.plan.dry_run
    second = checked(qtbot, wizard)
    assert second.n_ctx == 2048
    assert not wizard.flow.accept_checked(first, first)
    assert wizard.flow.choices.plan is second


def test_a_load_does_not_wait_for_the_check_and_is_not_done_twice_for_it(make_wizard, model, qtbot, tmp_path):
    record = tmp_path / "requests"
    wizard = make_wizard("--dry-run", "8", "--record", record)
    load(qtbot, wizard, model)
    go_to(qtbot, wizard, View.LOAD)
    wizard.choose(model)
    qtbot.waitUntil(lambda: not wizard.flow.reading, timeout=PATIENCE)
    go_to(qtbot, wizard, View.PLAN)
    checked(qtbot, wizard)
    qtbot.keyClick(wizard, Qt.Key.Key_Return)
    assert wizard.flow.view is View.LOAD
    requests = [json.loads(line)["type"] for line in record.read_text().splitlines()]
    assert requests.count("load") == 1


def test_the_load_page_sets_what_the_system_shows_beside_prediction_and_report(make_wizard, model, qtbot):
    wizard = make_wizard()
    load(qtbot, wizard, model)
    assert "CPU, in all: 7654321000 seen by the system" in wizard.load_page.text
    assert "Vulkan0, in all: None seen by the system" in wizard.load_page.text


def test_what_loads_showed_is_kept_and_read_and_a_damaged_record_is_told(home):
    from app.placement.report import BufferReport, ObservedMemory

    machine = make_machine()
    buffers = (BufferReport(device="Vulkan0", part="weights", bytes=500 * MIB),)
    seen = (ObservedMemory(device="Vulkan0", bytes=700 * MIB, source="driver"),)
    assert load_memory.with_learnt(machine) == machine
    load_memory.remember(machine, buffers, seen)
    assert load_memory.with_learnt(machine).gpus[0].context_bytes == 200 * MIB
    path = folders.data_folder() / "machine" / "memory.json"
    path.write_text("{")
    told = load_memory.with_learnt(machine)
    assert (told.gpus, len(told.notes)) == (machine.gpus, len(machine.notes) + 1)
    assert "damaged" in told.notes[-1]
    load_memory.remember(machine, buffers, seen)  # cannot be kept, which harms nothing
    assert path.read_text() == "{"
