"""The contents of the tuning dock: a page behind each tab, made when it is first seen."""

from collections.abc import Callable
from typing import Protocol

from PySide6.QtCore import QSize
from PySide6.QtWidgets import QTabWidget, QVBoxLayout, QWidget

from app.ui.controller import Controller
from app.ui.lazy_dock import DockContent
from app.ui.orders import Orders
from app.ui.theme import Theme
from app.ui.tuning.evidence import TuningEvidence

WIDTH_HINT, HEIGHT_HINT = 420, 480


class Page(Protocol):
    """What a tab shows: a widget that rests while it is not seen."""

    def set_active(self, active: bool) -> None:
        """It came into sight or went out of it."""

    def shutdown(self) -> None:
        """The window goes."""


class TuningPanel(DockContent):
    """One page is active at a time, and only while the dock is seen."""

    def __init__(self, controller: Controller, orders: Orders, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._controller = controller
        self._orders = orders
        self._theme = theme
        self._active = False
        self._seen: Page | None = None
        self.evidence = TuningEvidence(controller, self)
        self._pages: dict[int, Page] = {}
        self._makers: list[Callable[[], QWidget]] = []
        self.tabs = QTabWidget(self)
        self.tabs.setDocumentMode(True)
        self.tabs.setAccessibleName(self.tr("Tuning"))
        self.tabs.tabBar().setAccessibleName(self.tr("Pages of the tuning dock"))
        for name, make in (
            (self.tr("Curve"), self._make_curve),
            (self.tr("Knobs"), self._make_knobs),
            (self.tr("Auto-tune"), self._make_auto_tune),
        ):
            place = QWidget(self.tabs)
            column = QVBoxLayout(place)
            column.setContentsMargins(0, 0, 0, 0)
            self._makers.append(make)
            self.tabs.addTab(place, name)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(self.tabs)
        self.setAccessibleName(self.tr("Tuning"))
        self.tabs.currentChanged.connect(self._update)

    def page(self, place: int) -> Page | None:
        """The page behind a tab; None until it was seen."""
        return self._pages.get(place)

    def set_active(self, active: bool) -> None:
        """Have the page in front follow; the others rest."""
        self._active = active
        self.evidence.set_active(active)
        self._update()

    def shutdown(self) -> None:
        """End what still runs."""
        self.evidence.set_active(False)
        for page in self._pages.values():
            page.shutdown()

    def sizeHint(self) -> QSize:
        """Room for a page of controls."""
        return QSize(WIDTH_HINT, HEIGHT_HINT)

    def _update(self) -> None:
        page = self._made(self.tabs.currentIndex()) if self._active else None
        if page is self._seen:
            return
        if self._seen is not None:
            self._seen.set_active(False)
        self._seen = page
        if page is not None:
            page.set_active(True)

    def _made(self, place: int) -> Page:
        if place not in self._pages:
            made = self._makers[place]()
            self.tabs.widget(place).layout().addWidget(made)
            self._pages[place] = made
        return self._pages[place]

    def _make_curve(self) -> QWidget:
        from app.ui.tuning.curve_page import CurvePage  # noqa: PLC0415 - each page when it is first seen

        return CurvePage(self._controller, self._orders, self.evidence, self._theme)

    def _make_knobs(self) -> QWidget:
        from app.ui.tuning.knobs_page import KnobsPage  # noqa: PLC0415 - as said

        return KnobsPage(self._controller, self._orders, self.evidence, self._theme)

    def _make_auto_tune(self) -> QWidget:
        from app.ui.tuning.autotune_page import AutoTunePage  # noqa: PLC0415 - as said

        return AutoTunePage(self._controller, self._orders, self.evidence, self._theme)
