"""The page of knobs: every choice of a plan with its consequence; what needs a reload is gathered under one button."""

from typing import TYPE_CHECKING

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import QFrame, QScrollArea, QVBoxLayout, QWidget

from app.errors import AppError
from app.placement.plan import CPU_LANE
from app.ui.controller import LOADING, Controller
from app.ui.lanes.footer import ChangesFooter
from app.ui.lanes.notice import Notice
from app.ui.orders import Orders
from app.ui.theme import GRID, Theme, set_role
from app.ui.tuning.forecast import Forecast
from app.ui.tuning.knob_row import KnobRow
from app.ui.tuning.knob_turner import KnobTurner
from app.ui.tuning.knob_values import SECTIONS, Situation, Turned, Value, back_value, followed
from app.ui.tuning.knob_words import basis_text, change_text, outlook_text, section_title
from app.ui.wizard.widgets import Card, label

if TYPE_CHECKING:
    from app.ui.tuning.evidence import TuningEvidence

WIDTH_HINT, HEIGHT_HINT = 420, 640


class KnobsPage(QWidget):
    """Knobs over the plan being edited; those that a loaded model follows take effect at once.

    Signals:
        shown: Predictions for the plan being edited are shown.
    """

    shown = Signal()

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
        self._chosen = 0
        self.forecast = Forecast(controller.background, self)
        self.turner = KnobTurner(controller, orders, self.situation, self)
        self.rows: dict[str, KnobRow] = {}
        self.notice = Notice(self)
        self.footer = ChangesFooter(self)
        self._empty = label("", "muted", parent=self)
        self._empty.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._lay_out(theme)
        self._connect()
        self.setAccessibleName(self.tr("Knobs"))
        self._refresh()

    def set_active(self, active: bool) -> None:
        """Follow plan and predictions only while the page is seen."""
        self._active = active
        if active:
            self._refresh()
        else:
            self.forecast.rest()

    def shutdown(self) -> None:
        """The window goes: nothing is predicted or turned any more."""
        self._active = False
        self.forecast.rest()
        self.turner.rest()

    def situation(self) -> Situation | None:
        """Model, machine, plan and evidence; None where one of the first three is missing."""
        controller = self._controller
        facts, machine, plan = controller.facts, controller.machine, controller.plan
        if facts is None or machine is None or plan is None:
            return None
        live, evidence = self._orders.live, self._evidence.evidence
        at_load, running = (controller.plan_at_load, controller.loaded_plan) if live else (None, None)
        return Situation(
            facts=facts,
            machine=machine,
            plan=plan,
            evidence=evidence,
            at_load=at_load,
            running=running,
            chosen=controller.cache.memory_chosen if live else 0,
        )

    def sizeHint(self) -> QSize:
        """Room for a few knobs, one under the other."""
        return QSize(WIDTH_HINT, HEIGHT_HINT)

    # ---- layout -------------------------------------------------------------------------------

    def _lay_out(self, theme: Theme) -> None:
        # Everything is made inside of what it is shown in: given to it later it would be styled again each time.
        self._scroll = QScrollArea(self)
        set_role(self._scroll, "bare")
        self._scroll.setFrameShape(QFrame.Shape.NoFrame)
        self._scroll.setWidgetResizable(True)
        self._scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        inner = QWidget(self._scroll)
        set_role(inner, "page")
        self._scroll.setWidget(inner)
        column = QVBoxLayout(inner)
        column.setContentsMargins(GRID, GRID, GRID, GRID)
        column.setSpacing(GRID + GRID // 2)
        predicted = Card(theme, self.tr("Predicted for these settings"), inner)
        self._outlook = label("", "strong", parent=predicted)
        self._basis = label("", "small", parent=predicted)
        predicted.column.addWidget(self._outlook)
        predicted.column.addWidget(self._basis)
        column.addWidget(predicted)
        for section, keys in SECTIONS:
            card = Card(theme, section_title(section), inner)
            for key in keys:
                self.rows[key] = KnobRow(key, card)
                card.column.addWidget(self.rows[key])
            column.addWidget(card)
        column.addStretch(1)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, GRID)
        outer.setSpacing(GRID)
        outer.addWidget(self.notice)
        outer.addWidget(self._empty, 1)
        outer.addWidget(self._scroll, 1)
        outer.addWidget(self.footer)
        self.footer.set_focus_after(next(iter(self.rows.values())).editor.widget)

    def _connect(self) -> None:
        controller = self._controller
        controller.machine_changed.connect(self._refresh)
        controller.model_changed.connect(self._model_changed)
        controller.plan_changed.connect(self._refresh)
        controller.state_changed.connect(self._state_changed)
        controller.load_progress.connect(self.footer.set_progress)
        controller.loaded.connect(self._refresh)
        controller.cache.changed.connect(self._look)
        self._evidence.changed.connect(self._refresh)
        self.forecast.changed.connect(self._show_forecast)
        self.turner.refused.connect(self._refused)
        self.turner.turned.connect(lambda key: self.rows[key].clear_refusal())
        for row in self.rows.values():
            row.wanted.connect(self.turner.turn)
            row.automatic_wanted.connect(self._automatic)
            row.revert_wanted.connect(self._revert)
        self.footer.apply_wanted.connect(self._apply)
        self.footer.discard_wanted.connect(self._orders.discard)
        self.footer.cancel_wanted.connect(controller.cancel_load)
        self.footer.end_wanted.connect(controller.end_engine)

    # ---- what is shown ------------------------------------------------------------------------

    def _refresh(self) -> None:
        """Show the plan being edited; a page that is not seen does so when it is seen again."""
        situation = self.situation()
        empty = "" if situation else self._why_empty()
        self._empty.setText(empty)
        self._empty.setVisible(bool(empty))
        self._scroll.setVisible(not empty)
        self._show_footer(situation)
        if situation is None or not self._active:
            return
        self._chosen = situation.chosen
        is_loaded, since = situation.at_load is not None, followed(situation)
        for key, row in self.rows.items():
            row.show_plan(
                situation,
                back_value(situation, key) if is_loaded else None,
                is_loaded=is_loaded,
                followed=key in since,
                blocked=self._pool_blocked() if key == "pool_bytes" else "",
            )
        self.forecast.ask(situation)
        self._show_forecast()

    def _look(self) -> None:
        """The engine told something, four times a second: show it where it is another budget that it chose."""
        if self._active and self._controller.cache.memory_chosen != self._chosen and self._orders.live:
            self._refresh()

    def _why_empty(self) -> str:
        if self._controller.facts is None:
            return self.tr("Choose a model: what can be tuned of it will be shown here.")
        return self.tr("{name} has no plan yet.").format(name=self._controller.facts.name)

    def _pool_blocked(self) -> str:
        scene = self._orders.scene()
        return scene.room.why_not if scene is not None else ""

    def _show_forecast(self) -> None:
        """What is predicted, as far as it is known for just this plan."""
        situation = self.situation()
        if situation is None:
            return
        found, problem = self.forecast.consequences, self.forecast.problem
        waiting = self.tr("Nothing can be predicted: {why}").format(why=problem) if problem else self.tr("Predicting…")
        self._outlook.setText(outlook_text(found.now) if found else waiting)
        basis = basis_text(found.now, self._evidence.hit_basis, self.forecast.compared) if found else ""
        self._basis.setText(basis)
        for key, row in self.rows.items():
            without = found.without.get(key) if found else None
            text = change_text(key, found.now, without) if found and without is not None else ""
            row.show_consequence(text if found else waiting if self.forecast.concerns(key) and not problem else "")
            choice = self.forecast.automatic(key, situation)
            row.show_automatic(choice.value, situation, known=choice.known)
        if found:
            self.shown.emit()

    def _show_footer(self, situation: Situation | None) -> None:
        controller = self._controller
        live = self._orders.live
        loaded = controller.loaded_plan if live else None
        report = controller.loaded_report if live else None
        plan = situation.plan if situation else None
        devices = dict.fromkeys((*(plan.gpus if plan else ()), CPU_LANE, *(loaded.gpus if loaded else ())))
        found = self.forecast.consequences
        self.footer.show_plan(
            plan,
            loaded,
            controller.state,
            name=controller.facts.name if controller.facts else "",
            devices=devices,
            shortage=found.now.shortage if found else "",
            loaded_differently=report.differences if report else (),
            reload_seconds=report.seconds if report else None,
        )

    # ---- what happens -------------------------------------------------------------------------

    def _model_changed(self) -> None:
        self.notice.clear()
        self.turner.rest()
        for row in self.rows.values():
            row.clear_refusal()
        self._refresh()

    def _state_changed(self, state: str) -> None:
        if state == LOADING:
            self.footer.set_progress(0.0)
        self._refresh()

    def _automatic(self, key: str) -> None:
        situation = self.situation()
        choice = self.forecast.automatic(key, situation) if situation else None
        if choice is not None and choice.known:
            self.turner.turn_now(key, choice.value)

    def _revert(self, key: str) -> None:
        situation = self.situation()
        if situation is not None and situation.at_load is not None:
            self.turner.turn_now(key, back_value(situation, key))

    def _refused(self, key: str, wanted: Value, turned: Turned) -> None:
        situation = self.situation()
        if situation is not None:
            self.rows[key].show_refusal(wanted, turned, situation)

    def _apply(self) -> None:
        self.notice.clear()
        try:
            self._controller.load()
        except AppError as error:
            self.notice.tell(error)
