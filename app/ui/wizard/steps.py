"""The step indicator: where the user is among model, machine, plan and load."""

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QFont, QFontMetricsF, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.ui.theme import GRID, Theme
from app.ui.wizard.flow import VIEWS, View
from app.ui.wizard.words import tr, view_title

BADGE = 26
_GAP = GRID
_LINE = 36


class StepIndicator(QWidget):
    """Numbered steps in a row; those passed carry a check mark. Shows only: Back and Next move."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._view = View.MODEL
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        theme.changed.connect(self.update)
        self.show_view(View.MODEL)

    def show_view(self, view: View) -> None:
        """Mark `view` as the one shown."""
        self._view = view
        self.setAccessibleName(
            tr("Step {number} of {count}: {title}").format(
                number=VIEWS.index(view) + 1, count=len(VIEWS), title=view_title(view)
            )
        )
        self.update()

    def sizeHint(self) -> QSize:
        """Room for all steps in a row."""
        return QSize(round(self._width()), BADGE + 2)

    def _font(self, *, bold: bool) -> QFont:
        font = QFont(self.font())
        font.setWeight(QFont.Weight.DemiBold if bold else QFont.Weight.Normal)
        return font

    def _label_width(self, view: View) -> float:
        # Measured bold, whichever it is, so that the steps stay where they are.
        return QFontMetricsF(self._font(bold=True)).horizontalAdvance(view_title(view))

    def _width(self) -> float:
        steps = sum(BADGE + _GAP + self._label_width(view) for view in VIEWS)
        return steps + (len(VIEWS) - 1) * (_LINE + 2 * _GAP)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint badges, names, and the lines between them."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        left = max((self.width() - self._width()) / 2, 0.0)
        current = VIEWS.index(self._view)
        for place, view in enumerate(VIEWS):
            if place:
                self._paint_line(painter, left, passed=place <= current)
                left += _LINE + 2 * _GAP
            badge = QRectF(left, 1, BADGE, BADGE)
            self._paint_badge(painter, badge, place, current)
            left += BADGE + _GAP
            width = self._label_width(view)
            painter.setFont(self._font(bold=place == current))
            colors = self._theme.colors
            painter.setPen(colors.text if place == current else colors.muted_text)
            painter.drawText(
                QRectF(left, 0, width + _GAP, self.height()),
                Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter,
                view_title(view),
            )
            left += width
        painter.end()

    def _paint_line(self, painter: QPainter, left: float, *, passed: bool) -> None:
        colors = self._theme.colors
        painter.setPen(QPen(colors.accent if passed else colors.border, 2))
        middle = 1 + BADGE / 2
        painter.drawLine(QPointF(left + _GAP, middle), QPointF(left + _GAP + _LINE, middle))

    def _paint_badge(self, painter: QPainter, badge: QRectF, place: int, current: int) -> None:
        colors = self._theme.colors
        filled = place <= current
        painter.setPen(QPen(colors.accent if filled else colors.border, 2))
        painter.setBrush(colors.accent if place == current else colors.surface)
        painter.drawEllipse(badge.adjusted(1, 1, -1, -1))
        if place < current:
            painter.setPen(QPen(colors.accent, 2, Qt.PenStyle.SolidLine, Qt.PenCapStyle.RoundCap))
            x, y = badge.center().x(), badge.center().y()
            painter.drawPolyline([QPointF(x - 4.5, y + 0.5), QPointF(x - 1.5, y + 3.5), QPointF(x + 5, y - 3.5)])
            return
        painter.setFont(self._font(bold=True))
        painter.setPen(colors.on_accent if place == current else colors.muted_text)
        painter.drawText(badge, Qt.AlignmentFlag.AlignCenter, str(place + 1))
