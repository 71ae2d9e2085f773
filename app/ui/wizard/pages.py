"""The wizard's four pages in a stack; all but the first are imported and made when they are first wanted."""

from functools import cached_property
from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QStackedWidget, QWidget

from app.ui.controller import Controller
from app.ui.theme import Theme
from app.ui.wizard.flow import View
from app.ui.wizard.model_page import ModelPage
from app.ui.wizard.widgets import Page

if TYPE_CHECKING:
    from app.ui.wizard.load_page import LoadPage
    from app.ui.wizard.machine_page import MachinePage
    from app.ui.wizard.plan_page import PlanPage


class Pages(QStackedWidget):
    """The pages and everything they ask for: the window must open before most of them are needed.

    Signals:
        chosen: A model file (Path).
        look_again: Another probe.
        wished: Another plan (Wishes).
        cancel_wanted: Stop the load.
        smaller_wanted: Load a smaller plan after a failure.
        again_wanted: Load the same plan once more.
        back_wanted: The page before.
    """

    chosen = Signal(object)
    look_again = Signal()
    wished = Signal(object)
    cancel_wanted = Signal()
    smaller_wanted = Signal()
    again_wanted = Signal()
    back_wanted = Signal()

    def __init__(self, controller: Controller, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._controller = controller
        self._theme = theme
        self.model = ModelPage(controller.background, theme, controller.models_folder)
        self.model.chosen.connect(self.chosen)
        self.addWidget(self.model)

    @cached_property
    def machine(self) -> "MachinePage":
        """Page 2."""
        from app.ui.wizard.machine_page import MachinePage  # noqa: PLC0415
        from app.ui.wizard.measure_card import MeasureCard  # noqa: PLC0415

        page = MachinePage(self._theme, MeasureCard(self._controller, self._theme))
        page.look_again.connect(self.look_again)
        self.addWidget(page)
        return page

    @cached_property
    def plan(self) -> "PlanPage":
        """Page 3."""
        from app.ui.wizard.plan_page import PlanPage  # noqa: PLC0415

        page = PlanPage(self._theme)
        page.wished.connect(self.wished)
        self.addWidget(page)
        return page

    @cached_property
    def load(self) -> "LoadPage":
        """Page 4."""
        from app.ui.wizard.load_page import LoadPage  # noqa: PLC0415

        page = LoadPage(self._theme)
        page.cancel_wanted.connect(self.cancel_wanted)
        page.end_wanted.connect(self._controller.end_engine)
        page.smaller_wanted.connect(self.smaller_wanted)
        page.again_wanted.connect(self.again_wanted)
        page.back_wanted.connect(self.back_wanted)
        self._controller.load_progress.connect(page.set_progress)
        self.addWidget(page)
        return page

    def page_of(self, view: View) -> Page:
        """The page that shows a view."""
        return {
            View.MODEL: lambda: self.model,
            View.MACHINE: lambda: self.machine,
            View.PLAN: lambda: self.plan,
            View.LOAD: lambda: self.load,
        }[view]()
