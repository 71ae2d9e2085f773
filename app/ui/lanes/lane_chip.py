"""What hangs under the pointer while experts or layers are dragged: a chip with how many, and what they weigh."""

from PySide6.QtCore import QMimeData, QPoint, QRect, Qt
from PySide6.QtGui import QDrag, QPainter, QPixmap
from PySide6.QtWidgets import QWidget

from app.ui.lanes.words import layers_text, translate
from app.ui.theme import GRID, Theme
from app.ui.words import in_bytes, number


def experts_chip_text(count: int, size: int) -> str:
    """Dragged experts: "14 experts · 38.1 MiB"."""
    words = (
        translate("Lanes", "1 expert")
        if count == 1
        else translate("Lanes", "{count} experts").format(count=number(count))
    )
    return f"{words} · {in_bytes(size)}"


def layers_chip_text(count: int, size: int) -> str:
    """Dragged layers: "2 layers · 1.2 GiB"."""
    return f"{layers_text(count)} · {in_bytes(size)}"


def drag_with_chip(source: QWidget, data: QMimeData, text: str, theme: Theme) -> None:
    """Drag `data` from a widget until it is dropped or given up; events are handled meanwhile."""
    drag = QDrag(source)
    drag.setMimeData(data)
    drag.setPixmap(chip(source, text, theme))
    drag.setHotSpot(QPoint(-GRID, -GRID))
    drag.exec(Qt.DropAction.MoveAction)


def chip(source: QWidget, text: str, theme: Theme) -> QPixmap:
    """The chip as a picture, sharp on the source's screen."""
    metrics, ratio = source.fontMetrics(), source.devicePixelRatioF()
    width, height = metrics.horizontalAdvance(text) + 3 * GRID, metrics.height() + GRID
    pixmap = QPixmap(round(width * ratio), round(height * ratio))
    pixmap.setDevicePixelRatio(ratio)
    pixmap.fill(Qt.GlobalColor.transparent)
    painter = QPainter(pixmap)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setBrush(theme.colors.accent)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.drawRoundedRect(QRect(0, 0, width, height), height / 2, height / 2)
    painter.setPen(theme.colors.on_accent)
    painter.setFont(source.font())
    painter.drawText(QRect(0, 0, width, height), Qt.AlignmentFlag.AlignCenter, text)
    painter.end()
    return pixmap
