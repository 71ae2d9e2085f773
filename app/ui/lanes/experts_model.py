"""The experts of one layer as a table: lane, routings, heat and pin of each, and a proxy that sorts them."""

from enum import IntEnum
from typing import Any

from PySide6.QtCore import (
    QAbstractTableModel,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    QSortFilterProxyModel,
    Qt,
)

from app.placement.cache.facts import ON_DISK, LayerExperts
from app.ui.lanes.cache_words import LANES, PINS, lane_word, pin_word
from app.ui.words import number

Index = QModelIndex | QPersistentModelIndex

EXPERT_INDEX = Qt.ItemDataRole.UserRole + 1
"""The expert's index in its layer, in every column."""
SORT = EXPERT_INDEX + 1
"""What a column is sorted by: figures as figures, lanes and pins in the order GPU, on the way, CPU."""


class Column(IntEnum):
    """The columns from left to right."""

    EXPERT = 0
    LANE = 1
    ROUTED = 2
    HEAT = 3
    PIN = 4


_FIGURES = (Column.EXPERT, Column.ROUTED, Column.HEAT)


class ExpertsModel(QAbstractTableModel):
    """One row per expert of a layer, exactly as the engine reported it."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._layer: int | None = None
        self._experts: LayerExperts | None = None

    @property
    def layer(self) -> int | None:
        """The layer shown, or None."""
        return self._layer

    def show(self, layer: int | None, experts: LayerExperts | None) -> bool:
        """Show the experts of `layer`; True where these are other rows than before."""
        same = layer == self._layer and _count(experts) == _count(self._experts)
        if same:
            changed = experts != self._experts
            self._experts = experts
            if changed and experts is not None:
                last = self.index(self.rowCount() - 1, len(Column) - 1)
                self.dataChanged.emit(self.index(0, 0), last)
            return False
        self.beginResetModel()
        self._layer, self._experts = layer, experts
        self.endResetModel()
        return True

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008 - Qt's own signature
        """Number of experts."""
        return 0 if parent.isValid() else _count(self._experts)

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008 - as above
        """The columns above."""
        return 0 if parent.isValid() else len(Column)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """What a view asks for; figures stand to the right."""
        if not index.isValid() or self._experts is None:
            return None
        expert, column = index.row(), Column(index.column())
        if role == Qt.ItemDataRole.DisplayRole:
            return self._text(expert, column)
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return self.tr("Expert {expert}, {what}: {text}").format(
                expert=number(expert), what=self._header(column), text=self._text(expert, column)
            )
        if role == Qt.ItemDataRole.TextAlignmentRole:
            side = Qt.AlignmentFlag.AlignRight if column in _FIGURES else Qt.AlignmentFlag.AlignLeft
            return side | Qt.AlignmentFlag.AlignVCenter
        if role == EXPERT_INDEX:
            return expert
        return self._key(expert, column) if role == SORT else None

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """The columns' names."""
        if orientation is not Qt.Orientation.Horizontal or not 0 <= section < len(Column):
            return None
        column = Column(section)
        if role == Qt.ItemDataRole.DisplayRole:
            return self._header(column)
        if role == Qt.ItemDataRole.ToolTipRole:
            return self._header_tip(column)
        return None

    def _text(self, expert: int, column: Column) -> str:
        assert self._experts is not None, "a row is shown"
        if column is Column.EXPERT:
            return number(expert)
        if column is Column.LANE:
            return lane_word(self._experts.lanes[expert], self._memory(expert))
        if column is Column.ROUTED:
            return number(self._experts.routed[expert])
        if column is Column.HEAT:
            return number(self._experts.heat[expert], 1)
        return pin_word(self._experts.pins[expert])

    def _key(self, expert: int, column: Column) -> float:
        assert self._experts is not None, "a row is shown"
        if column is Column.LANE:
            return LANES.index(self._experts.lanes[expert]) + 0.5 * (self._memory(expert) == ON_DISK)
        if column is Column.ROUTED:
            return self._experts.routed[expert]
        if column is Column.HEAT:
            return self._experts.heat[expert]
        if column is Column.PIN:
            return PINS.index(self._experts.pins[expert])
        return expert

    def _memory(self, expert: int) -> str:
        """Its letter of `LayerExperts.memory`; empty where nobody tells."""
        memory = self._experts.memory if self._experts is not None else ""
        return memory[expert] if expert < len(memory) else ""

    def _header(self, column: Column) -> str:
        return {
            Column.EXPERT: self.tr("Expert"),
            Column.LANE: self.tr("Lane"),
            Column.ROUTED: self.tr("Routed"),
            Column.HEAT: self.tr("Heat"),
            Column.PIN: self.tr("Keep"),
        }[column]

    def _header_tip(self, column: Column) -> str:
        words = {
            Column.EXPERT: self.tr("The expert's number in its layer."),
            Column.LANE: self.tr("Where the next token finds the expert."),
            Column.ROUTED: self.tr("Tokens of answers that were routed to it since the load."),
            Column.HEAT: self.tr("The same count, fading with every token: what was wanted lately."),
            Column.PIN: self.tr("Your order, as the engine has it: it holds whatever the policy would do."),
        }[column]
        return words + "\n" + self.tr("A click sorts by what is here now; rows then keep their places.")


class SortedExperts(QSortFilterProxyModel):
    """The experts sorted when asked to; rows do not jump about while the counts grow."""

    def __init__(self, experts: ExpertsModel, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.setDynamicSortFilter(False)
        self.setSortRole(SORT)
        self.setSourceModel(experts)


def _count(experts: LayerExperts | None) -> int:
    return len(experts.lanes) if experts is not None else 0
