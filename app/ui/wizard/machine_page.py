"""Page 2: what the probe saw of this machine, and what that means."""

from PySide6.QtCore import QLocale, QTime, Signal
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from app.errors import AppError
from app.hardware.facts import Gpu, GpuKind, Machine, Ram, one_row_per_card
from app.hardware.words import (
    cpu_details,
    describe_cpu,
    describe_disk,
    describe_engine_cpu,
    describe_gpu,
    describe_identity,
    describe_power,
    describe_ram,
    gpu_details,
    ram_details,
    unseen_words,
)
from app.ui.machine_words import why_no_gpu
from app.ui.theme import GRID, Theme, set_role
from app.ui.widgets import StackedBar
from app.ui.wizard.bars import part_segment
from app.ui.wizard.measure_card import MeasureCard
from app.ui.wizard.widgets import Card, FactRows, Page, clear_layout, label
from app.ui.wizard.words import gpu_heading, machine_meaning
from app.ui.words import in_bytes


class MachinePage(Page):
    """Graphics, processor, memory, disk and engine; and a button to look again.

    Signals:
        look_again: The user asked for another probe.
    """

    look_again = Signal()

    def __init__(self, theme: Theme, measure: MeasureCard, parent: QWidget | None = None) -> None:
        super().__init__(
            self.tr("This machine"),
            self.tr("What the app found here. The plan is made for this."),
            parent,
        )
        self._theme = theme
        self._meaning = label("", "strong")
        self.again_button = QPushButton(self.tr("&Look again"))
        self.again_button.setToolTip(self.tr("After closing other programs or plugging something in."))
        self.again_button.clicked.connect(self.look_again)
        row = QHBoxLayout()
        row.setSpacing(2 * GRID)
        row.addWidget(self._meaning, 1)
        row.addWidget(self.again_button)
        self._gpus = QVBoxLayout()
        self._gpus.setSpacing(2 * GRID)
        self._memory = _MemoryRow(theme)
        self._rows = FactRows()
        self._notes = label("", "muted")
        machine = Card(theme, self.tr("Computer"))
        machine.column.addWidget(self._memory)
        machine.column.addSpacing(GRID // 2)
        machine.column.addWidget(self._rows)
        machine.column.addWidget(self._notes)
        self._found = QWidget()
        found = QVBoxLayout(self._found)
        found.setContentsMargins(0, 0, 0, 0)
        found.setSpacing(2 * GRID)
        found.addLayout(self._gpus)
        found.addWidget(machine)
        self.measure = measure
        measure.failed.connect(self.banner.tell)
        found.addWidget(measure)
        self.column.addLayout(row)
        self.column.addWidget(self._found)
        self.column.addStretch(1)
        self._machine: Machine | None = None
        self.set_looking(False)

    @property
    def text(self) -> str:
        """What it says of the machine."""
        cards = [self._gpus.itemAt(place).widget() for place in range(self._gpus.count())]
        said = [self._meaning.text(), *(card.text for card in cards if isinstance(card, _GpuCard))]
        return "\n".join([self.intro.text(), *said, self._memory.text, self._rows.text, self._notes.text()])

    def set_looking(self, looking: bool) -> None:
        """Whether a probe is under way; what was seen before stays until it ends."""
        if looking:
            self.banner.clear()
        self.again_button.setEnabled(not looking)
        self.again_button.setText(self.tr("Looking…") if looking else self.tr("&Look again"))
        self._found.setVisible(self._machine is not None)
        if self._machine is None:
            self._meaning.setText(
                self.tr("Asking the engine which devices it can compute on, and measuring memory…")
                if looking
                else self.tr("The machine was not looked at yet.")
            )

    def show_machine(self, machine: Machine, loaded: str = "") -> None:
        """Show what the probe saw just now, with the model called `loaded` in memory."""
        self._machine = machine
        words = self.tr("What the app found here, with the memory that was free at {time}. The plan is made for this.")
        said = words.format(time=QLocale.system().toString(QTime.currentTime(), QLocale.FormatType.ShortFormat))
        if loaded:
            said += " " + self.tr("{model} was loaded then; its memory counts as in use.").format(model=loaded)
        self.intro.setText(said)
        self.set_looking(False)
        self._meaning.setText(machine_meaning(machine))
        clear_layout(self._gpus)
        for devices in one_row_per_card(machine.gpus):
            self._gpus.addWidget(_GpuCard(devices, self._theme))
        if not machine.gpus:
            self._gpus.addWidget(_GpuCard((), self._theme, why_no_gpu(machine)))
        self._memory.show_ram(machine.ram)
        rows = [(self.tr("Processor"), "\n".join((describe_cpu(machine.cpu), *cpu_details(machine.cpu))))]
        if details := ram_details(machine.ram):
            rows.append((self.tr("Memory"), "\n".join(details)))
        rows.append((self.tr("Disk"), describe_disk(machine.disk)))
        if machine.power and (power := describe_power(machine.power)):
            rows.append((self.tr("Power"), power))
        engine = machine.engine
        if engine is not None:
            words = self.tr("llama.cpp through llama-cpp-python {version}, computes with {build}")
            said = words.format(version=engine.llama_cpp_python, build=engine.build)
            rows.append((self.tr("Engine"), "\n".join(filter(None, (said, describe_engine_cpu(engine))))))
        rows.append((self.tr("System"), ", ".join(filter(None, (machine.os, describe_identity(machine))))))
        if unseen := unseen_words(machine):
            rows.append((self.tr("Not seen"), "\n".join(unseen)))
        self._rows.show_rows(rows)
        notes = list(machine.notes)
        if engine is not None and machine.gpus:  # without a GPU its card says them
            notes += engine.notes
        self._notes.setText("\n".join(notes))
        self._notes.setVisible(bool(notes))
        self.measure.show_machine(machine)

    def show_failure(self, error: AppError) -> None:
        """Tell what went wrong while looking; what can be seen without the engine may still follow."""
        self.set_looking(False)
        self.banner.tell(error)


class _GpuCard(Card):
    """One GPU, by whatever backends, with its memory as a bar; or why there is none."""

    def __init__(
        self, devices: tuple[Gpu, ...], theme: Theme, why_none: str = "", parent: QWidget | None = None
    ) -> None:
        super().__init__(theme, parent=parent)
        self._words = label()
        if not devices:
            self.set_heading(self.tr("No graphics card to compute on"))
            self._words.setText(why_none)
            set_role(self._words, "muted")
            self.column.addWidget(self._words)
            return
        gpu = devices[0]
        self.set_heading(gpu_heading(gpu))
        lines = [describe_gpu(gpu), *gpu_details(gpu)]
        if len(devices) > 1:
            names = ", ".join(device.device for device in devices[1:])
            lines.append(self.tr("The same card can be used as {names} too.").format(names=names))
        self._words.setText("\n".join(lines))
        self.column.addWidget(self._words)
        if gpu.kind is GpuKind.SOFTWARE:
            self._words.setText(self.tr("software driver: for testing, not faster") + "\n" + describe_gpu(gpu))
            set_role(self._words, "warning")
            return
        bar = StackedBar(theme)
        used = max(gpu.total_bytes - gpu.free_bytes, 0)
        words = self.tr("{used} of {total} in use").format(used=in_bytes(used), total=in_bytes(gpu.total_bytes))
        bar.show_segments((part_segment("used", used),), gpu.total_bytes, words)
        self.column.addWidget(bar)
        self.column.addWidget(label(words, "small"))

    @property
    def text(self) -> str:
        """Everything it says."""
        return f"{self.heading.text()}\n{self._words.text()}"


class _MemoryRow(QWidget):
    """Main memory as a bar: in use and free."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._words = label()
        self._bar = StackedBar(theme)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(GRID)
        column.addWidget(self._words)
        column.addWidget(self._bar)

    @property
    def text(self) -> str:
        """What it says."""
        return self._words.text()

    def show_ram(self, ram: Ram) -> None:
        """Show these figures."""
        words = self.tr("Main memory: {words}").format(words=describe_ram(ram))
        self._words.setText(words)
        used = max(ram.total_bytes - ram.available_bytes, 0)
        self._bar.show_segments((part_segment("used", used),), ram.total_bytes, words)
