"""The wizard over a scripted engine: choosing, the machine, the plan, and back again."""

import re

import model_shapes
import msgspec
import pytest
from gguf_files import write_model
from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDropEvent
from PySide6.QtWidgets import QApplication, QFileDialog
from scripted_engine import GPU
from ui_factories import make_facts, make_machine
from wizard_driver import PATIENCE, choose, go_to, opened_wizards, write_listed_model

from app.hardware.facts import GpuKind
from app.ui.wizard.flow import View
from app.ui.words import in_bytes

COPY, LEFT, NONE = Qt.DropAction.CopyAction, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier


@pytest.fixture
def make_wizard(qtbot, theme, store):
    with opened_wizards(qtbot, theme, store) as make:
        yield make


@pytest.fixture
def model(home):
    return write_listed_model()


def test_without_a_model_it_says_so_and_does_not_go_on(make_wizard, qtbot):
    wizard = make_wizard()
    assert not wizard.next_button.isEnabled()
    assert not wizard.back_button.isEnabled()
    assert wizard.model_page.first_focus() is wizard.model_page.demo.button
    wizard.setFocus()
    wizard.go_on()
    assert wizard.flow.view is View.MODEL


def test_the_machine_is_looked_at_before_its_page_is_shown(make_wizard):
    wizard = make_wizard()
    assert wizard.flow.view is View.MODEL
    assert "Scripted CPU" in wizard.machine_page.text
    assert GPU.name in wizard.machine_page.text


def test_the_chosen_model_is_told_in_words(make_wizard, model, qtbot):
    wizard = make_wizard()
    choose(qtbot, wizard, model)
    said = wizard.model_page.card.text
    assert "32 per layer, 4 used for each token" in said
    assert "24, all with experts" in said
    facts = wizard.controller.facts
    assert f"One token reads: {in_bytes(facts.token_cycle_bytes)} of experts" in said
    assert "Each token uses only 13 % of the expert bytes" in said


def test_models_of_the_models_folder_are_listed_and_a_selected_one_is_chosen(make_wizard, model, qtbot):
    wizard = make_wizard()
    models = wizard.model_page.models
    assert [models.item(row).text() for row in range(models.count())] == ["gpt-oss"]
    with qtbot.waitSignal(wizard.controller.model_changed, timeout=PATIENCE):
        qtbot.mouseClick(models.viewport(), LEFT, pos=models.visualItemRect(models.item(0)).center())
    assert wizard.flow.choices.facts.files == (str(model),)
    assert models.currentRow() == 0


def test_the_list_that_only_gets_the_focus_chooses_nothing(make_wizard, model):
    wizard = make_wizard()
    wizard.model_page.models.setFocus(Qt.FocusReason.TabFocusReason)
    assert not wizard.flow.reading
    assert wizard.flow.choices.facts is None


def test_a_file_from_the_dialog_is_chosen(make_wizard, home, qtbot, monkeypatch):
    path = write_model(home / "模型 with spaces.gguf", model_shapes.deepseek_v2_lite())
    wizard = make_wizard()
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_: (str(path), ""))
    with qtbot.waitSignal(wizard.controller.model_changed, timeout=PATIENCE):
        wizard.model_page.open_button.click()
    assert "26 of them with experts" in wizard.model_page.card.text
    assert ", 2 more used always" in wizard.model_page.card.text


def test_a_dropped_file_is_chosen_from_any_page(make_wizard, model, home, qtbot):
    other = write_model(home / "other.gguf", model_shapes.deepseek_v2_lite())
    wizard = make_wizard()
    choose(qtbot, wizard, model)
    go_to(qtbot, wizard, View.PLAN)
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(other))])
    enter = QDragEnterEvent(QPoint(5, 5), COPY, data, LEFT, NONE)
    QApplication.sendEvent(wizard, enter)
    assert enter.isAccepted()
    with qtbot.waitSignal(wizard.controller.model_changed, timeout=PATIENCE):
        QApplication.sendEvent(wizard, QDropEvent(QPointF(5, 5), COPY, data, LEFT, NONE))
    assert wizard.flow.view is View.MODEL
    assert wizard.flow.choices.facts.architecture == "deepseek2"


def test_what_is_no_single_local_file_cannot_be_dropped(make_wizard):
    wizard = make_wizard()
    for urls in ([], [QUrl("https://example.org/a.gguf")], [QUrl.fromLocalFile("/a"), QUrl.fromLocalFile("/b")]):
        data = QMimeData()
        data.setUrls(urls)
        enter = QDragEnterEvent(QPoint(5, 5), COPY, data, LEFT, NONE)
        enter.ignore()
        QApplication.sendEvent(wizard, enter)
        assert not enter.isAccepted()


def test_a_file_that_is_no_model_is_told_with_advice_and_the_chosen_one_stays(make_wizard, model, home, qtbot):
    bad = home / "notes.gguf"
    bad.write_text("these are my notes")
    wizard = make_wizard()
    choose(qtbot, wizard, model)
    choose(qtbot, wizard, bad)
    page = wizard.model_page
    assert page.banner.isVisible()
    assert "notes.gguf" in page.banner.text
    assert "Choose a model in the GGUF format" in page.banner.text
    assert wizard.flow.choices.facts.files == (str(model),)
    assert "32 per layer" in page.card.text
    assert page.models.currentRow() == 0
    assert wizard.next_button.isEnabled()


def test_a_truncated_file_is_told_and_nothing_is_chosen(make_wizard, model, home, qtbot):
    cut = home / "cut.gguf"
    with model.open("rb") as whole:
        cut.write_bytes(whole.read(4000))
    wizard = make_wizard()
    choose(qtbot, wizard, cut)
    assert wizard.model_page.banner.isVisible()
    assert "Download or copy the file again" in wizard.model_page.banner.text
    assert "No model chosen yet" in wizard.model_page.card.text
    assert not wizard.next_button.isEnabled()
    choose(qtbot, wizard, model)
    assert not wizard.model_page.banner.isVisible()
    assert wizard.next_button.isEnabled()


