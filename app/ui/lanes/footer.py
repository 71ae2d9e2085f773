"""What the edited plan changes against the loaded one, what that costs, and the buttons that decide."""

from collections.abc import Iterable

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QLabel, QProgressBar, QPushButton, QVBoxLayout, QWidget

from app.placement.plan import Plan
from app.ui.controller import LOADING
from app.ui.lanes.flow_layout import FlowLayout
from app.ui.lanes.words import difference_text, memory_change_text
from app.ui.theme import GRID, set_kind, set_role, text_points
from app.ui.widgets import CancelButton
from app.ui.words import in_seconds

BESIDE_WIDTH = 760
"""Pixels from which the buttons stand beside the words, with the usual size of text."""


class ChangesFooter(QWidget):
    """Changes in words, predicted memory before and after, "Apply" and "Discard".

    Signals:
        apply_wanted: Load the edited plan.
        discard_wanted: Go back to the loaded plan.
        cancel_wanted: Stop the running load.
        end_wanted: End the engine, which does not stop the load.
    """

    apply_wanted = Signal()
    discard_wanted = Signal()
    cancel_wanted = Signal()
    end_wanted = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._focus_after: QWidget | None = None
        self._changes = QLabel(self)
        self._changes.setWordWrap(True)
        set_role(self._changes, "strong")
        self._memory = QLabel(self)
        self._memory.setWordWrap(True)
        set_role(self._memory, "small")
        self._warning = QLabel(self)
        self._warning.setWordWrap(True)
        set_role(self._warning, "warning")
        self._progress = QProgressBar(self)
        self._progress.setRange(0, 1000)
        self._progress.setTextVisible(False)
        self._progress.setAccessibleName(self.tr("Loading the model"))
        self.apply_button = QPushButton(self)
        set_kind(self.apply_button, "primary")
        self.apply_button.clicked.connect(self.apply_wanted)
        self.discard_button = QPushButton(self.tr("Discard"), self)
        self.discard_button.setToolTip(self.tr("Go back to the plan that is loaded (can be undone)."))
        self.discard_button.clicked.connect(self.discard_wanted)
        self.cancel_button = CancelButton(self.tr("Cancel loading"), self)
        self.cancel_button.cancel_wanted.connect(self.cancel_wanted)
        self.cancel_button.end_wanted.connect(self.end_wanted)
        decide = QWidget(self)
        buttons = FlowLayout(decide, spacing=GRID, from_right=True)
        for button in (self.cancel_button, self.discard_button, self.apply_button):
            buttons.addWidget(button)
        words = QVBoxLayout()
        words.setSpacing(GRID // 2)
        for widget in (self._changes, self._memory, self._warning, self._progress):
            words.addWidget(widget)
        self._box = QBoxLayout(QBoxLayout.Direction.TopToBottom, self)
        self._box.setContentsMargins(GRID // 2, 0, GRID // 2, 0)
        self._box.setSpacing(GRID)
        self._box.addLayout(words, 1)
        self._box.addWidget(decide)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Put the buttons beside the words where there is room."""
        super().resizeEvent(event)
        beside = event.size().width() >= text_points(BESIDE_WIDTH)
        self._box.setDirection(QBoxLayout.Direction.LeftToRight if beside else QBoxLayout.Direction.TopToBottom)

    @property
    def text(self) -> str:
        """Everything it says now."""
        labels = (self._changes, self._memory, self._warning)
        return "\n".join(label.text() for label in labels if not label.isHidden())

    def set_progress(self, fraction: float) -> None:
        """How much of the weights is read, 0 to 1."""
        self._progress.setValue(round(fraction * 1000))
        self._changes.setText(self.tr("Loading the model: {percent} % read").format(percent=int(fraction * 100)))

    def set_focus_after(self, widget: QWidget) -> None:
        """Where the keyboard goes when the button that has it is about to be hidden."""
        self._focus_after = widget

    def _show_button(self, button: QPushButton, shown: bool) -> None:
        if not shown and button.hasFocus() and self._focus_after is not None:
            # Hiding a focused button hands the focus on, perhaps to Undo: the next key would press that.
            self._focus_after.setFocus(Qt.FocusReason.OtherFocusReason)
        button.setVisible(shown)

    def show_plan(
        self,
        plan: Plan | None,
        loaded: Plan | None,
        state: str,
        *,
        name: str,
        devices: Iterable[str],
        shortage: str,
        loaded_differently: Iterable[str],
        reload_seconds: float | None = None,
    ) -> None:
        """Show `plan` against `loaded`.

        Args:
            plan: The edited plan; None hides everything.
            loaded: The plan the engine holds, if any.
            state: The controller's state.
            name: The model's name.
            devices: Devices whose predicted memory is told.
            shortage: Why the edited plan does not fit, or empty.
            loaded_differently: What the engine loaded otherwise than the loaded plan said.
            reload_seconds: What the last load of this model took, measured; None where that is not known.
        """
        if state != LOADING:
            self.cancel_button.reset()
        self.setVisible(plan is not None)
        if plan is None:
            return
        loading = state == LOADING
        changes = difference_text(loaded, plan) if loaded else ""
        if loading:
            self.set_progress(self._progress.value() / 1000)
        elif loaded is None:
            self._progress.setValue(0)
            self._changes.setText(self.tr("{name} is not loaded.").format(name=name))
        else:
            self._progress.setValue(0)
            self._changes.setText(changes or self.tr("This plan is loaded."))
        memory = memory_change_text(loaded, plan, devices)
        self._memory.setText(self.tr("Predicted memory: {memory}").format(memory=memory))
        self._memory.setVisible(bool(changes))  # else the lanes say it
        warnings = [shortage] if shortage else []
        if not changes and loaded is not None:
            warnings += [
                self.tr("Loaded differently from the plan: {difference}").format(difference=difference)
                for difference in loaded_differently
            ]
        self._warning.setText("\n".join(warnings))
        self._warning.setVisible(bool(warnings))
        self._progress.setVisible(loading)
        self._show_button(self.cancel_button, loading)
        self._show_button(self.apply_button, not loading and (loaded is None or bool(changes)))
        self._show_button(self.discard_button, not loading and bool(changes))
        if loaded is None:
            self.apply_button.setText(self.tr("Load the model"))
            self.apply_button.setToolTip("")
        else:
            words = self.tr("Loads the model again with this plan. A running answer is stopped; its text stays.")
            self.apply_button.setText(self.tr("Apply (reloads the model)"))
            if reload_seconds is not None:
                took = in_seconds(reload_seconds)
                self.apply_button.setText(self.tr("Apply (reload ≈ {time})").format(time=took))
                words += self.tr(" It takes about {time}, as the last load took.").format(time=took)
            self.apply_button.setToolTip(words)
