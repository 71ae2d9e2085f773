"""The lanes dock: a lane per GPU, one for the CPU, one for the disk; layers are moved between them."""

from PySide6.QtWidgets import QWidget

from app.ui.controller import Controller
from app.ui.lazy_dock import DockContent, LazyDock
from app.ui.theme import Theme


class LanesDock(LazyDock):
    """Experts' lanes; `content` is the `LanesPanel`."""

    def __init__(self, controller: Controller, theme: Theme, parent: QWidget | None = None) -> None:
        self._controller = controller
        self._theme = theme
        super().__init__(self.tr("Expert lanes"), "lanes", parent)

    def make_content(self) -> DockContent:
        """The panel; imported here because it brings numpy."""
        from app.ui.lanes.panel import LanesPanel  # noqa: PLC0415 - as said

        return LanesPanel(self._controller, self._theme)
