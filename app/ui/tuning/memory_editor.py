"""The box for main memory: a size in MiB, or one of two words for who chooses it."""

import re

from PySide6.QtGui import QValidator
from PySide6.QtWidgets import QSpinBox, QWidget

from app.ui.tuning.knob_editors import MIB, Editor
from app.ui.tuning.knob_values import Value
from app.ui.words import number

_FITS, _SYSTEM = -1, 0
"""What the box holds for None, "what fits", and for 0, "left to the system"."""
_STEP = 256
_MOST_BOX = 2**31 - 1


class MemoryEditor(Editor):
    """None, 0 or a size; what is shown rounded is not changed by looking at it."""

    def __init__(self, parent: QWidget) -> None:
        box = _MemoryBox(parent)
        super().__init__(box)
        self._box = box
        self._shown: int | None = None
        box.setKeyboardTracking(False)
        box.setSingleStep(_STEP)
        box.valueChanged.connect(self.changed)

    @property
    def value(self) -> Value:
        """What is chosen now, in bytes."""
        held = self._box.value()
        if held == _held(self._shown):
            return self._shown
        return None if held == _FITS else held * MIB

    def show_budget(self, value: int | None, most: int) -> None:
        """Show `value` of at most `most` bytes."""
        if self.typing:
            return
        self._shown = value
        self._box.blockSignals(True)
        self._box.setRange(_FITS, min(-(-most // MIB), _MOST_BOX))
        self._box.setValue(_held(value))
        self._box.blockSignals(False)


def _held(value: int | None) -> int:
    return _FITS if value is None else round(value / MIB) if value >= MIB else int(value > 0)


class _MemoryBox(QSpinBox):
    """Steps over the two words into sizes, and takes them typed."""

    def stepBy(self, steps: int) -> None:
        """One step goes from word to word and from the last one to the first size, and back the same way."""
        here, step = self.value(), self.singleStep()
        if here > _SYSTEM and here + steps * step > _SYSTEM:
            self.setValue(here + steps * step)
            return
        # The places of the words are 0 and 1, a size is as many steps behind them.
        place = here - _FITS if here <= _SYSTEM else 1 + -(-here // step)
        place = max(place + steps, 0)
        self.setValue(place + _FITS if place <= 1 else (place - 1) * step)

    def textFromValue(self, value: int) -> str:
        """The words, or a size with its unit."""
        if value == _FITS:
            return self.tr("what fits")
        return self.tr("the system decides") if value == _SYSTEM else self.tr("{size} MiB").format(size=number(value))

    def valueFromText(self, text: str) -> int:
        """A size typed with or without its unit, or one of the words."""
        for value in (_FITS, _SYSTEM):
            if text.strip().casefold() == self.textFromValue(value).casefold():
                return value
        digits = re.sub(r"\D", "", text)
        return min(int(digits), self.maximum()) if digits else self.value()

    def validate(self, text: str, position: int) -> tuple[QValidator.State, str, int]:
        """Whole MiB, their thousands apart or not, with or without the unit; or a word that may still be typed."""
        words = [self.textFromValue(value).casefold() for value in (_FITS, _SYSTEM)]
        typed = text.strip().casefold()
        if typed in words or re.fullmatch(r"[\d\s,'\u202f\u00a0]*\d\s*(mib)?", typed):
            return QValidator.State.Acceptable, text, position
        unfinished = not typed or any(word.startswith(typed) for word in words) or re.fullmatch(r"[\d\s,]*m?i?", typed)
        return (QValidator.State.Intermediate if unfinished else QValidator.State.Invalid), text, position
