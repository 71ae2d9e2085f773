"""A layout that fills lines from the left and begins another where the next widget has no room."""

from PySide6.QtCore import QPoint, QRect, QSize, Qt
from PySide6.QtWidgets import QLayout, QLayoutItem, QWidget

from app.ui.theme import GRID


class FlowLayout(QLayout):
    """For rows of controls that must be usable in a narrow dock too; lines are as high as their highest widget.

    One may be in another: what belongs together stays together as long as it has a line of its own.
    """

    def __init__(self, parent: QWidget | None = None, *, spacing: int = GRID // 2, from_right: bool = False) -> None:
        """`from_right` has lines end at the right, for buttons that decide."""
        super().__init__(parent)
        self._from_right = from_right
        self._items: list[QLayoutItem] = []
        self.setContentsMargins(0, 0, 0, 0)
        self.setSpacing(spacing)

    def addItem(self, item: QLayoutItem) -> None:
        """Put it after the others."""
        self._items.append(item)

    def count(self) -> int:
        """How many there are."""
        return len(self._items)

    def itemAt(self, index: int) -> QLayoutItem | None:
        """One of them."""
        return self._items[index] if 0 <= index < len(self._items) else None

    def takeAt(self, index: int) -> QLayoutItem | None:
        """One of them, which is none of them any more."""
        return self._items.pop(index) if 0 <= index < len(self._items) else None

    def expandingDirections(self) -> Qt.Orientation:
        """None: a line need not be filled."""
        return Qt.Orientation(0)

    def hasHeightForWidth(self) -> bool:
        """A narrow one is higher."""
        return True

    def heightForWidth(self, width: int) -> int:
        """The height of all lines."""
        return self._place(QRect(0, 0, width, 0), move=False)

    def setGeometry(self, rect: QRect) -> None:
        """Place the widgets."""
        super().setGeometry(rect)
        self._place(rect, move=True)

    def sizeHint(self) -> QSize:
        """All in one line."""
        hints = [item.sizeHint() for item in self._shown()]
        width = sum(hint.width() for hint in hints) + self.spacing() * max(len(hints) - 1, 0)
        return QSize(width, max((hint.height() for hint in hints), default=0))

    def minimumSize(self) -> QSize:
        """As wide as the widest."""
        sizes = [item.minimumSize() for item in self._shown()]
        return QSize(
            max((size.width() for size in sizes), default=0), max((size.height() for size in sizes), default=0)
        )

    def _shown(self) -> list[QLayoutItem]:
        return [item for item in self._items if not item.isEmpty()]

    def _place(self, rect: QRect, *, move: bool) -> int:
        """Fill lines from the left; returns the height they take."""
        left, top = rect.x(), rect.y()
        line: list[tuple[QLayoutItem, QRect]] = []
        for item in self._shown():
            size = self._size_of(item, max(rect.width(), 1))
            if line and left + size.width() > rect.x() + rect.width():
                top += self._end_line(line, rect, move=move) + self.spacing()
                left, line = rect.x(), []
            line.append((item, QRect(QPoint(left, top), size)))
            left += size.width() + self.spacing()
        return top + self._end_line(line, rect, move=move) - rect.y()

    @staticmethod
    def _size_of(item: QLayoutItem, width: int) -> QSize:
        wanted = item.sizeHint()
        if wanted.width() <= width:
            return wanted
        return QSize(width, item.heightForWidth(width) if item.hasHeightForWidth() else wanted.height())

    def _end_line(self, line: list[tuple[QLayoutItem, QRect]], around: QRect, *, move: bool) -> int:
        height = max((rect.height() for _item, rect in line), default=0)
        across = around.right() - line[-1][1].right() if line and self._from_right else 0
        for item, rect in line if move else ():
            item.setGeometry(rect.translated(across, (height - rect.height()) // 2))
        return height
