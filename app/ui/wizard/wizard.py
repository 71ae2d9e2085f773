"""The wizard's frame: steps above, one page, Back and Next below; it keeps flow, pages and controller in step."""

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QFocusEvent, QHideEvent, QKeyEvent, QShowEvent
from PySide6.QtWidgets import QAbstractButton, QApplication, QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from app.engine.protocol import Loaded
from app.errors import EXIT_ENGINE, EXIT_MODEL, AppError
from app.hardware.facts import Machine
from app.library.models import local_models
from app.model.facts import ModelFacts
from app.placement.plan import Plan
from app.placement.planner import Wishes
from app.ui.controller import EMPTY, FAILED, READY, Controller
from app.ui.theme import GRID, Theme, set_kind
from app.ui.wizard.drop import DropHint
from app.ui.wizard.flow import Flow, LoadState, View
from app.ui.wizard.pages import Pages
from app.ui.wizard.plan_check import PlanCheck
from app.ui.wizard.plan_evidence import PlanEvidence
from app.ui.wizard.steps import StepIndicator
from app.ui.wizard.widgets import Footer, Page, label
from app.ui.wizard.words import lack_text

if TYPE_CHECKING:
    from app.ui.wizard.load_page import LoadPage
    from app.ui.wizard.machine_page import MachinePage
    from app.ui.wizard.model_page import ModelPage
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
        self._check = PlanCheck(controller, self)
        self._evidence = PlanEvidence(controller.background, self.flow, self)
        self.steps = StepIndicator(theme, self)
        self._stack = Pages(controller, theme, self)
        self.back_button = QPushButton(self.tr("&Back"), self)
        self.next_button = QPushButton(self)
        self._hint = label("", "muted")
        self._drop_hint = DropHint(theme, self, lambda: self.flow.load is not LoadState.RUNNING)
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
        self._check.checked.connect(self._plan_checked)
        self._evidence.changed.connect(self._show_changes)
        self.back_button.clicked.connect(self.go_back)
        self.next_button.clicked.connect(self.go_on)
        self._drop_hint.dropped.connect(self.choose)
        pages = self._stack
        pages.chosen.connect(self.choose)
        pages.look_again.connect(self._probe)
        pages.wished.connect(self._wish)
        pages.cancel_wanted.connect(self._cancel_load)
        pages.smaller_wanted.connect(self._load_smaller)
        pages.again_wanted.connect(self._load_again)
        pages.back_wanted.connect(self.go_back)

    # ---- pages ----------------------------------------------------------------------------------

    @property
    def model_page(self) -> "ModelPage":
        """Page 1."""
        return self._stack.model

    @property
    def machine_page(self) -> "MachinePage":
        """Page 2."""
        return self._stack.machine

    @property
    def plan_page(self) -> "PlanPage":
        """Page 3."""
        return self._stack.plan

    @property
    def load_page(self) -> "LoadPage":
        """Page 4."""
        return self._stack.load

    @property
    def page(self) -> Page:
        """The page shown."""
        return self._stack.page_of(self.flow.view)

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
            self._probe_anew()

    def go_back(self) -> None:
        """Return to the page before; a running load is cancelled, which leads back when it has ended."""
        if self.flow.load is LoadState.RUNNING:
            self._cancel_load()
        elif self.flow.back():
            self._show_view()
            self._probe_anew()

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
            self._evidence.look()
        self._stack.setCurrentWidget(self.page)
        self.steps.show_view(self.flow.view)
        self._refresh_buttons()
        self._focus_page()

    def _show_plan(self) -> None:
        self.plan_page.show_choices(self.flow.choices, self._controller.loaded_facts)
        self._check.begin(self.flow.choices)

    def _plan_checked(self, before: Plan, plan: Plan) -> None:
        if self.flow.accept_checked(before, plan):
            self._show_changes()

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

    def _probe_anew(self) -> None:
        """Measure again for the pages that show free memory; the figures before stay until that is done.

        Not while a model is loaded: a load frees its memory first, which a probe would count as in use.
        """
        shows_memory = self.flow.view in (View.MACHINE, View.PLAN)
        if shows_memory and not self._probing and self._controller.loaded_report is None:
            self._probe()

    def _machine_changed(self, machine: Machine) -> None:
        self._probing = False
        self.flow.accept_machine(machine)
        self._evidence.look()
        loaded = self._controller.loaded_facts
        self.machine_page.show_machine(machine, loaded.name if loaded else "")
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
        loaded = controller.loaded_plan
        if controller.state == READY and report is not None and loaded and choices.plan.loads_like(loaded):
            controller.return_to_loaded()  # the same file read again has no plan yet
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
        self.load_page.show_loaded(choices.facts, choices.machine, choices.plan, report)
        self._show_view()

    def _state_changed(self, state: str) -> None:
        if state == EMPTY and self.flow.load is LoadState.RUNNING:
            self.flow.load_cancelled()
            self.load_page.end_cancelled()
            self._show_view()

    def _failed(self, error: AppError) -> None:
        of_engine = error.exit_status == EXIT_ENGINE
        if self.flow.reading and not of_engine and (error.exit_status == EXIT_MODEL or not self._probing):
            self.flow.read_failed()
            self.model_page.show_failure(error)
            self._refresh_buttons()
        elif self._controller.state == FAILED and self.flow.load is LoadState.RUNNING:
            self._load_failed(error)
        elif self._controller.state == FAILED and self.flow.load is LoadState.DONE:
            self._lost(error)
        elif self._probing:
            self._probing = False
            self.machine_page.show_failure(error)
            self._refresh_buttons()

    def _load_failed(self, error: AppError) -> None:
        self.flow.load_failed()
        self._smaller = self._find_smaller()
        self._refresh_buttons()
        self.load_page.show_failure(error, self._smaller)

    def _lost(self, error: AppError) -> None:
        """The engine died with the model that was loaded here."""
        if self.flow.view is View.LOAD:
            self._load_failed(error)
            return
        self.flow.load_failed()
        self._refresh_buttons()
        if self.isVisible():  # else the chat tells it
            self.page.banner.tell(error)
            self.page.ensureWidgetVisible(self.page.banner)

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
        """Drop what is under way: nothing may change the model behind the chat, or delay the end of the window."""
        super().hideEvent(event)
        if event.spontaneous():
            return
        self.model_page.demo.cancel()
        if self.flow.reading:
            self.flow.read_failed()
            self.model_page.end_reading()
            self._controller.drop_choice()

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
