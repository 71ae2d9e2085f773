"""The wizard's parts by themselves: wishes as controls, memory in figures, the list, the steps."""

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import QApplication
from ui_factories import GIB, MIB, make_facts, make_machine

from app.hardware.facts import Gpu, GpuKind, Ram
from app.library.models import LocalModel
from app.placement.planner import Wishes, make_plan
from app.ui.number_boxes import TokenSpin
from app.ui.wizard.flow import Choices, View
from app.ui.wizard.memory_view import MemoryView
from app.ui.wizard.model_list import ModelList
from app.ui.wizard.plan_controls import PlanControls
from app.ui.wizard.plan_page import PlanPage
from app.ui.wizard.steps import StepIndicator
from app.ui.wizard.widgets import FactRows
from app.ui.wizard.words import machine_meaning, model_meaning, model_rows

FACTS = make_facts()
MACHINE = make_machine()


def choices(wishes=None, machine=MACHINE, facts=FACTS):
    wishes = wishes or Wishes()
    return Choices(facts=facts, machine=machine, wishes=wishes, plan=make_plan(facts, machine, wishes))


@pytest.fixture
def controls(theme, qtbot):
    made = PlanControls(theme)
    qtbot.addWidget(made)
    made.show_choices(choices())
    made.show()
    return made


def test_automatic_says_what_the_planner_chose(controls):
    assert controls.gpu.currentText() == "Automatic (Vulkan0)"
    assert controls.context.text() == "Automatic (8,192)"
    assert controls.kv_type.currentText() == "Automatic (f16)"
    assert controls.threads.text() == "Automatic (6)"
    assert controls.wishes == Wishes()


def test_every_control_wishes_at_once(controls, qtbot):
    for change, wishes in (
        (lambda: controls.gpu.setCurrentIndex(1), Wishes(gpu=None)),
        (lambda: controls.context.setValue(4096), Wishes(gpu=None, n_ctx=4096)),
        (lambda: controls.kv_type.setCurrentIndex(2), Wishes(gpu=None, n_ctx=4096, kv_type="q8_0")),
        (lambda: controls.threads.setValue(3), Wishes(gpu=None, n_ctx=4096, kv_type="q8_0", threads=3)),
    ):
        with qtbot.waitSignal(controls.wished) as wished:
            change()
        assert wished.args == [wishes]


def test_showing_choices_wishes_nothing(controls):
    wished = []
    controls.wished.connect(wished.append)
    controls.show_choices(choices(Wishes(gpu=None, n_ctx=2048, kv_type="q4_0", threads=2)))
    assert wished == []
    assert controls.wishes == Wishes(gpu=None, n_ctx=2048, kv_type="q4_0", threads=2)


def test_a_wished_gpu_that_is_gone_stays_wished_and_is_called_gone(controls):
    gone = Choices(facts=FACTS, machine=make_machine(gpu=False), wishes=Wishes(gpu="Vulkan0"))
    controls.show_choices(gone)
    assert controls.gpu.currentText() == "Vulkan0 (not found any more)"
    assert controls.wishes == Wishes(gpu="Vulkan0")


def test_a_number_half_typed_is_no_wish_and_enter_takes_it_without_going_on(controls, qtbot):
    wished = []
    controls.wished.connect(wished.append)
    controls.context.setFocus()
    controls.context.selectAll()
    qtbot.keyClicks(controls.context, "4096")
    assert wished == []
    passed_on = []
    controls.keyPressEvent = lambda event: passed_on.append(event.key())
    qtbot.keyClick(controls.context, Qt.Key.Key_Return)
    assert [wishes.n_ctx for wishes in wished] == [4096]
    assert passed_on == []
    qtbot.keyClick(controls.context, Qt.Key.Key_Return)
    assert passed_on == [Qt.Key.Key_Return]


def test_steps_of_the_context_double_and_halve_and_end_at_automatic(qtbot):
    spin = TokenSpin()
    qtbot.addWidget(spin)
    spin.setRange(0, 10**6)
    seen = []
    for steps in (1, 1, 1, -1, -2, -1, 3):
        spin.stepBy(steps)
        seen.append(spin.value())
    assert seen == [1024, 2048, 4096, 2048, 0, 0, 4096]
    spin.setValue(3000)
    spin.stepBy(1)
    assert spin.value() == 4096
    spin.setValue(3000)
    spin.stepBy(-1)
    assert spin.value() == 2048


