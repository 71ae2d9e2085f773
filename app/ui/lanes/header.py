"""The head of a lane: what it is, what is in it, its predicted memory against what is free, and the expert pool."""

from dataclasses import dataclass
from operator import attrgetter

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QHBoxLayout, QLabel, QVBoxLayout, QWidget

from app.ui.lanes.budget_bar import BudgetBar
from app.ui.lanes.lane_info import CPU, GPU, LaneInfo
from app.ui.lanes.memory_buttons import MemoryButtons
from app.ui.lanes.words import layers_text, translate
from app.ui.theme import GRID, Colors, Theme, mix, set_role
from app.ui.widgets import SWATCH, ColorOf, ElidedLabel, Segment, StackedBar, Swatch, words_label
from app.ui.words import in_bytes, number

BAR_HEIGHT = 8


@dataclass(frozen=True)
class LaneLoad:
    """What the edited plan puts into a lane.

    Attributes:
        layers: Number of layers.
        expert_bytes: Bytes of their experts.
        predicted_bytes: Everything predicted on the device, experts included; None where no memory
            is predicted (the disk).
        predicted_expert_bytes: The part of it that is experts of whole layers.
        pool_bytes: The part of it that is the expert pool.
        borrowed: In words, what of it is for GPUs whose memory is main memory; empty where nothing is.
        breakdown: The prediction part by part, for the tooltip.
        shortage: Why it does not fit, or empty.
    """

    layers: int = 0
    expert_bytes: int = 0
    predicted_bytes: int | None = None
    predicted_expert_bytes: int = 0
    pool_bytes: int = 0
    borrowed: str = ""
    breakdown: str = ""
    shortage: str = ""


@dataclass(frozen=True)
class PoolShown:
    """The expert pool, or main memory's budget of mapped experts, as the head of its lane shows it.

    Attributes:
        most_bytes: What it may have; 0 where none is possible.
        bytes: Its size as requested; of main memory that is in use the engine's budget, which may be less.
        words: Requested, allocated and used, or why there is none.
        tip: What is to be known of the handle.
        warning: What keeps it from helping, or empty.
        filled_bytes: What of it is full, where that is shown.
        of_memory: Whether it is main memory's budget, which is for the experts of whole layers.
    """

    most_bytes: int
    bytes: int
    words: str
    tip: str
    warning: str = ""
    filled_bytes: int = 0
    of_memory: bool = False


