"""The contents of the lanes dock: lanes side by side or stacked, legend, refusals, footer."""

from collections.abc import Mapping

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QKeySequence, QResizeEvent, QShowEvent
from PySide6.QtWidgets import QBoxLayout, QHBoxLayout, QLabel, QScrollArea, QToolButton, QVBoxLayout, QWidget

from app.engine.protocol import Loaded
from app.errors import AppError, ErrorCode
from app.placement.cache.facts import LayerExperts
from app.placement.plan import CPU_LANE, Plan
from app.ui.controller import LOADING, Controller
from app.ui.lanes.cache_words import why_no_experts
from app.ui.lanes.column import LaneColumn
from app.ui.lanes.experts_page import ExpertsPage
from app.ui.lanes.footer import ChangesFooter
from app.ui.lanes.heat import HeatMap, heat_map
from app.ui.lanes.lane_info import LaneInfo, lanes_of
from app.ui.lanes.legend import HeatLegend
from app.ui.lanes.loads import lane_load, shortages
from app.ui.lanes.model import LayersModel
from app.ui.lanes.moves import Moves
from app.ui.lanes.notice import Notice
from app.ui.lanes.pool import pool_room
from app.ui.lanes.pool_bar import PoolBar
from app.ui.lazy_dock import DockContent
from app.ui.theme import GRID, Theme, set_role

COMPACT_HEIGHT = 640
"""Pixels: with less height stacked lanes leave out what can be read in their tooltips."""
WIDTH_HINT, HEIGHT_HINT = 420, 480
COLUMN_WIDTH = 232
"""Pixels a lane needs beside others; with less room the lanes are stacked."""


