"""What a knob is turned with: a box of numbers, of sizes, of decimals, or a list of choices."""

from collections.abc import Sequence

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QAbstractSpinBox, QDoubleSpinBox, QSpinBox, QWidget

from app.ui.name_combo import NameCombo
from app.ui.number_boxes import TokenSpin, WheelGuard
from app.ui.tuning.knob_values import Value

MIB = 1024**2
_LEAST_BATCH_STEP = 32
_SIZE_STEP = 64
_MOST_BOX = 2**31 - 1
_DECIMALS = 3
CONTROL_HEIGHT = 32


class Editor(QObject):
    """One control; shows what the plan says and tells what the user wants.

    Signals:
        changed: The user chose another value.
    """

    changed = Signal()

    def __init__(self, widget: QWidget) -> None:
        super().__init__(widget)
        self.widget = widget
        widget.setMinimumHeight(CONTROL_HEIGHT)
        WheelGuard(self).guard(widget)

    @property
    def value(self) -> Value:
        """What is chosen now."""
        raise NotImplementedError

    @property
    def typing(self) -> bool:
        """True while half of a number may be typed: it must not be overwritten."""
        box = self.widget
        return isinstance(box, QAbstractSpinBox) and box.hasFocus() and box.lineEdit().isModified()


class NumberEditor(Editor):
    """A whole number in a box; of `unit` a step, so that sizes are chosen in MiB."""

    def __init__(self, box: QSpinBox, unit: int = 1, suffix: str = "", none: str = "") -> None:
        super().__init__(box)
        self._box = box
        self._unit = unit
        self._shown = 0
        box.setKeyboardTracking(False)  # values half typed are no wishes
        box.setGroupSeparatorShown(True)
        box.setSuffix(suffix)
        box.setSpecialValueText(none)
        box.valueChanged.connect(self.changed)

    @property
    def value(self) -> Value:
        """The number; what is shown rounded is not changed by looking at it."""
        if self._box.value() == round(self._shown / self._unit):
            return self._shown
        return self._box.value() * self._unit

    def show_number(self, value: int, least: int, most: int) -> None:
        """Show `value` of `least` to `most`."""
        if self.typing:
            return
        self._shown = value
        self._box.blockSignals(True)
        self._box.setRange(round(least / self._unit), min(-(-most // self._unit), _MOST_BOX))
        self._box.setValue(round(value / self._unit))
        self._box.blockSignals(False)


class DecimalEditor(Editor):
    """A share from 0 to 1 in a box."""

    def __init__(self, parent: QWidget, none: str = "") -> None:
        box = QDoubleSpinBox(parent)
        super().__init__(box)
        self._box = box
        box.setDecimals(_DECIMALS)
        box.setSingleStep(0.01)
        box.setKeyboardTracking(False)
        box.setSpecialValueText(none)
        box.valueChanged.connect(self.changed)

    @property
    def value(self) -> Value:
        """The number."""
        return self._box.value()

    def show_number(self, value: float, least: float, most: float) -> None:
        """Show `value` of `least` to `most`."""
        if self.typing:
            return
        self._box.blockSignals(True)
        self._box.setRange(least, most)
        self._box.setValue(value)
        self._box.blockSignals(False)


class ChoiceEditor(Editor):
    """One of a few words."""

    def __init__(self, parent: QWidget) -> None:
        box = NameCombo(parent)
        super().__init__(box)
        self._box = box
        box.currentIndexChanged.connect(self.changed)

    @property
    def value(self) -> Value:
        """What is chosen."""
        return self._box.currentData()

    def show_choices(self, value: Value, items: Sequence[tuple[str, str | None]]) -> None:
        """Show `value` among `items`, each its words and the value they stand for."""
        self._box.blockSignals(True)
        there = [(self._box.itemText(place), self._box.itemData(place)) for place in range(self._box.count())]
        if there != list(items):
            self._box.clear()
            for words, data in items:
                self._box.addItem(words, data)
        # findData cannot tell None, the value of "no GPU", from no value.
        values = [data for _, data in items]
        self._box.setCurrentIndex(values.index(value) if value in values else -1)
        self._box.blockSignals(False)


def editor_for(key: str, none: str, none_window: str, parent: QWidget) -> Editor:
    """The control of the knob `key`; `none` is what a size of 0 reads, `none_window` a window of 0."""
    if key in ("kv_type", "residency", "gpu", "kind", "stream"):
        return ChoiceEditor(parent)
    if key in ("decay", "threshold"):
        return DecimalEditor(parent, none if key == "threshold" else "")
    if key == "n_ctx":
        return NumberEditor(TokenSpin(parent))
    if key in ("n_batch", "n_ubatch"):
        return NumberEditor(TokenSpin(parent, least_step=_LEAST_BATCH_STEP))
    box = QSpinBox(parent)
    if key in ("pool_bytes", "lock_bytes"):
        box.setSingleStep(_SIZE_STEP)
        return NumberEditor(box, MIB, " MiB", none)
    return NumberEditor(box, none=none_window if key == "window" else "")
