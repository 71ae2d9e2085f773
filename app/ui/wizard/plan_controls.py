"""What the user may ask of a plan: device, context, KV cache type, threads, a tuned plan; each with its help."""

from collections.abc import Callable

from PySide6.QtCore import QEvent, QObject, QSignalBlocker, Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QCheckBox, QComboBox, QSpinBox, QWidget

from app.hardware.facts import GpuKind, Machine
from app.placement.plan import KV_TYPES, Plan
from app.placement.planner import AUTO_GPU, Wishes
from app.ui.name_combo import NameCombo
from app.ui.number_boxes import TokenSpin, WheelGuard
from app.ui.theme import GRID, Theme
from app.ui.wizard.flow import Choices
from app.ui.wizard.widgets import Card, label
from app.ui.words import in_bytes, number

MOST_TOKENS = 16 * 1024 * 1024
"""Far above any model: what a model does not take, the planner refuses with its reason."""
MOST_THREADS = 1024
LEAST_CHARACTERS = 18


class PlanControls(Card):
    """The wishes as controls; "Automatic" leaves a choice to the planner and says what it chose.

    Signals:
        wished: The user changed something (Wishes).
    """

    wished = Signal(object)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, self.tr("Your choices"), parent)
        self._guard = WheelGuard(self)
        self.gpu = NameCombo(least_characters=LEAST_CHARACTERS)
        self.context = TokenSpin()
        self.kv_type = NameCombo(least_characters=LEAST_CHARACTERS)
        self.threads = QSpinBox()
        self.threads.setRange(0, MOST_THREADS)
        self.context.setRange(0, MOST_TOKENS)
        for spin in (self.context, self.threads):
            # Values half typed are no wishes.
            spin.setKeyboardTracking(False)
            spin.setGroupSeparatorShown(True)
            spin.valueChanged.connect(self._changed)
        for box in (self.gpu, self.kv_type):
            box.currentIndexChanged.connect(self._changed)
        self._add(
            self.tr("Computes on"),
            self.gpu,
            self.tr("Where attention, the KV cache and the output are; the experts follow as far as they fit."),
        )
        self._add(
            self.tr("Context"),
            self.context,
            self.tr("How many tokens of conversation it can see at once; a token is about ¾ of a word."),
        )
        self._add(
            self.tr("KV cache type"),
            self.kv_type,
            self.tr(
                "How exactly the conversation is remembered: f16 fully, q8_0 in half the memory, q4_0 in a "
                "quarter, with some loss."
            ),
        )
        self._add(
            self.tr("Threads"),
            self.threads,
            self.tr("Processor cores that compute; one for each fast core is best."),
        )
        self.tuned = QCheckBox(self.tr("Use the plan that tuning found"))
        self.tuned.setToolTip(self.tr("It was measured to be faster on this machine; without it a plan is made anew."))
        self.tuned.setAccessibleDescription(self.tuned.toolTip())
        self.tuned.setMinimumHeight(32)
        self.tuned.toggled.connect(self._changed)
        self.column.addWidget(self.tuned)

    def _add(self, name: str, control: QWidget, help_text: str) -> None:
        caption = label(name, "strong")
        caption.setBuddy(control)
        control.setAccessibleName(name)
        control.setAccessibleDescription(help_text)
        control.setToolTip(help_text)
        control.setMinimumHeight(32)
        self._guard.guard(control)
        control.installEventFilter(self)
        if self.column.count() > 1:
            self.column.addSpacing(GRID)
        self.column.addWidget(caption)
        self.column.addWidget(control)
        self.column.addWidget(label(help_text, "small"))

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Enter in a changed field only takes the value."""
        if event.type() is QEvent.Type.KeyPress and isinstance(watched, QSpinBox) and _is_enter(event):
            before = self.wishes
            watched.interpretText()
            return self.wishes != before
        return super().eventFilter(watched, event)

    @property
    def wishes(self) -> Wishes:
        """What is asked now."""
        return Wishes(
            gpu=self.gpu.currentData(),
            n_ctx=self.context.value() or None,
            kv_type=self.kv_type.currentData(),
            threads=self.threads.value() or None,
            tuned=self.tuned.isChecked(),
        )

    def show_choices(self, choices: Choices) -> None:
        """Show the wishes and, behind "Automatic", what the planner chose."""
        wishes, plan = choices.wishes, choices.plan
        controls = (self.gpu, self.context, self.kv_type, self.threads, self.tuned)
        blockers = [QSignalBlocker(control) for control in controls]
        self._fill_gpus(choices.machine, wishes, plan)
        self._fill_kv_types(wishes, plan)
        for spin, wished, chosen in (
            (self.context, wishes.n_ctx, plan and number(plan.n_ctx)),
            (self.threads, wishes.threads, plan and number(plan.threads)),
        ):
            spin.setSpecialValueText(_automatic(chosen if wished is None else None, self.tr))
            spin.setValue(wished or 0)
        self.tuned.setChecked(wishes.tuned)
        self.tuned.setVisible(choices.evidence.tuned is not None)
        for blocker in blockers:
            blocker.unblock()

    def _fill_gpus(self, machine: Machine | None, wishes: Wishes, plan: Plan | None) -> None:
        none = self.tr("No GPU: the processor computes everything")
        chosen = None
        if plan is not None and wishes.gpu == AUTO_GPU:
            chosen = plan.gpu or self.tr("no GPU")
        items: list[tuple[str, str | None]] = [(_automatic(chosen, self.tr), AUTO_GPU), (none, None)]
        for gpu in machine.gpus if machine else ():
            words = f"{gpu.device} · {gpu.name}"
            if gpu.kind is GpuKind.SOFTWARE:
                words += self.tr(" (software driver)")
            else:
                words += self.tr(" ({size} free)").format(size=in_bytes(gpu.free_bytes))
            items.append((words, gpu.device))
        if wishes.gpu not in [device for _, device in items]:
            items.append((self.tr("{device} (not found any more)").format(device=wishes.gpu), wishes.gpu))
        _fill(self.gpu, items, wishes.gpu)

    def _fill_kv_types(self, wishes: Wishes, plan: Plan | None) -> None:
        chosen = plan.kv_type if plan is not None and wishes.kv_type is None else None
        items = [(_automatic(chosen, self.tr), None), *((kv_type, kv_type) for kv_type in KV_TYPES)]
        _fill(self.kv_type, items, wishes.kv_type)

    def _changed(self) -> None:
        self.wished.emit(self.wishes)


def _is_enter(event: QEvent) -> bool:
    return isinstance(event, QKeyEvent) and event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter)


def _automatic(chosen: str | None, tr: Callable[[str], str]) -> str:
    return tr("Automatic ({choice})").format(choice=chosen) if chosen else tr("Automatic")


def _fill(box: QComboBox, items: list[tuple[str, str | None]], current: str | None) -> None:
    box.clear()
    for words, value in items:
        box.addItem(words, value)
    # findData cannot tell None, the value of "nothing", from no value.
    box.setCurrentIndex([value for _, value in items].index(current))
