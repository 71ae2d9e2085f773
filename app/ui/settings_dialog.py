"""The settings dialog, generated from the settings' declarations."""

from typing import Any

from PySide6.QtCore import QCoreApplication
from PySide6.QtWidgets import (
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QDoubleSpinBox,
    QLabel,
    QSpinBox,
    QVBoxLayout,
    QWidget,
)

from app.ui.settings import SETTINGS, Setting, Settings
from app.ui.theme import GRID, set_role, text_points

LEAST_WIDTH = 460
"""Pixels, with the usual size of text."""


class SettingsDialog(QDialog):
    """One row for each setting that has a text; every change is taken at once."""

    def __init__(self, settings: Settings, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._settings = settings
        self.setWindowTitle(self.tr("Settings"))
        # One under the other: beside its name a control would leave long words no room where texts are large.
        form = QVBoxLayout()
        form.setSpacing(GRID // 2)
        for setting in SETTINGS:
            if setting.text:
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
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close, self)
        buttons.rejected.connect(self.reject)
        column = QVBoxLayout(self)
        column.setContentsMargins(3 * GRID, 3 * GRID, 3 * GRID, 2 * GRID)
        column.setSpacing(2 * GRID)
        column.addLayout(form)
        column.addWidget(buttons)
        self.setMinimumWidth(round(text_points(LEAST_WIDTH)))

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
