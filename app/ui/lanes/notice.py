"""A line inside the dock that says why an order was refused, with what would help as buttons."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from app.errors import AppError
from app.ui.announce import announce
from app.ui.lanes.flow_layout import FlowLayout
from app.ui.theme import GRID, set_kind, set_role
from app.ui.verdicts import Offer, Refusal


class Notice(QFrame):
    """The last refusal; hidden while there is none.

    Signals:
        left: It had the keyboard and is hidden now.
    """

    left = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        set_role(self, "banner-warning")
        self._words = QLabel(self)
        self._words.setWordWrap(True)
        self._words.setTextFormat(Qt.TextFormat.PlainText)
        self.close_button = QPushButton(self.tr("Dismiss"), self)
        set_kind(self.close_button, "quiet")
        self.close_button.clicked.connect(self.clear)
        self.buttons: list[QPushButton] = []
        self._offers = QWidget(self)
        self._flow = FlowLayout(self._offers)
        row = QHBoxLayout()
        row.setSpacing(GRID)
        row.addWidget(self._words, 1)
        row.addWidget(self.close_button, 0, Qt.AlignmentFlag.AlignTop)
        column = QVBoxLayout(self)
        column.setContentsMargins(GRID, GRID // 2, GRID // 2, GRID // 2)
        column.setSpacing(GRID // 2)
        column.addLayout(row)
        column.addWidget(self._offers)
        self.hide()

    @property
    def text(self) -> str:
        """What it says; empty while hidden."""
        return "" if self.isHidden() else self._words.text()

    def tell(self, refusal: Refusal | AppError) -> None:
        """Show why something was refused, and what would help."""
        if isinstance(refusal, AppError):
            refusal = Refusal(refusal.message)
        self._words.setText(refusal.text)
        self._forget_offers()
        self.buttons = [self._button(offer) for offer in refusal.offers]
        self._offers.setVisible(bool(self.buttons))
        before = self.close_button
        for button in self.buttons:
            self.setTabOrder(before, button)
            before = button
        said = [refusal.text, *(offer.text for offer in refusal.offers)]
        self.setAccessibleName(" ".join(said))
        self.show()
        announce(self)

    def clear(self) -> None:
        """Hide it."""
        focused = self.focusWidget()
        had = focused is not None and focused.hasFocus()
        self.hide()
        self._forget_offers()
        if had:
            # Qt would hand the keyboard on, perhaps to the pool's handle, and the next key would move that.
            self.left.emit()

    def _button(self, offer: Offer) -> QPushButton:
        button = QPushButton(offer.text, self._offers)
        button.clicked.connect(lambda: self._take(offer))
        self._flow.addWidget(button)
        button.show()
        return button

    def _take(self, offer: Offer) -> None:
        self.clear()  # first: what follows may be refused in its turn
        offer.take()

    def _forget_offers(self) -> None:
        for button in self.buttons:
            self._flow.removeWidget(button)
            button.hide()
            button.deleteLater()
        self.buttons = []
