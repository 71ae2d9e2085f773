"""The models found on this machine as a list: name and size in a row."""

from collections.abc import Iterable
from pathlib import Path

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QRect, QSignalBlocker, QSize, Qt, Signal
from PySide6.QtGui import QPainter
from PySide6.QtWidgets import (
    QAbstractItemView,
    QApplication,
    QListWidget,
    QListWidgetItem,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QWidget,
)

from app.library.models import LocalModel
from app.ui.theme import GRID, Theme
from app.ui.words import in_bytes

ROW_HEIGHT = 40
VISIBLE_ROWS = 6
_PATH = Qt.ItemDataRole.UserRole
_SIZE = Qt.ItemDataRole.UserRole + 1


class ModelList(QListWidget):
    """One row a model; selecting a row, by mouse or arrow, chooses it.

    Signals:
        chosen: The user selected a model (Path).
    """

    chosen = Signal(object)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName(self.tr("Models on this machine"))
        self.setItemDelegate(_Row(theme, self))
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        # Not the current row: the list makes its first row current when it merely gets the focus.
        self.itemSelectionChanged.connect(self._selected)
        self.itemActivated.connect(lambda item: item.setSelected(True))

    def show_models(self, models: Iterable[LocalModel]) -> None:
        """Show these models instead of those shown; nothing is selected then."""
        blocker = QSignalBlocker(self)
        self.clear()
        for model in models:
            item = QListWidgetItem(model.name, self)
            size = in_bytes(model.bytes)
            item.setData(_PATH, str(model.path))
            item.setData(_SIZE, size)
            item.setToolTip(str(model.path))
            item.setData(Qt.ItemDataRole.AccessibleTextRole, f"{model.name}, {size}")
        blocker.unblock()
        rows = min(self.count(), VISIBLE_ROWS)
        self.setFixedHeight(rows * ROW_HEIGHT + 2 * self.frameWidth() + 2)

    def select(self, path: Path | None) -> bool:
        """Mark the model of `path` without choosing it anew; False if it is not in the list."""
        blocker = QSignalBlocker(self)
        self.clearSelection()
        for row in range(self.count()):
            item = self.item(row)
            if path is not None and item.data(_PATH) == str(path):
                self.setCurrentItem(item)
                blocker.unblock()
                return True
        self.setCurrentRow(-1)
        return False

    def _selected(self) -> None:
        items = self.selectedItems()
        if items:
            self.chosen.emit(Path(items[0].data(_PATH)))


class _Row(QStyledItemDelegate):
    """The name from the left, elided; the size at the right."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme

    def sizeHint(self, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex) -> QSize:
        """Every row is as high."""
        return QSize(super().sizeHint(option, index).width(), ROW_HEIGHT)

    def paint(
        self, painter: QPainter, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        """Paint the row's ground as the style does, then name and size."""
        self.initStyleOption(option, index)
        name, option.text = option.text, ""
        style = option.widget.style() if option.widget else QApplication.style()
        style.drawControl(QStyle.ControlElement.CE_ItemViewItem, option, painter, option.widget)
        colors = self._theme.colors
        room = option.rect.adjusted(GRID + 4, 0, -GRID - 4, 0)
        size = index.data(_SIZE)
        size_width = option.fontMetrics.horizontalAdvance(size)
        painter.save()
        painter.setPen(colors.muted_text)
        painter.drawText(room, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, size)
        room = QRect(room.left(), room.top(), room.width() - size_width - 2 * GRID, room.height())
        painter.setPen(colors.text)
        text = option.fontMetrics.elidedText(name, Qt.TextElideMode.ElideMiddle, room.width())
        painter.drawText(room, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, text)
        painter.restore()
