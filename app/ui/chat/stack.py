"""A column of widgets that grows downwards without ever squeezing or moving what stands above.

A box layout first fits the new heights into the old room and only then gets more of it, level by
level; everything is moved, and so drawn, twice. A stack takes its own new height before it places
its children, and so a line more at the end draws one line.
"""

from collections.abc import Iterator

from PySide6.QtCore import QEvent, QMargins, QRect, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QSizePolicy, QWidget


def grow_downwards(widget: QWidget) -> None:
    """Draw only what is new when `widget` grows; needed of every widget around a growing text."""
    widget.setAttribute(Qt.WidgetAttribute.WA_StaticContents)


class Stack(QWidget):
    """As tall as its shown children, one under the other, are at its width."""

    def __init__(self, spacing: int, margins: QMargins | None = None, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._spacing = spacing
        self._margins = margins or QMargins()
        self._items: list[QWidget] = []
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        grow_downwards(self)

    def __iter__(self) -> Iterator[QWidget]:
        """The children from the top, hidden ones too."""
        return iter(tuple(self._items))

    def insert(self, place: int, child: QWidget) -> None:
        """Put `child` before the one at `place`; it is shown unless it was hidden before."""
        self._items.insert(place, child)
        if child.parent() is not self:
            child.setParent(self)
        if not child.testAttribute(Qt.WidgetAttribute.WA_WState_ExplicitShowHide):
            child.show()
        self.restack()

    def add(self, child: QWidget) -> None:
        """Put `child` at the end."""
        self.insert(len(self._items), child)

    def remove(self, child: QWidget) -> None:
        """Take `child` out and delete it."""
        self._items.remove(child)
        child.hide()
        child.deleteLater()
        self.restack()

    def restack(self) -> None:
        """Place the children; done by itself whenever one changes its height."""
        width = self.width() - self._margins.left() - self._margins.right()
        top = self._margins.top()
        places = []
        for child in self._items:
            if child.isHidden():
                continue
            if child.width() != width:
                child.resize(width, child.height())  # a text is as tall as its width makes it
            height = _height_of(child, width)
            places.append((child, QRect(self._margins.left(), top, width, height)))
            top += height + self._spacing
        total = max(0, top - (self._spacing if places else 0)) + self._margins.bottom()
        if total != self.minimumHeight() or total != self.maximumHeight():
            self.setFixedHeight(total)
        for child, place in places:
            child.setGeometry(place)

    def event(self, event: QEvent) -> bool:
        """A child asks for another height."""
        if event.type() == QEvent.Type.LayoutRequest:
            self.restack()
            return True
        return super().event(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Another width gives other heights."""
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width():
            self.restack()


def _height_of(child: QWidget, width: int) -> int:
    if child.minimumHeight() == child.maximumHeight():
        return child.minimumHeight()
    if child.hasHeightForWidth():
        return child.heightForWidth(width)
    return child.sizeHint().height()
