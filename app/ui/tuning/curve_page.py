"""The page "Curve": predicted tokens a second against the pool's size or main memory, measurements, and a hand."""

from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import QHBoxLayout, QLabel, QScrollArea, QVBoxLayout, QWidget

from app.library.speed_evidence import NOT_MEASURED
from app.placement.speed.curve import SpeedCurve
from app.placement.speed.learning import Observation
from app.ui.controller import Controller
from app.ui.lanes.notice import Notice
from app.ui.name_combo import NameCombo
from app.ui.number_boxes import WheelGuard
from app.ui.orders import Orders, Refusal
from app.ui.refusals import Scene
from app.ui.theme import GRID, Theme, set_role
from app.ui.tuning.absent_card import SIZES_GIB, AbsentCard
from app.ui.tuning.curve_data import (
    GPU_TIER,
    MEMORY_TIER,
    Measured,
    Question,
    essence,
    measured_sizes,
    point_at,
)
from app.ui.tuning.curve_legend import CurveLegend
from app.ui.tuning.curve_maker import CurveMaker
from app.ui.tuning.curve_marks import marks, outside_text
from app.ui.tuning.curve_plot import CurvePlot, Picture
from app.ui.tuning.curve_tiers import TierSwitch, most_of, names, order, question, size_of, why_none
from app.ui.tuning.curve_words import (
    hit_basis_text,
    measured_text,
    memory_basis_text,
    point_text,
    rates_basis_text,
    unplaced_text,
)
from app.ui.tuning.evidence import TuningEvidence
from app.ui.tuning.size_box import SizeBox

STILL_MILLISECONDS = 400
"""A size chosen with keys or in the box is sent when it has been still for so long: every size is an allocation."""
MIB = 1024**2
_STEPS = 100


