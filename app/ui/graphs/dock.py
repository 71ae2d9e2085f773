"""The graphs dock: memory and speed, live."""

from PySide6.QtWidgets import QWidget

from app.ui.controller import Controller
from app.ui.lazy_dock import DockContent, LazyDock
from app.ui.settings import Settings
from app.ui.theme import Theme


class GraphsDock(LazyDock):
    """Live graphs; `content` is the `GraphsPanel`."""

    def __init__(
        self, controller: Controller, theme: Theme, parent: QWidget | None = None, *, settings: Settings | None = None
    ) -> None:
        """`settings` remembers which graphs are shown."""
        self._controller = controller
        self._theme = theme
        self._settings = settings
        super().__init__(self.tr("Live graphs"), "graphs", parent)

    def make_content(self) -> DockContent:
        """The panel; imported here because it brings numpy."""
        from app.ui.graphs.panel import GraphsPanel  # noqa: PLC0415 - as said

        return GraphsPanel(self._controller, self._theme, settings=self._settings)
