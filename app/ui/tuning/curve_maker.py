"""Computes the curve off the UI thread: what is asked last counts, and what is asked twice is computed once."""

from PySide6.QtCore import QObject, QTimer, Signal

from app.errors import AppError
from app.placement.speed.curve import SpeedCurve
from app.ui.background import Background
from app.ui.tuning.absent_card import AbsentCard, question_of
from app.ui.tuning.curve_data import Question, compute

DEBOUNCE_MILLISECONDS = 150

Subject = Question | AbsentCard


class CurveMaker(QObject):
    """One curve at a time.

    Signals:
        made: There is a curve, or another one.
        failed: There can be none; `problem` says why.
    """

    made = Signal()
    failed = Signal()

    def __init__(self, background: Background, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._background = background
        self._subject: Subject | None = None
        self._question: Question | None = None
        self._curve: SpeedCurve | None = None
        self._problem = ""
        self._asked = 0
        self._debounce = QTimer(self)
        self._debounce.setSingleShot(True)
        self._debounce.setInterval(DEBOUNCE_MILLISECONDS)
        self._debounce.timeout.connect(self._start)

    @property
    def subject(self) -> Subject | None:
        """What is asked now."""
        return self._subject

    @property
    def question(self) -> Question | None:
        """What the curve is of, or will be; None where nothing is asked, or where even that is computed first."""
        return self._question

    @property
    def curve(self) -> SpeedCurve | None:
        """The curve; while another one of the same layers is computed, the one before."""
        return self._curve

    @property
    def problem(self) -> str:
        """Why there can be no curve of what is asked now; empty where nobody knows of a reason."""
        return self._problem

    def ask(self, subject: Subject | None) -> None:
        """Compute this one from now on, or none."""
        if subject == self._subject:
            return
        self._subject, self._problem = subject, ""
        self._asked += 1  # what is on its way is of something else
        before, self._question = self._question, subject if isinstance(subject, Question) else None
        if not _alike(before, self._question):
            self._curve = None
        if subject is None:
            self._debounce.stop()
        else:
            self._debounce.start()

    def rest(self) -> None:
        """Compute nothing; what is drawn stays, and is asked again when it is seen again."""
        self._debounce.stop()
        self._asked += 1
        self._subject = None

    def _start(self) -> None:
        subject, asked = self._subject, self._asked
        if subject is None:
            return
        absent = self.tr("The card")
        job = self._background.run(lambda: _made(subject, absent))
        job.success(lambda found: self._take(asked, *found)).failure(lambda error: self._fail(asked, error))

    def _take(self, asked: int, question: Question, curve: SpeedCurve) -> None:
        if asked == self._asked:
            self._question, self._curve = question, curve
            self.made.emit()

    def _fail(self, asked: int, error: AppError) -> None:
        if asked == self._asked:
            self._question = self._curve = None
            self._problem = error.message
            self.failed.emit()


def _made(subject: Subject, absent: str) -> tuple[Question, SpeedCurve]:
    """Called on a pool thread; `absent` is what words call a card that is not here."""
    question = question_of(subject, absent) if isinstance(subject, AbsentCard) else subject
    return question, compute(question)


def _alike(before: Question | None, after: Question | None) -> bool:
    """Whether the curve of one may stand until that of the other is there."""
    return (
        before is not None
        and after is not None
        and before.tier == after.tier
        and before.facts is after.facts
        and before.plan.expert_lanes == after.plan.expert_lanes
    )