class CurvePage(QWidget):
    """Shows the curve of the plan being edited and sends the size that the user chooses as one order.

    Without a GPU it shows, where the user asks, what a card that is not here would give; the handle only reads then.
    """

    def __init__(
        self,
        controller: Controller,
        orders: Orders,
        evidence: TuningEvidence,
        theme: Theme,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._controller = controller
        self._orders = orders
        self._evidence = evidence
        self._active = False
        self._wanted: int | None = None  # chosen and not sent yet
        self._sending = False
        self._budget: object = None  # of memory, as it was shown
        self._sizes: tuple[Measured, ...] = ()
        self._maker = CurveMaker(controller.background, self)
        self.plot = CurvePlot(theme, self)
        self.legend = CurveLegend(theme, self)
        self.box = SizeBox(self.tr("Pool"), self)
        self.tiers = TierSwitch(self)
        self.card = NameCombo(self, least_characters=24)
        WheelGuard(self).guard(self.card)
        self.notice = Notice(self)
        self._why, self._busy, self._now, self._measured, self._outside, self._basis = (
            _label(role, self) for role in ("muted", "small", "strong", "", "small", "small")
        )
        self._name()
        self._lay_out()
        self._still = QTimer(self)
        self._still.setSingleShot(True)
        self._still.setInterval(STILL_MILLISECONDS)
        self._still.timeout.connect(self._send)
        for chooser in (self.plot, self.box):
            chooser.choosing.connect(self._choosing)
            chooser.chosen.connect(self._chosen)
        self.plot.dropped.connect(self._drop)
        self.card.currentIndexChanged.connect(self._other_subject)
        self.tiers.chosen.connect(self._other_subject)
        self._maker.made.connect(self._show_all)
        self._maker.failed.connect(self._refresh)
        orders.refused.connect(self._refused)
        controller.model_changed.connect(self._drop)  # what was being chosen is for the model before
        controller.model_changed.connect(self.notice.clear)  # and so are the ways out that were offered
        for changed in (
            controller.model_changed,
            controller.plan_changed,
            controller.machine_changed,
            controller.state_changed,
            evidence.changed,
        ):
            changed.connect(self._refresh)
        controller.cache.changed.connect(self._follow)
        controller.answers.answered.connect(self._show_all)  # at once; the record of it is read some seconds later

    @property
    def text(self) -> str:
        """Everything it says now."""
        labels = (self._why, self._busy, self._now, self._measured, self._outside, self._basis)
        said = [label.text() for label in labels if not label.isHidden()]
        return "\n".join(words for words in (*said, self.notice.text) if words)

    @property
    def curve(self) -> SpeedCurve | None:
        """What is drawn."""
        return self._maker.curve

    @property
    def measured(self) -> tuple[Measured, ...]:
        """What answers reached, the latest size first."""
        return self._sizes

    def set_active(self, active: bool) -> None:
        """Compute and follow only while the page is seen."""
        if active == self._active:
            return
        self._active = active
        if active:
            self._controller.cache.watch(self, experts=False)
            self._refresh()
        else:
            self._controller.cache.unwatch(self)
            self._maker.rest()
            self._drop()

    def shutdown(self) -> None:
        """The window goes: nothing is computed or sent any more."""
        self._still.stop()
        self.set_active(False)

    # ---- making ---------------------------------------------------------------------------------

    def _name(self) -> None:
        self.setAccessibleName(self.tr("Curve"))
        self.card.setAccessibleName(self.tr("What a graphics card would give"))
        self.card.addItem(self.tr("Predict for a card that is not here…"), 0)
        for gib in SIZES_GIB:
            self.card.addItem(self.tr("A graphics card of {gib} GiB (not in this machine)").format(gib=gib), gib)

    def _lay_out(self) -> None:
        top = QHBoxLayout()
        top.setSpacing(GRID)
        top.addWidget(self.box)
        top.addWidget(self._busy, 1)
        page = QWidget(self)
        set_role(page, "page")
        column = QVBoxLayout(page)
        column.setContentsMargins(GRID, GRID, GRID, GRID)
        column.setSpacing(GRID)
        column.addWidget(self.tiers)
        column.addWidget(self._why)
        column.addWidget(self.card, 0, Qt.AlignmentFlag.AlignLeft)
        column.addLayout(top)
        column.addWidget(self.plot, 1)
        for widget in (self.legend, self.notice, self._now, self._measured, self._outside, self._basis):
            column.addWidget(widget)
        column.addStretch(0)
        scroll = QScrollArea(self)
        set_role(scroll, "bare")
        scroll.setWidgetResizable(True)
        scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        scroll.setWidget(page)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.addWidget(scroll)

    # ---- what is asked --------------------------------------------------------------------------

    @property
    def _here(self) -> bool:
        """Whether the curve is of a card that is in this machine, so that the handle resizes a pool."""
        return not isinstance(self._maker.subject, AbsentCard)

    def _why_none(self, scene: Scene | None) -> str:
        """Why there is no curve of this machine, or an empty text."""
        if scene is None:
            return self.tr("Choose a model: the curve shows what a pool of GPU memory would do for it.")
        if not scene.facts.moe_layers:
            return self.tr("This model has no experts, so there is nothing that a pool could hold.")
        return why_none(self.tiers.tier, scene)

    def _refresh(self, *_changed: object) -> None:
        """Something that the curve rests on may have changed: compute it anew if it has."""
        if not self._active:
            return
        scene = self._orders.scene()
        self.tiers.suggest(scene)
        self.tiers.setVisible(scene is not None and bool(scene.facts.moe_layers))
        tier, why = self.tiers.tier, self._why_none(scene)
        self.card.setVisible(scene is not None and tier == GPU_TIER and _may_ask_for_a_card(scene))
        if why or scene is None:
            self._maker.ask(self._absent_card(scene) if tier == GPU_TIER else None)
        else:
            self._maker.ask(question(tier, scene, self._evidence))
        _say(self._why, " ".join(said for said in (why, self._maker.problem) if said))
        self._show_all()

    def _absent_card(self, scene: Scene | None) -> AbsentCard | None:
        gib = self.card.currentData()
        if scene is None or not gib or not _may_ask_for_a_card(scene):
            return None
        return AbsentCard(scene.facts, scene.machine, essence(scene.plan), self._evidence.evidence, gib)

    def _other_subject(self) -> None:
        """Another card, or the other kind of memory: what was being chosen is for the one before."""
        self._still.stop()
        self.plot.let_go()
        self._wanted = None
        self.notice.clear()
        self._refresh()

    # ---- what is shown --------------------------------------------------------------------------

    def _show_all(self, *_: object) -> None:
        if not self._active:
            return
        scene, question, curve = self._orders.scene(), self._maker.question, self._maker.curve
        known = question is not None and scene is not None
        for widget in (self.box, self.plot, self.legend, self._now, self._measured, self._basis):
            widget.setVisible(known)
        self._show_busy()
        if question is None or scene is None:
            self.plot.show_picture(None)
            _say(self._outside, "")
            return
        tier = self.tiers.tier
        free = most_of(tier, scene) if self._here else question.most_bytes
        limit = max(free, size_of(tier, scene))
        one_each = max(question.all_bytes // max(question.facts.expert_count, 1), 1)
        step = one_each * max(limit // (_STEPS * one_each), 1)
        self.box.set_room(limit, step)
        self._call(tier)
        self._sizes = measured_sizes(self._observations(), scene.plan, tier) if self._here else ()
        drawn = marks(curve, question, free) if curve else ()
        self.plot.show_picture(Picture(curve, drawn, limit, step) if curve else None)
        self.plot.show_measured(self._sizes)
        whole = curve is not None and any(point.whole_layers is not None for point in curve.points)
        self.legend.show_kinds(whole=whole, measured=bool(self._sizes))
        _say(self._outside, outside_text(curve, question) if curve else "")
        self._measured.setText(self._measured_words())
        self._basis.setText(self._basis_words(question))
        self._show_size()

    def _call(self, tier: str) -> None:
        its = names(tier)
        self.box.set_names(its.box, its.box_spoken, its.none)
        self.plot.setAccessibleName(its.plot)
        self.plot.setToolTip(its.tip)

    def _show_size(self) -> None:
        """The size that is chosen now, and what is predicted for it."""
        scene, question, curve = self._orders.scene(), self._maker.question, self._maker.curve
        if scene is None or question is None:
            return
        there = size_of(self.tiers.tier, scene) if self._here else question.most_bytes
        size = there if self._wanted is None else self._wanted
        self.box.show_size(size)
        if not self.plot.dragging:
            self.plot.show_size(size)
        words = point_text(point_at(curve, size), self.tiers.tier) if curve else self.tr("Computing the curve…")
        self._now.setText(words)
        self.plot.setAccessibleDescription("\n".join(said for said in (words, self._measured.text()) if said))

    def _measured_words(self) -> str:
        if not self._here:
            return self.tr("All of this is predicted for a card that is not here; nothing of it was measured.")
        last = self._controller.answers.last if self._orders.live else None
        apart = unplaced_text(last) if last is not None else ""
        if self._sizes:
            return " ".join(words for words in (measured_text(self._sizes[0], self.tiers.tier), apart) if words)
        if apart:
            return apart
        if self._observations():
            return self.tr("Answers were measured with other plans of this model, none yet with this one.")
        return self.tr("Nothing is measured yet: ask something, and the answer's speed appears in the picture.")

    def _basis_words(self, question: Question) -> str:
        if not self._here:
            typical = self.tr("Speeds are typical rates of a card of that size and of this machine's processor.")
            return " ".join((hit_basis_text(question.facts, question.plan, question.evidence.recorded), typical))
        evidence = self._evidence.evidence
        notes = (note for note in evidence.notes if note != NOT_MEASURED)  # which the basis of the rates says
        scene = self._orders.scene()
        rates = rates_basis_text(scene.plan, evidence) if scene is not None else ""
        hits = self._evidence.hit_basis
        if self.tiers.tier == MEMORY_TIER:
            hits = memory_basis_text(question.facts, question.plan, evidence.recorded)
        return " ".join(words for words in (hits, rates, *notes) if words)

    def _follow(self) -> None:
        """The engine told something: show the size anew where that is of memory and another one now."""
        cache = self._controller.cache
        memory = cache.facts.memory if cache.facts is not None else None
        budget = cache.budgeting, memory.budget_bytes if memory is not None else None
        before, self._budget = self._budget, budget
        if budget != before and self.tiers.tier == MEMORY_TIER and self._wanted is None:
            self._show_all()
        else:
            self._show_busy()

    def _show_busy(self) -> None:
        cache = self._controller.cache
        pool, memory = self.tr("The engine changes the pool's size…"), self.tr("The engine changes the budget…")
        self._busy.setText(pool if cache.resizing else memory if cache.budgeting else "")

    # ---- answers --------------------------------------------------------------------------------

    def _observations(self) -> tuple[Observation, ...]:
        """Measured answers of the model, also those that were not read from the record yet; oldest first."""
        kept = self._evidence.observations
        if not self._orders.live:
            return kept
        known = {(seen.decode_tokens_per_second, seen.prompt_tokens_per_second) for seen in kept}
        new = (
            seen
            for seen in self._controller.answers.observations
            if (seen.decode_tokens_per_second, seen.prompt_tokens_per_second) not in known
        )
        return (*kept, *new)

    # ---- the user's hand ------------------------------------------------------------------------

    def _choosing(self, pool_bytes: int) -> None:
        """The size is still being chosen: show what is predicted for it."""
        self._wanted = pool_bytes
        self._show_size()
        if self.plot.dragging or not self._here:
            self._still.stop()
        else:
            self._still.start()

    def _chosen(self, pool_bytes: int) -> None:
        self._wanted = pool_bytes
        self._send()

    def _drop(self) -> None:
        """Back to the size that there is."""
        self._still.stop()
        self.plot.let_go()
        self._wanted = None
        self._show_size()

    def _send(self) -> None:
        self._still.stop()
        if not self._here:
            return  # the handle only reads the curve
        wanted, self._wanted = self._wanted, None
        scene = self._orders.scene()
        if wanted is None or scene is None:
            return
        self.notice.clear()
        if abs(wanted - size_of(self.tiers.tier, scene)) >= MIB:  # a box of whole MiB has no finer sizes
            self._sending = True
            try:
                order(self.tiers.tier, self._orders, wanted)
            finally:
                self._sending = False
        self._show_size()

    def _refused(self, refusal: Refusal) -> None:
        """Say why, where it was this page's order."""
        if self._sending:
            self.notice.tell(refusal)


def _may_ask_for_a_card(scene: Scene) -> bool:
    """Whether a card that is not here is worth a prediction: none is, and the engine could give it a pool."""
    engine = scene.machine.engine
    return bool(scene.facts.moe_layers) and not scene.machine.gpus and engine is not None and engine.expert_device


def _label(role: str, parent: QWidget) -> QLabel:
    label = QLabel(parent)
    label.setWordWrap(True)
    label.setTextFormat(Qt.TextFormat.PlainText)
    if role:
        set_role(label, role)
    return label


def _say(label: QLabel, words: str) -> None:
    label.setText(words)
    label.setVisible(bool(words))
