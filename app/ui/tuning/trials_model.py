"""Every plan that tuning has measured, as a table: what it changes, its speeds with their spread, and its gain."""

from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import QAbstractTableModel, QCoreApplication, QModelIndex, QObject, Qt
from PySide6.QtGui import QFont

from app.placement.scenarios.figure import Figure
from app.placement.tuner.types import Trial, Tried, TuneResult
from app.ui.words import in_percent, number

translate = QCoreApplication.translate

PLAN, DECODE, PROMPT, GAIN = range(4)
COLUMNS = 4


@dataclass(frozen=True)
class Row:
    """One plan.

    Attributes:
        words: What it changes.
        tried: What was measured of it; None while it is measured for the first time.
        now: It is measured now.
    """

    words: str
    tried: Tried | None
    now: bool = False


class TrialsModel(QAbstractTableModel):
    """Rows in the order in which plans were first measured, the plan as it is first."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._rows: tuple[Row, ...] = ()

    @property
    def rows(self) -> tuple[Row, ...]:
        """What is shown."""
        return self._rows

    def show_result(self, result: TuneResult | None, trial: Trial | None) -> None:
        """Show what was measured so far, and what is measured now."""
        rows = [Row(its.words, its) for its in result.tried] if result is not None else []
        if trial is not None:
            words = trial.candidate.words
            place = next((place for place, row in enumerate(rows) if row.words == words), None)
            if place is None:
                rows.append(Row(words, None, now=True))
            else:
                rows[place] = Row(words, rows[place].tried, now=True)
        self._take(tuple(rows))

    def _take(self, rows: tuple[Row, ...]) -> None:
        before = self._rows
        if rows == before:
            return
        kept = min(len(rows), len(before))
        if len(rows) < len(before):
            self.beginRemoveRows(QModelIndex(), len(rows), len(before) - 1)
            self._rows = before[: len(rows)]
            self.endRemoveRows()
        elif len(rows) > len(before):
            self.beginInsertRows(QModelIndex(), len(before), len(rows) - 1)
            self._rows = (*before, *rows[len(before) :])
            self.endInsertRows()
        self._rows = rows
        for place in range(kept):
            if rows[place] != before[place]:
                self.dataChanged.emit(self.index(place, 0), self.index(place, COLUMNS - 1))

    # ---- Qt's own -----------------------------------------------------------------------------

    def rowCount(self, parent: QModelIndex = QModelIndex()) -> int:  # noqa: B008 - Qt's own default
        """Plans."""
        return 0 if parent.isValid() else len(self._rows)

    def columnCount(self, parent: QModelIndex = QModelIndex()) -> int:  # noqa: B008 - as said
        """Four."""
        return 0 if parent.isValid() else COLUMNS

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Names of the columns."""
        if orientation is not Qt.Orientation.Horizontal or not 0 <= section < COLUMNS:
            return None
        if role == Qt.ItemDataRole.DisplayRole:
            return (
                translate("Trials", "Plan"),
                translate("Trials", "Answer"),
                translate("Trials", "Prompt"),
                translate("Trials", "Gain"),
            )[section]
        if role == Qt.ItemDataRole.ToolTipRole:
            return (
                translate("Trials", "What the plan changes"),
                translate("Trials", "Tokens a second of decoding: median, least and most (measured)"),
                translate("Trials", "Tokens a second of reading prompts: median, least and most (measured)"),
                translate("Trials", "Decoding beside the plan as it is, measured one after the other"),
            )[section]
        return None

    def data(self, index: QModelIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Texts; the whole row in words for tooltips and screen readers."""
        if not index.isValid() or not 0 <= index.row() < len(self._rows):
            return None
        row = self._rows[index.row()]
        if role == Qt.ItemDataRole.DisplayRole:
            return _cell(row, index.column())
        if role in (Qt.ItemDataRole.ToolTipRole, Qt.ItemDataRole.AccessibleTextRole):
            return row_text(row)
        if role == Qt.ItemDataRole.FontRole and row.now:
            font = QFont()
            font.setBold(True)
            return font
        if role == Qt.ItemDataRole.TextAlignmentRole and index.column() != PLAN:
            return Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        return None


def plan_words(words: str) -> str:
    """What a plan changes, as a line begins: "4 threads"; "The plan as it is" for nothing."""
    return words[:1].upper() + words[1:] if words else translate("Trials", "The plan as it is")


def figure_text(figure: Figure | None) -> str:
    """Median over half the spread: "12.4", "±0.3"; one line for a single measurement."""
    if figure is None:
        return ""
    median = number(figure.median, 1)
    return median if figure.samples < 2 else f"{median}\n±{number((figure.most - figure.least) / 2, 1)}"


def change_text(share: float | None) -> str:
    """A gain or loss: "+4 %", "−12 %"; empty where it is not known."""
    if share is None:
        return ""
    if round(share * 100) == 0:
        return "±0 %"
    sign = "+" if share >= 0 else "−"
    return f"{sign}{in_percent(abs(share))}"


def row_text(row: Row) -> str:
    """The whole row in a sentence."""
    words = plan_words(row.words)
    tried = row.tried
    if tried is None:
        return translate("Trials", "{plan}: measured now.").format(plan=words)
    if tried.failure:
        return translate("Trials", "{plan}: failed. {why}").format(plan=words, why=tried.failure)
    parts = [
        translate("Trials", "{name} {median} tokens/s ({least} to {most}, {count} measurements)").format(
            name=name,
            median=number(figure.median, 1),
            least=number(figure.least, 1),
            most=number(figure.most, 1),
            count=number(figure.samples),
        )
        for name, figure in (
            (translate("Trials", "answers"), tried.decode),
            (translate("Trials", "prompts"), tried.prompt),
        )
        if figure is not None
    ]
    if tried.decode_change is not None:
        parts.append(translate("Trials", "gain {gain}").format(gain=change_text(tried.decode_change)))
    if row.now:
        parts.append(translate("Trials", "measured again now"))
    return f"{words}: {'; '.join(parts)}."


def _cell(row: Row, column: int) -> str:
    tried = row.tried
    if column == PLAN:
        words = plan_words(row.words)
        if tried is not None and tried.failure:
            return translate("Trials", "{plan}\nfailed: {why}").format(plan=words, why=tried.failure)
        return f"{words}\n{translate('Trials', 'measuring…')}" if row.now else words
    if tried is None:
        return ""
    if column == DECODE:
        return figure_text(tried.decode)
    if column == PROMPT:
        return figure_text(tried.prompt)
    return change_text(tried.decode_change)
