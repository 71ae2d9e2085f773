"""The head of a lane: what it is, what is in it, and its predicted memory against what is free."""

from dataclasses import dataclass

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QSizePolicy, QVBoxLayout, QWidget

from app.ui.lanes.lane_info import CPU, GPU, LaneInfo
from app.ui.lanes.words import layers_text
from app.ui.theme import GRID, Theme, mix, set_role
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


class FillBar(QWidget):
    """A bar: experts, everything else, and the mark where the free memory ends."""

    def __init__(self, theme: Theme, color: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._color = color
        self._experts = self._predicted = self._free = 0
        self._short = False
        self.setFixedHeight(BAR_HEIGHT)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        theme.changed.connect(self.update)

    def show_load(self, experts: int, predicted: int, free: int, *, short: bool) -> None:
        """Show `predicted` bytes, `experts` of them experts, against `free`."""
        self._experts, self._predicted, self._free, self._short = experts, predicted, free, short
        self.update()

    def sizeHint(self) -> QSize:
        """Wide as given, a few pixels high."""
        return QSize(80, BAR_HEIGHT)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint it."""
        colors = self._theme.colors
        lane: QColor = getattr(colors, self._color)
        experts = colors.warning if self._short else lane
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(colors.raised)
        whole = QRectF(self.rect())
        painter.drawRoundedRect(whole, BAR_HEIGHT / 2, BAR_HEIGHT / 2)
        end = max(self._free, self._predicted, 1)
        painter.setClipRect(QRectF(0, 0, whole.width() * self._predicted / end, whole.height()))
        painter.setBrush(mix(colors.raised, experts, 0.45))
        painter.drawRoundedRect(whole, BAR_HEIGHT / 2, BAR_HEIGHT / 2)
        painter.setClipRect(QRectF(0, 0, whole.width() * self._experts / end, whole.height()))
        painter.setBrush(experts)
        painter.drawRoundedRect(whole, BAR_HEIGHT / 2, BAR_HEIGHT / 2)
        painter.setClipping(False)
        if self._predicted > self._free:
            painter.fillRect(QRectF(whole.width() * self._free / end - 1, 0, 2, whole.height()), colors.text)
        painter.end()


class LaneHeader(QWidget):
    """Name, words, figures and fill bar of one lane."""

    def __init__(self, info: LaneInfo, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._info = info
        self._dot = _Dot(theme, info.kind, self)
        self._title = QLabel(info.title, self)
        set_role(self._title, "heading")
        self._contents = QLabel(self)
        self._contents.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        set_role(self._contents, "muted")
        self._words = ElidedLabel(info.words, self)
        self._words.setToolTip(info.words)
        set_role(self._words, "small")
        self._bar = FillBar(theme, info.kind, self)
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
        self._bar.setVisible(info.kind in (GPU, CPU) and not info.note)
        self.show_load(LaneLoad())

    def set_compact(self, compact: bool) -> None:
        """Leave out what the lane is; the title's tooltip tells it."""
        self._words.setVisible(bool(self._info.words) and not compact)
        self._title.setToolTip(self._info.words if compact else "")

    @property
    def text(self) -> str:
        """Everything it says, as a screen reader hears it."""
        said = (self._title.text(), self._words.text(), self._contents.text(), self._memory.text())
        return ". ".join(words.rstrip(".") for words in said if words)

    def show_load(self, load: LaneLoad, *, dragging: bool = False) -> None:
        """Show what is in the lane, or while `dragging` what a drop here would make of it."""
        contents = layers_text(load.layers)
        if load.layers:
            contents += " · " + in_bytes(load.expert_bytes)
        self._contents.setText(contents)
        self._contents.setToolTip(self.tr("Bytes of all experts of these layers."))
        self._memory.setText(self._memory_text(load, dragging=dragging))
        self._memory.setToolTip(load.breakdown)
        self._bar.setToolTip(load.breakdown)
        set_role(self._memory, "warning" if load.shortage else "small")
        if load.predicted_bytes is not None and self._info.free_bytes is not None:
            self._bar.show_load(
                load.predicted_expert_bytes,
                load.predicted_bytes,
                self._info.free_bytes,
                short=bool(load.shortage),
            )
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


class ElidedLabel(QLabel):
    """One line that ends in an ellipsis where it does not fit."""

    def __init__(self, text: str, parent: QWidget | None = None) -> None:
        super().__init__(text, parent)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint what fits."""
        painter = QPainter(self)
        text = self.fontMetrics().elidedText(self.text(), Qt.TextElideMode.ElideRight, self.width())
        painter.setPen(self.palette().color(self.foregroundRole()))
        painter.drawText(self.rect(), Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, text)
        painter.end()


class _Dot(QWidget):
    """The lane's colour beside its name."""

    def __init__(self, theme: Theme, color: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._color = color
        self.setFixedSize(10, 10)
        theme.changed.connect(self.update)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint it."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(getattr(self._theme.colors, self._color))
        painter.drawEllipse(self.rect())
        painter.end()