class LanesPanel(DockContent):
    """Every lane of the machine over the plan being edited."""

    def __init__(self, controller: Controller, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._controller = controller
        self._theme = theme
        self._active = False
        self._stale = False
        self._heat = HeatMap()
        self._pool_shown: int | None = None
        self._heat_of: Mapping[int, LayerExperts] | None = None
        self.layers = LayersModel(self)
        self.moves = Moves(controller, self)
        self.columns: list[LaneColumn] = []
        self.notice = Notice(self)
        self.legend = HeatLegend(theme, self)
        self.pool_bar = PoolBar(self)
        self.experts_page = ExpertsPage(self)
        self.footer = ChangesFooter(self)
        self._empty = QLabel(self)
        self._empty.setWordWrap(True)
        self._empty.setAlignment(Qt.AlignmentFlag.AlignCenter)
        set_role(self._empty, "muted")
        self._lay_out()
        self._connect()
        self._refresh_lanes()

    def column(self, lane: str) -> LaneColumn:
        """The column of a lane, by the plan's word for it."""
        return next(column for column in self.columns if column.info.key == lane)

    def set_active(self, active: bool) -> None:
        """Follow the controller only while the dock is seen."""
        self._active = active
        if active:
            self._refresh_lanes()
            self._controller.cache.watch(self, experts=True)
        else:
            self._controller.cache.unwatch(self)

    # ---- layout -------------------------------------------------------------------------------

    def _lay_out(self) -> None:
        self._lanes = QWidget(self)
        self._row = QBoxLayout(QBoxLayout.Direction.LeftToRight, self._lanes)
        self._row.setContentsMargins(0, 0, 0, 0)
        self._row.setSpacing(GRID)
        self._scroll = QScrollArea(self)
        set_role(self._scroll, "bare")
        set_role(self._lanes, "page")
        self._scroll.setWidgetResizable(True)
        self._scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._scroll.setWidget(self._lanes)
        top = QHBoxLayout()
        top.addWidget(self.legend, 1)
        for action in self._history_actions():
            button = QToolButton(self)
            button.setDefaultAction(action)
            top.addWidget(button)
        column = QVBoxLayout(self)
        column.setContentsMargins(GRID, GRID, GRID, GRID)
        column.setSpacing(GRID)
        column.addLayout(top)
        column.addWidget(self.notice)
        column.addWidget(self._empty, 1)
        column.addWidget(self._scroll, 1)
        column.addWidget(self.experts_page, 1)
        column.addWidget(self.pool_bar)
        column.addWidget(self.footer)
        self.footer.set_focus_after(self._scroll)
        self.setAccessibleName(self.tr("Expert lanes"))

    def _history_actions(self) -> list[object]:
        undo = self.moves.stack.createUndoAction(self, self.tr("Undo"))
        undo.setShortcut(QKeySequence.StandardKey.Undo)
        redo = self.moves.stack.createRedoAction(self, self.tr("Redo"))
        redo.setShortcuts([QKeySequence("Ctrl+Shift+Z"), QKeySequence("Ctrl+Y")])
        for action, icon in ((undo, self.tr("Undo")), (redo, self.tr("Redo"))):
            action.setShortcutContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
            action.setIconText(icon)
            self.addAction(action)
        return [undo, redo]

    def _connect(self) -> None:
        controller = self._controller
        controller.machine_changed.connect(self._refresh_lanes)
        controller.model_changed.connect(self._model_changed)
        controller.plan_changed.connect(self._refresh_lanes)
        controller.state_changed.connect(self._state_changed)
        controller.load_progress.connect(self.footer.set_progress)
        controller.loaded.connect(self._refresh_lanes)
        controller.cache.changed.connect(self._cache_changed)
        controller.cache.refused.connect(self._refused)
        self.pool_bar.size_wanted.connect(self._set_pool)
        self.experts_page.pins_wanted.connect(self._set_pins)
        self.experts_page.closed.connect(self._show_layers)
        self.moves.moved.connect(self._moved)
        self.moves.refused.connect(self._refused)
        self.footer.apply_wanted.connect(self._apply)
        self.footer.discard_wanted.connect(self.moves.discard)
        self.footer.cancel_wanted.connect(controller.cancel_load)
        self.footer.end_wanted.connect(controller.end_engine)

    def _make_columns(self, lanes: tuple[LaneInfo, ...]) -> None:
        infos = [column.info for column in self.columns]
        if infos == list(lanes):
            return
        if [(info.key, info.kind) for info in infos] == [(lane.key, lane.kind) for lane in lanes]:
            # Another probe changes figures only: selection, focus and scroll position stay.
            for column, lane in zip(self.columns, lanes, strict=True):
                column.set_info(lane)
                column.view.set_targets(lanes)
            return
        if any(column.view.dragging for column in self.columns):
            return  # a view must outlive its own drag, which ends with another look at the lanes
        for column in self.columns:
            self._row.removeWidget(column)
            column.hide()
            column.deleteLater()
        self.columns = [LaneColumn(self.layers, info, self._theme, self._lanes) for info in lanes]
        for place, column in enumerate(self.columns):
            column.view.set_targets(lanes)
            column.view.move_wanted.connect(self.moves.move)
            column.view.step_wanted.connect(lambda layers, step, place=place: self._step(place, layers, step))
            column.view.drag_ended.connect(self._refresh_lanes)
            column.view.experts_wanted.connect(self.open_experts)
            column.view.selectionModel().selectionChanged.connect(
                lambda selected, _gone, column=column: self._only_selection(column, selected)
            )
            column.drag_over.connect(lambda layers, column=column: self._show_loads(column if layers else None, layers))
            self._row.addWidget(column)
        self._arrange()

    def _arrange(self) -> None:
        """Side by side where every lane has room, stacked where not; full lanes get more of it."""
        beside = self.width() >= len(self.columns) * (COLUMN_WIDTH + GRID)
        direction = QBoxLayout.Direction.LeftToRight if beside else QBoxLayout.Direction.TopToBottom
        self._row.setDirection(direction)
        for place, column in enumerate(self.columns):
            column.set_stacked(not beside, compact=self.height() < COMPACT_HEIGHT)
            layers = column.view.proxy.rowCount()
            self._row.setStretch(place, 1 if beside else min(layers, 16))

    def sizeHint(self) -> QSize:
        """Room for the lanes one over the other."""
        return QSize(WIDTH_HINT, HEIGHT_HINT)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Side by side or stacked."""
        super().resizeEvent(event)
        self._arrange()

    # ---- what is shown ------------------------------------------------------------------------

    def _refresh_lanes(self) -> None:
        """Show the controller's machine, model and plan; a hidden panel does so when it is seen again."""
        if self.columns and not self.isVisible():
            self._stale = True
            return
        self._stale = False
        controller = self._controller
        facts, plan = controller.facts, controller.plan
        self._make_columns(lanes_of(controller.machine, plan))
        self.layers.show(facts, plan)
        self.layers.set_loaded(self._loaded_report(), self._loaded_plan())
        self._show_loads()
        self._arrange()
        nothing = self._why_nothing()
        self._empty.setText(nothing)
        self._empty.setVisible(bool(nothing))
        self.legend.setVisible(not nothing)
        self.pool_bar.setVisible(not nothing)
        self._show_cache()
        self._scroll.setVisible(not nothing and self.experts_page.isHidden())
        self._show_footer()

    def _why_nothing(self) -> str:
        facts = self._controller.facts
        if facts is None:
            return self.tr("Choose a model: its experts will be shown here, layer by layer.")
        if not facts.moe_layers:
            return self.tr("{name} is a dense model: it has no experts, so there is nothing to place in lanes.").format(
                name=facts.name
            )
        if self._controller.plan is None:
            return self.tr("{name} has no plan yet.").format(name=facts.name)
        return ""

    def _shown_is_loaded(self) -> bool:
        """False while nothing is loaded, or another model than the one chosen."""
        return self._controller.facts is not None and self._controller.loaded_facts is self._controller.facts

    def _loaded_plan(self) -> Plan | None:
        return self._controller.loaded_plan if self._shown_is_loaded() else None

    def _loaded_report(self) -> Loaded | None:
        return self._controller.loaded_report if self._shown_is_loaded() else None

    def _show_loads(self, over: LaneColumn | None = None, layers: tuple[int, ...] = ()) -> None:
        """The headers; with `over`, as they would be after a drop of `layers` there."""
        controller = self._controller
        plan = controller.plan
        if over is not None:
            try:
                plan = self.moves.planned(layers, over.info.key) or plan
            except AppError:
                # The drop itself says why it is refused; until then nothing changes.
                over = None
        for column in self.columns:
            load = lane_load(
                column.info.key,
                self._with_live_pool(plan),
                controller.facts,
                controller.machine,
                reported=self._loaded_report() if plan is self._loaded_plan() else None,
            )
            column.header.show_load(load, dragging=over is column)

    def _with_live_pool(self, plan: Plan | None) -> Plan | None:
        """`plan` as it would be loaded now: with the pool that was resized since."""
        controller = self._controller
        if plan is None or controller.facts is None or not self._shown_is_loaded():
            return plan
        return controller.cache.carried(controller.facts, controller.machine, plan)

    def _show_footer(self) -> None:
        controller = self._controller
        report = self._loaded_report()
        plan = controller.plan if not self._why_nothing() else None
        devices = [*(plan.gpus if plan else ()), CPU_LANE]
        loaded = self._loaded_plan()
        devices += [gpu for gpu in (loaded.gpus if loaded else ()) if gpu not in devices]
        self.footer.show_plan(
            plan,
            loaded,
            controller.state,
            name=controller.facts.name if controller.facts else "",
            devices=devices,
            shortage=" ".join(shortages(self._with_live_pool(plan), controller.machine).values()),
            loaded_differently=report.differences if report else (),
        )

    def _show_cache(self) -> None:
        """Heat, lanes and pins of single experts, and the pool, as the engine reported them last."""
        controller, shown = self._controller, self._shown_is_loaded()
        facts = controller.cache.facts if shown else None
        layers = facts.layers if facts else {}
        if layers is not self._heat_of:
            self._heat_of = layers
            self._heat = heat_map(layers)
            self._show_heat()
        open_layer = self.experts_page.layer
        if open_layer in layers:
            self.experts_page.refresh(layers[open_layer])
        else:
            self.experts_page.leave()
        pool = facts.pool if facts else None
        requested = pool.requested_bytes if pool else None
        if requested != self._pool_shown:
            self._pool_shown = requested
            self._show_loads()
            self._show_footer()
        room = pool_room(
            controller.loaded_facts if shown else None,
            self._loaded_plan(),
            self._loaded_report(),
            controller.machine,
            pool,
        )
        last = controller.cache.last_answer if shown else None
        self.pool_bar.show_pool(room, pool, last, resizing=controller.cache.resizing)

    def _show_heat(self) -> None:
        report, heat = self._loaded_report(), self._heat
        self.layers.set_heat(heat)
        if report is None:
            why = self.tr("Heat appears when a model is loaded and has answered.")
        elif not report.expert_device:
            why = self.tr("Routing is not counted: {reason}").format(reason=report.reason)
        else:
            why = self.tr("No routing counted yet: ask something and the experts light up.")
        self.legend.show_heat(heat, why)

    # ---- what happens -------------------------------------------------------------------------

    def _model_changed(self) -> None:
        self.notice.clear()
        self._refresh_lanes()

    def _state_changed(self, state: str) -> None:
        if state == LOADING:
            self.footer.set_progress(0.0)
        self._refresh_lanes()

    def _cache_changed(self) -> None:
        if self._active:
            self._show_cache()

    def open_experts(self, layer: int) -> None:
        """Show the experts of a layer one by one, or say why that cannot be."""
        facts = self._controller.cache.facts
        experts = facts.layers.get(layer) if facts and self._shown_is_loaded() else None
        if experts is None:
            self.notice.tell(AppError(ErrorCode.BAD_USAGE, why_no_experts(self._loaded_report(), layer)))
            return
        self.notice.clear()
        self._scroll.hide()
        self.experts_page.open(layer, experts)

    def _show_layers(self, layer: int) -> None:
        """Back from the experts: the layer they belong to has the keyboard."""
        self._scroll.setVisible(not self._why_nothing())
        for column in self.columns:
            if column.view.proxy.row_of(layer).isValid():
                column.view.select_layers((layer,))
                column.view.setFocus(Qt.FocusReason.OtherFocusReason)

    def _set_pool(self, size_bytes: int) -> None:
        self.notice.clear()
        self._controller.cache.set_pool(size_bytes)

    def _set_pins(self, layer: int, experts: tuple[int, ...], pin: str) -> None:
        self.notice.clear()
        self._controller.cache.set_pins(layer, experts, pin)

    def _only_selection(self, column: LaneColumn, selected: object) -> None:
        """Layers are selected in one lane at a time, so "the selected layers" is never in doubt."""
        if selected.isEmpty():
            return
        for other in self.columns:
            if other is not column:
                other.view.clearSelection()

    def _step(self, place: int, layers: tuple[int, ...], step: int) -> None:
        if 0 <= place + step < len(self.columns):
            self.moves.move(layers, self.columns[place + step].info.key)

    def _moved(self, layers: tuple[int, ...], lane: str) -> None:
        self.notice.clear()
        view = self.column(lane).view
        view.select_layers(layers)
        view.setFocus(Qt.FocusReason.OtherFocusReason)

    def _refused(self, error: AppError) -> None:
        self.notice.tell(error)

    def _apply(self) -> None:
        self.notice.clear()
        try:
            self._controller.load()
        except AppError as error:
            self.notice.tell(error)

    def showEvent(self, event: QShowEvent) -> None:
        """Catch up with what changed meanwhile."""
        super().showEvent(event)
        if self._stale:
            self._refresh_lanes()
