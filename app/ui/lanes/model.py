"""The one table of the lanes dock: a row per MoE layer, and a proxy of it per lane."""

from collections.abc import Sequence
from typing import Any

from PySide6.QtCore import (
    QAbstractListModel,
    QMimeData,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    QSortFilterProxyModel,
    Qt,
    QTimer,
    Signal,
)

from app.engine.protocol import Loaded
from app.model.facts import ModelFacts
from app.placement.plan import CPU_LANE, DISK_LANE, Plan
from app.ui.lanes import words
from app.ui.lanes.cache_words import expert_place_text, residency_text
from app.ui.lanes.heat import HeatMap, LayerHeat
from app.ui.lanes.mime import MIME_TYPE, Dragged, pack, unpack

Index = QModelIndex | QPersistentModelIndex

LAYER = Qt.ItemDataRole.UserRole + 1
"""The layer's index in the model file."""
LANE = LAYER + 1
"""The lane the edited plan gives it."""
BYTES = LAYER + 2
"""Bytes of all its experts."""
EXPERTS = LAYER + 3
"""How many experts it has."""
HEAT = LAYER + 4
"""Its LayerHeat, or None while nothing was counted."""
UNCOUNTED = LAYER + 5
"""Why the loaded engine does not count its routings; empty when it does or nothing is loaded."""
LOADED_LANE = LAYER + 6
"""The lane it was loaded in, or None when it is not loaded."""


