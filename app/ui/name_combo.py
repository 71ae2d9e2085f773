"""A list of choices whose names may be long, such as those of devices: none is cut where it cannot be read whole."""

from PySide6.QtCore import QEvent, QSize, Qt
from PySide6.QtGui import QHelpEvent, QPaintEvent
from PySide6.QtWidgets import QComboBox, QStyle, QStyleOptionComboBox, QStylePainter, QToolTip, QWidget

LEAST_CHARACTERS = 6
_AROUND = 48
"""Pixels of a frame and an arrow, by the style sheet."""


class NameCombo(QComboBox):
    """As wide as its names where there is room; else a name loses its middle, for names often differ at the end.

    The list that opens is as wide as its longest name, and the tip tells the whole of the one that is chosen.
    """

    def __init__(self, parent: QWidget | None = None, *, least_characters: int = LEAST_CHARACTERS) -> None:
        super().__init__(parent)
        self._least = least_characters
        self.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)

    @property
    def shown_text(self) -> str:
        """What can be read of the name that is chosen."""
        return self._elided(self._option())

    def minimumSizeHint(self) -> QSize:
        """Room for a few letters: a long name must not make a page wider than its window."""
        whole = super().minimumSizeHint()
        few = self.fontMetrics().horizontalAdvance("x" * self._least) + _AROUND
        return QSize(min(whole.width(), few), whole.height())

    def showPopup(self) -> None:
        """Open the list, wide enough for every name."""
        view, screen = self.view(), self.screen()
        bar = view.verticalScrollBar().sizeHint().width() if self.count() > self.maxVisibleItems() else 0
        wanted = view.sizeHintForColumn(0) + bar + 2 * view.frameWidth()
        view.setMinimumWidth(min(wanted, screen.availableGeometry().width()) if screen is not None else wanted)
        super().showPopup()

    def event(self, event: QEvent) -> bool:
        """The tip begins with the whole name where it is not seen."""
        if isinstance(event, QHelpEvent) and event.type() is QEvent.Type.ToolTip:
            QToolTip.showText(event.globalPos(), self.tip, self)
            return True
        return super().event(event)

    @property
    def tip(self) -> str:
        """What is told of it under the pointer."""
        name = self.currentText()
        whole = name if self.shown_text != name else ""
        return "\n".join(words for words in (whole, self.toolTip()) if words)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint what fits of the name."""
        option = self._option()
        option.currentText = self._elided(option)
        painter = QStylePainter(self)
        painter.drawComplexControl(QStyle.ComplexControl.CC_ComboBox, option)
        painter.drawControl(QStyle.ControlElement.CE_ComboBoxLabel, option)
        painter.end()

    def _option(self) -> QStyleOptionComboBox:
        option = QStyleOptionComboBox()
        self.initStyleOption(option)
        return option

    def _elided(self, option: QStyleOptionComboBox) -> str:
        place = QStyle.SubControl.SC_ComboBoxEditField
        room = self.style().subControlRect(QStyle.ComplexControl.CC_ComboBox, option, place, self)
        # Styles leave a pixel beside the words.
        return self.fontMetrics().elidedText(self.currentText(), Qt.TextElideMode.ElideMiddle, room.width() - 2)
