"""Predicted memory per device: a stacked bar against what is free, and a table by part that is its legend."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QGridLayout, QHBoxLayout, QLabel, QVBoxLayout, QWidget

from app.hardware.facts import Machine
from app.placement.memory import fits, predicted_use
from app.placement.plan import CPU_LANE, Plan
from app.ui.machine_words import borrowed_bytes, borrowed_text
from app.ui.theme import GRID, Theme, set_role
from app.ui.widgets import ElidedLabel, Segment, StackedBar, Swatch
from app.ui.wizard.bars import part_color, part_segment
from app.ui.wizard.widgets import clear_layout, label
from app.ui.wizard.words import device_title, device_word, free_bytes
from app.ui.words import in_bytes, part_in_words

PARTS = ("weights", "experts", "kv", "compute", "pool", "context", "margin")
"""Every part a plan may predict, in the order of bars and table."""


class MemoryView(QWidget):
    """Shows one plan's predictions.

    Its widgets are made once for a set of devices: a changed wish only changes what they say, which keeps
    the answer to a keystroke within a frame or two.
    """

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._devices: tuple[tuple[str, str], ...] = ()
        self._bars: dict[str, _DeviceBar] = {}
        self._rows: dict[str, _PartRow] = {}
        self._basis = label("", "small")
        self._bar_column = QVBoxLayout()
        self._bar_column.setSpacing(GRID + 4)
        self._table = QGridLayout()
        self._table.setHorizontalSpacing(2 * GRID)
        self._table.setVerticalSpacing(GRID // 2 + 2)
        self._table.setColumnStretch(1, 1)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(2 * GRID)
        column.addLayout(self._bar_column)
        column.addLayout(self._table)

    @property
    def text(self) -> str:
        """What bars and table say."""
        lines = [bar.text for bar in self._bars.values()]
        basis = [self._basis.text()] if self._bars else []
        return "\n".join([*lines, *basis, *(row.text for row in self._rows.values() if row.shown)])

    def show_plan(self, plan: Plan, machine: Machine) -> None:
        """Show `plan` on `machine`."""
        devices = (*plan.gpus, CPU_LANE)
        self._build(tuple((device, device_title(device, machine)) for device in devices))
        sizes = {
            (device, part): sum(its.bytes for its in plan.memory if (its.device, its.part) == (device, part))
            for device in devices
            for part in PARTS
        }
        short = {shortfall.device for shortfall in fits(plan, machine)}
        for device, bar in self._bars.items():
            segments = tuple(part_segment(part, sizes[device, part]) for part in PARTS if sizes[device, part])
            taken = borrowed_bytes(plan, machine) if device == CPU_LANE else {}
            segments += tuple(part_segment("borrowed", size) for size in taken.values())
            predicted = predicted_use(plan, device) + sum(taken.values())
            free, borrowed = free_bytes(device, machine), borrowed_text(taken)
            bar.show(segments, predicted, free, short=device in short, borrowed=borrowed)
        dry_run = self.tr("Predicted, by part: buffers by llama.cpp's own dry run of this plan")
        self._basis.setText(dry_run if plan.dry_run else self.tr("Predicted, by part: buffers are estimated"))
        for part, row in self._rows.items():
            row.show({device: sizes[device, part] for device in devices})

    def _build(self, devices: tuple[tuple[str, str], ...]) -> None:
        if devices == self._devices:
            return
        self._devices = devices
        clear_layout(self._bar_column)
        clear_layout(self._table)
        self._bars = {device: _DeviceBar(title, self._theme, self) for device, title in devices}
        for bar in self._bars.values():
            self._bar_column.addWidget(bar)
        self._basis = label("", "small")
        self._table.addWidget(self._basis, 0, 0, 1, 2)
        for column, (device, _) in enumerate(devices, start=2):
            head = label(device_word(device), "small", wraps=False)
            self._table.addWidget(head, 0, column, Qt.AlignmentFlag.AlignRight)
        self._rows = {
            part: _PartRow(part, [device for device, _ in devices], self._table, place, self._theme)
            for place, part in enumerate(PARTS, start=1)
        }


class _DeviceBar(QWidget):
    """A device's name, its figures, its bar."""

    def __init__(self, title: str, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._title = title
        self._name = ElidedLabel(title)
        set_role(self._name, "strong")
        self._figures = label("", "muted", wraps=False)
        self._bar = StackedBar(theme)
        head = QHBoxLayout()
        head.setSpacing(2 * GRID)
        head.addWidget(self._name, 1)
        head.addWidget(self._figures)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(GRID // 2)
        column.addLayout(head)
        column.addWidget(self._bar)

    @property
    def text(self) -> str:
        """What it says."""
        return f"{self._title}: {self._figures.text()}"

    def show(
        self, segments: tuple[Segment, ...], predicted: int, free: int, *, short: bool, borrowed: str = ""
    ) -> None:
        """Show these parts of `free` bytes; `predicted` is without the margin, which is kept free.

        `borrowed` tells what of them is for other devices.
        """
        words = self.tr("predicted {predicted} of {free} free")
        self._figures.setText(words.format(predicted=in_bytes(predicted), free=in_bytes(free)) + borrowed)
        set_role(self._figures, "warning" if short else "muted")
        self._bar.show_segments(segments, free, self.text)


class _PartRow:
    """One line of the table: a part's colour, its name, its bytes on each device."""

    def __init__(self, part: str, devices: list[str], table: QGridLayout, place: int, theme: Theme) -> None:
        self._name = part_in_words(part)
        self._cells = {device: label("", "", wraps=False) for device in devices}
        self._sizes: dict[str, int] = {}
        name = label(self._name, wraps=False)
        swatch = Swatch(part_color(part), theme)
        table.addWidget(swatch, place, 0, Qt.AlignmentFlag.AlignVCenter)
        table.addWidget(name, place, 1)
        for column, cell in enumerate(self._cells.values(), start=2):
            table.addWidget(cell, place, column, Qt.AlignmentFlag.AlignRight)
        self._widgets: tuple[QWidget, ...] = (swatch, name, *self._cells.values())

    @property
    def shown(self) -> bool:
        """True where a device holds something of the part."""
        return any(self._sizes.values())

    @property
    def text(self) -> str:
        """What it says."""
        return "\n".join(f"{device}, {self._name}: {in_bytes(size)}" for device, size in self._sizes.items() if size)

    def show(self, sizes: dict[str, int]) -> None:
        """Show the part's bytes by device; a part that is nowhere takes no room."""
        self._sizes = sizes
        for device, cell in self._cells.items():
            _show_size(cell, sizes[device], f"{device}, {self._name}")
        for widget in self._widgets:
            widget.setVisible(self.shown)


def _show_size(cell: QLabel, size: int, what: str) -> None:
    cell.setText(in_bytes(size) if size else "–")
    cell.setAccessibleName(f"{what}: {in_bytes(size)}")
