"""Small widgets that more than one part of the window shows."""

from collections.abc import Callable
from dataclasses import dataclass

from PySide6.QtCore import QRectF, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QColor, QPainter, QPainterPath, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import (
    QAbstractButton,
    QBoxLayout,
    QCheckBox,
    QLabel,
    QPushButton,
    QSizePolicy,
    QStyle,
    QStyleOptionButton,
    QStylePainter,
    QWidget,
)

from app.ui.theme import Colors, Theme, text_points

CANCEL_MILLISECONDS = 5000
"""A load notices its cancel between two tensors; an engine that has not by then may never do so."""


class CancelButton(QPushButton):
    """Cancels a load, once; where the engine does not follow in time, offers to end it.

    Signals:
        cancel_wanted: Stop the load.
        end_wanted: End the engine, which does not answer.
        offered: Ending the engine is offered now.
    """

    cancel_wanted = Signal()
    end_wanted = Signal()
    offered = Signal()

    def __init__(self, text: str, parent: QWidget | None = None) -> None:
        super().__init__(text, parent)
        self._text = text
        self._offering = False
        self._patience = QTimer(self)
        self._patience.setSingleShot(True)
        self._patience.setInterval(CANCEL_MILLISECONDS)
        self._patience.timeout.connect(self._offer_end)
        self.clicked.connect(self._clicked)

    @property
    def offering_end(self) -> bool:
        """True once the engine has had its time to follow."""
        return self._offering

    def reset(self) -> None:
        """Another load, or none: cancelling is offered again."""
        self._patience.stop()
        self._offering = False
        self.setText(self._text)
        self.setEnabled(True)

    def wait(self) -> None:
        """The engine was told to stop; nothing to press until it has had its time."""
        if not self._offering and not self._patience.isActive():
            self.setEnabled(False)
            self._patience.start()

    def _offer_end(self) -> None:
        self._offering = True
        self.setText(self.tr("&End the engine"))
        self.setEnabled(True)
        self.offered.emit()

    def _clicked(self) -> None:
        if self._offering:
            self.end_wanted.emit()
        else:
            self.wait()
            self.cancel_wanted.emit()


ColorOf = Callable[[Colors], QColor]
"""Takes a colour from the look in force, so that a widget follows when that changes."""

LEAST_BUTTON_WIDTH = 120
BAR_HEIGHT = 12
SWATCH = 10
_GAP = 1.0


@dataclass(frozen=True)
class Segment:
    """A stretch of a bar."""

    color: ColorOf
    bytes: int


class StackedBar(QWidget):
    """Segments from the left, and the mark where the whole ends if they exceed it."""

    def __init__(self, theme: Theme, parent: QWidget | None = None, *, height: int = BAR_HEIGHT) -> None:
        super().__init__(parent)
        self._theme = theme
        self._segments: tuple[Segment, ...] = ()
        self._whole = 0
        self.setFixedHeight(height)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        theme.changed.connect(self.update)

    def show_segments(self, segments: tuple[Segment, ...], whole: int, words: str) -> None:
        """Show `segments` of `whole` bytes; `words` says the same to who cannot see it."""
        self._segments, self._whole = segments, whole
        self.setToolTip(words)
        self.setAccessibleName(words)
        self.update()

    def sizeHint(self) -> QSize:
        """Wide as given."""
        return QSize(120, self.height())

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint it."""
        colors = self._theme.colors
        used = sum(segment.bytes for segment in self._segments)
        scale = self.width() / max(self._whole, used, 1)
        frame = QRectF(self.rect())
        radius = frame.height() / 3
        shape = QPainterPath()
        shape.addRoundedRect(frame, radius, radius)
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setClipPath(shape)
        painter.fillRect(frame, colors.raised)
        left = 0.0
        for segment in self._segments:
            width = segment.bytes * scale
            # A hair of the ground between two parts tells them apart without relying on colour alone.
            painter.fillRect(QRectF(left, 0, max(width - _GAP, 0.5), frame.height()), segment.color(colors))
            left += width
        if used > self._whole:
            painter.fillRect(QRectF(self._whole * scale - 1, 0, 2, frame.height()), colors.text)
        painter.end()


class Swatch(QWidget):
    """A colour beside the name of what has it."""

    def __init__(self, color: ColorOf, theme: Theme, parent: QWidget | None = None, *, rounding: float = 3) -> None:
        super().__init__(parent)
        self._color = color
        self._theme = theme
        self._rounding = rounding
        self.setFixedSize(SWATCH, SWATCH)
        theme.changed.connect(self.update)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint it."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(self._color(self._theme.colors))
        painter.drawRoundedRect(self.rect(), self._rounding, self._rounding)
        painter.end()


def _elided(button: QAbstractButton, room: int) -> str:
    """What fits of a button's words, whose key is told by an "&" that takes no room."""
    shown = Qt.TextFlag.TextShowMnemonic
    return button.fontMetrics().elidedText(button.text(), Qt.TextElideMode.ElideRight, room, shown)


