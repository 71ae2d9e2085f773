"""The two kinds of memory that the curve is of: which size the handle stands for, how far it goes, whom it orders."""

from dataclasses import dataclass

from PySide6.QtCore import QCoreApplication, Signal
from PySide6.QtWidgets import QButtonGroup, QRadioButton, QWidget

from app.placement.memory import bytes_off_gpus
from app.placement.speed.demand import kept_bytes
from app.ui.lanes.flow_layout import FlowLayout
from app.ui.order_scene import Scene
from app.ui.orders import Orders
from app.ui.theme import GRID
from app.ui.tuning.curve_data import (
    GPU_TIER,
    MEMORY_TIER,
    Question,
    card_bytes,
    essence,
    memory_essence,
    pooled_bytes,
)
from app.ui.tuning.evidence import TuningEvidence

translate = QCoreApplication.translate

MIB = 1024**2


@dataclass(frozen=True)
class Names:
    """What a page calls the size that is chosen.

    Attributes:
        box: Beside its box. box_spoken: the box's name for who cannot see it. none: what a size of 0 reads.
        plot: The picture's name. tip: how its handle is used.
    """

    box: str
    box_spoken: str
    none: str
    plot: str
    tip: str


def names(tier: str) -> Names:
    """The words of a tier."""
    tip = translate(
        "Curve",
        "Drag the handle to {do}, or use the arrow keys, Page Up and Page Down; it takes effect when you let go, "
        "without a reload.",
    )
    if tier == MEMORY_TIER:
        return Names(
            box=translate("Curve", "Memory"),
            box_spoken=translate("Curve", "Main memory for experts"),
            none=translate("Curve", "next to none"),
            plot=translate("Curve", "Predicted tokens per second by the main memory for experts"),
            tip=tip.format(do=translate("Curve", "give the experts of the file another budget of main memory")),
        )
    return Names(
        box=translate("Curve", "Pool"),
        box_spoken=translate("Curve", "Size of the expert pool"),
        none=translate("Curve", "none"),
        plot=translate("Curve", "Predicted tokens per second by the pool's size"),
        tip=tip.format(do=translate("Curve", "give the pool another size")),
    )


def why_none(tier: str, scene: Scene) -> str:
    """Why there is nothing to choose, else empty."""
    return scene.memory_room.why_not if tier == MEMORY_TIER else scene.room.why_not


def size_of(tier: str, scene: Scene) -> int:
    """The size that there is: of memory the engine's own, else the plan's, or what is predicted to fit."""
    if tier != MEMORY_TIER:
        return scene.plan.pool_bytes
    wanted = scene.plan.resident_bytes
    if scene.in_memory is not None and not (wanted and scene.budgeting):
        return scene.in_memory.budget_bytes
    if wanted:
        return wanted
    return min(kept_bytes(scene.facts, scene.machine, scene.plan), scene.memory_room.total_bytes)


def most_of(tier: str, scene: Scene) -> int:
    """The largest size that is predicted to fit now."""
    return scene.memory_room.most_bytes if tier == MEMORY_TIER else scene.room.most_bytes


def order(tier: str, orders: Orders, size: int) -> None:
    """Have this size; one of 0 is the least budget of memory there is, for none would leave it to the system."""
    if tier == MEMORY_TIER:
        orders.set_memory(max(size, MIB))
    else:
        orders.set_pool(size)


def question(tier: str, scene: Scene, evidence: TuningEvidence) -> Question:
    """What to compute of how things are."""
    if tier == MEMORY_TIER:
        everything = bytes_off_gpus(scene.facts, scene.plan)
        return Question(
            facts=scene.facts,
            machine=scene.machine,
            evidence=evidence.evidence,
            plan=memory_essence(scene.plan),
            card="",
            most_bytes=everything,
            card_bytes=0,
            all_bytes=everything,
            tier=tier,
        )
    everything = pooled_bytes(scene.facts, scene.plan)
    card = card_bytes(scene.facts, scene.machine, scene.plan, scene.room.device)
    most = min(everything, max(card, scene.room.most_bytes))
    return Question(
        facts=scene.facts,
        machine=scene.machine,
        evidence=evidence.evidence,
        plan=essence(scene.plan),
        card=scene.room.device,
        most_bytes=max(most, scene.plan.pool_bytes),
        card_bytes=card,
        all_bytes=everything,
    )


class TierSwitch(QWidget):
    """The choice of “GPU memory” or “Main memory”.

    Signals:
        chosen: The user chose the other one.
    """

    chosen = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.buttons = {
            GPU_TIER: QRadioButton(self.tr("GPU memory"), self),
            MEMORY_TIER: QRadioButton(self.tr("Main memory"), self),
        }
        self.buttons[GPU_TIER].setToolTip(self.tr("Tokens per second by the size of the expert pool on the GPU"))
        self.buttons[MEMORY_TIER].setToolTip(
            self.tr("Tokens per second by the main memory that the experts of the file may take")
        )
        self._decided = False
        group = QButtonGroup(self)
        row = FlowLayout(self, spacing=2 * GRID)
        for button in self.buttons.values():
            group.addButton(button)
            row.addWidget(button)
        self.buttons[GPU_TIER].setChecked(True)
        group.buttonClicked.connect(self._clicked)

    @property
    def tier(self) -> str:
        """Which one is chosen."""
        return next(tier for tier, button in self.buttons.items() if button.isChecked())

    def suggest(self, scene: Scene | None) -> None:
        """Begin with the kind of memory that there is something to choose of, until the user has chosen."""
        if self._decided or scene is None:
            return
        only_memory = bool(scene.room.why_not) and not scene.memory_room.why_not
        self.buttons[MEMORY_TIER if only_memory else GPU_TIER].setChecked(True)

    def _clicked(self) -> None:
        self._decided = True
        self.chosen.emit()
