"""Page 3: the plan in words and figures, and the choices that change it at once."""

from PySide6.QtCore import QCoreApplication, Signal
from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.model.facts import ModelFacts
from app.placement.plan import Plan, Step
from app.placement.words import describe_lanes, describe_plan
from app.ui.theme import GRID, Theme
from app.ui.wizard.flow import Choices
from app.ui.wizard.memory_view import MemoryView
from app.ui.wizard.plan_controls import PlanControls
from app.ui.wizard.widgets import Card, Columns, Page, clear_layout, label


class PlanPage(Page):
    """Choices at the left, what comes of them at the right.

    Signals:
        wished: The user asks for another plan (Wishes).
    """

    wished = Signal(object)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(
            self.tr("The plan"),
            self.tr(
                "How this model will be loaded on this machine. The memory figures are predictions; after the load "
                "you see them beside what the engine really took."
            ),
            parent,
        )
        self.controls = PlanControls(theme)
        self.controls.wished.connect(self.wished)
        self._replaces = label("", "muted")
        self._reduced = label(
            self.tr(
                "This is the smaller plan from the failed load. Changing a choice makes a new plan, which may put "
                "experts on the GPU again."
            ),
            "warning",
        )
        self._summary = label("", "strong")
        self._lanes = label("", "muted")
        self._notes = label("", "small")
        self._summary_card = Card(theme, self.tr("In short"))
        for widget in (self._summary, self._lanes, self._notes, self._reduced, self._replaces):
            self._summary_card.column.addWidget(widget)
        self._steps_card = Card(theme, self.tr("What had to give way, and why"))
        self._steps = QVBoxLayout()
        self._steps.setSpacing(GRID)
        self._steps_card.column.addLayout(self._steps)
        self._step_texts: tuple[str, ...] = ()
        self.memory = MemoryView(theme)
        self._memory_card = Card(theme, self.tr("Predicted memory"))
        self._memory_card.column.addWidget(self.memory)
        columns = Columns(2, 3)
        columns.left.addWidget(self.controls)
        columns.left.addStretch(1)
        for card in (self._summary_card, self._steps_card, self._memory_card):
            columns.right.addWidget(card)
        columns.right.addStretch(1)
        self.column.addWidget(columns)
        self.column.addStretch(1)

    @property
    def text(self) -> str:
        """What it says of the plan."""
        labels = (self._summary, self._lanes, self._notes, self._reduced, self._replaces)
        said = [words.text() for words in labels if not words.isHidden()]
        memory = [] if self._memory_card.isHidden() else [self.memory.text]
        return "\n".join([*said, *self._step_texts, *memory])

    def show_choices(self, choices: Choices, loaded: ModelFacts | None) -> None:
        """Show the plan, or why there is none; `loaded` is the model that a load would replace."""
        self.controls.show_choices(choices)
        plan, facts, machine = choices.plan, choices.facts, choices.machine
        if choices.plan_error is not None:
            self.banner.tell(choices.plan_error)
            self.ensureWidgetVisible(self.banner)
        else:
            self.banner.clear()
        there = plan is not None and facts is not None and machine is not None
        self._memory_card.setVisible(there)
        self._steps_card.setVisible(there and bool(plan.steps))
        for words in (self._lanes, self._notes, self._reduced, self._replaces):
            words.setVisible(there)
        if not there:
            self._step_texts = ()
            self._summary.setText(self.tr("There is no plan for these choices. Change one of them."))
            return
        self._summary.setText(describe_plan(plan, facts))
        lanes = describe_lanes(plan, facts)
        self._lanes.setText("\n".join(lanes))
        self._lanes.setVisible(bool(lanes))
        self._notes.setText("\n".join(choices.evidence.notes))
        self._notes.setVisible(bool(choices.evidence.notes))
        self._reduced.setVisible(choices.reduced)
        self._replaces.setVisible(loaded is not None)
        if loaded is not None:
            self._replaces.setText(
                self.tr("Loading replaces {model}, which is loaded now. Conversations stay.").format(model=loaded.name)
            )
        self._show_steps(plan)
        self.memory.show_plan(plan, machine)

    def _show_steps(self, plan: Plan) -> None:
        clear_layout(self._steps)
        for step in plan.steps:
            self._steps.addWidget(_step(step))
        self._step_texts = tuple(f"{_step_name(step)}: {step.reason}" for step in plan.steps)


def _step(step: Step) -> QWidget:
    holder = QWidget()
    column = QVBoxLayout(holder)
    column.setContentsMargins(0, 0, 0, 0)
    column.setSpacing(2)
    column.addWidget(label(_step_name(step), "warning"))
    column.addWidget(label(step.reason, "muted"))
    return holder


def _step_name(step: Step) -> str:
    name = QCoreApplication.translate("steps", step.name)
    return name[:1].upper() + name[1:]
