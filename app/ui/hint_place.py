"""Where a popup stands: right at the button that opens it, whatever its height, and wholly on the screen."""

from PySide6.QtCore import QRect, QSize


def place(wanted: QSize, button: QRect, screen: QRect, gap: int) -> QRect:
    """The popup's place, its right edge in line with the button's as far as the screen allows.

    It stands above the button, or below where it does not fit above and there is more room. It is cut to the room that
    is there: what it holds scrolls then.

    Args:
        wanted: The size that its contents need.
        button: The button; like `screen` in the coordinates of the whole desktop.
        screen: What windows may take of the screen.
        gap: Pixels between button and popup.
    """
    above = button.top() - gap - screen.top()
    below = _end(screen) - _end(button) - gap
    upwards = wanted.height() <= above or above >= below
    height = min(wanted.height(), max(above if upwards else below, 0), screen.height())
    width = min(wanted.width(), screen.width())
    left = button.left() + button.width() - width
    left = max(min(left, screen.left() + screen.width() - width), screen.left())
    top = button.top() - gap - height if upwards else _end(button) + gap
    top = max(min(top, _end(screen) - height), screen.top())
    return QRect(left, top, width, height)


def _end(its: QRect) -> int:
    """The first row of pixels below it; Qt's `bottom` is the last one in it."""
    return its.top() + its.height()
