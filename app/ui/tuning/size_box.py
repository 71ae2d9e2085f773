"""A box for a size in MiB, the pool's or main memory's, which tells what is being chosen from what is chosen."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QSpinBox, QWidget

from app.ui.number_boxes import WheelGuard
from app.ui.theme import GRID, set_role

MIB = 1024**2


class SizeBox(QWidget):
    """A named box; steps and typing choose, Enter is at once.

    Signals:
        choosing: The box says this size (bytes), and may go on.
        chosen: Enter was pressed at this size (bytes).
    """

    choosing = Signal(object)  # an int here would be one of 32 bits
    chosen = Signal(object)

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._title = title = QLabel(name, self)
        set_role(title, "strong")
        self.box = _Box(self)
        self.box.setKeyboardTracking(False)
        self.box.setSuffix(self.tr(" MiB"))
        self.box.setSpecialValueText(self.tr("none"))
        self.box.setGroupSeparatorShown(True)
        self.box.setAccessibleName(self.tr("Size of the expert pool"))
        WheelGuard(self).guard(self.box)
        title.setBuddy(self.box)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(GRID)
        row.addWidget(title)
        row.addWidget(self.box)
        self.box.valueChanged.connect(lambda value: self.choosing.emit(value * MIB))
        self.box.entered.connect(lambda: self.chosen.emit(self.box.value() * MIB))

    def set_names(self, name: str, spoken: str, none: str) -> None:
        """What the size is of: beside the box, for who cannot see it, and what 0 reads."""
        self._title.setText(name)
        self.box.setAccessibleName(spoken)
        self.box.setSpecialValueText(none)

    def set_room(self, most_bytes: int, step_bytes: int) -> None:
        """The largest size, and what one step changes."""
        self.box.blockSignals(True)  # a new range is no choice of the user's
        self.box.setRange(0, max(most_bytes // MIB, 0))
        self.box.setSingleStep(max(round(step_bytes / MIB), 1))
        self.box.blockSignals(False)

    def show_size(self, pool_bytes: int) -> None:
        """Show a size, unless the user is typing another one."""
        if self.box.hasFocus() and self.box.lineEdit().isModified():
            return
        self.box.blockSignals(True)
        self.box.setValue(round(pool_bytes / MIB))
        self.box.blockSignals(False)


class _Box(QSpinBox):
    """A box that tells of Enter.

    Signals:
        entered: Enter was pressed.
    """

    entered = Signal()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Enter chooses at once."""
        super().keyPressEvent(event)
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.entered.emit()
