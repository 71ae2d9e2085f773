"""Model files that the system hands over: at the start, and from later starts while the window runs."""

import logging
import os
from pathlib import Path

from PySide6.QtCore import QFileSystemWatcher, QObject, Qt, QTimer

from app.library.handover import Handover
from app.ui.controller import ANSWERING, LENT, LOADING, Controller
from app.ui.main_window import NOTE_MILLISECONDS, MainWindow

log = logging.getLogger(__name__)


class Opening(QObject):
    """Takes what later starts of the app hand over: brings the window to the front, and opens their model file.

    A file that comes while the engine loads, answers or measures waits for the end of that; of several the last counts.
    """

    def __init__(self, window: MainWindow, controller: Controller, handover: Handover) -> None:
        super().__init__(window)
        self._window = window
        self._controller = controller
        self._handover = handover
        self._waiting: Path | None = None
        # Not at once: the wizard learns of a load that ended after the state has changed.
        controller.state_changed.connect(lambda _state: QTimer.singleShot(0, self, self._open_waiting))
        self._watcher = QFileSystemWatcher([str(handover.folder)], self)
        self._watcher.directoryChanged.connect(self._take)
        window.closing.connect(self._end)
        self._take()  # what came before the folder was watched
        if not self._watcher.directories():
            log.warning("%s cannot be watched: later starts open windows of their own", handover.folder)
            handover.close()

    def open(self, path: Path) -> None:
        """Have the wizard read `path`, which says what is in it or why it is no model; what is loaded stays loaded."""
        if self._controller.state in (LOADING, ANSWERING, LENT):
            self._waiting = path
            words = self.tr("{file} is opened when the engine is free.").format(file=path.name)
            self._window.statusBar().showMessage(words, NOTE_MILLISECONDS)
            return
        self._waiting = None
        if self._window.page is not self._window.wizard:
            self._window.show_wizard()
        self._window.wizard.choose(path)

    def _take(self) -> None:
        for request in self._handover.take():
            log.info("another start hands over %s", os.fsdecode(request.path) or "nothing")
            self._bring_forward(request.activation)
            if request.path:
                self.open(Path(os.fsdecode(request.path)))

    def _end(self) -> None:
        """Leave later starts to another window: this one goes, and would take what they want along."""
        self._watcher.blockSignals(True)
        self._waiting = None
        self._handover.close()

    def _bring_forward(self, activation: str) -> None:
        if activation:
            os.environ["XDG_ACTIVATION_TOKEN"] = activation  # Qt takes it from there, as at a start
        window = self._window
        window.setWindowState(window.windowState() & ~Qt.WindowState.WindowMinimized)
        window.show()
        window.raise_()
        window.activateWindow()

    def _open_waiting(self) -> None:
        if self._waiting is not None and self._controller.state not in (LOADING, ANSWERING, LENT):
            self.open(self._waiting)
