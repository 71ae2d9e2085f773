"""The card that starts a search, shows it live, and tells before and after."""

from PySide6.QtCore import QTimer, Signal
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHeaderView,
    QProgressBar,
    QPushButton,
    QSizePolicy,
    QSpinBox,
    QTableView,
    QWidget,
)

from app.errors import AppError
from app.model.facts import ModelFacts
from app.placement.plan import Plan
from app.placement.tuner.held import Held
from app.ui.announce import announce
from app.ui.lanes.flow_layout import FlowLayout
from app.ui.number_boxes import WheelGuard
from app.ui.theme import GRID, Theme, set_kind
from app.ui.tuning.autotune import AutoTune
from app.ui.tuning.trials_model import COLUMNS, PLAN, TrialsModel
from app.ui.tuning.tune_words import held_texts, progress_text, result_text
from app.ui.widgets import ElidedButton, ElidedCheckBox
from app.ui.wizard.widgets import Card, label

USUAL_MINUTES, MOST_MINUTES = 10, 240
TICK_MILLISECONDS = 1000
STEPS = 1000
TABLE_HEIGHTS = (96, 320)
"""Least and most pixels of the table: it is as high as its rows, and scrolls past that."""


class TuneCard(Card):
    """What is measured and how far that is.

    Signals:
        start_wanted: Begin a search of `minutes` that leaves what is `held`.
        use_wanted: Load the plan that was found.
    """

    start_wanted = Signal()
    use_wanted = Signal()

    def __init__(self, tuning: AutoTune, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, parent=parent)
        self.set_heading(self.tr("Auto-tune"))
        self._tuning = tuning
        self._touched = False
        self._usable = False
        self._stored = ""
        self._guard = WheelGuard(self)
        self._about = label(
            self.tr(
                "Loads changes of this plan one after the other, measures each with a prompt and an answer, and keeps "
                "what is faster beyond noise. Meanwhile the model cannot answer; your conversation stays, and the "
                "model is loaded again afterwards."
            ),
            "muted",
        )
        self._why_not = label("", "muted")
        self._make_controls()
        self._make_table()
        self._progress_words = label("", "muted")
        self.progress = QProgressBar(self)
        self.progress.setRange(0, STEPS)
        self.progress.setTextVisible(False)
        self.progress.setAccessibleName(self.tr("Tuning"))
        self._units = label(self.tr("Measured tokens a second; ± is half the spread."), "small")
        self._result = label("", "strong")
        self._reason = label()
        self._kept = label("", "muted")
        self.use_button = QPushButton(self)
        set_kind(self.use_button, "primary")
        self.use_button.clicked.connect(self.use_wanted)
        for widget in (
            self._about,
            self._chosen,
            self._holding,
            self._why_not,
            self._progress_words,
            self.progress,
            self._units,
            self.table,
            self._result,
            self._reason,
            self._kept,
            self.use_button,
        ):
            self.column.addWidget(widget)
        self._tick = QTimer(self)
        self._tick.setInterval(TICK_MILLISECONDS)
        self._tick.timeout.connect(self._show_progress)
        tuning.changed.connect(self._show)
        tuning.ended.connect(self._ended)
        tuning.kept.connect(self._stored_or_not)
        self._show()

    @property
    def minutes(self) -> int:
        """How long a search may take."""
        return self.minutes_box.value()

    @property
    def held(self) -> Held:
        """What a search leaves as it is."""
        return Held(**{name: box.isChecked() for name, box in self.held_boxes.items()})

    @property
    def text(self) -> str:
        """Everything it says now but the table."""
        said = (self._why_not, self._progress_words, self._result, self._reason, self._kept)
        return "\n".join(its.text() for its in said if not its.isHidden() and its.text())

    def set_active(self, active: bool) -> None:
        """Count the time down only while it is seen."""
        if active and self._tuning.running:
            self._tick.start()
        elif not active:
            self._tick.stop()

    def show_situation(self, why_no_start: str, plan: Plan | None, facts: ModelFacts | None) -> None:
        """Whether a search can begin, and what of the plan it may change.

        Args:
            why_no_start: Why none can begin; empty where one can.
            plan: The plan being edited.
            facts: Its model.
        """
        self._usable = not why_no_start
        self._why_not.setText(why_no_start)
        for name, words in held_texts(plan, facts).items():
            self.held_boxes[name].setText(words)
        self._show()

    def suggest_held(self, held: Held) -> None:
        """Hold what the user chose by hand, unless he says himself what to hold."""
        if self._touched or self._tuning.running:
            return
        for name, box in self.held_boxes.items():
            box.setChecked(getattr(held, name))

    # ---- building -----------------------------------------------------------------------------

    def _make_controls(self) -> None:
        self.minutes_box = QSpinBox(self)
        self.minutes_box.setRange(1, MOST_MINUTES)
        self.minutes_box.setValue(USUAL_MINUTES)
        self.minutes_box.setSuffix(self.tr(" min"))
        self.minutes_box.setAccessibleName(self.tr("Minutes that tuning may take"))
        self.minutes_box.setToolTip(self.tr("More time tries more, and measures each longer."))
        self._guard.guard(self.minutes_box)
        self.start_button = QPushButton(self.tr("&Start tuning"), self)
        self.start_button.clicked.connect(self.start_wanted)
        self.cancel_button = ElidedButton(self.tr("&End now, keep the best so far"), self)
        self.cancel_button.setToolTip(self.cancel_button.text().replace("&", ""))
        self.cancel_button.clicked.connect(self._tuning.cancel)
        self._chosen = QWidget(self)
        row = FlowLayout(self._chosen, spacing=GRID)
        for widget in (label(self.tr("For at most"), wraps=False), self.minutes_box, self.start_button):
            row.addWidget(widget)
        row.addWidget(self.cancel_button)
        self._holding = QWidget(self)
        boxes = FlowLayout(self._holding, spacing=GRID)
        boxes.addWidget(label(self.tr("Leave as it is:"), wraps=False))
        self.held_boxes = {name: ElidedCheckBox("", self._holding) for name in Held.__struct_fields__}
        for box in self.held_boxes.values():
            box.clicked.connect(self._touch)
            boxes.addWidget(box)
        for name, words in held_texts(None, None).items():
            self.held_boxes[name].setText(words)

    def _make_table(self) -> None:
        self.trials = TrialsModel(self)
        self.table = QTableView(self)
        self.table.setModel(self.trials)
        self.table.setAccessibleName(self.tr("Plans measured"))
        self.table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.table.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.table.setTabKeyNavigation(False)
        self.table.setShowGrid(False)
        self.table.setWordWrap(True)
        self.table.setAlternatingRowColors(True)
        self.table.verticalHeader().hide()
        self.table.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header = self.table.horizontalHeader()
        header.setSectionsClickable(False)
        for column in range(COLUMNS):
            header.setSectionResizeMode(
                column,
                QHeaderView.ResizeMode.Stretch if column == PLAN else QHeaderView.ResizeMode.ResizeToContents,
            )
        self.table.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    # ---- what is shown ------------------------------------------------------------------------

    def _show(self) -> None:
        tuning = self._tuning
        running = tuning.running
        had_focus = self.cancel_button.hasFocus() or self.start_button.hasFocus()
        self.start_button.setVisible(not running)
        self.cancel_button.setVisible(running)
        if had_focus:
            (self.cancel_button if running else self.start_button).setFocus()
        self.start_button.setEnabled(self._usable and not running)
        self.minutes_box.setEnabled(not running)
        for box in self.held_boxes.values():
            box.setEnabled(not running)
        self._why_not.setVisible(bool(self._why_not.text()) and not running)
        self.progress.setVisible(running)
        self._progress_words.setVisible(running)
        self.trials.show_result(tuning.result, tuning.trial)
        for widget in (self._units, self.table):
            widget.setVisible(bool(self.trials.rows))
        self._fit_table()
        self._show_progress()
        self._show_result()
        if running and self.isVisible() and not self._tick.isActive():
            self._tick.start()
        elif not running:
            self._tick.stop()

    def _fit_table(self) -> None:
        self.table.resizeRowsToContents()  # now: the view would do so only when it is painted
        now = next((place for place, row in enumerate(self.trials.rows) if row.now), None)
        if now is not None:
            self.table.scrollTo(self.trials.index(now, PLAN))
        rows = sum(self.table.rowHeight(row) for row in range(len(self.trials.rows)))
        wanted = rows + self.table.horizontalHeader().height() + 2 * self.table.frameWidth()
        self.table.setFixedHeight(min(max(wanted, TABLE_HEIGHTS[0]), TABLE_HEIGHTS[1]))

    def _show_progress(self) -> None:
        tuning = self._tuning
        if not tuning.running:
            return
        self._progress_words.setText(progress_text(tuning))
        left = tuning.remaining_seconds
        whole = tuning.elapsed_seconds + left if left is not None else tuning.limit_seconds
        self.progress.setValue(round(STEPS * min(tuning.elapsed_seconds / max(whole, 1e-9), 1.0)))

    def _show_result(self) -> None:
        tuning = self._tuning
        over = not tuning.running
        words, reason = result_text(tuning.result, tuning.error) if over else ("", "")
        self._result.setText(words)
        self._reason.setText(reason)
        self._kept.setText(self._stored if over and tuning.result is not None else "")
        for widget in (self._result, self._reason, self._kept):
            widget.setVisible(bool(widget.text()))
        proven = tuning.result is not None and tuning.result.kept
        self.use_button.setText(
            self.tr("&Use this plan (reloads the model)") if proven else self.tr("&Try this plan (not proven faster)")
        )
        self.use_button.setVisible(over and tuning.best_plan is not None)

    def _ended(self) -> None:
        self._stored = ""
        self._show()
        self.setAccessibleDescription(self.text)
        announce(self)

    def _stored_or_not(self, error: AppError | None) -> None:
        if error is None:
            self._stored = self.tr("It is kept: later starts of this model on this machine propose it.")
        else:
            self._stored = self.tr("It could not be kept for later starts: {why}").format(why=error.message)
        self._show_result()

    def _touch(self) -> None:
        self._touched = True
