"""The lanes dock: a lane per GPU, one for the CPU, one for the disk; experts are ordered to and fro between them."""

from typing import TYPE_CHECKING

from PySide6.QtWidgets import QWidget

from app.ui.controller import Controller
from app.ui.lazy_dock import DockContent, LazyDock
from app.ui.theme import Theme

if TYPE_CHECKING:
    from app.ui.orders import Orders  # which imports parts of this package


class LanesDock(LazyDock):
    """Experts' lanes; `content` is the `LanesPanel`."""

    def __init__(
        self, controller: Controller, theme: Theme, orders: "Orders | None" = None, parent: QWidget | None = None
    ) -> None:
        """`orders` is the history that the window's parts share; without it the dock has one of its own."""
        self._controller = controller
        self._theme = theme
        self._orders = orders
        super().__init__(self.tr("Expert lanes"), "lanes", parent)

    def make_content(self) -> DockContent:
        """The panel; imported here because it brings numpy."""
        from app.ui.lanes.panel import LanesPanel  # noqa: PLC0415 - as said

        return LanesPanel(self._controller, self._theme, self._orders)
