"""The head of a lane: what it is, what is in it, and its predicted memory against what is free."""

from dataclasses import dataclass
from operator import attrgetter

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QHBoxLayout, QLabel, QSizePolicy, QVBoxLayout, QWidget

from app.ui.lanes.lane_info import CPU, GPU, LaneInfo
from app.ui.lanes.words import layers_text
from app.ui.theme import GRID, Colors, Theme, mix, set_role
from app.ui.widgets import SWATCH, ColorOf, ElidedLabel, Segment, StackedBar, Swatch
from app.ui.words import in_bytes

BAR_HEIGHT = 8


@dataclass(frozen=True)
class LaneLoad:
    """What the edited plan puts into a lane.

    Attributes:
        layers: Number of layers.
        expert_bytes: Bytes of their experts.
        predicted_bytes: Everything predicted on the device, experts included; None where no memory
            is predicted (the disk).
        predicted_expert_bytes: The part of it that is experts.
        breakdown: The prediction part by part, for the tooltip.
        shortage: Why it does not fit, or empty.
    """

    layers: int = 0
    expert_bytes: int = 0
    predicted_bytes: int | None = None
    predicted_expert_bytes: int = 0
    breakdown: str = ""
    shortage: str = ""


class LaneHeader(QWidget):
    """Name, words, figures and fill bar of one lane."""

    def __init__(self, info: LaneInfo, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._color: ColorOf = attrgetter(info.kind)
        self._dot = Swatch(self._color, theme, self, rounding=SWATCH / 2)
        self._title = QLabel(self)
        set_role(self._title, "heading")
        self._contents = QLabel(self)
        self._contents.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        set_role(self._contents, "muted")
        self._words = ElidedLabel("", self)
        set_role(self._words, "small")
        self._bar = StackedBar(theme, self, height=BAR_HEIGHT)
        self._memory = QLabel(self)
        self._memory.setWordWrap(True)
        self._memory.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
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
        column.addWidget(self._memory)
        self._load = LaneLoad()
        self._compact = False
        self.set_info(info)

    def set_info(self, info: LaneInfo) -> None:
        """What the lane is; its colour never changes."""
        self._info = info
        self._title.setText(info.title)
        self._words.setText(info.words)
        self._words.setToolTip(info.words)
        self._bar.setVisible(info.kind in (GPU, CPU) and not info.note)
        self.set_compact(self._compact)
        self.show_load(self._load)

    def set_compact(self, compact: bool) -> None:
        """Leave out what the lane is; the title's tooltip tells it."""
        self._compact = compact
        self._words.setVisible(bool(self._info.words) and not compact)
        self._title.setToolTip(self._info.words if compact else "")

    @property
    def text(self) -> str:
        """Everything it says, as a screen reader hears it."""
        said = (self._title.text(), self._words.text(), self._contents.text(), self._memory.text())
        return ". ".join(words.rstrip(".") for words in said if words)

    def show_load(self, load: LaneLoad, *, dragging: bool = False) -> None:
        """Show what is in the lane, or while `dragging` what a drop here would make of it."""
        self._load = load
        contents = layers_text(load.layers)
        if load.layers:
            contents += " · " + in_bytes(load.expert_bytes)
        self._contents.setText(contents)
        self._contents.setToolTip(self.tr("Bytes of all experts of these layers."))
        self._memory.setText(self._memory_text(load, dragging=dragging))
        self._memory.setToolTip(load.breakdown)
        set_role(self._memory, "warning" if load.shortage else "small")
        if load.predicted_bytes is not None and self._info.free_bytes is not None:
            self._bar.show_segments(_segments(self._color, load), self._info.free_bytes, load.breakdown)
        self.setAccessibleName(self.text)

    def _memory_text(self, load: LaneLoad, *, dragging: bool) -> str:
        if self._info.note:
            return self._info.note
        if load.predicted_bytes is None:
            if self._info.kind in (GPU, CPU):
                return ""
            return self.tr("Layers come here by themselves when main memory is short.")
        if load.shortage:
            return load.shortage
        predicted = in_bytes(load.predicted_bytes)
        if self._info.free_bytes is None:
            return self.tr("Predicted {predicted}").format(predicted=predicted)
        text = (
            self.tr("After the drop: predicted {predicted} of {free} free")
            if dragging
            else self.tr("Predicted {predicted} of {free} free")
        )
        return text.format(predicted=predicted, free=in_bytes(self._info.free_bytes))


def _segments(lane: ColorOf, load: LaneLoad) -> tuple[Segment, ...]:
    def experts(colors: Colors) -> QColor:
        return colors.warning if load.shortage else lane(colors)

    def rest(colors: Colors) -> QColor:
        return mix(colors.raised, experts(colors), 0.45)

    others = (load.predicted_bytes or 0) - load.predicted_expert_bytes
    return (Segment(experts, load.predicted_expert_bytes), Segment(rest, others))
