"""A line inside the dock that says why a move was refused."""

from PySide6.QtCore import Qt
from PySide6.QtGui import QAccessible, QAccessibleEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QWidget

from app.errors import AppError
from app.ui.theme import GRID, set_kind, set_role


class Notice(QFrame):
    """The last refusal; hidden while there is none."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        set_role(self, "banner-warning")
        self._words = QLabel(self)
        self._words.setWordWrap(True)
        self._words.setTextFormat(Qt.TextFormat.PlainText)
        close = QPushButton(self.tr("Dismiss"), self)
        set_kind(close, "quiet")
        close.clicked.connect(self.clear)
        row = QHBoxLayout(self)
        row.setContentsMargins(GRID, GRID // 2, GRID // 2, GRID // 2)
        row.setSpacing(GRID)
        row.addWidget(self._words, 1)
        row.addWidget(close)
        self.hide()

    @property
    def text(self) -> str:
        """What it says; empty while hidden."""
        return "" if self.isHidden() else self._words.text()

    def tell(self, error: AppError) -> None:
        """Show why something was refused."""
        self._words.setText(error.message)
        self.setAccessibleName(error.message)
        self.show()
        QAccessible.updateAccessibility(QAccessibleEvent(self, QAccessible.Event.Alert))

    def clear(self) -> None:
        """Hide it."""
        self.hide()
