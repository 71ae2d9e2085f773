"""The wizard's frame: steps above, one page, Back and Next below; it keeps flow, pages and controller in step."""

import logging
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import (
    QDragEnterEvent,
    QDragLeaveEvent,
    QDropEvent,
    QFocusEvent,
    QHideEvent,
    QKeyEvent,
    QShowEvent,
)
from PySide6.QtWidgets import (
    QAbstractButton,
    QApplication,
    QHBoxLayout,
    QPushButton,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from app.engine.protocol import Loaded
from app.errors import EXIT_MODEL, AppError
from app.hardware.facts import Machine
from app.library.models import local_models
from app.model.facts import ModelFacts
from app.placement.plan import Plan
from app.placement.planner import Wishes
from app.ui.controller import EMPTY, READY, Controller
from app.ui.theme import GRID, Theme, set_kind
from app.ui.wizard.drop import DropHint, dropped_file
from app.ui.wizard.flow import Flow, LoadState, View
from app.ui.wizard.load_page import LoadPage
from app.ui.wizard.machine_page import MachinePage
from app.ui.wizard.model_page import ModelPage
from app.ui.wizard.steps import StepIndicator
from app.ui.wizard.widgets import Footer, Page, label
from app.ui.wizard.words import lack_text

if TYPE_CHECKING:
    from app.ui.wizard.plan_page import PlanPage

log = logging.getLogger(__name__)

BUTTON_WIDTH = 150


class Wizard(QWidget):
    """Model, machine, plan, load.

    The controller tells failures by one signal; the wizard answers those of what it began itself (reading
    a file, a probe, a load) and leaves the others to the page that began them.

    Signals:
        finished: The model is loaded and the user wants to chat.
    """

    finished = Signal()

    def __init__(
        self, controller: Controller, theme: Theme, parent: QWidget | None = None, *, last_model: str = ""
    ) -> None:
        """`last_model` is the file to choose at the first showing, empty for none."""
        super().__init__(parent)
        self._controller = controller
        self._theme = theme
        self._last_model = last_model
        self._probing = False
        self._smaller: Plan | None = None
        self.flow = Flow(controller.propose_plan)
        self.steps = StepIndicator(theme, self)
        self.model_page = ModelPage(controller.background, theme, controller.models_folder)
        self._stack = QStackedWidget(self)
        self._stack.addWidget(self.model_page)
        self.back_button = QPushButton(self.tr("&Back"), self)
        self.next_button = QPushButton(self)
        self._hint = label("", "muted")
        self._drop_hint = DropHint(theme, self)
        self.setAcceptDrops(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self._lay_out()
        self._connect()
        self._show_view()

    def _lay_out(self) -> None:
        set_kind(self.next_button, "primary")
        for button in (self.back_button, self.next_button):
            button.setMinimumWidth(BUTTON_WIDTH)
        self._hint.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        foot = Footer(self._theme, self)
        row = QHBoxLayout(foot.inner)
        row.setContentsMargins(4 * GRID, 2 * GRID, 4 * GRID, 2 * GRID)
        row.setSpacing(2 * GRID)
        row.addWidget(self.back_button)
        row.addWidget(self._hint, 1)
        row.addWidget(self.next_button)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 3 * GRID, 0, 0)
        column.setSpacing(0)
        column.addWidget(self.steps)
        column.addSpacing(2 * GRID)
        column.addWidget(self._stack, 1)
        column.addWidget(foot)

    def _connect(self) -> None:
        controller = self._controller
        controller.model_changed.connect(self._model_changed)
        controller.machine_changed.connect(self._machine_changed)
        controller.state_changed.connect(self._state_changed)
        controller.loaded.connect(self._loaded)
        controller.failed.connect(self._failed)
        self.back_button.clicked.connect(self.go_back)
        self.next_button.clicked.connect(self.go_on)
        self.model_page.chosen.connect(self.choose)

    # ---- pages, the later ones made when they are first wanted: the window must open at once -----

    @cached_property
    def machine_page(self) -> MachinePage:
        """Page 2."""
        page = MachinePage(self._theme)
        page.look_again.connect(self._probe)
        self._stack.addWidget(page)
        return page

    @cached_property
    def plan_page(self) -> "PlanPage":
        """Page 3."""
        from app.ui.wizard.plan_page import PlanPage  # noqa: PLC0415 - draws in more than a first window may take

        page = PlanPage(self._theme)
        page.wished.connect(self._wish)
        self._stack.addWidget(page)
        return page

    @cached_property
    def load_page(self) -> LoadPage:
        """Page 4."""
        page = LoadPage(self._theme)
        page.cancel_wanted.connect(self._cancel_load)
        page.smaller_wanted.connect(self._load_smaller)
        page.again_wanted.connect(self._load_again)
        page.back_wanted.connect(self.go_back)
        self._controller.load_progress.connect(page.set_progress)
        self._stack.addWidget(page)
        return page

    @property
    def page(self) -> Page:
        """The page shown."""
        return {
            View.MODEL: lambda: self.model_page,
            View.MACHINE: lambda: self.machine_page,
            View.PLAN: lambda: self.plan_page,
            View.LOAD: lambda: self.load_page,
        }[self.flow.view]()

    # ---- moving -------------------------------------------------------------------------------

    def go_on(self) -> None:
        """Enter the next page, or end the wizard when the model is loaded; nothing where that cannot be."""
        if self.flow.view is View.LOAD:
            if self.flow.load is LoadState.DONE:
                self.finished.emit()
            return
        if not self.flow.next():
            return
        if self.flow.view is View.LOAD:
            self._start_load()
        else:
            self._show_view()

    def go_back(self) -> None:
        """Return to the page before; a running load is cancelled, which leads back when it has ended."""
        if self.flow.load is LoadState.RUNNING:
            self._cancel_load()
        elif self.flow.back():
            self._show_view()

    def choose(self, path: Path) -> None:
        """Read a file that shall be the model; the first page shows what comes of it."""
        if not self.flow.restart():
            return
        self.flow.read_started()
        self.model_page.show_reading(path)
        self._show_view()
        self._controller.choose_model(path)

    def _show_view(self) -> None:
        """Show the view that the flow is in and give it the keyboard."""
        if self.flow.view is View.PLAN:
            self._show_plan()
        self._stack.setCurrentWidget(self.page)
        self.steps.show_view(self.flow.view)
        self._refresh_buttons()
        self._focus_page()

    def _show_plan(self) -> None:
        self.plan_page.show_choices(self.flow.choices, self._controller.loaded_facts)

    def _focus_page(self) -> None:
        if not self.isVisible():
            return
        first = self.page.first_focus()
        if first is not None and first.isEnabled() and not first.isHidden():
            first.setFocus()
        elif self.next_button.isEnabled():
            self.next_button.setFocus()
        else:
            self.page.setFocus()

    def _refresh_buttons(self) -> None:
        flow = self.flow
        self.next_button.setText(
            {
                View.PLAN: self.tr("&Load the model"),
                View.LOAD: self.tr("&Start chatting"),
            }.get(flow.view, self.tr("&Next"))
        )
        lack = flow.lack()
        self.next_button.setEnabled(lack is None)
        self.next_button.setAccessibleDescription(self.steps.accessibleName())
        self.back_button.setEnabled(flow.can_go_back() or flow.load is LoadState.RUNNING)
        self._hint.setText(lack_text(lack))
        focused = QApplication.focusWidget()
        if lack is None and focused in (None, self, self.page) and self.isVisible():
            self.next_button.setFocus()

    # ---- machine and model --------------------------------------------------------------------

    def _probe(self) -> None:
        self._probing = True
        self.machine_page.set_looking(True)
        self._controller.probe()

    def _machine_changed(self, machine: Machine) -> None:
        self._probing = False
        self.flow.accept_machine(machine)
        self.machine_page.show_machine(machine)
        self._show_changes()

    def _model_changed(self, facts: ModelFacts) -> None:
        self.flow.accept_model(facts)
        self.model_page.show_facts(facts)
        self._show_changes()
        if self.flow.view is View.MODEL:
            self._focus_page()

    def _wish(self, wishes: Wishes) -> None:
        self.flow.wish(wishes)
        self._show_changes()

    def _show_changes(self) -> None:
        if self.flow.view is View.PLAN:
            self._show_plan()
        self._refresh_buttons()

    # ---- load ---------------------------------------------------------------------------------

    def _start_load(self) -> None:
        controller, choices = self._controller, self.flow.choices
        assert choices.plan is not None, "the flow enters the load only with a plan"
        report = controller.loaded_report
        if controller.state == READY and report is not None and controller.loaded_plan == choices.plan:
            self._show_loaded(report)
            return
        self.flow.load_started()
        self.load_page.show_loading(choices.facts, choices.plan)
        self._show_view()
        controller.set_plan(choices.plan)
        controller.load()

    def _load_again(self) -> None:
        # Another look at the machine may have ended the plan meanwhile: its page says why.
        if self.flow.can_enter(View.LOAD):
            self._start_load()
        else:
            self.go_back()

    def _load_smaller(self) -> None:
        if self._smaller is not None:
            self.flow.take_smaller(self._smaller)
            self._start_load()

    def _cancel_load(self) -> None:
        self.load_page.show_cancelling()
        self._controller.cancel_load()

    def _loaded(self, report: Loaded) -> None:
        if self.flow.load is LoadState.RUNNING:
            self._show_loaded(report)

    def _show_loaded(self, report: Loaded) -> None:
        choices = self.flow.choices
        self.flow.load_done()
        self.load_page.show_loaded(choices.facts, choices.plan, report)
        self._show_view()

    def _state_changed(self, state: str) -> None:
        if state == EMPTY and self.flow.load is LoadState.RUNNING:
            self.flow.load_cancelled()
            self.load_page.end_cancelled()
            self._show_view()

    def _failed(self, error: AppError) -> None:
        if self.flow.reading and (error.exit_status == EXIT_MODEL or not self._probing):
            self.flow.read_failed()
            self.model_page.show_failure(error)
            self._refresh_buttons()
        elif self.flow.load is LoadState.RUNNING:
            self.flow.load_failed()
            self._smaller = self._find_smaller()
            self._refresh_buttons()
            self.load_page.show_failure(error, self._smaller)
        elif self._probing:
            self._probing = False
            self.machine_page.show_failure(error)
            self._refresh_buttons()

    def _find_smaller(self) -> Plan | None:
        try:
            return self._controller.smaller_plan()
        except AppError as error:
            log.warning("no smaller plan: %s", error.message)
            return None

    # ---- window events ------------------------------------------------------------------------

    def showEvent(self, event: QShowEvent) -> None:
        """Begin with the model, and have the machine and the models ready when they are wanted."""
        super().showEvent(event)
        if event.spontaneous():
            return
        if self.flow.view is View.LOAD:
            self.flow.restart()
        self._show_view()
        # After the first picture: the engine's start and the walk over the disk must not delay it.
        QTimer.singleShot(0, self, self._begin)

    def _begin(self) -> None:
        if self._controller.machine is None and not self._probing:
            self._probe()
        self._controller.background.run(local_models).success(self.model_page.show_models)
        last, self._last_model = self._last_model, ""
        if last and self.flow.choices.facts is None and not self.flow.reading:
            self.choose(Path(last))

    def hideEvent(self, event: QHideEvent) -> None:
        """A window that closes must not wait for the demo to be built."""
        super().hideEvent(event)
        if not event.spontaneous() and not self.window().isVisible():
            self.model_page.demo.cancel()

    def focusInEvent(self, event: QFocusEvent) -> None:
        """Hand the keyboard to what the page wants first."""
        super().focusInEvent(event)
        self._focus_page()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Enter presses the focused button, else goes on; Escape goes back."""
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            focused = QApplication.focusWidget()
            if isinstance(focused, QAbstractButton) and self.isAncestorOf(focused):
                focused.click()
            else:
                self.go_on()
        elif event.key() == Qt.Key.Key_Escape:
            self.go_back()
        else:
            super().keyPressEvent(event)

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        """Take one file, unless a load runs."""
        if dropped_file(event.mimeData()) is not None and self.flow.load is not LoadState.RUNNING:
            event.acceptProposedAction()
            self._drop_hint.cover()

    def dragLeaveEvent(self, event: QDragLeaveEvent) -> None:
        """The file is gone again."""
        self._drop_hint.hide()

    def dropEvent(self, event: QDropEvent) -> None:
        """Choose the dropped file."""
        self._drop_hint.hide()
        path = dropped_file(event.mimeData())
        if path is not None:
            event.acceptProposedAction()
            self.choose(path)
