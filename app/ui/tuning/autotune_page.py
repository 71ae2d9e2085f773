"""The page that explains what bounds this machine, and measures changes of the plan on it."""

from typing import TYPE_CHECKING

from PySide6.QtCore import QSize, Qt, QTimer
from PySide6.QtWidgets import QFrame, QScrollArea, QVBoxLayout, QWidget

from app.errors import AppError
from app.placement.explain import Advice
from app.placement.memory import fits
from app.placement.plan import CPU_LANE
from app.ui.controller import ANSWERING, LENT, LOADING, Controller
from app.ui.lanes.footer import ChangesFooter
from app.ui.lanes.notice import Notice
from app.ui.orders import Orders
from app.ui.theme import GRID, Theme, set_role
from app.ui.tuning.autotune import AutoTune
from app.ui.tuning.explain_card import ExplainCard
from app.ui.tuning.explainer import Explainer
from app.ui.tuning.tune_card import TuneCard

if TYPE_CHECKING:
    from app.ui.tuning.evidence import TuningEvidence

WIDTH_HINT, HEIGHT_HINT = 420, 640


class AutoTunePage(QWidget):
    """Explanation above, measurement below, and what the plan then needs a reload for at the foot."""

    def __init__(
        self,
        controller: Controller,
        orders: Orders,
        evidence: "TuningEvidence",
        theme: Theme,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._controller = controller
        self._orders = orders
        self._evidence = evidence
        self._active = False
        self.explainer = Explainer(controller, evidence, self)
        self.tuning = AutoTune(controller, self)
        self.notice = Notice(self)
        self.explain_card = ExplainCard(theme, self)
        self.tune_card = TuneCard(self.tuning, theme, self)
        self.footer = ChangesFooter(self)
        self._lay_out()
        self._connect()
        self.setAccessibleName(self.tr("Auto-tune"))
        self._refresh()

    def set_active(self, active: bool) -> None:
        """Explain only while the page is seen; a search goes on in any case."""
        self._active = active
        self.explainer.set_active(active)
        self.tune_card.set_active(active)
        if active:
            self._refresh()

    def shutdown(self) -> None:
        """The window goes: nothing is explained or measured any more."""
        self.set_active(False)
        self.tuning.shutdown()

    def sizeHint(self) -> QSize:
        """Room for the explanation and some plans."""
        return QSize(WIDTH_HINT, HEIGHT_HINT)

    # ---- building -----------------------------------------------------------------------------

    def _lay_out(self) -> None:
        inner = QWidget(self)
        set_role(inner, "page")
        column = QVBoxLayout(inner)
        column.setContentsMargins(GRID, GRID, GRID, GRID)
        column.setSpacing(GRID + GRID // 2)
        column.addWidget(self.explain_card)
        column.addWidget(self.tune_card)
        column.addStretch(1)
        self._scroll = scroll = QScrollArea(self)
        set_role(scroll, "bare")
        scroll.setFrameShape(QFrame.Shape.NoFrame)
        scroll.setWidgetResizable(True)
        scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        scroll.setWidget(inner)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, GRID)
        outer.setSpacing(GRID)
        outer.addWidget(self.notice)
        outer.addWidget(scroll, 1)
        outer.addWidget(self.footer)
        self.footer.set_focus_after(self.tune_card.start_button)

    def _connect(self) -> None:
        controller = self._controller
        for signal in (
            controller.plan_changed,
            controller.machine_changed,
            controller.model_changed,
            controller.state_changed,
            controller.loaded,
        ):
            signal.connect(self._refresh)
        controller.model_changed.connect(self.notice.clear)  # what was offered is for the model before
        controller.load_progress.connect(self.footer.set_progress)
        self._orders.refused.connect(self._refused)
        self.explainer.changed.connect(self._show_explanation)
        self.explain_card.try_wanted.connect(self._try)
        self.tune_card.start_wanted.connect(self._start)
        self.tune_card.use_wanted.connect(self._use)
        self.tuning.ended.connect(self._ended)
        self.tuning.kept.connect(lambda _error: self._evidence.reload())
        self.footer.apply_wanted.connect(self._apply)
        self.footer.discard_wanted.connect(self._orders.discard)
        self.footer.cancel_wanted.connect(controller.cancel_load)
        self.footer.end_wanted.connect(controller.end_engine)

    # ---- what is shown ------------------------------------------------------------------------

    def _refresh(self, *_: object) -> None:
        """Show the plan being edited; a page that is not seen does so when it is seen again."""
        if not self._active:
            return
        self.explain_card.set_usable(self._controller.state not in (LENT, LOADING))
        # What runs is looked at, not what might be tried: the table has its room meanwhile.
        self.explain_card.setVisible(not self.tuning.running)
        self.tune_card.show_situation(self._why_no_start(), self._controller.plan, self._controller.facts)
        self._show_footer()

    def _why_no_start(self) -> str:
        """Why no search can begin now; empty where one can."""
        controller = self._controller
        if controller.facts is None or controller.plan is None:
            return self.tr("Choose a model and a plan first.")
        return {
            LOADING: self.tr("The model is loading."),
            ANSWERING: self.tr("The model is answering: tuning would end the answer."),
        }.get(controller.state, "")

    def _show_explanation(self) -> None:
        explained = self.explainer.explained
        if explained is None:
            why = self.explainer.why_not or self.tr(
                "Choose a model: what bounds it on this machine, and what would help, will be told here."
            )
            self.explain_card.show_nothing(why)
            return
        self.explain_card.show_explained(explained)
        self.explain_card.set_usable(self._controller.state not in (LENT, LOADING))
        self.tune_card.suggest_held(explained.by_hand)

    def _show_footer(self) -> None:
        controller, live = self._controller, self._orders.live
        plan, machine = controller.plan, controller.machine
        loaded = controller.loaded_plan if live else None
        report = controller.loaded_report if live else None
        changed = plan is not None and (loaded is None or not plan.loads_like(loaded))
        shown = controller.state != LENT and (changed or controller.state == LOADING)
        devices = dict.fromkeys((*(plan.gpus if plan else ()), CPU_LANE, *(loaded.gpus if loaded else ())))
        self.footer.show_plan(
            plan if shown else None,
            loaded,
            controller.state,
            name=controller.facts.name if controller.facts else "",
            devices=devices,
            shortage=" ".join(short.sentence for short in fits(plan, machine)) if plan and machine else "",
            loaded_differently=report.differences if report else (),
            reload_seconds=report.seconds if report else None,
        )

    # ---- what happens -------------------------------------------------------------------------

    def _refused(self, refusal: object) -> None:
        if self._active:
            self.notice.tell(refusal)

    def _start(self) -> None:
        self.notice.clear()
        try:
            self.tuning.start(self.tune_card.minutes, self.tune_card.held, self._evidence.evidence)
        except AppError as error:
            self.notice.tell(error)

    def _ended(self) -> None:
        """The result stays in sight where the explanation comes back above it."""
        self._refresh()
        if self._active:
            QTimer.singleShot(0, self, lambda: self._scroll.ensureWidgetVisible(self.tune_card.use_button))

    def _try(self, advice: Advice) -> None:
        """Change the plan as advised, if it is still the plan that the advice is about."""
        explained, plan = self.explainer.explained, self._controller.plan
        if explained is None or plan is None or not explained.plan.loads_like(plan):
            return
        self.notice.clear()
        if advice.kind == "pool_bytes" and advice.plan.expert_lanes == plan.expert_lanes:
            self._orders.set_pool(advice.plan.pool_bytes)
        else:
            self._orders.edit_plan(advice.plan, self.tr("trying: {change}").format(change=advice.words))

    def _use(self) -> None:
        """Load the plan that was found."""
        plan = self.tuning.best_plan
        if plan is None:
            return
        self.notice.clear()
        self._orders.edit_plan(plan, self.tr("the plan that tuning found"))
        self._apply()

    def _apply(self) -> None:
        self.notice.clear()
        try:
            self._controller.load()
        except AppError as error:
            self.notice.tell(error)
