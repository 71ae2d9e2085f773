"""Page 4: the load with its progress; then what was predicted beside what the engine took, or why it failed."""

from PySide6.QtCore import QElapsedTimer, Qt, QTimer, Signal
from PySide6.QtWidgets import QGridLayout, QHBoxLayout, QLabel, QProgressBar, QPushButton, QVBoxLayout, QWidget

from app.engine.protocol import Loaded
from app.errors import AppError
from app.hardware.facts import Machine
from app.model.facts import ModelFacts
from app.placement.comparison import MemoryRow, memory_table
from app.placement.memory_learning import DeviceMemory, device_totals
from app.placement.plan import Plan
from app.placement.words import describe_lanes, describe_plan
from app.ui.theme import GRID, Theme, set_kind
from app.ui.truth_words import expert_device_in_words
from app.ui.widgets import CancelButton
from app.ui.wizard.widgets import Card, Page, clear_layout, label
from app.ui.wizard.words import device_word, tr
from app.ui.words import in_bytes, in_seconds, in_tokens, number, part_in_words

TICK_MILLISECONDS = 200
STEPS = 1000
TOTAL_HEIGHT = 32
NOTHING = "–"


class LoadPage(Page):
    """The load under way, done, or failed.

    Signals:
        cancel_wanted: Stop the load.
        end_wanted: End the engine, which does not stop the load.
        smaller_wanted: Load a smaller plan after a failure.
        again_wanted: Load the same plan once more.
        back_wanted: The user closed the error.
    """

    cancel_wanted = Signal()
    end_wanted = Signal()
    smaller_wanted = Signal()
    again_wanted = Signal()
    back_wanted = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(self.tr("Load the model"), "", parent)
        self.banner.dismissed.connect(self.back_wanted)
        self._clock = QElapsedTimer()
        self._tick = QTimer(self)
        self._tick.setInterval(TICK_MILLISECONDS)
        self._tick.timeout.connect(self._show_progress)
        self._fraction = 0.0
        self._cancelling = False
        self.progress = QProgressBar()
        self.progress.setRange(0, STEPS)
        self.progress.setTextVisible(False)
        self.progress.setAccessibleName(self.tr("Loading the model"))
        self._progress_words = label("", "strong")
        self.cancel_button = CancelButton(self.tr("&Cancel loading"))
        self.cancel_button.cancel_wanted.connect(self.cancel_wanted)
        self.cancel_button.end_wanted.connect(self.end_wanted)
        self.cancel_button.offered.connect(self._show_progress)
        row = QHBoxLayout()
        row.setSpacing(2 * GRID)
        row.addWidget(self._progress_words, 1)
        row.addWidget(self.cancel_button)
        self._progress_card = Card(theme)
        self._progress_card.column.addLayout(row)
        self._progress_card.column.addWidget(self.progress)
        self._done_card = Card(theme, self.tr("Memory: predicted, reported by the engine, seen by the system"))
        self._table = QGridLayout()
        self._table.setHorizontalSpacing(GRID + GRID // 2)
        self._table.setVerticalSpacing(GRID // 2 + 2)
        self._table.setColumnStretch(1, 1)
        self._done_card.column.addLayout(self._table)
        self._done_card.column.addWidget(
            label(
                self.tr(
                    "A dash is what the engine does not report, the plan does not predict, or the system does not "
                    "show. Of the mapped file the system counts what was read so far."
                ),
                "small",
            )
        )
        self._rows: tuple[MemoryRow, ...] = ()
        self._totals: tuple[DeviceMemory, ...] = ()
        self._notes_card = Card(theme, self.tr("Checked against the plan"))
        self._notes = QVBoxLayout()
        self._notes.setSpacing(GRID)
        self._notes_card.column.addLayout(self._notes)
        self._note_texts: tuple[str, ...] = ()
        self._plan_card = Card(theme, self.tr("What the plan is"))
        self._plan_words = label()
        self._plan_card.column.addWidget(self._plan_words)
        for card in self._cards:
            self.column.addWidget(card)
        self.column.addStretch(1)

    @property
    def _cards(self) -> tuple[Card, ...]:
        return (self._progress_card, self._done_card, self._notes_card, self._plan_card)

    @property
    def text(self) -> str:
        """What it says."""
        if not self._progress_card.isHidden():
            return self._progress_words.text()
        lines = [self.title.text(), self.intro.text(), *self._note_texts]
        lines += [
            f"{row.device}, {row.part}: {row.predicted_bytes} predicted, {row.reported_bytes} reported"
            for row in self._rows
        ]
        lines += [f"{its.device}, in all: {its.observed_bytes} seen by the system" for its in self._totals]
        return "\n".join(lines)

    def first_focus(self) -> QWidget | None:
        """Cancelling, while there is something to cancel."""
        return None if self._progress_card.isHidden() else self.cancel_button

    # ---- the three states ---------------------------------------------------------------------

    def show_loading(self, facts: ModelFacts, plan: Plan) -> None:
        """A load of `plan` began."""
        self.banner.clear()
        self._say(
            self.tr("Loading {model}").format(model=facts.name),
            self.tr("The engine reads {size} from the disk and prepares {tokens} of context.").format(
                size=in_bytes(facts.file_bytes), tokens=in_tokens(plan.n_ctx)
            ),
        )
        self._fraction = 0.0
        self._cancelling = False
        self.cancel_button.reset()
        self._clock.start()
        self._tick.start()
        self._plan_words.setText("\n".join([describe_plan(plan, facts), *describe_lanes(plan, facts)]))
        self._set_shown(self._progress_card, self._plan_card)
        self._show_progress()

    def set_progress(self, fraction: float) -> None:
        """How much of the weights is read, 0 to 1."""
        self._fraction = fraction
        self._show_progress()

    def show_cancelling(self) -> None:
        """The engine was told to stop."""
        self._cancelling = True
        self.cancel_button.wait()
        self._show_progress()

    def end_cancelled(self) -> None:
        """The load was stopped; another page is shown."""
        self._end_progress()

    def show_loaded(self, facts: ModelFacts, machine: Machine, plan: Plan, report: Loaded) -> None:
        """The load is done."""
        self._end_progress()
        self.banner.clear()
        self._say(
            self.tr("{model} is ready").format(model=facts.name),
            self.tr("Loaded in {time}, with {tokens} of context.").format(
                time=in_seconds(report.seconds), tokens=in_tokens(report.n_ctx)
            ),
        )
        self._fill_table(
            memory_table(plan, report.buffers), device_totals(plan, machine, report.buffers, report.observed)
        )
        self._fill_notes(facts, report)
        self._set_shown(self._done_card, self._notes_card)

    def show_failure(self, error: AppError, smaller: Plan | None) -> None:
        """The load failed; `smaller` is a plan that needs less, if there is one."""
        self._end_progress()
        self._say(self.tr("The model could not be loaded"), _after_failure(smaller))
        self._set_shown(self._plan_card)
        again = QPushButton(self.tr("Load &again"))
        again.clicked.connect(self.again_wanted)
        actions = [again]
        if smaller is not None:
            button = QPushButton(self.tr("Try a &smaller plan"))
            set_kind(button, "primary")
            button.clicked.connect(self.smaller_wanted)
            actions.insert(0, button)
        self.banner.tell(error, tuple(actions))
        actions[0].setFocus()

    # ---- drawing ------------------------------------------------------------------------------

    def _end_progress(self) -> None:
        self._tick.stop()
        self.cancel_button.reset()

    def _say(self, title: str, intro: str) -> None:
        self.title.setText(title)
        self.intro.setText(intro)
        self.setAccessibleName(title)
        self.setAccessibleDescription(intro)

    def _set_shown(self, *shown: Card) -> None:
        for card in self._cards:
            card.setVisible(card in shown)

    def _show_progress(self) -> None:
        self.progress.setValue(round(self._fraction * STEPS))
        if self._cancelling:
            late = self.cancel_button.offering_end
            waiting = self.tr("Cancelling… The engine has not answered yet; ending it stops the load at once.")
            self._progress_words.setText(waiting if late else self.tr("Cancelling…"))
            return
        self._progress_words.setText(
            self.tr("{percent} % of the weights read · {time}").format(
                percent=number(int(100 * self._fraction)), time=in_seconds(self._clock.elapsed() / 1000)
            )
        )

    def _fill_table(self, rows: tuple[MemoryRow, ...], totals: tuple[DeviceMemory, ...]) -> None:
        self._rows, self._totals = rows, totals
        clear_layout(self._table)
        heads = (self.tr("predicted"), self.tr("reported"), self.tr("difference"), self.tr("seen by the system"))
        for column, words in enumerate(("", "", *heads)):
            self._cell(0, column, words, "small")
        device = ""
        for place, row in enumerate(rows, start=1):
            self._cell(place, 0, "" if row.device == device else device_word(row.device), "strong")
            device = row.device
            self._cell(place, 1, part_in_words(row.part), "")
            self._figures(place, row.predicted_bytes, row.reported_bytes)
        both = [row for row in rows if row.predicted_bytes is not None and row.reported_bytes is not None]
        if both:
            place = len(rows) + 1
            self._table.setRowMinimumHeight(place, TOTAL_HEIGHT)
            self._cell(place, 0, self.tr("together"), "strong")
            self._cell(place, 1, self.tr("parts with both figures"), "muted")
            self._figures(
                place, sum(row.predicted_bytes or 0 for row in both), sum(row.reported_bytes or 0 for row in both)
            )

        for place, total in enumerate(totals, start=len(rows) + 2):
            self._cell(place, 0, device_word(total.device), "strong")
            self._cell(place, 1, self.tr("in all, without the margin"), "muted")
            self._cell(place, 2, in_bytes(total.predicted_bytes), "muted")
            self._cell(place, 3, in_bytes(total.reported_bytes), "strong")
            seen = NOTHING if total.observed_bytes is None else in_bytes(total.observed_bytes)
            self._cell(place, 5, seen, "strong").setToolTip(total.source)

    def _figures(self, place: int, predicted: int | None, reported: int | None) -> None:
        self._cell(place, 2, NOTHING if predicted is None else in_bytes(predicted), "muted")
        self._cell(place, 3, NOTHING if reported is None else in_bytes(reported), "strong")
        self._cell(
            place, 4, NOTHING if not predicted or reported is None else _difference(predicted, reported), "muted"
        )

    def _cell(self, row: int, column: int, words: str, role: str) -> QLabel:
        # Names and heads wrap: side by side in large letters they would be wider than the page.
        wraps = column < 2 or not row
        cell = label(words, role, wraps=wraps)
        side = Qt.AlignmentFlag.AlignRight if column > 1 else Qt.AlignmentFlag.AlignLeft
        cell.setAlignment(side | Qt.AlignmentFlag.AlignBottom)
        # In its place an alignment would keep a wrapping label at the width it likes best, which is narrow.
        self._table.addWidget(cell, row, column, Qt.AlignmentFlag.AlignBottom if wraps else cell.alignment())
        return cell

    def _fill_notes(self, facts: ModelFacts, report: Loaded) -> None:
        clear_layout(self._notes)
        texts = [(difference, "warning") for difference in report.differences]
        if not texts:
            texts.append((self.tr("Everything is where the plan put it."), ""))
        on = report.expert_device or not facts.moe_layers
        texts.append((expert_device_in_words(report, moe=bool(facts.moe_layers)), "" if on else "warning"))
        for words, role in texts:
            self._notes.addWidget(label(words, role))
        self._note_texts = tuple(words for words, _ in texts)


def _after_failure(smaller: Plan | None) -> str:
    if smaller is None:
        return tr("Nothing is loaded now. This was the smallest plan there is for this model.")
    where = tr("experts on the processor") if smaller.gpu else tr("everything on the processor")
    return tr(
        "Nothing is loaded now; your choices are kept. A smaller plan has {tokens} of context and {where}."
    ).format(tokens=in_tokens(smaller.n_ctx), where=where)


def _difference(predicted: int, reported: int) -> str:
    percent = 100 * (reported - predicted) / predicted
    return f"{'+' if percent > 0 else '−' if percent < 0 else ''}{number(abs(percent), 1)} %"
