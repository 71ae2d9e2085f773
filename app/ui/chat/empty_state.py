"""What an empty conversation shows: a welcome and a few questions to begin with."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from app.ui.theme import GRID, READABLE_WIDTH, set_kind, set_role
from app.ui.widgets import ElidedButton


class EmptyState(QWidget):
    """A title, the model that answers, and example questions as buttons.

    Signals:
        asked: The example question that was chosen.
        model_wanted: No model is loaded, and the user wants to choose one.
    """

    asked = Signal(str)
    model_wanted = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        title = QLabel(self.tr("What would you like to know?"), self)
        set_role(title, "title")
        title.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        title.setWordWrap(True)
        self._model = QLabel(self)
        self._model.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        self._model.setWordWrap(True)
        set_role(self._model, "muted")
        self._choose = QPushButton(self.tr("Choose a model…"), self)
        set_kind(self._choose, "primary")
        self._choose.clicked.connect(self.model_wanted)
        self.examples = tuple(self._example(text) for text in self._texts())
        inner = QWidget(self)
        inner.setMaximumWidth(READABLE_WIDTH)
        column = QVBoxLayout(inner)
        column.setContentsMargins(2 * GRID, 2 * GRID, 2 * GRID, 2 * GRID)
        column.setSpacing(GRID)
        column.addStretch(2)
        column.addWidget(title)
        column.addWidget(self._model)
        column.addSpacing(2 * GRID)
        column.addWidget(self._choose, 0, Qt.AlignmentFlag.AlignHCenter)
        for button in self.examples:
            column.addWidget(button)
        column.addStretch(3)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.addStretch(1)
        row.addWidget(inner, 1000)
        row.addStretch(1)

    def set_ready(self, ready: bool, model: str, *, can_choose: bool) -> None:
        """Whether the examples can be asked, and the model that answers them."""
        for button in self.examples:
            button.setEnabled(ready)
        self._choose.setVisible(can_choose)
        answers = self.tr("{model} answers, on this machine only: nothing you write leaves it.")
        self._model.setText(answers.format(model=model) if model else self.tr("No model is loaded yet."))

    def _texts(self) -> tuple[str, ...]:
        return (
            self.tr("Explain what a mixture of experts is, in three sentences."),
            self.tr("Write a short poem about a laptop that thinks for itself."),
            self.tr("Give me a checklist for planning a weekend trip."),
        )

    def _example(self, text: str) -> QPushButton:
        button = ElidedButton(text, self)
        button.setToolTip(text)
        set_kind(button, "suggestion")
        button.clicked.connect(lambda: self.asked.emit(text))
        return button
