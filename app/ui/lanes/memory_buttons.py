"""The orders for the main memory of mapped experts, to read the hottest in or give all up, and what came of them."""

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QSizePolicy, QVBoxLayout, QWidget

from app.placement.cache.facts import MemoryFacts
from app.ui.announce import say
from app.ui.lanes.memory_order_words import order_text
from app.ui.lanes.memory_words import release_text, warm_text
from app.ui.memory_order import MemoryOrder
from app.ui.theme import GRID, set_role
from app.ui.widgets import words_label


class MemoryButtons(QWidget):
    """The buttons “Warm up” and “Release”; each says what it would do, or why it can do nothing now.

    Below them is what came of the last order, by the engine's own figures.

    Signals:
        warm_wanted: Read the hottest experts in.
        release_wanted: Give the memory up.
    """

    warm_wanted = Signal()
    release_wanted = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.warm = QPushButton(self.tr("Warm up"), self)
        self.warm.setAccessibleName(self.tr("Warm up: read the hottest experts into memory"))
        self.warm.clicked.connect(self.warm_wanted)
        self.release = QPushButton(self.tr("Release"), self)
        self.release.setAccessibleName(self.tr("Release the memory of experts"))
        self.release.clicked.connect(self.release_wanted)
        self.told = words_label(self)
        self.told.hide()
        row = QHBoxLayout()
        row.setSpacing(GRID // 2)
        for button in (self.warm, self.release):
            button.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)
            row.addWidget(button)
        row.addStretch(1)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(GRID // 2)
        column.addLayout(row)
        column.addWidget(self.told)
        self.show_memory(None, "")

    @property
    def text(self) -> str:
        """What came of the last order; empty for none."""
        return "" if self.told.isHidden() else self.told.text()

    def show_memory(self, memory: MemoryFacts | None, why_not: str) -> None:
        """Say what the orders would do.

        Args:
            memory: What is in memory; None where nobody tells.
            why_not: Why there is nothing to order then.
        """
        warm, release = why_not, why_not
        missing = memory is not None and memory.resident_bytes < memory.total_bytes
        if memory is not None:
            warm = warm_text(memory) if missing else self.tr("All experts are in memory.")
            release = release_text(memory) if memory.resident_bytes else self.tr("No expert is in memory.")
        self._set(self.warm, missing, warm)
        self._set(self.release, memory is not None and memory.resident_bytes > 0, release)

    def show_order(self, order: MemoryOrder | None) -> None:
        """Say what came of the last order, and read it out where that is new; None for none."""
        words = order_text(order)
        if words == self.told.text():
            return
        trouble = order is not None and bool(order.why_not or (order.open and order.late))
        set_role(self.told, "warning" if trouble else "small")
        self.told.setText(words)
        self.told.setVisible(bool(words))
        if words:
            say(self, words)

    def _set(self, button: QPushButton, enabled: bool, words: str) -> None:
        if not enabled and button.hasFocus():
            self.focusNextPrevChild(True)  # else the keyboard would be with a button that takes no key
        button.setEnabled(enabled)
        button.setToolTip(words)
        button.setAccessibleDescription(words)
