"""Errors in words, and the strip that tells one with what to do about it."""

from PySide6.QtCore import QCoreApplication, Qt, Signal
from PySide6.QtWidgets import QApplication, QFrame, QHBoxLayout, QLabel, QPushButton, QSizePolicy, QVBoxLayout, QWidget

from app.advice import what_to_do
from app.errors import AppError
from app.ui.announce import announce
from app.ui.theme import GRID, set_kind, set_role


def advice_for(error: AppError) -> str:
    """What the user should do about `error`, in the user's language."""
    return QCoreApplication.translate("advice", what_to_do(error.code))


class Banner(QFrame):
    """One problem: what happened, what to do, the buttons that do it, and the evidence on demand.

    Signals:
        dismissed: The user closed it.
    """

    dismissed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        set_role(self, "banner-error")
        self.setAccessibleName(self.tr("Problem"))
        self._what = QLabel(self)
        self._what.setWordWrap(True)
        self._what.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        set_role(self._what, "strong")
        self._advice = QLabel(self)
        self._advice.setWordWrap(True)
        self._detail = QLabel(self)
        self._detail.setWordWrap(True)
        self._detail.setTextFormat(Qt.TextFormat.PlainText)
        self._detail.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        set_role(self._detail, "small")
        self._what.setTextFormat(Qt.TextFormat.PlainText)
        self._more = QPushButton(self.tr("Show details"), self)
        set_kind(self._more, "quiet")
        self._more.clicked.connect(self._toggle_detail)
        self._close = QPushButton(self.tr("Dismiss"), self)
        set_kind(self._close, "quiet")
        self._close.clicked.connect(self._dismiss)
        self._actions: list[QPushButton] = []
        self._focus_after: QWidget | None = None
        self._row = QHBoxLayout()
        self._row.setSpacing(GRID)
        self._row.addStretch(1)
        self._row.addWidget(self._more)
        self._row.addWidget(self._close)
        column = QVBoxLayout(self)
        column.setContentsMargins(2 * GRID, GRID + 4, 2 * GRID, GRID + 4)
        column.setSpacing(GRID // 2)
        column.addWidget(self._what)
        column.addWidget(self._advice)
        column.addWidget(self._detail)
        column.addSpacing(GRID // 2)
        column.addLayout(self._row)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Maximum)
        self.hide()

    def tell(self, error: AppError, actions: tuple[QPushButton, ...] = (), *, advice: str = "") -> None:
        """Show `error`, `advice` or else that of its code, and `actions` as buttons (taken over)."""
        self.clear()
        self._what.setText(error.message)
        self._advice.setText(advice or advice_for(error))
        self._detail.setText(error.detail)
        self._detail.hide()
        self._more.setVisible(bool(error.detail))
        self._more.setText(self.tr("Show details"))
        for place, button in enumerate(actions):
            self._row.insertWidget(place, button)
            self._actions.append(button)
        self.setAccessibleDescription(f"{error.message} {self._advice.text()}")
        self.show()
        announce(self)

    def set_focus_after(self, widget: QWidget) -> None:
        """Where the keyboard goes when the banner goes with one of its buttons in focus."""
        self._focus_after = widget

    def clear(self) -> None:
        """Hide it and drop its actions."""
        focus = QApplication.focusWidget()
        if self._focus_after is not None and focus is not None and self.isAncestorOf(focus):
            # Hiding a focused button hands the focus to whatever comes next: a key would press that.
            self._focus_after.setFocus(Qt.FocusReason.OtherFocusReason)
        for button in self._actions:
            self._row.removeWidget(button)
            button.hide()
            button.deleteLater()
        self._actions.clear()
        self.hide()

    @property
    def text(self) -> str:
        """What it says, without the details."""
        return f"{self._what.text()}\n{self._advice.text()}"

    def _dismiss(self) -> None:
        self.clear()
        self.dismissed.emit()

    def _toggle_detail(self) -> None:
        show = self._detail.isHidden()
        self._detail.setVisible(show)
        self._more.setText(self.tr("Hide details") if show else self.tr("Show details"))