class ElidedButton(QPushButton):
    """A button whose words end in an ellipsis where they do not fit; a screen reader hears all of them."""

    def __init__(self, text: str, parent: QWidget | None = None) -> None:
        super().__init__(text, parent)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)

    def minimumSizeHint(self) -> QSize:
        """Narrow, if need be."""
        return QSize(LEAST_BUTTON_WIDTH, super().minimumSizeHint().height())

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint what fits."""
        option = QStyleOptionButton()
        self.initStyleOption(option)
        room = self.style().subElementRect(QStyle.SubElement.SE_PushButtonContents, option, self).width()
        option.text = _elided(self, room)
        painter = QStylePainter(self)
        painter.drawControl(QStyle.ControlElement.CE_PushButton, option)
        painter.end()


class ElidedCheckBox(QCheckBox):
    """A box to tick whose words end in an ellipsis where they do not fit; its tip and a screen reader have them all."""

    def __init__(self, text: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self.setText(text)

    def setText(self, text: str) -> None:
        """Say something else."""
        super().setText(text)
        self.setToolTip(text)

    def minimumSizeHint(self) -> QSize:
        """Narrow, if need be."""
        return QSize(LEAST_BUTTON_WIDTH, super().minimumSizeHint().height())

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint what fits."""
        option = QStyleOptionButton()
        self.initStyleOption(option)
        room = self.style().subElementRect(QStyle.SubElement.SE_CheckBoxContents, option, self).width()
        option.text = _elided(self, room)
        painter = QStylePainter(self)
        painter.drawControl(QStyle.ControlElement.CE_CheckBox, option)
        painter.end()


class FoldingRow(QWidget):
    """Widgets beside each other where there is room, else one under the other: it makes no page wider."""

    def __init__(self, parent: QWidget | None = None, *, spacing: int, beside_from: int = 0) -> None:
        """`beside_from` is the least width for beside, with the usual size of text; 0 for what the widgets need."""
        super().__init__(parent)
        self._beside_from = beside_from
        self._box = QBoxLayout(QBoxLayout.Direction.LeftToRight, self)
        self._box.setContentsMargins(0, 0, 0, 0)
        self._box.setSpacing(spacing)

    def add(self, widget: QWidget, stretch: int = 0) -> None:
        """Put it after the others."""
        self._box.addWidget(widget, stretch)

    def minimumSizeHint(self) -> QSize:
        """As wide as the widest."""
        return QSize(max(self._widths(), default=0), super().minimumSizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Choose the direction that fits."""
        super().resizeEvent(event)
        widths = self._widths()
        needed = sum(widths) + self._box.spacing() * max(len(widths) - 1, 0)
        beside = event.size().width() >= max(needed, text_points(self._beside_from))
        self._box.setDirection(QBoxLayout.Direction.LeftToRight if beside else QBoxLayout.Direction.TopToBottom)

    def _widths(self) -> list[int]:
        shown = (self._box.itemAt(place) for place in range(self._box.count()))
        return [item.minimumSize().width() for item in shown if not item.isEmpty()]


class ElidedLabel(QLabel):
    """One line that ends in an ellipsis where it does not fit."""

    def __init__(self, text: str, parent: QWidget | None = None) -> None:
        super().__init__(text, parent)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint what fits."""
        painter = QPainter(self)
        text = self.fontMetrics().elidedText(self.text(), Qt.TextElideMode.ElideRight, self.width())
        painter.setPen(self.palette().color(self.foregroundRole()))
        painter.drawText(self.rect(), self.alignment(), text)
        painter.end()


def words_label(parent: QWidget | None = None) -> QLabel:
    """Words on as many lines as they need, which never make what is around them wider."""
    label = QLabel(parent)
    label.setWordWrap(True)
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
    return label