class LaneHeader(QWidget):
    """Name, words, figures and fill bar of one lane.

    Signals:
        size_wanted: Make the pool, or the budget of memory, this large (bytes, the gesture's object).
    """

    size_wanted = Signal(object, object)

    def __init__(self, info: LaneInfo, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._color: ColorOf = attrgetter(info.kind)
        self._dot = Swatch(self._color, theme, self, rounding=SWATCH / 2)
        self._title = QLabel(self)
        set_role(self._title, "heading")
        self._contents = ElidedLabel("", self)
        self._contents.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        set_role(self._contents, "muted")
        self._words = ElidedLabel("", self)
        set_role(self._words, "small")
        self._bar = StackedBar(theme, self, height=BAR_HEIGHT)
        self.budget = BudgetBar(theme, self)
        self.budget.size_wanted.connect(self.size_wanted)
        self._memory = words_label(self)
        self._pool_words = words_label(self)
        set_role(self._pool_words, "small")
        self._pool_warning = words_label(self)
        set_role(self._pool_warning, "warning")
        self.memory_buttons = MemoryButtons(self)
        self.memory_buttons.setVisible(info.kind == CPU)
        self._pool: PoolShown | None = None
        top = QHBoxLayout()
        top.setSpacing(GRID)
        top.addWidget(self._dot)
        top.addWidget(self._title)
        top.addWidget(self._contents, 1)
        column = QVBoxLayout(self)
        column.setContentsMargins(GRID, GRID, GRID, GRID // 2)
        column.setSpacing(GRID // 2)
        column.addLayout(top)
        column.addWidget(self._words)
        column.addWidget(self._bar)
        column.addWidget(self.budget)
        column.addWidget(self._memory)
        column.addWidget(self._pool_words)
        column.addWidget(self._pool_warning)
        column.addWidget(self.memory_buttons)
        self._load = LaneLoad()
        self._mapped = False
        self._cells = (0, 0)
        self._compact = False
        self.set_info(info)

    def set_info(self, info: LaneInfo) -> None:
        """What the lane is; its colour never changes."""
        self._info = info
        self._title.setText(info.title)
        self._words.setText(info.words)
        self._words.setToolTip(info.words)
        name = self.tr("Size of the expert pool on {lane}, in MiB").format(lane=info.title)
        self.budget.setAccessibleName(self.tr("Main memory for experts, in MiB") if info.kind == CPU else name)
        self.set_compact(self._compact)
        self.show_load(self._load)

    def set_compact(self, compact: bool) -> None:
        """Leave out what the lane is and all but the start of a warning; the tooltips tell them."""
        self._compact = compact
        self._show_warning()
        self._words.setVisible(bool(self._info.words) and not compact)
        self._title.setToolTip(self._info.words if compact else "")

    @property
    def text(self) -> str:
        """Everything it says, as a screen reader hears it."""
        labels = (self._title, self._words, self._contents, self._memory)
        said = [label.text() for label in labels]
        if self._pool:
            said += [self._pool.words, self._pool.warning]
        said.append(self.memory_buttons.text)
        return ". ".join(words.rstrip(".") for words in said if words)

    def show_load(self, load: LaneLoad, *, dragging: bool = False) -> None:
        """Show what is in the lane, or while `dragging` what a drop here would make of it."""
        self._load = load
        self._show_contents()
        self._memory.setText(self._memory_text(load, dragging=dragging))
        self._memory.setToolTip(load.breakdown)
        set_role(self._memory, "warning" if load.shortage else "small")
        self._show_bar()
        self.setAccessibleName(self.text)

    def show_cells(self, count: int, size: int) -> None:
        """How many experts are in the lane now, and their bytes."""
        if (count, size) != self._cells:
            self._cells = (count, size)
            self._show_contents()
            self.setAccessibleName(self.text)

    def _show_contents(self) -> None:
        count, size = self._cells
        words = f"{_experts_text(count)} · {in_bytes(size)}" if count else _experts_text(count)
        self._contents.setText(words)
        load = self._load
        tip = self.tr("{words}. Whole layers here by the plan: {layers}, {size} of experts.").format(
            words=words, layers=layers_text(load.layers), size=in_bytes(load.expert_bytes)
        )
        self._contents.setToolTip(tip)

    def show_pool(self, pool: PoolShown | None) -> None:
        """Show the expert pool; None where this is not its lane."""
        self._pool = pool
        self._pool_words.setText(pool.words if pool else "")
        self._pool_words.setToolTip(pool.tip if pool else "")
        self._show_warning()
        self._pool_words.setVisible(bool(pool and pool.words))
        self._pool_warning.setVisible(bool(pool and pool.warning))
        self._show_bar()
        self.setAccessibleName(self.text)

    def show_mapped(self, mapped: bool) -> None:
        """Whether the engine tells which experts of the file are not in memory: the disk lane has those then."""
        if mapped != self._mapped:
            self._mapped = mapped
            self.show_load(self._load)

    def _show_warning(self) -> None:
        """All of it would leave no room for the experts in a low dock."""
        words = self._pool.warning if self._pool else ""
        start, colon, _ = words.partition(": ")
        self._pool_warning.setText(f"{start} …" if self._compact and colon else words)
        self._pool_warning.setToolTip(words if self._compact and colon else "")

    def _show_bar(self) -> None:
        load, pool, free = self._load, self._pool, self._info.free_bytes
        here = self._info.kind in (GPU, CPU) and not self._info.note and load.predicted_bytes is not None
        self._bar.setVisible(here and pool is None and free is not None)
        self.budget.setVisible(here and pool is not None and free is not None)
        if free is None or load.predicted_bytes is None:
            return
        experts, of_pool, rest = _segments(self._color, load)
        if pool is None:
            self._bar.show_segments((experts, of_pool, rest), free, load.breakdown)
        else:
            words = "\n".join(part for part in (pool.tip, load.breakdown) if part)
            fixed, filled = (experts, rest), None
            if pool.of_memory:
                fixed, filled = (rest,), Segment(experts.color, pool.filled_bytes)
            of_pool = Segment(of_pool.color, pool.bytes)
            self.budget.show_fill(fixed, of_pool, free, pool.most_bytes, words=words, filled=filled)

    def _disk_text(self) -> str:
        if self._mapped:
            return self.tr("Not in main memory: read from the file when a token needs them.")
        return self.tr("Layers come here by themselves when main memory is short.")

    def _memory_text(self, load: LaneLoad, *, dragging: bool) -> str:
        if self._info.note:
            return self._info.note
        if load.predicted_bytes is None:
            return "" if self._info.kind in (GPU, CPU) else self._disk_text()
        if load.shortage:
            return load.shortage
        predicted = in_bytes(load.predicted_bytes)
        if self._info.free_bytes is None:
            return self.tr("Predicted {predicted}").format(predicted=predicted) + load.borrowed
        text = (
            self.tr("After the drop: predicted {predicted} of {free} free")
            if dragging
            else self.tr("Predicted {predicted} of {free} free")
        )
        return text.format(predicted=predicted, free=in_bytes(self._info.free_bytes)) + load.borrowed


def _experts_text(count: int) -> str:
    if count == 0:
        return translate("Lanes", "no experts")
    if count == 1:
        return translate("Lanes", "1 expert")
    return translate("Lanes", "{count} experts").format(count=number(count))


def _segments(lane: ColorOf, load: LaneLoad) -> tuple[Segment, Segment, Segment]:
    """Experts of whole layers, the pool, and the rest."""

    def experts(colors: Colors) -> QColor:
        return colors.warning if load.shortage else lane(colors)

    def pool(colors: Colors) -> QColor:
        return mix(colors.surface, experts(colors), 0.7)

    def rest(colors: Colors) -> QColor:
        return mix(colors.raised, experts(colors), 0.45)

    others = (load.predicted_bytes or 0) - load.predicted_expert_bytes - load.pool_bytes
    return Segment(experts, load.predicted_expert_bytes), Segment(pool, load.pool_bytes), Segment(rest, others)
