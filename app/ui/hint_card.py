"""One hint: what is the matter, the figures that show it, one action, and the plan's change before it is made."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from app.doctor.hints import NOTE, PROBLEM, Hint
from app.ui.announce import say
from app.ui.hint_fixes import Fixed
from app.ui.theme import GRID, set_kind, set_role


class HintCard(QFrame):
    """A hint that stays itself while its figures change.

    Signals:
        fix_wanted: Say what the fix would change.
        accepted: Change the plan like this (Fixed).
        hide_wanted: Do not show this rule again on this machine.
    """

    fix_wanted = Signal()
    accepted = Signal(object)
    hide_wanted = Signal()

    def __init__(self, hint: Hint, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        set_role(self, "card")
        self.hint = hint
        self._fixed: Fixed | None = None
        self._fixable = False
        self._severity, self._title = _label(self, ""), _label(self, "strong")
        self._evidence, self._action = _label(self, "muted"), _label(self, "")
        self.difference = _label(self, "strong")
        self.show_button = QPushButton(self.tr("Show the change…"), self)
        self.change_button = QPushButton(self.tr("Change the plan"), self)
        self.keep_button = QPushButton(self.tr("Leave it"), self)
        self.hide_button = QPushButton(self.tr("Don't show again"), self)
        set_kind(self.change_button, "primary")
        set_kind(self.keep_button, "quiet")
        set_kind(self.hide_button, "quiet")
        self.show_button.clicked.connect(self.fix_wanted)
        self.change_button.clicked.connect(self._accept)
        self.keep_button.clicked.connect(self._leave)
        self.hide_button.clicked.connect(self.hide_wanted)
        row = QHBoxLayout()
        row.setSpacing(GRID)
        for button in (self.show_button, self.change_button, self.keep_button):
            row.addWidget(button)
        row.addStretch(1)
        row.addWidget(self.hide_button)
        column = QVBoxLayout(self)
        column.setContentsMargins(2 * GRID, GRID + 4, 2 * GRID, GRID + 4)
        column.setSpacing(GRID // 2)
        for label in (self._severity, self._title, self._evidence, self._action, self.difference):
            column.addWidget(label)
        column.addSpacing(GRID // 2)
        column.addLayout(row)
        self.show_hint(hint, fixable=False)
        self._offer(None)

    def show_hint(self, hint: Hint, *, fixable: bool) -> None:
        """The same hint with other figures; `fixable` where the plan being edited is the one it speaks of."""
        self.hint = hint
        words, role = {
            PROBLEM: (self.tr("Problem"), "error"),
            NOTE: (self.tr("Good to know"), "small"),
        }.get(hint.severity, (self.tr("Costs speed"), "warning"))
        self._severity.setText(words)
        set_role(self._severity, role)
        self._title.setText(hint.title)
        self._evidence.setText(hint.evidence)
        self._action.setText(hint.action)
        self._fixable = fixable and bool(hint.fix)
        self.show_button.setVisible(self._fixable and self._fixed is None)
        self.setAccessibleName(f"{words}: {hint.title}")
        self.setAccessibleDescription(f"{hint.evidence} {hint.action}")
        for button, what in (
            (self.show_button, self.tr("Show the change: {title}")),
            (self.change_button, self.tr("Change the plan: {title}")),
            (self.hide_button, self.tr("Don't show again: {title}")),
        ):
            button.setAccessibleName(what.format(title=hint.title))

    def show_fix(self, fixed: Fixed) -> None:
        """What the fix would change, to be accepted or left."""
        if fixed.refusal:
            self._tell(fixed.refusal)
            return
        if not fixed.differences:
            self._tell(self.tr("The plan has this already: load the model again to use it."))
            return
        self._offer(fixed)
        when = self.tr("takes effect at once") if fixed.live else self.tr("takes effect with the next load")
        lines = [difference.text for difference in fixed.differences]
        self._tell("\n".join([*lines, f"({when})"]))
        self.change_button.setFocus(Qt.FocusReason.OtherFocusReason)

    def show_done(self, fixed: Fixed) -> None:
        """The plan was changed."""
        self._offer(None)
        done = self.tr("Changed.") if fixed.live else self.tr("Changed: load the model again to use it.")
        self._tell("\n".join([*(its.text for its in fixed.differences), done]))
        self.show_button.hide()
        self.hide_button.setFocus(Qt.FocusReason.OtherFocusReason)

    def _accept(self) -> None:
        if self._fixed is not None:
            self.accepted.emit(self._fixed)

    def _leave(self) -> None:
        self._offer(None)
        self.difference.hide()
        self.show_button.setFocus(Qt.FocusReason.OtherFocusReason)

    def _offer(self, fixed: Fixed | None) -> None:
        self._fixed = fixed
        self.show_button.setVisible(fixed is None and self._fixable)
        self.change_button.setVisible(fixed is not None)
        self.keep_button.setVisible(fixed is not None)
        if fixed is None:
            self.difference.setVisible(False)

    def _tell(self, text: str) -> None:
        self.difference.setText(text)
        self.difference.show()
        say(self.difference, text)


def _label(parent: QWidget, role: str) -> QLabel:
    label = QLabel(parent)
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.setWordWrap(True)
    label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    if role:
        set_role(label, role)
    return label
