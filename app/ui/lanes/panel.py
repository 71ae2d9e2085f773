"""The contents of the lanes dock: tools, legend, refusals, the lanes with every expert in them, footer."""

from PySide6.QtCore import QPoint, QSize, Qt
from PySide6.QtGui import QAction, QKeySequence, QResizeEvent, QShowEvent
from PySide6.QtWidgets import QLabel, QVBoxLayout, QWidget

from app.errors import AppError, ErrorCode
from app.placement.plan import CPU_LANE
from app.ui.announce import say
from app.ui.controller import LOADING, Controller
from app.ui.lanes.board import Change
from app.ui.lanes.board_state import BoardState
from app.ui.lanes.cache_words import why_no_experts
from app.ui.lanes.experts_page import ExpertsPage
from app.ui.lanes.footer import ChangesFooter
from app.ui.lanes.lane_view import LaneView
from app.ui.lanes.lanes_area import LanesArea
from app.ui.lanes.legend import HeatLegend
from app.ui.lanes.loads import shortages
from app.ui.lanes.menu import lanes_menu
from app.ui.lanes.notice import Notice
from app.ui.lanes.profiles_menu import ProfilesMenu
from app.ui.lanes.toolbar import LanesToolbar
from app.ui.lazy_dock import DockContent
from app.ui.orders import Done, Orders, Refusal
from app.ui.theme import GRID, Theme, set_role

WIDTH_HINT, HEIGHT_HINT = 420, 480
COMPACT_WIDTH, COMPACT_HEIGHT = 600, 640
"""Pixels: with less width the tools have shorter names, with less height the legend is in its tooltip."""