def test_a_returning_user_finds_the_last_model_chosen(make_wizard, model, qtbot):
    wizard = make_wizard(last_model=model)
    qtbot.waitUntil(lambda: wizard.flow.choices.facts is not None, timeout=PATIENCE)
    assert wizard.model_page.models.currentRow() == 0
    assert wizard.next_button.hasFocus()


def test_a_last_model_that_is_gone_is_told(make_wizard, home, qtbot):
    wizard = make_wizard(last_model=home / "gone.gguf")
    qtbot.waitUntil(wizard.model_page.banner.isVisible, timeout=PATIENCE)
    assert "gone.gguf" in wizard.model_page.banner.text
    assert not wizard.flow.reading


def test_a_software_gpu_is_called_what_it_is_and_no_gpu_is_explained(make_wizard):
    software = make_machine(gpus=(msgspec.structs.replace(GPU, kind=GpuKind.SOFTWARE),))
    wizard = make_wizard(machine=software)
    assert "software driver: for testing, not faster" in wizard.machine_page.text
    assert "Everything will be computed on the processor" in wizard.machine_page.text
    wizard = make_wizard("--no-gpu")
    assert "No GPU was found." in wizard.machine_page.text


def test_looking_again_measures_again(make_wizard, model, qtbot):
    wizard = make_wizard()
    choose(qtbot, wizard, model)
    go_to(qtbot, wizard, View.MACHINE)
    with qtbot.waitSignal(wizard.controller.machine_changed, timeout=PATIENCE):
        wizard.machine_page.again_button.click()
        assert not wizard.machine_page.again_button.isEnabled()
    assert wizard.machine_page.again_button.isEnabled()
    assert wizard.machine_page.again_button.text() == "&Look again"


def test_an_engine_that_cannot_be_asked_is_told_on_the_machine_page(make_wizard, model, qtbot):
    wizard = make_wizard("--protocol", "999")
    assert wizard.machine_page.banner.text.startswith("The engine speaks protocol 999")
    choose(qtbot, wizard, model)
    go_to(qtbot, wizard, View.MACHINE)
    assert wizard.next_button.isEnabled()


def test_going_back_from_the_plan_keeps_model_and_wishes(make_wizard, model, qtbot):
    wizard = make_wizard()
    choose(qtbot, wizard, model)
    go_to(qtbot, wizard, View.PLAN)
    wizard.plan_page.controls.context.setValue(2048)
    qtbot.keyClick(wizard, Qt.Key.Key_Escape)
    assert wizard.flow.view is View.MACHINE
    wizard.back_button.click()
    assert wizard.flow.view is View.MODEL
    assert wizard.page is wizard.model_page
    assert "32 per layer" in wizard.model_page.card.text
    go_to(qtbot, wizard, View.PLAN)
    assert wizard.plan_page.controls.context.value() == 2048
    assert wizard.flow.choices.plan.n_ctx == 2048


def test_impossible_wishes_are_told_on_the_plan_page_and_block_the_load(make_wizard, model, qtbot):
    wizard = make_wizard()
    choose(qtbot, wizard, model)
    go_to(qtbot, wizard, View.PLAN)
    page = wizard.plan_page
    page.controls.context.setValue(9_999_999)
    assert page.banner.isVisible()
    assert "9,999,999 tokens is impossible" in page.banner.text
    assert not wizard.next_button.isEnabled()
    page.controls.context.setValue(4096)
    assert not page.banner.isVisible()
    assert wizard.next_button.isEnabled()
    assert "context 4,096 tokens" in page.text


def test_the_plan_page_says_what_share_is_on_the_gpu_and_the_speed_to_expect(make_wizard, model, qtbot):
    wizard = make_wizard()
    choose(qtbot, wizard, model)
    go_to(qtbot, wizard, View.PLAN)
    text = wizard.plan_page.text
    assert re.search(r"\d of 10 experts are on the GPU; ", text)
    assert re.search(r"; expect [\d.]+–[\d.]+ tokens/s \(predicted from typical", text)


def test_a_dense_model_is_accepted_and_said_to_have_no_experts(make_wizard, qtbot, theme):
    dense = make_facts(moe_layers=(), expert_count=0, experts_used=0, expert_bytes={}, token_cycle_bytes=0)
    wizard = make_wizard()
    wizard.controller._set_facts(dense)
    assert "it has no experts to place" in wizard.model_page.card.text
    go_to(qtbot, wizard, View.PLAN)
    assert "No experts to place" in wizard.plan_page.text


def test_enter_on_a_focused_button_presses_that_button(make_wizard, model, qtbot):
    wizard = make_wizard()
    choose(qtbot, wizard, model)
    go_to(qtbot, wizard, View.MACHINE)
    wizard.back_button.setFocus()
    qtbot.keyClick(wizard.back_button, Qt.Key.Key_Return)
    assert wizard.flow.view is View.MODEL


def test_steps_and_controls_have_names_for_a_screen_reader(make_wizard, model, qtbot):
    wizard = make_wizard()
    choose(qtbot, wizard, model)
    go_to(qtbot, wizard, View.PLAN)
    assert wizard.steps.accessibleName() == "Step 3 of 4: Plan"
    assert wizard.next_button.accessibleDescription() == "Step 3 of 4: Plan"
    controls = wizard.plan_page.controls
    for control in (controls.gpu, controls.context, controls.kv_type, controls.threads):
        assert control.accessibleName()
        assert control.accessibleDescription()
