"""The settings dialog, generated from the settings' declarations."""

from typing import Any

from PySide6.QtCore import QCoreApplication, QEvent, Qt, QTimer
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import (
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QDoubleSpinBox,
    QFrame,
    QHBoxLayout,
    QLabel,
    QScrollArea,
    QSpinBox,
    QVBoxLayout,
    QWidget,
)

from app.ui.settings import SETTINGS, UPDATE_CHECK, Setting, Settings
from app.ui.theme import GRID, set_role, text_points
from app.ui.updates import Updates
from app.ui.updates_panel import UpdatesPanel

LEAST_WIDTH = 460
"""Pixels, with the usual size of text."""
FRAME_HEIGHT = 40
"""Pixels for a title bar, which is not part of the dialog's own size."""


class _Rows(QScrollArea):
    """Rows one under the other, which scroll where the screen is too low for them."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        set_role(self, "bare")
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        inner = QWidget(self)
        set_role(inner, "page")
        self.column = QVBoxLayout(inner)
        self.column.setContentsMargins(0, 0, GRID, 0)
        self.column.setSpacing(GRID // 2)
        self.setWidget(inner)

    def lacking(self) -> int:
        """How many pixels of height the rows lack, by how long their words are in this width; below 0 for room left."""
        return self.column.totalHeightForWidth(self.viewport().width()) - self.viewport().height()

    def viewportEvent(self, event: QEvent) -> bool:
        """Have the dialog follow when a row comes, goes or says something else."""
        if event.type() is QEvent.Type.LayoutRequest:
            self.event(event)
            self.window().make_room()
        return super().viewportEvent(event)


class SettingsDialog(QDialog):
    """One row for each setting that has a text, and what is known of newer versions; every change is taken at once."""

    def __init__(self, settings: Settings, parent: QWidget | None = None, updates: Updates | None = None) -> None:
        super().__init__(parent)
        self._settings = settings
        self.setWindowTitle(self.tr("Settings"))
        # One under the other: beside its name a control would leave long words no room where texts are large.
        self._rows = _Rows(self)
        form = self._rows.column
        for setting in SETTINGS:
            if setting.text and setting is not UPDATE_CHECK:
                self._add_row(form, setting)
        if updates is not None:
            heading = QLabel(self.tr("Updates"), self)
            set_role(heading, "heading")
            form.addWidget(heading)
            if updates.source is not None:
                self._add_row(form, UPDATE_CHECK)
            self.updates = UpdatesPanel(updates, self)
            form.addWidget(self.updates)
        form.addStretch(1)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close, self)
        buttons.rejected.connect(self.reject)
        # Else Enter in a box for a number would press the first button, which looks for updates.
        buttons.button(QDialogButtonBox.StandardButton.Close).setDefault(True)
        column = QVBoxLayout(self)
        column.setContentsMargins(3 * GRID, 3 * GRID, 2 * GRID, 2 * GRID)
        column.setSpacing(2 * GRID)
        column.addWidget(self._rows)
        row = QHBoxLayout()
        row.setContentsMargins(0, 0, GRID, 0)
        row.addWidget(buttons)
        column.addLayout(row)
        self.setMinimumWidth(round(text_points(LEAST_WIDTH)))

    def make_room(self) -> None:
        """Grow to what the rows need, as far as the screen goes; what was made larger by hand stays so."""
        lacking, screen = self._rows.lacking(), self.screen()
        if lacking <= 0 or not self.isVisible():
            return
        room = screen.availableGeometry().height() - FRAME_HEIGHT if screen is not None else self.height() + lacking
        self.resize(self.width(), max(self.height(), min(self.height() + lacking, room)))
        focused = self.focusWidget()
        if focused is not None and self._rows.isAncestorOf(focused):
            # What appeared may have pushed it out of sight; it has its new place after the layout.
            QTimer.singleShot(0, focused, lambda: self._rows.ensureWidgetVisible(focused, 0, GRID))

    def showEvent(self, event: QShowEvent) -> None:
        """Take the size that fits, before the first picture."""
        super().showEvent(event)
        self.layout().activate()
        self.resize(self.width(), self.height() + min(self._rows.lacking(), 0))
        self.make_room()

    def _add_row(self, form: QVBoxLayout, setting: Setting[Any]) -> None:
        editor = self._editor(setting)
        words = _translated(setting.help)
        editor.setAccessibleName(_translated(setting.text))
        editor.setAccessibleDescription(words)
        name, note = QLabel(_translated(setting.text), self), QLabel(words, self)
        name.setBuddy(editor)
        set_role(name, "strong")
        set_role(note, "small")
        note.setWordWrap(True)
        for widget in (name, editor, note):
            form.addWidget(widget)
        form.addSpacing(GRID)

    def editor(self, setting: Setting[Any]) -> QWidget:
        """The widget that edits `setting`."""
        found = self.findChild(QWidget, setting.key)
        assert found is not None, f"{setting.key} has no text and so no editor"
        return found

    def _editor(self, setting: Setting[Any]) -> QWidget:
        value = self._settings.get(setting)
        editor: QComboBox | QSpinBox | QDoubleSpinBox
        if setting.choices:
            editor = QComboBox(self)
            for choice, words in setting.choices:
                editor.addItem(_translated(words), choice)
            editor.setCurrentIndex(editor.findData(value))
            editor.currentIndexChanged.connect(
                lambda _index, box=editor: self._settings.set(setting, box.currentData())
            )
        else:
            editor = QDoubleSpinBox(self) if isinstance(setting.default, float) else QSpinBox(self)
            editor.setRange(setting.minimum, setting.maximum)
            editor.setSingleStep(setting.step)
            editor.setGroupSeparatorShown(True)
            editor.setValue(value)
            editor.valueChanged.connect(lambda new: self._settings.set(setting, new))
        editor.setObjectName(setting.key)
        return editor


def _translated(text: str) -> str:
    return QCoreApplication.translate("settings", text)
