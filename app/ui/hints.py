"""Hints while the window works: what the rules of `app.doctor` say of this machine, plan and engine now."""

import logging
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer, Signal

from app.doctor.hints import Hint
from app.doctor.observation import AnswerFigures, Observation
from app.engine.protocol import Finished
from app.hardware.facts import Machine
from app.hardware.fingerprint import fingerprint
from app.model.facts import ModelFacts
from app.ui.controller import LENT, LOADING, Controller
from app.ui.hint_cache import AnswerCaches
from app.ui.hint_samples import AnswerSamples, MakeSampler, sampler_of
from app.ui.settings import HIDDEN_HINTS, Settings

if TYPE_CHECKING:
    from app.doctor.diagnosis import Diagnosis
    from app.ui.hint_judge import Judge

log = logging.getLogger(__name__)

INTERVAL_MILLISECONDS = 3000
"""Least time between two judgements, and the longest that something new waits for one."""
MOST_HIDDEN = 500


class HintWatch(QObject):
    """Judges off the UI thread whenever something changed, every `interval` at most.

    Attributes:
        hints: What to tell, worst first, without what the user does not want to see again on this machine.
        hidden: How many of those there are now.
        facts: The model that was judged; None where the hints speak of the machine alone.

    Signals:
        changed: Other hints, or another number of hidden ones.
    """

    changed = Signal()

    def __init__(
        self,
        controller: Controller,
        settings: Settings,
        parent: QObject | None = None,
        *,
        interval: int = INTERVAL_MILLISECONDS,
        make_sampler: MakeSampler = sampler_of,
    ) -> None:
        super().__init__(parent)
        self._controller = controller
        self._settings = settings
        self._samples = AnswerSamples(controller, self, make_sampler=make_sampler)
        self._caches = AnswerCaches(controller, self)
        self._answers = 0
        self._longest = 0
        self._judge: Judge | None = None
        self._failed = False
        self._all: tuple[Hint, ...] = ()
        self._judging = False
        self._dirty = False
        self._ended = False
        self.hints: tuple[Hint, ...] = ()
        self.hidden = 0
        self.facts: ModelFacts | None = None
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(interval)
        self._timer.timeout.connect(self._judge_now)
        controller.finished.connect(self._answered)
        controller.loaded.connect(self._loaded)
        controller.failed.connect(self._engine_failed)
        for signal in (
            controller.machine_changed,
            controller.model_changed,
            controller.plan_changed,
            controller.state_changed,
            controller.cache.changed,
            self._samples.taken,
        ):
            signal.connect(self._changed)
        if controller.machine is not None:
            self._changed()

    @property
    def samples(self) -> AnswerSamples:
        """What is measured while answers decode."""
        return self._samples

    def hide(self, hint: Hint) -> None:
        """Do not show this rule's hints again on this machine."""
        machine = self._controller.machine
        if machine is not None:
            self._keep([*self._kept(), _hidden_key(hint.rule, machine)])

    def show_hidden(self) -> None:
        """Show the hints again that were hidden on this machine."""
        machine = self._controller.machine
        if machine is not None:
            end = _hidden_key("", machine)
            self._keep([key for key in self._kept() if not key.endswith(end)])

    def shutdown(self) -> None:
        """Judge and measure nothing any more; for the end of the window."""
        self._ended = True  # the engine's end changes things once more
        self._timer.stop()
        self._samples.shutdown()

    # ---- what happens -------------------------------------------------------------------------

    def _changed(self, *_: object) -> None:
        self._dirty = True
        if not self._ended and not self._judging and not self._timer.isActive():
            self._timer.start()

    def _answered(self, finished: Finished) -> None:
        self._answers += 1
        self._longest = max(self._longest, finished.prompt_tokens + finished.completion_tokens)
        self._changed()

    def _loaded(self, _report: object) -> None:
        self._answers = self._longest = 0
        self._changed()

    def _engine_failed(self, _error: object) -> None:
        self._failed = True
        self._changed()

    # ---- judging ------------------------------------------------------------------------------

    def _judge_now(self) -> None:
        machine = self._controller.machine
        if machine is None or self._controller.state in (LOADING, LENT):
            return  # what changes then brings this back
        self._dirty, self._judging = False, True
        seen, failed = self._observation(machine), self._failed
        self._failed = False
        job = self._controller.background.run(lambda: self._judged(seen, engine_failed=failed))
        job.always(self._judgement_ended).success(lambda diagnosis: self._take(seen, diagnosis))

    def _judged(self, seen: Observation, *, engine_failed: bool) -> "Diagnosis":
        """On a pool thread, one judgement at a time."""
        if self._judge is None:
            from app.ui.hint_judge import Judge  # noqa: PLC0415 - the window's start need not wait for it

            self._judge = Judge()
        return self._judge.judge(seen, engine_failed=engine_failed)

    def _observation(self, machine: Machine) -> Observation:
        controller = self._controller
        loaded = controller.loaded_report is not None
        facts = controller.loaded_facts if loaded else controller.facts
        plan = controller.loaded_plan if loaded else controller.plan
        if plan is None:
            facts = None
        answers = AnswerFigures(answers=self._answers, longest_tokens=self._longest) if self._answers else None
        return Observation(
            machine=machine,
            facts=facts,
            plan=plan,
            loaded=controller.loaded_report,
            cache=controller.cache.facts,
            earlier=self._caches.earlier if loaded else (),
            answers=answers if loaded else None,
            decoding=self._samples.decoding if loaded else (),
            latest=self._samples.latest if loaded else None,
            engine_pid=controller.engine.pid or 0,
        )

    def _judgement_ended(self, _error: Exception | None) -> None:
        self._judging = False

    def _take(self, seen: Observation, diagnosis: "Diagnosis") -> None:
        if (diagnosis.hints, seen.facts) != (self._all, self.facts):
            self._all, self.facts = diagnosis.hints, seen.facts
            log.info("hints: %s", ", ".join(hint.rule for hint in self._all) or "none")
            self._tell()
        if self._dirty and not self._ended:
            self._timer.start()

    def _tell(self) -> None:
        machine = self._controller.machine
        kept = set(self._kept())
        shown = tuple(hint for hint in self._all if machine is None or _hidden_key(hint.rule, machine) not in kept)
        self.hints, self.hidden = shown, len(self._all) - len(shown)
        self.changed.emit()

    # ---- what the user does not want to see ---------------------------------------------------

    def _kept(self) -> list[str]:
        return [key for key in self._settings.get(HIDDEN_HINTS).split() if key]

    def _keep(self, keys: list[str]) -> None:
        self._settings.set(HIDDEN_HINTS, " ".join(list(dict.fromkeys(keys))[-MOST_HIDDEN:]))
        self._tell()


def _hidden_key(rule: str, machine: Machine) -> str:
    return f"{rule}@{fingerprint(machine)}"
