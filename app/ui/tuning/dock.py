"""The tuning dock: curve, knobs and auto-tune."""

from PySide6.QtWidgets import QWidget

from app.ui.controller import Controller
from app.ui.lazy_dock import DockContent, LazyDock
from app.ui.orders import Orders
from app.ui.theme import Theme


class TuningDock(LazyDock):
    """Everything that makes a plan faster; `content` is the `TuningPanel`."""

    def __init__(self, controller: Controller, theme: Theme, orders: Orders, parent: QWidget | None = None) -> None:
        """`orders` is the history that the window's parts share."""
        self._controller = controller
        self._theme = theme
        self._orders = orders
        super().__init__(self.tr("Tuning"), "tuning", parent)

    def make_content(self) -> DockContent:
        """The panel; imported here because it brings numpy and pyqtgraph."""
        from app.ui.tuning.panel import TuningPanel  # noqa: PLC0415 - as said

        return TuningPanel(self._controller, self._orders, self._theme)
