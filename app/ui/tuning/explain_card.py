"""The card that says what bounds this machine now, and which single change would help most."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from app.placement.active_experts import CHANGES_ANSWERS
from app.placement.explain import Advice, Explanation
from app.ui.theme import GRID, Theme
from app.ui.tuning.explainer import Explained
from app.ui.wizard.widgets import Card, clear_layout, label


class ExplainCard(Card):
    """An explanation in words; each change can be tried.

    Signals:
        try_wanted: A change that the user wants (Advice).
    """

    try_wanted = Signal(object)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, parent=parent)
        self.set_heading(self.tr("What bounds this machine now"))
        self._explained: Explained | None = None
        self.buttons: list[QPushButton] = []
        self._bound = label()
        self._measured = label("", "muted")
        self._verdict = label("", "strong")
        self._doubts = label("", "small")
        self._changes = QVBoxLayout()
        self._changes.setSpacing(GRID + GRID // 2)
        for widget in (self._bound, self._measured, self._verdict):
            self.column.addWidget(widget)
        self.column.addLayout(self._changes)
        self.column.addWidget(self._doubts)
        self.show_nothing(self.tr("Choose a model: what bounds it on this machine will be told here."))

    @property
    def text(self) -> str:
        """Everything it says."""
        said = [self._bound, self._measured, self._verdict, self._doubts]
        words = [its.text() for its in said if its.text()]
        if self._explained is not None:
            words += [" ".join(_lines(advice)) for advice in self._explained.explanation.advice]
        return "\n".join(words)

    def show_nothing(self, why: str) -> None:
        """There is nothing to explain."""
        self._explained = None
        self._fill(Explanation(bound=why, measured=(), verdict="", advice=(), doubts=()))

    def show_explained(self, explained: Explained) -> None:
        """Show another explanation."""
        if self._explained is not None and explained.explanation == self._explained.explanation:
            self._explained = explained
            return
        self._explained = explained
        self._fill(explained.explanation)

    def set_usable(self, usable: bool) -> None:
        """Whether a change can be tried now."""
        for button in self.buttons:
            button.setEnabled(usable)

    def _fill(self, explanation: Explanation) -> None:
        for widget, words in (
            (self._bound, explanation.bound),
            (self._measured, " ".join(explanation.measured)),
            (self._verdict, self._heading(explanation)),
            (self._doubts, " ".join((*explanation.beyond, *explanation.doubts))),
        ):
            widget.setText(words)
            widget.setVisible(bool(words))
        clear_layout(self._changes)
        self.buttons = []
        for advice in explanation.advice:
            self._changes.addLayout(self._row(advice))

    def _heading(self, explanation: Explanation) -> str:
        """The verdict; where its words follow as the first change, only what follows."""
        first = explanation.advice[0] if explanation.advice else None
        if first is not None and first.helps and not first.changes_answers:
            return self.tr("What would help most:")
        return explanation.verdict

    def _row(self, advice: Advice) -> QHBoxLayout:
        change, gain, evidence = _lines(advice)
        words = QVBoxLayout()
        words.setSpacing(2)
        words.addWidget(label(change, "strong"))
        words.addWidget(label(gain))
        if evidence:
            words.addWidget(label(evidence, "small"))
        button = QPushButton(self.tr("Try it"), self)
        button.setAccessibleName(self.tr("Try it: {change}").format(change=change))
        button.setToolTip(self.tr("Changes the plan; it can be undone. What needs a reload waits for Apply."))
        button.clicked.connect(lambda: self.try_wanted.emit(advice))
        self.buttons.append(button)
        row = QHBoxLayout()
        row.setSpacing(GRID)
        row.addLayout(words, 1)
        row.addWidget(button, 0, Qt.AlignmentFlag.AlignTop)
        return row


def _lines(advice: Advice) -> tuple[str, str, str]:
    """The change, its gain, and what it rests on."""
    mark = f" — {CHANGES_ANSWERS}" if advice.changes_answers else ""
    return f"{advice.words}{mark}", f"{advice.gain}.", " ".join(its for its in (advice.evidence, advice.costs) if its)