class LanesPanel(DockContent):
    """Every lane of the machine over the plan being edited, with every expert in the lane that computes it."""

    def __init__(
        self, controller: Controller, theme: Theme, orders: Orders | None = None, parent: QWidget | None = None
    ) -> None:
        """`orders` is the history shared with the rest of the window; without it the panel has one of its own."""
        super().__init__(parent)
        self._controller = controller
        self._stale = False
        self.orders = orders or Orders(controller, self)
        self.state = BoardState(controller, self)
        self.profiles = ProfilesMenu(controller, self.orders, self)
        self.toolbar = LanesToolbar(self.orders.stack, self.profiles, self, history_keys=orders is None)
        self.notice = Notice(self)
        self.legend = HeatLegend(theme, self)
        self.lanes = LanesArea(controller, self.state, self.orders, theme, self)
        self.experts_page = ExpertsPage(self)
        self.footer = ChangesFooter(self)
        self._empty = QLabel(self)
        self._empty.setWordWrap(True)
        self._empty.setAlignment(Qt.AlignmentFlag.AlignCenter)
        set_role(self._empty, "muted")
        self.table_action = QAction(self.tr("Show this layer as a table"), self)
        self.table_action.setShortcuts([QKeySequence(Qt.Key.Key_Return), QKeySequence(Qt.Key.Key_Enter)])
        self.table_action.setShortcutContext(Qt.ShortcutContext.WidgetShortcut)
        self.table_action.triggered.connect(lambda: self.open_experts(self.lanes.layer_of_now()))
        self._lay_out()
        self._connect()
        self.state.refresh()
        self._refresh()

    def set_active(self, active: bool) -> None:
        """Follow the controller only while the dock is seen."""
        self.state.set_active(active)
        if active:
            self._refresh()

    # ---- layout -------------------------------------------------------------------------------

    def _lay_out(self) -> None:
        self.lanes.add_view_action(self.table_action)
        column = QVBoxLayout(self)
        column.setContentsMargins(GRID, GRID, GRID, GRID)
        column.setSpacing(GRID)
        for widget in (self.toolbar, self.legend, self.notice):
            column.addWidget(widget)
        for widget in (self._empty, self.lanes, self.experts_page):
            column.addWidget(widget, 1)
        column.addWidget(self.footer)
        self.footer.set_focus_after(self.lanes)
        for action in self.toolbar.actions_of_panel:
            action.setShortcutContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
            self.addAction(action)
        self.setAccessibleName(self.tr("Expert lanes"))

    def _connect(self) -> None:
        controller = self._controller
        controller.model_changed.connect(self._model_changed)
        controller.plan_changed.connect(self._refresh)
        controller.machine_changed.connect(self._refresh)
        controller.state_changed.connect(self._state_changed)
        controller.load_progress.connect(self.footer.set_progress)
        controller.loaded.connect(self._refresh)
        controller.cache.changed.connect(self._cache_changed)
        self.state.lanes_changed.connect(self._order_tabs)
        self.state.changed.connect(self._board_changed)
        self.lanes.menu_wanted.connect(self._open_menu)
        self.lanes.pin_wanted.connect(self._pin)
        self.lanes.zoom_changed.connect(self.toolbar.set_zoom)
        self.state.selection.changed.connect(self._selection_changed)
        self.orders.moved.connect(self._done)
        self.orders.refused.connect(self.notice.tell)
        self.profiles.told.connect(self.notice.tell)
        self.notice.left.connect(self.lanes.take_keyboard)
        self.experts_page.pins_wanted.connect(lambda layer, experts, pin: self.orders.pin({layer: experts}, pin))
        self.experts_page.closed.connect(self._show_lanes)
        self.toolbar.search_wanted.connect(self.search)
        self.toolbar.hottest_wanted.connect(self.select_hottest)
        self.toolbar.pin_wanted.connect(self._pin)
        self.toolbar.zoom_wanted.connect(self.lanes.set_zoom)
        self.footer.apply_wanted.connect(self._apply)
        self.footer.discard_wanted.connect(self.orders.discard)
        self.footer.cancel_wanted.connect(controller.cancel_load)
        self.footer.end_wanted.connect(controller.end_engine)

    def _order_tabs(self) -> None:
        """Lanes are made after what stands below them: the keyboard goes through all from top to bottom."""
        before: QWidget = self.notice.close_button
        for widget in self.lanes.controls():
            self.setTabOrder(before, widget)
            before = widget

    def sizeHint(self) -> QSize:
        """Room for the lanes one over the other."""
        return QSize(WIDTH_HINT, HEIGHT_HINT)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Side by side or stacked."""
        super().resizeEvent(event)
        self.lanes.arrange(self.width() - 2 * GRID, self.height())
        self.toolbar.set_compact(self.width() < COMPACT_WIDTH)
        self.legend.set_compact(self.height() < COMPACT_HEIGHT)

    # ---- what is shown ------------------------------------------------------------------------

    def _refresh(self, *_changed: object) -> None:
        """Show the controller's machine, model and plan; a hidden panel does so when it is seen again."""
        if self.lanes.boxes and not self.isVisible():
            self._stale = True
            return
        self._stale = False
        self.lanes.make_boxes()
        nothing = self._why_nothing()
        self._empty.setText(nothing)
        self._empty.setVisible(bool(nothing))
        self.toolbar.setVisible(not nothing)
        self.legend.setVisible(not nothing)
        if nothing:
            self.experts_page.leave()
        self.lanes.setVisible(not nothing and self.experts_page.isHidden())
        self.lanes.show_loads()
        self.lanes.show_pool()
        self.lanes.show_cells()
        self._show_legend()
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

    def _show_legend(self) -> None:
        board, report = self.state.board, self.state.loaded_report
        if report is None:
            why = self.tr("Heat appears when a model is loaded and has answered.")
        elif not report.expert_device:
            why = self.tr("Routing is not counted: {reason}").format(reason=report.reason)
        else:
            why = self.tr("No routing counted yet: ask something and the experts light up.")
        self.legend.show_heat(board.hottest_share, board.even_share, why)

    def _show_footer(self) -> None:
        controller, loaded = self._controller, self.state.loaded_plan
        report = self.state.loaded_report
        plan = controller.plan if not self._why_nothing() else None
        devices = [*(plan.gpus if plan else ()), CPU_LANE]
        devices += [gpu for gpu in (loaded.gpus if loaded else ()) if gpu not in devices]
        self.footer.show_plan(
            plan,
            loaded,
            controller.state,
            name=controller.facts.name if controller.facts else "",
            devices=devices,
            shortage=" ".join(shortages(plan, controller.machine).values()),
            loaded_differently=report.differences if report else (),
            reload_seconds=report.seconds if report else None,
        )

    # ---- what happens -------------------------------------------------------------------------

    def _model_changed(self) -> None:
        self.notice.clear()
        self.lanes.give_up_sizes()
        self._refresh()

    def _state_changed(self, state: str) -> None:
        if state == LOADING:
            self.footer.set_progress(0.0)
        self._refresh()

    def _cache_changed(self) -> None:
        if not self.isVisible():
            self._stale = True
            return
        self.lanes.show_pool()
        facts = self._controller.cache.facts if self.state.shown_is_loaded else None
        layer = self.experts_page.layer
        if facts is not None and layer in facts.layers:
            self.experts_page.refresh(facts.layers[layer])
        else:
            self.experts_page.leave()

    def _board_changed(self, change: Change) -> None:
        self.lanes.fly(change)
        self._show_legend()

    def _selection_changed(self) -> None:
        self.toolbar.set_selected(self.state.selection.count)

    def _done(self, done: Done) -> None:
        self.notice.clear()
        say(self, self.tr("Done: {what}").format(what=done.text))

    def showEvent(self, event: QShowEvent) -> None:
        """Catch up with what changed meanwhile."""
        super().showEvent(event)
        if self._stale:
            self.state.refresh()
            self._refresh()

    # ---- what the user does -------------------------------------------------------------------

    def search(self, text: str) -> None:
        """Jump to what a text names, and select it; a refusal says what was not understood."""
        try:
            layer, expert = self.state.selection.search(text)
        except AppError as error:
            self.notice.tell(error)
            return
        self.notice.clear()
        self.experts_page.leave()
        board = self.state.board
        experts = range(board.experts) if expert is None else (expert,)
        self.state.selection.set(board.mask({layer: experts}))
        self.lanes.go_to(layer, expert or 0)

    def select_hottest(self, percent: float, everywhere: bool) -> None:
        """Select the hottest experts of all layers, or of the one that the cursor or the selection is in."""
        layer = None if everywhere else self.lanes.layer_of_now()
        if layer is None and not everywhere:
            self.notice.tell(Refusal(self.tr("Choose an expert of the layer first, or search it.")))
            return
        try:
            self.state.selection.hottest(percent, layer)
        except AppError as error:
            self.notice.tell(error)
            return
        self.notice.clear()
        say(self, self.state.selection.spoken())

    def open_experts(self, layer: int | None) -> None:
        """Show the experts of a layer in a table, or say why that cannot be."""
        if layer is None:
            self.notice.tell(Refusal(self.tr("Choose an expert of the layer first, or search it.")))
            return
        facts = self._controller.cache.facts
        experts = facts.layers.get(layer) if facts and self.state.shown_is_loaded else None
        if experts is None:
            self.notice.tell(AppError(ErrorCode.BAD_USAGE, why_no_experts(self.state.loaded_report, layer)))
            return
        self.notice.clear()
        self.lanes.hide()
        self.experts_page.open(layer, experts)

    def _show_lanes(self, layer: int) -> None:
        """Back from the table: the keyboard is at the layer it showed."""
        self.lanes.setVisible(not self._why_nothing())
        if layer in self.state.board.layers:
            self.lanes.go_to(layer, 0)

    def _pin(self, pin: str) -> None:
        self.orders.pin(self.state.selection.cells(), pin)

    def _open_menu(self, point: QPoint, view: LaneView) -> None:
        menu = lanes_menu(self, view)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.popup(point)

    def _apply(self) -> None:
        self.notice.clear()
        try:
            self._controller.load()
        except AppError as error:
            self.notice.tell(error)
