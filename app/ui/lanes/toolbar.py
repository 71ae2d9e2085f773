"""The tools over the lanes: search, select the hottest, orders for what is selected, zoom, history, profiles."""

import math

from PySide6.QtCore import QSignalBlocker, Qt, Signal
from PySide6.QtGui import QAction, QKeySequence, QUndoStack
from PySide6.QtWidgets import (
    QComboBox,
    QLabel,
    QLineEdit,
    QMenu,
    QSlider,
    QSpinBox,
    QToolButton,
    QWidget,
)

from app.ui.lanes.flow_layout import FlowLayout
from app.ui.lanes.lane_box import MOST_PIXELS
from app.ui.lanes.lane_layout import LARGEST, SMALLEST
from app.ui.theme import set_role

COMPACT_SEARCH_WIDTH = 120
ZOOM_WIDTH = 80
ZOOM_STEPS = 40
USUAL_PERCENT = 10


class LanesToolbar(QWidget):
    """Everything that can be done to experts without the mouse on one of them.

    Signals:
        search_wanted: Go to what this text names.
        hottest_wanted: Select the hottest (percent, of all layers).
        pin_wanted: Order for what is selected: "gpu", "cpu" or "auto".
        zoom_wanted: Logical pixels from one cell to the next, 0 for the overview.
    """

    search_wanted = Signal(str)
    hottest_wanted = Signal(float, bool)
    pin_wanted = Signal(str)
    zoom_wanted = Signal(float)

    def __init__(
        self, stack: QUndoStack, profiles: QMenu, parent: QWidget | None = None, *, history_keys: bool = True
    ) -> None:
        """`history_keys` is False where the window has the keys of the history: twice they would mean nothing."""
        super().__init__(parent)
        self.search = QLineEdit(self)
        self.search.setAccessibleName(self.tr("Search a layer or an expert"))
        self.search.setToolTip(
            self.tr("Jump to an expert or a layer and select it (Ctrl+F): “layer 12 expert 7”, “12/7”.")
        )
        self.search.setClearButtonEnabled(True)
        self.search.returnPressed.connect(lambda: self.search_wanted.emit(self.search.text()))
        self.pin_actions = self._make_pins()
        self.undo_action, self.redo_action = self._make_history(stack, keys=history_keys)
        self.profiles_button = self._make_profiles(profiles)
        history = (self._button(self.undo_action), self._button(self.redo_action))
        orders = [self._button(action) for action in self.pin_actions.values()]
        flow = FlowLayout(self)
        flow.addWidget(self.search)
        flow.addWidget(self._group(*history, self.profiles_button))
        flow.addWidget(self._make_zoom())
        flow.addWidget(self._make_hottest())
        flow.addWidget(self._group(*orders))
        self.set_compact(False)
        find = QAction(self.tr("Search"), self)
        find.setShortcut(QKeySequence.StandardKey.Find)
        find.triggered.connect(self.open_search)
        self.find_action = find

    @property
    def actions_of_panel(self) -> list[QAction]:
        """Actions whose keys work wherever in the dock the focus is."""
        return [self.find_action, self.undo_action, self.redo_action]

    def open_search(self) -> None:
        """Bring the keyboard to the search."""
        self.search.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.search.selectAll()

    def set_selected(self, count: int) -> None:
        """How many experts are selected: orders are for those."""
        for action in self.pin_actions.values():
            action.setEnabled(count > 0)

    def set_compact(self, compact: bool) -> None:
        """Shorter names, for a narrow dock."""
        for pin, (long, short) in self._names.items():
            self.pin_actions[pin].setIconText(short if compact else long)
        self._zoom_words.setVisible(not compact)
        self.search.setPlaceholderText(self.tr("12/7") if compact else self.tr("layer 12 expert 7"))
        self.search.setMaximumWidth(COMPACT_SEARCH_WIDTH if compact else MOST_PIXELS)

    def set_zoom(self, pitch: float) -> None:
        """Show the zoom that is on; 0 for the overview."""
        with QSignalBlocker(self.zoom):
            self.zoom.setValue(_step_of(pitch))
        self._say_zoom()

    # ---- making -------------------------------------------------------------------------------

    def _make_pins(self) -> dict[str, QAction]:
        made = {}
        self._names = {
            "gpu": (self.tr("▲ Keep on GPU"), self.tr("▲ GPU")),
            "cpu": (self.tr("■ Keep on CPU"), self.tr("■ CPU")),
            "auto": (self.tr("Automatic"), self.tr("Auto")),
        }
        for pin, tip in (
            ("gpu", self.tr("Copied into the pool and never replaced there (G).")),
            ("cpu", self.tr("Never takes a slot of the pool (C).")),
            ("auto", self.tr("The policy decides by what is routed to (A).")),
        ):
            text, _short = self._names[pin]
            action = QAction(text, self)
            action.setToolTip(tip)
            action.setEnabled(False)
            action.triggered.connect(lambda _checked=False, pin=pin: self.pin_wanted.emit(pin))
            made[pin] = action
        return made

    def _make_history(self, stack: QUndoStack, *, keys: bool) -> tuple[QAction, QAction]:
        undo = stack.createUndoAction(self, self.tr("Undo"))
        redo = stack.createRedoAction(self, self.tr("Redo"))
        if keys:
            undo.setShortcut(QKeySequence.StandardKey.Undo)
            redo.setShortcuts([QKeySequence("Ctrl+Shift+Z"), QKeySequence("Ctrl+Y")])
        for action, sign in ((undo, "↶"), (redo, "↷")):
            action.setShortcutContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
            action.setIconText(sign)
        return undo, redo

    def _make_profiles(self, menu: QMenu) -> QToolButton:
        button = QToolButton(self)
        button.setText(self.tr("Profiles"))
        button.setAccessibleName(self.tr("Profiles of orders"))
        button.setToolTip(self.tr("Save, load, compare and reset pins, pool and policy."))
        button.setMenu(menu)
        button.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        button.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        return button

    def _make_hottest(self) -> QWidget:
        self.percent = QSpinBox(self)
        self.percent.setRange(1, 100)
        self.percent.setValue(USUAL_PERCENT)
        self.percent.setPrefix(self.tr("hottest "))
        self.percent.setSuffix(self.tr(" %"))
        self.percent.setAccessibleName(self.tr("Share of the hottest experts in percent"))
        self.scope = QComboBox(self)
        self.scope.addItems([self.tr("of all layers"), self.tr("of this layer")])
        self.scope.setAccessibleName(self.tr("Hottest of which layers"))
        self.scope.setToolTip(self.tr("“This layer” is the one with the selection or the cursor."))
        self.hottest_button = QToolButton(self)
        self.hottest_button.setText(self.tr("Select"))
        self.hottest_button.setAccessibleName(self.tr("Select the hottest experts"))
        self.hottest_button.clicked.connect(self._want_hottest)
        self.percent.lineEdit().returnPressed.connect(self._want_hottest)
        return self._group(self.percent, self.scope, self.hottest_button)

    def _make_zoom(self) -> QWidget:
        self.zoom = QSlider(Qt.Orientation.Horizontal, self)
        self.zoom.setRange(0, ZOOM_STEPS)
        self.zoom.setFixedWidth(ZOOM_WIDTH)
        self.zoom.setAccessibleName(self.tr("Zoom of the lanes"))
        self.zoom.setToolTip(self.tr("From the overview to cards (Ctrl and the wheel, + and −; 0 for the overview)."))
        self.zoom.valueChanged.connect(self._zoomed)
        self._zoom_words = words = QLabel(self.tr("Zoom"), self)
        words.setBuddy(self.zoom)
        set_role(words, "small")
        self._say_zoom()
        return self._group(words, self.zoom)

    def _group(self, *widgets: QWidget) -> QWidget:
        """Widgets that stay on one line where there is room for it."""
        group = QWidget(self)
        row = FlowLayout(group)
        for widget in widgets:
            row.addWidget(widget)
        return group

    def _button(self, action: QAction) -> QToolButton:
        return _ActionButton(action, self)

    # ---- what the user does -------------------------------------------------------------------

    def _want_hottest(self) -> None:
        self.hottest_wanted.emit(float(self.percent.value()), self.scope.currentIndex() == 0)

    def _zoomed(self, step: int) -> None:
        self._say_zoom()
        self.zoom_wanted.emit(_pitch_of(step))

    def _say_zoom(self) -> None:
        step = self.zoom.value()
        words = self.tr("{pixels} pixels a cell").format(pixels=round(_pitch_of(step))) if step else self.tr("overview")
        self.zoom.setAccessibleDescription(words)


class _ActionButton(QToolButton):
    """Shows an action's short text; its name is the whole one."""

    def __init__(self, action: QAction, parent: QWidget) -> None:
        super().__init__(parent)
        self.setDefaultAction(action)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self._rename()
        action.changed.connect(self._rename)

    def _rename(self) -> None:
        action = self.defaultAction()
        if action is not None:
            self.setAccessibleName(action.text().replace("&", ""))


def _pitch_of(step: int) -> float:
    """Pixels of a cell at a step of the slider: each step is the same factor."""
    return SMALLEST * (LARGEST / SMALLEST) ** (step / ZOOM_STEPS) if step else 0.0


def _step_of(pitch: float) -> int:
    if pitch <= 0:
        return 0
    return max(1, min(round(ZOOM_STEPS * math.log(pitch / SMALLEST) / math.log(LARGEST / SMALLEST)), ZOOM_STEPS))
