"""What the tests of the whole window do to it: show the chat with its docks, and ask."""

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QDockWidget, QWidget


class PlainWizard(QWidget):
    """Stands where the wizard would; it is only a signal."""

    finished = Signal()


def chat_with_docks(qtbot, window, *, visible):
    """Show the chat and wait for its docks, which come one by one."""
    window.show_chat()
    qtbot.waitUntil(lambda: [dock.isVisible() for dock in window.findChildren(QDockWidget)] == visible, timeout=10000)


def ask(qtbot, window, controller, text="Hello?"):
    with qtbot.waitSignal(controller.finished, timeout=10000):
        window.chat.ask(text)