def test_scrolling_the_page_over_a_control_changes_nothing(controls):
    for control in (controls.gpu, controls.context, controls.kv_type, controls.threads):
        control.clearFocus()
        wheel = QWheelEvent(
            QPointF(5, 5), QPointF(5, 5), QPoint(), QPoint(0, -120), Qt.MouseButton.NoButton,
            Qt.KeyboardModifier.NoModifier, Qt.ScrollPhase.NoScrollPhase, False,
        )  # fmt: skip
        QApplication.sendEvent(control, wheel)
    assert controls.wishes == Wishes()


def test_memory_is_told_per_device_against_what_is_free(theme, qtbot):
    view = MemoryView(theme)
    qtbot.addWidget(view)
    plan = make_plan(FACTS, MACHINE, Wishes())
    view.show_plan(plan, MACHINE)
    assert "Vulkan0 · Scripted Graphics 8 GB: predicted" in view.text
    assert "of 7.0 GiB free" in view.text
    assert "Main memory: predicted" in view.text
    assert "CPU, safety margin" in view.text
    assert "expert pool" not in view.text
    on_cpu = make_plan(FACTS, MACHINE, Wishes(gpu=None))
    view.show_plan(on_cpu, MACHINE)
    assert "Vulkan0" not in view.text


def test_the_plan_page_tells_every_step_with_its_reason(theme, qtbot):
    page = PlanPage(theme)
    qtbot.addWidget(page)
    small = make_machine(gpu=False, ram=Ram(total_bytes=GIB, available_bytes=450 * MIB))
    made = choices(machine=small)
    assert made.plan.steps
    page.show_choices(made, loaded=FACTS)
    for step in made.plan.steps:
        assert step.reason in page.text
    assert "Loading replaces Scripted MoE" in page.text
    page.show_choices(choices(), loaded=None)
    assert "Loading replaces" not in page.text


def test_a_model_is_selected_by_its_path_without_being_chosen_anew(theme, qtbot, tmp_path):
    models = ModelList(theme)
    qtbot.addWidget(models)
    chosen = []
    models.chosen.connect(chosen.append)
    paths = [tmp_path / "a.gguf", tmp_path / "b.gguf"]
    models.show_models([LocalModel(path=path, name=path.stem, bytes=GIB) for path in paths])
    assert models.select(paths[1])
    assert not models.select(tmp_path / "c.gguf")
    assert models.selectedItems() == []
    assert chosen == []
    models.item(0).setSelected(True)
    assert chosen == [paths[0]]
    assert models.item(1).data(Qt.ItemDataRole.AccessibleTextRole) == "b, 1.0 GiB"


def test_the_steps_name_where_the_user_is(theme, qtbot):
    steps = StepIndicator(theme)
    qtbot.addWidget(steps)
    steps.show_view(View.LOAD)
    assert steps.accessibleName() == "Step 4 of 4: Load"
    first = steps.grab().toImage()
    steps.show_view(View.MODEL)
    assert steps.grab().toImage() != first


def test_markup_in_a_model_s_name_is_shown_as_it_is(qtbot):
    rows = FactRows()
    qtbot.addWidget(rows)
    rows.show_rows([("Name", "<b>bold</b>")])
    labels = [child for child in rows.children() if hasattr(child, "textFormat")]
    assert all(label.textFormat() is Qt.TextFormat.PlainText for label in labels)
    assert rows.text == "Name: <b>bold</b>"


def test_a_model_of_several_files_without_a_template_and_with_dense_layers_says_so():
    facts = make_facts(
        files=("/m/a-00001-of-00002.gguf", "/m/a-00002-of-00002.gguf"),
        moe_layers=(1, 2, 3),
        experts_shared=1,
        chat_template=False,
    )
    rows = dict(model_rows(facts))
    assert rows["Layers"] == "4, 3 of them with experts"
    assert rows["Size"].endswith("in 2 files")
    assert rows["Experts"] == "8 per layer, 2 used for each token, 1 more used always"
    assert "ChatML" in rows["Chat template"]
    assert "25 % of the expert bytes" in model_meaning(make_facts())


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (GpuKind.DISCRETE, "takes what every token needs first"),
        (GpuKind.INTEGRATED, "shares main memory with everything else"),
        (GpuKind.SOFTWARE, "Everything will be computed on the processor"),
    ],
)
def test_what_a_machine_means_depends_on_the_kind_of_its_gpu(kind, words):
    gpu = Gpu(name="G", backend="Vulkan", device="Vulkan0", kind=kind, total_bytes=GIB, free_bytes=GIB)
    assert words in machine_meaning(make_machine(gpus=(gpu,)))
