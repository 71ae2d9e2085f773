"""The settings dialog's part about updates, over played releases: what a user sees and presses in it."""

import contextlib

from played_releases import DEB, SOURCE, make_release, serving
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QPushButton

from app.ui.settings_dialog import SettingsDialog
from app.ui.updates import Updates

PATIENCE = 10000


class Desk:
    """A settings dialog over played releases; keeps what was opened."""

    def __init__(self, qtbot, settings, transport, installed):
        self.qtbot = qtbot
        self.opened = []
        self.updates = Updates(
            settings, source=SOURCE, transport=lambda: transport, installed=lambda: installed, open_url=self.open
        )
        self.transport = transport
        self.dialog = SettingsDialog(settings, updates=self.updates)
        qtbot.addWidget(self.dialog, before_close_func=lambda _dialog: self.updates.shutdown())
        self.dialog.show()
        self.dialog.activateWindow()
        qtbot.waitUntil(self.dialog.isActiveWindow, timeout=PATIENCE)
        self.panel = self.dialog.updates

    def open(self, url):
        self.opened.append(url.toLocalFile())
        return True

    def shown(self):
        """What the visible buttons say."""
        buttons = self.panel.findChildren(QPushButton)
        return [b.text().replace("&", "") for b in buttons if b.isVisible() and b.parent() is self.panel]

    def until(self, step):
        self.qtbot.waitUntil(lambda: self.updates.step is step, timeout=PATIENCE)

    def check(self):
        self.qtbot.mouseClick(self.panel.check_button, Qt.MouseButton.LeftButton)
        self.qtbot.waitUntil(lambda: not self.updates.busy, timeout=PATIENCE)

    def fetch(self):
        self.qtbot.mouseClick(self.panel.fetch_button, Qt.MouseButton.LeftButton)
        self.qtbot.waitUntil(lambda: not self.updates.busy, timeout=PATIENCE)


@contextlib.contextmanager
def desks(qtbot, settings):
    """Gives what makes such dialogs; none of them is left running."""
    made = []

    def make(transport=None, installed=DEB):
        made.append(Desk(qtbot, settings, transport or serving(make_release()), installed))
        return made[-1]

    try:
        yield make
    finally:
        for each in made:
            each.updates.shutdown()
            each.updates.deleteLater()
