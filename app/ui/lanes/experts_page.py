"""The page of one layer's experts: the table, and the orders "Keep on GPU", "Keep on CPU", "Automatic"."""

from PySide6.QtCore import QItemSelectionModel, QPoint, Qt, Signal
from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHBoxLayout,
    QHeaderView,
    QLabel,
    QMenu,
    QPushButton,
    QTableView,
    QVBoxLayout,
    QWidget,
)

from app.placement.cache.facts import LayerExperts
from app.ui.announce import announce
from app.ui.lanes.cache_words import PINS, pin_word, residency_text
from app.ui.lanes.experts_model import EXPERT_INDEX, Column, ExpertsModel, SortedExperts
from app.ui.theme import GRID, set_kind, set_role
from app.ui.words import number

ROW_PADDING = 6
CELL_PADDING = 11
SORT_MARK = 10
"""Pixels of the arrow beside the title of the column that is sorted by."""


class ExpertsPage(QWidget):
    """Every expert of one layer; orders go out at once and are shown when the engine reports them.

    Signals:
        pins_wanted: Give experts an order (layer, tuple of experts, "gpu", "cpu" or "auto").
        closed: Back to the layers (the layer that was shown).
    """

    pins_wanted = Signal(int, tuple, str)
    closed = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._pins = ""
        self.experts = ExpertsModel(self)
        self.proxy = SortedExperts(self.experts, self)
        self.back_button = QPushButton(self.tr("← Layers"), self)
        self.back_button.setAccessibleName(self.tr("Back to the layers"))
        self.back_button.setToolTip(self.tr("Back to the layers (Esc)"))
        set_kind(self.back_button, "quiet")
        self.back_button.clicked.connect(self.leave)
        self._title = QLabel(self)
        set_role(self._title, "heading")
        self._summary = QLabel(self)
        self._summary.setWordWrap(True)
        set_role(self._summary, "small")
        self.table = self._make_table()
        self._selected = QLabel(self)
        set_role(self._selected, "small")
        self.actions_of_pins = self._make_actions()
        self.buttons = {pin: self._make_button(action) for pin, action in self.actions_of_pins.items()}
        top = QHBoxLayout()
        top.setSpacing(GRID)
        top.addWidget(self.back_button)
        top.addWidget(self._title, 1)
        orders = QHBoxLayout()
        orders.setSpacing(GRID)
        for button in self.buttons.values():
            orders.addWidget(button)
        orders.addStretch(1)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(GRID)
        column.addLayout(top)
        column.addWidget(self._summary)
        column.addWidget(self.table, 1)
        column.addWidget(self._selected)
        column.addLayout(orders)
        leave = QAction(self)
        leave.setShortcut(QKeySequence(Qt.Key.Key_Escape))
        leave.setShortcutContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
        leave.triggered.connect(self.leave)
        self.addAction(leave)
        self.table.selectionModel().selectionChanged.connect(self._selection_changed)
        self._selection_changed()
        self.hide()

    @property
    def layer(self) -> int | None:
        """The layer shown, or None."""
        return self.experts.layer

    @property
    def text(self) -> str:
        """Title and totals."""
        return f"{self._title.text()}. {self._summary.text()}"

    def open(self, layer: int, experts: LayerExperts) -> None:
        """Show a layer, the most routed experts first, with the keyboard in the table."""
        self._title.setText(self.tr("Experts of layer {layer}").format(layer=number(layer)))
        self.table.setAccessibleName(self._title.text())
        self._pins = experts.pins
        self.refresh(experts, layer)
        self._fit_columns()
        self.table.sortByColumn(Column.ROUTED, Qt.SortOrder.DescendingOrder)
        self.show()
        self.table.setFocus(Qt.FocusReason.OtherFocusReason)
        # Nothing is selected yet, but an arrow key has a place to start from.
        self.table.selectionModel().setCurrentIndex(self.proxy.index(0, 0), QItemSelectionModel.SelectionFlag.NoUpdate)
        self.table.scrollToTop()

    def refresh(self, experts: LayerExperts, layer: int | None = None) -> None:
        """The engine reported again; rows, selection and scroll position stay."""
        if self.experts.show(self.layer if layer is None else layer, experts):
            header = self.table.horizontalHeader()
            self.proxy.sort(header.sortIndicatorSection(), header.sortIndicatorOrder())
        self._summary.setText(residency_text(experts) or self.tr("There is no pool: the CPU computes all of them."))
        if experts.pins != self._pins:
            self._pins = experts.pins
            announce(self._summary)

    def leave(self) -> None:
        """Back to the layers."""
        layer = self.layer
        if self.isHidden() or layer is None:
            return
        self.hide()
        self.experts.show(None, None)
        self.closed.emit(layer)

    def selected_experts(self) -> tuple[int, ...]:
        """The selected experts in order."""
        return tuple(sorted(index.data(EXPERT_INDEX) for index in self.table.selectionModel().selectedRows()))

    def context_menu(self) -> QMenu:
        """The orders."""
        menu = QMenu(self)
        menu.addActions(list(self.actions_of_pins.values()))
        return menu

    # ---- making -------------------------------------------------------------------------------

    def _make_table(self) -> QTableView:
        table = QTableView(self)
        table.setModel(self.proxy)
        table.setSortingEnabled(True)
        table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        table.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        table.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        table.setTabKeyNavigation(False)  # Tab goes on to the buttons
        table.setShowGrid(False)
        table.setAlternatingRowColors(True)
        table.setWordWrap(False)
        table.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        table.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        table.verticalHeader().hide()
        table.verticalHeader().setDefaultSectionSize(table.fontMetrics().height() + ROW_PADDING)
        header = table.horizontalHeader()
        header.setHighlightSections(False)
        header.setSectionResizeMode(Column.LANE, QHeaderView.ResizeMode.Stretch)
        keys = self.tr(
            "Arrows choose an expert, Shift and Ctrl select more than one, Ctrl+A selects all. G keeps the selected "
            "ones on the GPU, C on the CPU, A leaves them to the policy. Esc goes back to the layers."
        )
        table.setAccessibleDescription(keys)
        table.setWhatsThis(keys)
        table.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        table.customContextMenuRequested.connect(self._open_menu)
        return table

    def _fit_columns(self) -> None:
        """As wide as their longest words, whatever is in them now: columns do not move while counts grow."""
        metrics = self.table.fontMetrics()
        longest = {
            Column.EXPERT: ("888",),
            Column.ROUTED: (number(88888),),
            Column.HEAT: (number(888, 1),),
            Column.PIN: tuple(pin_word(letter) for letter in PINS),
        }
        for column, cells in longest.items():
            title = self.experts.headerData(column, Qt.Orientation.Horizontal)
            width = max(metrics.horizontalAdvance(title) + SORT_MARK, *map(metrics.horizontalAdvance, cells))
            self.table.horizontalHeader().resizeSection(column, width + CELL_PADDING)

    def _make_actions(self) -> dict[str, QAction]:
        made = {}
        for pin, text, key, tip in (
            ("gpu", self.tr("Keep on GPU"), "G", self.tr("Copied into the pool and never replaced there (G).")),
            ("cpu", self.tr("Keep on CPU"), "C", self.tr("Never takes a slot of the pool (C).")),
            ("auto", self.tr("Automatic"), "A", self.tr("The policy decides by what is routed to (A).")),
        ):
            action = QAction(text, self)
            action.setToolTip(tip)
            action.setShortcut(QKeySequence(key))
            action.setShortcutContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
            action.triggered.connect(lambda _checked, pin=pin: self._order(pin))
            self.addAction(action)
            made[pin] = action
        return made

    def _make_button(self, action: QAction) -> QPushButton:
        button = QPushButton(action.text(), self)
        button.setToolTip(action.toolTip())
        button.clicked.connect(action.trigger)
        return button

    # ---- what the user does -------------------------------------------------------------------

    def _order(self, pin: str) -> None:
        experts = self.selected_experts()
        if experts and self.layer is not None:
            self.pins_wanted.emit(self.layer, experts, pin)

    def _selection_changed(self) -> None:
        count = len(self.table.selectionModel().selectedRows())
        text = self.tr("Select experts to give them an order.")
        if count == 1:
            text = self.tr("1 expert selected")
        elif count:
            text = self.tr("{count} experts selected").format(count=number(count))
        self._selected.setText(text)
        for pin, action in self.actions_of_pins.items():
            action.setEnabled(count > 0)
            self.buttons[pin].setEnabled(count > 0)

    def _open_menu(self, place: QPoint) -> None:
        menu = self.context_menu()
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.popup(self.table.viewport().mapToGlobal(place))
