"""Has a screen reader say what appeared without the user having gone there."""

from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent, QAccessibleEvent
from PySide6.QtWidgets import QWidget


def announce(widget: QWidget) -> None:
    """Read out the accessible name and description of `widget`, wherever the focus is."""
    QAccessible.updateAccessibility(QAccessibleEvent(widget, QAccessible.Event.Alert))


def say(widget: QWidget, text: str) -> None:
    """Read out `text`, for something inside of `widget` that is no widget of its own."""
    QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(widget, text))
