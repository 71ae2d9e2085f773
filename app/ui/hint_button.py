"""A button in the status bar that says how many hints there are, and opens them."""

from typing import TYPE_CHECKING

from PySide6.QtCore import QCoreApplication
from PySide6.QtWidgets import QPushButton, QSizePolicy, QWidget

from app.ui.announce import say
from app.ui.controller import Controller
from app.ui.hints import HintWatch
from app.ui.orders import Orders
from app.ui.settings import Settings
from app.ui.theme import set_kind
from app.ui.words import number

if TYPE_CHECKING:
    from app.ui.hint_panel import HintPanel


SHORTCUT = "Ctrl+Shift+H"


class HintsButton(QPushButton):
    """Says how many hints there are; pressed it shows them. Absent while there is none, hidden ones included."""

    def __init__(
        self,
        controller: Controller,
        orders: Orders,
        settings: Settings,
        parent: QWidget | None = None,
        *,
        watch: HintWatch | None = None,
    ) -> None:
        super().__init__(parent)
        set_kind(self, "quiet")
        self._controller = controller
        self._orders = orders
        self.watch = watch or HintWatch(controller, settings, self)
        self._panel: HintPanel | None = None
        self._told = 0
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.clicked.connect(self.open_panel)
        self.watch.changed.connect(self._show)
        self._show()

    @property
    def panel(self) -> "HintPanel":
        """What the button opens, made when it is first needed."""
        if self._panel is None:
            from app.ui.hint_panel import HintPanel  # noqa: PLC0415 - no start needs it

            self._panel = HintPanel(self.watch, self._controller, self._orders, self.window())
        return self._panel

    def open_panel(self) -> None:
        """Show the hints at the button, the keyboard in them."""
        panel = self.panel
        panel.stand_at(self)
        panel.show()
        panel.focus_first()

    def shutdown(self) -> None:
        """Judge nothing any more; for the end of the window."""
        self.watch.shutdown()
        if self._panel is not None:
            self._panel.close()

    def _show(self) -> None:
        count = len(self.watch.hints)
        self.setText(count_text(count))
        self.setShortcut(SHORTCUT)  # a new text takes it away
        titles = ", ".join(hint.title for hint in self.watch.hints)
        self.setAccessibleName(f"{self.text()}: {titles}" if titles else self.text())
        lines = [*(hint.title for hint in self.watch.hints), self.tr("Opens with {keys}").format(keys=SHORTCUT)]
        self.setToolTip("\n".join(lines))
        self.setVisible(bool(count or self.watch.hidden))
        if count > self._told and self.isVisible():
            say(self, self.accessibleName())
        self._told = count


def count_text(count: int) -> str:
    """How many, as in "2 hints"."""
    translate = QCoreApplication.translate
    if not count:
        return translate("HintsButton", "No hints")
    one, many = translate("HintsButton", "1 hint"), translate("HintsButton", "{count} hints")
    return one if count == 1 else many.format(count=number(count))
