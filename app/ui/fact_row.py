"""A row of facts that never overflows: where room is short the less important are shortened first, then left out."""

from collections.abc import Sequence

from PySide6.QtCore import QSize
from PySide6.QtGui import QResizeEvent, QShowEvent
from PySide6.QtWidgets import QHBoxLayout, QSizePolicy, QWidget

from app.ui.theme import GRID
from app.ui.widgets import ElidedLabel

LEAST_WIDTH = 4 * GRID
PADDING = 18
"""Pixels beside the words of a label in the status bar, by its style sheet, and a little more."""


class Fact(ElidedLabel):
    """One fact in words, and the same in fewer.

    Its tooltip and what a screen reader says are the whole words whatever is seen of it.
    """

    def __init__(self, parent: QWidget | None = None, *, keeps: bool = False) -> None:
        """`keeps` is a fact that is never left out: shortened, and at last ended by an ellipsis."""
        super().__init__("", parent)
        self.keeps = keeps
        self.full = ""
        self.short = ""
        self._name = ""
        self.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Preferred)
        self.setMinimumWidth(LEAST_WIDTH)

    def set_name(self, name: str) -> None:
        """What it is about, for screen readers."""
        self._name = name
        self.setAccessibleName(name)

    def show_fact(self, full: str, short: str = "", detail: str = "") -> None:
        """Say something else.

        Args:
            full: The whole words; empty for nothing.
            short: The same in fewer words; none for a fact that has no fewer.
            detail: More of it, for the tooltip.
        """
        self.full, self.short = full, short
        self.setToolTip("\n".join(its for its in (full, detail) if its))
        self.setAccessibleName(f"{self._name}: {full}" if full else self._name)


class FactRow(QWidget):
    """Facts beside each other."""

    def __init__(self, facts: Sequence[Fact], leaving: Sequence[Fact], parent: QWidget | None = None) -> None:
        """Lay `facts` out from left to right.

        Args:
            facts: All of them.
            leaving: The same, the one that is shortened or left out first as the first. The last one is seen whole
                where it needs no more than half of the row.
            parent: Whose child it is.
        """
        super().__init__(parent)
        self._facts = tuple(facts)
        self._leaving = tuple(leaving)
        row = QHBoxLayout(self)
        row.setContentsMargins(GRID, 0, GRID, 0)
        row.setSpacing(GRID)
        for fact in self._facts:
            row.addWidget(fact)
        row.addStretch(1)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)

    @property
    def text(self) -> str:
        """The whole words of all facts."""
        return " | ".join(fact.full for fact in self._facts if fact.full)

    @property
    def shown(self) -> str:
        """What is seen, before ellipses."""
        return " | ".join(fact.text() for fact in self._facts if not fact.isHidden() and fact.text())

    def fit(self) -> None:
        """Choose for each fact what there is room for."""
        words = {fact: fact.full for fact in self._facts}
        for shorten in (True, False):
            for fact in self._leaving:
                if self._needed(words) <= self.width():
                    break
                if shorten and fact.short:
                    words[fact] = fact.short
                elif not fact.keeps:
                    words[fact] = ""
        for fact, said in words.items():
            fact.setText(said)
            fact.setVisible(bool(said))
        # Where even the short words have no room all ends in ellipses, but for the last one: it would tell nothing.
        last = self._leaving[-1]
        last.setMinimumWidth(max(LEAST_WIDTH, min(self._needed({last: words[last]}), self.width() // 2)))
        self.setAccessibleName(self.text)
        self.layout().activate()  # at once: labels that come and go are not seen in a wrong place first

    def sizeHint(self) -> QSize:
        """As wide as given."""
        return QSize(0, super().sizeHint().height())

    def minimumSizeHint(self) -> QSize:
        """As narrow as wished."""
        return QSize(0, super().minimumSizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Another width, other words."""
        super().resizeEvent(event)
        self.fit()

    def showEvent(self, event: QShowEvent) -> None:
        """The style, which has margins of its own, is known now."""
        super().showEvent(event)
        self.fit()

    def _needed(self, words: dict[Fact, str]) -> int:
        said = [(fact, its) for fact, its in words.items() if its]
        text = sum(fact.fontMetrics().horizontalAdvance(its) + PADDING for fact, its in said)
        return text + GRID * (len(said) + 2)
