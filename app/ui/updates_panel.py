"""The part of the settings about updates: one sentence, what is new, and the buttons that can be pressed now."""

from collections.abc import Callable

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import (
    QApplication,
    QHBoxLayout,
    QLabel,
    QMessageBox,
    QPlainTextEdit,
    QProgressBar,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from app.ui.announce import say
from app.ui.banner import Banner
from app.ui.theme import GRID, set_kind, text_points
from app.ui.updates import Step, Updates
from app.ui.updates_words import is_opened, progress_words, status_words, way_back_words
from app.ui.wizard.widgets import label
from app.ui.words import in_bytes
from app.updates.source import unknown_source

NOTES_HEIGHT = 90
POLL_MILLISECONDS = 200
STEPS = 1000


class UpdatesPanel(QWidget):
    """Shows an `Updates` and asks things of it; a build that knows no source only says so, and has no button."""

    def __init__(self, updates: Updates, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._updates = updates
        self.status = label(parent=self)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(GRID)
        self._column.addWidget(self.status)
        if updates.source is None:
            self.status.setText(f"{unknown_source().message} {self.tr('Look for a newer one where you got this one.')}")
            return
        self._make()
        self._poll = QTimer(self)
        self._poll.setInterval(POLL_MILLISECONDS)
        self._poll.timeout.connect(self._show_progress)
        self._told = ""
        updates.changed.connect(self._show)
        self._show()

    def _make(self) -> None:
        self.notes = QPlainTextEdit(self)
        self.notes.setReadOnly(True)
        self.notes.setTabChangesFocus(True)
        self.notes.setAccessibleName(self.tr("What is new"))
        self.notes.setFixedHeight(round(text_points(NOTES_HEIGHT)))
        self.way_back = label("", "small", parent=self)
        self.banner = Banner(self)
        self.progress = QProgressBar(self)
        self.progress.setRange(0, STEPS)
        self.progress.setTextVisible(False)
        self.progress.setAccessibleName(self.tr("Download"))
        self.progress_note = label("", "small", parent=self)
        self.fetch_button = self._button("", self._updates.fetch)
        self.cancel_button = self._button(self.tr("&Cancel"), self._updates.cancel)
        self.open_button = self._button(self.tr("&Install…"), self._open)
        self.folder_button = self._button(self.tr("Show the &file"), self._updates.open_folder)
        self.check_button = self._button(self.tr("Check for &updates"), self._updates.check)
        set_kind(self.fetch_button, "primary")
        set_kind(self.open_button, "primary")
        row = QHBoxLayout()
        row.setSpacing(GRID)
        for button in self._buttons():
            row.addWidget(button)
        row.addStretch(1)
        for widget in (self.notes, self.way_back, self.progress, self.progress_note, self.banner):
            self._column.addWidget(widget)
        self._column.addLayout(row)

    @property
    def text(self) -> str:
        """Everything it says."""
        return "\n".join(words.text() for words in self.findChildren(QLabel) if words.isVisibleTo(self))

    def _button(self, text: str, pressed: Callable[[], None]) -> QPushButton:
        button = QPushButton(text, self)
        button.clicked.connect(lambda _checked: pressed())
        return button

    def _buttons(self) -> tuple[QPushButton, ...]:
        """From left to right; the first that is shown is what comes next."""
        return (self.fetch_button, self.cancel_button, self.open_button, self.folder_button, self.check_button)

    def _show(self) -> None:
        updates = self._updates
        checked, step = updates.checked, updates.step
        file = checked.file if checked else None
        self._say(status_words(updates))
        notes = checked.release.notes if checked and checked.release else ""
        if notes != self.notes.toPlainText():
            self.notes.setPlainText(notes)
        self.notes.setVisible(bool(notes) and step in (Step.FOUND, Step.FETCHING, Step.READY))
        self.way_back.setText(way_back_words(updates.installation()))
        self.way_back.setVisible(step is Step.READY)
        if file is not None:
            self.fetch_button.setText(self.tr("&Download ({size})").format(size=in_bytes(file.bytes)))
        focused = QApplication.focusWidget()
        self.fetch_button.setVisible(step is Step.FOUND and file is not None)
        self.cancel_button.setVisible(step is Step.FETCHING)
        self.open_button.setVisible(step is Step.READY and is_opened(updates.installation()))
        self.folder_button.setVisible(step is Step.READY)
        self.check_button.setVisible(not updates.busy)
        self._keep_focus(focused)
        fetching = step is Step.FETCHING
        self.progress.setVisible(fetching)
        self.progress_note.setVisible(fetching)
        if fetching:
            self._show_progress()
            self._poll.start()
        else:
            self._poll.stop()
        if updates.error is not None:
            self.banner.tell(updates.error)
        else:
            self.banner.clear()

    def _say(self, words: str) -> None:
        self.status.setText(words)
        if words != self._told and self.isVisible():
            say(self.status, words)
        self._told = words

    def _keep_focus(self, focused: QWidget | None) -> None:
        """The keyboard stays here when the pressed button goes: on what comes next, as soon as there is something."""
        if focused is not self and (focused not in self._buttons() or not focused.isHidden()):
            return
        shown = [button for button in self._buttons() if not button.isHidden()]
        (shown[0] if shown else self).setFocus()

    def _show_progress(self) -> None:
        have, whole = self._updates.fetched
        self.progress.setValue(round(STEPS * have / whole) if whole else 0)
        self.progress_note.setText(progress_words(have, whole))

    def _open(self) -> None:
        """Have the system install it, after the user's yes."""
        box = QMessageBox(self)
        box.setIcon(QMessageBox.Icon.Question)
        box.setText(self.tr("Install the new version now?"))
        box.setInformativeText(self.way_back.text())
        yes = box.addButton(self.tr("&Install"), QMessageBox.ButtonRole.AcceptRole)
        box.addButton(QMessageBox.StandardButton.Cancel)
        box.exec()
        agreed = box.clickedButton() is yes
        box.deleteLater()
        if agreed:
            self._updates.open_file()
