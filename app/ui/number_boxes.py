"""Boxes for numbers that more than one part of the window has: tokens in doublings, and a wheel that asks first."""

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtWidgets import QSpinBox, QWidget

LEAST_STEP = 1024


class TokenSpin(QSpinBox):
    """A number of tokens whose steps double and halve it; below the least step comes the least value.

    Where that is 0 it can stand for "Automatic".
    """

    def __init__(self, parent: QWidget | None = None, *, least_step: int = LEAST_STEP) -> None:
        super().__init__(parent)
        self._least_step = least_step

    def stepBy(self, steps: int) -> None:
        """Go to the next power of two that way."""
        value = self.value()
        for _ in range(abs(steps)):
            if steps > 0:
                value = self._least_step if value < self._least_step else 1 << value.bit_length()
            else:
                value = 0 if value <= self._least_step else 1 << ((value - 1).bit_length() - 1)
        self.setValue(value)


class WheelGuard(QObject):
    """Scrolling a page past a control changes nothing: the wheel is for who has chosen the control."""

    def guard(self, control: QWidget) -> None:
        """Watch over a control, which the wheel does not choose either: Qt's boxes take the keyboard by it."""
        control.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        control.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Hand the wheel on to what scrolls."""
        if event.type() is QEvent.Type.Wheel and isinstance(watched, QWidget) and not watched.hasFocus():
            event.ignore()
            return True
        return super().eventFilter(watched, event)
