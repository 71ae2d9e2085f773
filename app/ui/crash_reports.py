"""Logging of the window, and what happens to errors nobody expected: logged, told once, never swallowed."""

import faulthandler
import logging
import logging.handlers
import sys
import threading
import traceback
from pathlib import Path
from types import TracebackType
from typing import TextIO

from PySide6.QtCore import QCoreApplication, QObject, Qt, Signal
from PySide6.QtWidgets import QApplication, QMessageBox

from app.errors import writing_error

log = logging.getLogger(__name__)

LOG_BYTES = 2_000_000
LOG_FILES = 3


def set_up_logging(folder: Path) -> TextIO:
    """Log to `folder`, and have a crash of the interpreter write every thread's stack there.

    Returns:
        The open file of faulthandler; it must stay open as long as the process runs.

    Raises:
        AppError: folder_not_writable or disk_full; a file there may be another user's, as after a start by root.
    """
    try:
        crashes = (folder / "window-crash.log").open("a", encoding="utf-8")
    except OSError as error:
        raise writing_error(error, folder / "window-crash.log") from error
    try:
        handler = logging.handlers.RotatingFileHandler(
            folder / "window.log",
            maxBytes=LOG_BYTES,
            backupCount=LOG_FILES,
            encoding="utf-8",
            errors="backslashreplace",  # names of files need not be Unicode on Linux
        )
    except OSError as error:
        crashes.close()
        raise writing_error(error, folder / "window.log") from error
    handler.setFormatter(logging.Formatter("%(asctime)s %(process)d %(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger()
    root.setLevel(logging.INFO)
    root.addHandler(handler)
    faulthandler.enable(crashes)
    return crashes


class UnexpectedErrors(QObject):
    """Takes over `sys.excepthook` and `threading.excepthook` until `uninstall`.

    Signals:
        happened: The traceback of an error on any thread.
    """

    happened = Signal(str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._telling = False
        self._previous = (sys.excepthook, threading.excepthook)
        # Queued: an error on another thread must be told on this one.
        self.happened.connect(self._tell, Qt.ConnectionType.QueuedConnection)
        sys.excepthook = self._caught
        threading.excepthook = lambda caught: self._caught(
            caught.exc_type, caught.exc_value or caught.exc_type(), caught.exc_traceback
        )

    def uninstall(self) -> None:
        """Give the hooks back."""
        sys.excepthook, threading.excepthook = self._previous

    def _caught(self, kind: type[BaseException], error: BaseException, where: TracebackType | None) -> None:
        if issubclass(kind, KeyboardInterrupt):
            QCoreApplication.quit()
            return
        text = "".join(traceback.format_exception(kind, error, where))
        log.critical("unexpected error\n%s", text)
        self.happened.emit(text)

    def _tell(self, text: str) -> None:
        if self._telling or QApplication.instance() is None:
            return  # one dialog at a time; the log has every error
        self._telling = True
        try:
            box = QMessageBox(
                QMessageBox.Icon.Warning,
                self.tr("Unexpected error"),
                self.tr("Something in the window went wrong. Your conversations are saved; you can go on."),
            )
            box.setInformativeText(self.tr("If it happens again, please report it with the details below."))
            box.setDetailedText(text)
            box.exec()
        finally:
            self._telling = False
