"""The line above the graphs: how much time they show, which are shown, pause, and export."""

from collections.abc import Iterable

from PySide6.QtCore import Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QComboBox, QMenu, QPushButton, QWidget

from app.ui.graphs.scale import span_words
from app.ui.graphs.specs import GROUPS, group_titles
from app.ui.graphs.time_window import TimeWindow
from app.ui.lanes.flow_layout import FlowLayout
from app.ui.theme import set_kind

SPANS_SECONDS = (60, 300, 600, 1800, 3600)


class Toolbar(QWidget):
    """Controls of the graphs.

    Signals:
        groups_chosen: The groups of graphs that are to be shown (a frozenset).
        pause_wanted: Hold the picture, or (False) let it go.
        csv_wanted, png_wanted: Export.
    """

    groups_chosen = Signal(object)
    pause_wanted = Signal(bool)
    csv_wanted = Signal()
    png_wanted = Signal()

    def __init__(self, window: TimeWindow, groups: Iterable[str], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._window = window
        shown = frozenset(groups)
        self.span_box = QComboBox(self)
        for seconds in SPANS_SECONDS:
            self.span_box.addItem(span_words(seconds), seconds)
        self.span_box.setAccessibleName(self.tr("Time shown"))
        self.span_box.setToolTip(
            self.tr(
                "Over a graph: the wheel zooms (with Ctrl where graphs scroll), dragging moves the time, a double click"
                " follows it again. With the keyboard: + and −, ← and →, Shift with ← and → for the values of a moment,"
                " Space to pause, Home and End."
            )
        )
        self.span_box.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        self.span_box.activated.connect(self._span_chosen)
        self.show_button = self._menu_button(
            self.tr("Show"), self.tr("Which graphs are shown; hidden ones cost nothing.")
        )
        self.actions_of: dict[str, QAction] = {}
        for group, title in group_titles().items():
            action = QAction(title, self)
            action.setCheckable(True)
            action.setChecked(group in shown)
            action.toggled.connect(self._chosen)
            self.actions_of[group] = action
        self.all_action = QAction(self.tr("Show all"), self)
        self.all_action.triggered.connect(self._show_all)
        menu = self.show_button.menu()
        menu.setToolTipsVisible(True)
        menu.addActions(list(self.actions_of.values()))
        menu.addSeparator()
        menu.addAction(self.all_action)
        self.export_button = self._menu_button(
            self.tr("Export"), self.tr("Save the last hour, or the graphs as shown.")
        )
        self.csv_action = QAction(self.tr("Last hour as a table (CSV)…"), self)
        self.csv_action.triggered.connect(self.csv_wanted)
        self.png_action = QAction(self.tr("Graphs as a picture (PNG)…"), self)
        self.png_action.triggered.connect(self.png_wanted)
        self.export_button.menu().addActions([self.csv_action, self.png_action])
        self.pause_button = QPushButton(self.tr("Pause"), self)
        set_kind(self.pause_button, "quiet")
        self.pause_button.setCheckable(True)
        self.pause_button.setToolTip(self.tr("Hold the picture still; measuring goes on. (Space)"))
        self.pause_button.clicked.connect(self.pause_wanted)
        row = FlowLayout(self)
        row.addWidget(self.span_box)
        row.addWidget(self.show_button)
        row.addWidget(self.export_button)
        row.addWidget(self.pause_button)
        window.changed.connect(self._show_window)
        self._show_window()

    @property
    def groups(self) -> frozenset[str]:
        """Groups that are to be shown."""
        return frozenset(group for group in GROUPS if self.actions_of[group].isChecked())

    def tell_missing(self, reasons: dict[str, str]) -> None:
        """Say in the menu which groups cannot be measured, and why."""
        titles = group_titles()
        for group, action in self.actions_of.items():
            why = reasons.get(group, "")
            words = self.tr("{title} (not measured)").format(title=titles[group]) if why else titles[group]
            if action.text() != words:
                action.setText(words)
            action.setToolTip(why or titles[group])

    def _menu_button(self, text: str, help_text: str) -> QPushButton:
        button = QPushButton(text, self)
        set_kind(button, "quiet")
        button.setToolTip(help_text)
        button.setAccessibleName(text)
        button.setMenu(QMenu(button))
        return button

    def _span_chosen(self, index: int) -> None:
        self._window.set_span(self.span_box.itemData(index))

    def _chosen(self) -> None:
        self.groups_chosen.emit(self.groups)

    def _show_all(self) -> None:
        for action in self.actions_of.values():
            action.setChecked(True)

    def _show_window(self) -> None:
        span = self._window.span
        place = self.span_box.findData(round(span)) if span == round(span) else -1
        self.span_box.setCurrentIndex(place)
        self.span_box.setPlaceholderText(span_words(span))
        held = self._window.held
        self.pause_button.setChecked(held)
        self.pause_button.setText(self.tr("Live") if held else self.tr("Pause"))