class LayersModel(QAbstractListModel):
    """Every MoE layer of the plan being edited, with its lane, size and heat.

    The model only shows: whoever wants a layer moved changes the plan and calls `show` again.
    """

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._facts: ModelFacts | None = None
        self._layers: list[int] = []
        self._lanes: dict[int, str] = {}
        self._heat = HeatMap()
        self._report: Loaded | None = None
        self._loaded_lanes: dict[int, str] = {}

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the model shown, or empty."""
        return self._facts.fingerprint if self._facts else ""

    def show(self, facts: ModelFacts | None, plan: Plan | None) -> None:
        """Show `plan` of the model `facts`; nothing where either is missing."""
        lanes = dict(plan.expert_lanes) if facts and plan else {}
        layers = sorted(lanes)
        if facts is self._facts and layers == self._layers:
            before, self._lanes = self._lanes, lanes
            self._tell(layer for layer in layers if before[layer] != lanes[layer])
            return
        self.beginResetModel()
        self._facts = facts
        self._layers = layers
        self._lanes = lanes
        self.endResetModel()

    def set_loaded(self, report: Loaded | None, plan: Plan | None) -> None:
        """Take what the engine reports loaded and the plan it followed; None while nothing is."""
        self._report = report
        self._loaded_lanes = dict(plan.expert_lanes) if plan else {}
        self._tell(self._layers)

    def set_heat(self, heat: HeatMap) -> None:
        """Take new routings."""
        self._heat = heat
        self._tell(self._layers)

    def layer_row(self, layer: int) -> QModelIndex:
        """The index of a layer; invalid if there is no such layer."""
        return self.index(self._layers.index(layer)) if layer in self._layers else QModelIndex()

    # ---- Qt's questions -----------------------------------------------------------------------

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008 - Qt's own signature
        """Number of MoE layers."""
        return 0 if parent.isValid() else len(self._layers)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """What a view asks for, by the roles above."""
        if not index.isValid() or self._facts is None:
            return None
        layer = self._layers[index.row()]
        if role == Qt.ItemDataRole.DisplayRole:
            return self.tr("Layer {layer}").format(layer=layer)
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return self._spoken(layer)
        answers = {
            LAYER: lambda: layer,
            LANE: lambda: self._lanes[layer],
            BYTES: lambda: self._bytes(layer),
            EXPERTS: lambda: self._facts.expert_count if self._facts else 0,
            HEAT: lambda: self._heat.layers.get(layer),
            UNCOUNTED: lambda: self._uncounted(layer),
            LOADED_LANE: lambda: self._loaded_lanes.get(layer),
        }
        return answers[role]() if role in answers else None

    def flags(self, index: Index) -> Qt.ItemFlag:
        """Layers can be selected and dragged; drops go to the lane, not onto a layer."""
        if not index.isValid():
            return Qt.ItemFlag.ItemIsDropEnabled
        flag = Qt.ItemFlag
        return flag.ItemIsEnabled | flag.ItemIsSelectable | flag.ItemIsDragEnabled | flag.ItemNeverHasChildren

    def supportedDragActions(self) -> Qt.DropAction:
        """Layers move; there are no copies of a layer."""
        return Qt.DropAction.MoveAction

    def supportedDropActions(self) -> Qt.DropAction:
        """As for drags."""
        return Qt.DropAction.MoveAction

    def mimeTypes(self) -> list[str]:
        """The one type of our own."""
        return [MIME_TYPE]

    def mimeData(self, indexes: Sequence[QModelIndex]) -> QMimeData:
        """The layers at `indexes` as a drag."""
        layers = sorted({self._layers[index.row()] for index in indexes if index.isValid()})
        return pack(Dragged(model=self.fingerprint, layers=tuple(layers)))

    # ---- words --------------------------------------------------------------------------------

    def expert_tip(self, layer: int, expert: int) -> str:
        """What is known about one expert: its routings, size and lane."""
        if self._facts is None:
            return ""
        heat = self._heat.layers.get(layer)
        return words.expert_text(
            layer=layer,
            expert=expert,
            heat=heat,
            uncounted=self._uncounted(layer),
            size=self._facts.expert_bytes[layer],
            lane=self._lanes[layer],
            place=expert_place_text(heat.experts, expert) if heat else "",
        )

    def layer_tip(self, layer: int) -> str:
        """What is known about one layer, and how to move it."""
        if self._facts is None:
            return ""
        keys = self.tr("Drag it to another lane, or press Alt+Left or Alt+Right. Enter shows its experts.")
        return f"{self._spoken(layer)}.\n{keys}"

    def _spoken(self, layer: int) -> str:
        heat = self._heat.layers.get(layer)
        return words.layer_text(
            layer=layer,
            size=self._bytes(layer),
            lane=self._lanes[layer],
            loaded_lane=self._loaded_lanes.get(layer),
            heat=heat,
            uncounted=self._uncounted(layer),
            residency=residency_text(heat.experts) if heat else "",
        )

    def _bytes(self, layer: int) -> int:
        return self._facts.expert_bytes[layer] * self._facts.expert_count if self._facts else 0

    def _uncounted(self, layer: int) -> str:
        if self._report is None or layer in self._heat.layers:
            return ""
        lane = self._report.expert_layers.get(layer)
        if lane is not None and lane not in (CPU_LANE, DISK_LANE):
            return self.tr("not counted on the GPU")
        if not self._report.expert_device:
            return self.tr("not counted: {reason}").format(reason=self._report.reason)
        return ""

    def _tell(self, layers: Any) -> None:
        rows = [self._layers.index(layer) for layer in layers]
        if rows:
            # One span: the views repaint only what is on screen, and proxies look at each row once.
            self.dataChanged.emit(self.index(min(rows)), self.index(max(rows)))


class LaneProxy(QSortFilterProxyModel):
    """The layers of one lane; what is dropped on it asks to be moved there.

    Signals:
        move_wanted: Layers were dropped here (tuple of layer indices, lane).
    """

    move_wanted = Signal(tuple, str)

    def __init__(self, layers: LayersModel, lane: str, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._lane = lane
        self._source = layers
        self.setFilterRole(LANE)
        self.setSourceModel(layers)

    @property
    def lane(self) -> str:
        """The lane shown."""
        return self._lane

    def layers(self) -> tuple[int, ...]:
        """The layers in this lane, in the model's order."""
        return tuple(self.index(row, 0).data(LAYER) for row in range(self.rowCount()))

    def row_of(self, layer: int) -> QModelIndex:
        """The index of a layer in this lane; invalid if it is elsewhere."""
        return self.mapFromSource(self._source.layer_row(layer))

    def dragged(self, data: QMimeData) -> tuple[int, ...]:
        """The layers of a drag that are not in this lane yet."""
        here = set(self.layers())
        return tuple(layer for layer in unpack(data, self._source.fingerprint) if layer not in here)

    def filterAcceptsRow(self, row: int, parent: Index) -> bool:
        """Keep the layers of this lane."""
        return bool(self._source.index(row, 0, parent).data(LANE) == self._lane)

    def canDropMimeData(self, data: QMimeData, action: Qt.DropAction, row: int, column: int, parent: Index) -> bool:
        """Take layers of this model that come from another lane."""
        return action == Qt.DropAction.MoveAction and bool(self.dragged(data))

    def dropMimeData(self, data: QMimeData, action: Qt.DropAction, row: int, column: int, parent: Index) -> bool:
        """Ask for the layers to be moved here."""
        layers = self.dragged(data)
        if action != Qt.DropAction.MoveAction or not layers:
            return False
        # After the drag's own event loop: a move may end the lane that the drag came from.
        QTimer.singleShot(0, self, lambda: self.move_wanted.emit(layers, self._lane))
        return True


def heat_of(index: Index) -> LayerHeat | None:
    """The heat of a row of either model."""
    found = index.data(HEAT)
    return found if isinstance(found, LayerHeat) else None
