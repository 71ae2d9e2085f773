"""A dock whose contents are imported and made when it is first seen, and rest while it is not."""

import shiboken6
from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtWidgets import QDockWidget, QWidget


class DockContent(QWidget):
    """What a lazy dock shows."""

    def set_active(self, active: bool) -> None:
        """The dock came into sight or went out of it (closed, behind another tab, the window minimised)."""
        raise NotImplementedError

    def shutdown(self) -> None:
        """The window goes: end what still runs."""


class LazyDock(QDockWidget):
    """A dock that costs nothing until it is shown: numpy and pyqtgraph wait for it too."""

    def __init__(self, title: str, name: str, parent: QWidget | None = None) -> None:
        """`name` identifies the dock in the saved window layout."""
        super().__init__(title, parent)
        self.setObjectName(name)
        self.setAccessibleName(title)
        self.setAllowedAreas(Qt.DockWidgetArea.AllDockWidgetAreas)
        self._content: DockContent | None = None
        self._in_sight = False
        self._watched: QWidget | None = None
        self.visibilityChanged.connect(self._seen)

    def make_content(self) -> DockContent:
        """Import and make the contents; called once."""
        raise NotImplementedError

    @property
    def content(self) -> DockContent:
        """The contents, made now if they were not yet."""
        if self._content is None:
            self._content = self.make_content()
            self.setWidget(self._content)
        return self._content

    def shutdown(self) -> None:
        """End what still runs; call before the window goes."""
        if self._content is not None:
            self._content.shutdown()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Rest while the window is minimised."""
        if event.type() is QEvent.Type.WindowStateChange and watched is self._watched and self._lives():
            self._tell(False)
        return super().eventFilter(watched, event)

    def _seen(self, visible: bool) -> None:
        self._in_sight = visible
        if not self._lives():
            return
        window = self.window()  # another one while the dock floats
        if window is not self._watched:
            if self._watched is not None and shiboken6.isValid(self._watched):  # a window that goes is gone by now
                self._watched.removeEventFilter(self)
            window.installEventFilter(self)
            self._watched = window
        self._tell(visible)

    def _tell(self, visible: bool) -> None:
        """Tell the contents whether they are seen; make them where the dock is `visible` for the first time."""
        if visible or self._content is not None:
            self.content.set_active(self._is_seen())

    def _lives(self) -> bool:
        """Whether dock and contents are there still: a window that is deleted unclosed hides what is half gone."""
        return shiboken6.isValid(self) and (self._content is None or shiboken6.isValid(self._content))

    def _is_seen(self) -> bool:
        return self._in_sight and not self.window().isMinimized()
