"""The list of one lane's layers: selection, dragging, keyboard and context menu."""

from PySide6.QtCore import QEvent, QItemSelectionModel, QPoint, QRect, QSize, Qt, Signal
from PySide6.QtGui import (
    QContextMenuEvent,
    QDrag,
    QKeyEvent,
    QPainter,
    QPaintEvent,
    QPixmap,
    QResizeEvent,
)
from PySide6.QtWidgets import QAbstractItemView, QListView, QMenu, QWidget

from app.ui.lanes.delegate import LayerDelegate
from app.ui.lanes.lane_info import DISK, LaneInfo
from app.ui.lanes.model import LAYER, LaneProxy, LayersModel
from app.ui.lanes.words import layers_text
from app.ui.theme import GRID, Theme

SMALLEST_HEIGHT = 64
_STEPS = {Qt.Key.Key_Left: -1, Qt.Key.Key_Up: -1, Qt.Key.Key_Right: 1, Qt.Key.Key_Down: 1}


class LaneView(QListView):
    """One lane's layers.

    Signals:
        move_wanted: Move layers to a lane (tuple of layer indices, lane).
        step_wanted: Move layers to the lane beside this one (tuple of layer indices, -1 or 1).
        drag_ended: A drag that began here is over, wherever it ended.
        experts_wanted: Show the experts of a layer one by one (its index).
    """

    move_wanted = Signal(tuple, str)
    step_wanted = Signal(tuple, int)
    drag_ended = Signal()
    experts_wanted = Signal(int)

    def __init__(self, layers: LayersModel, info: LaneInfo, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._info = info
        self._theme = theme
        self._targets: tuple[LaneInfo, ...] = ()
        self._dragging = False
        self._proxy = LaneProxy(layers, info.key, self)
        self._proxy.move_wanted.connect(self.move_wanted)
        self.setModel(self._proxy)
        self.setItemDelegate(LayerDelegate(layers, theme, self))
        self.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.setDragDropMode(QAbstractItemView.DragDropMode.DragOnly)  # the column takes the drops
        self.setDefaultDropAction(Qt.DropAction.MoveAction)
        self.setUniformItemSizes(True)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setMouseTracking(True)
        self.setMinimumHeight(SMALLEST_HEIGHT)
        self.set_info(info)
        keys = self.tr(
            "Drag layers to another lane, or select them and press Alt+Left or Alt+Right (Alt+Up or "
            "Alt+Down where lanes are stacked). Shift and Ctrl select more than one; Ctrl+A selects "
            "all; the context menu names every lane. Ctrl+Z takes a move back. Enter shows a layer's experts."
        )
        self.setAccessibleDescription(keys)
        self.setWhatsThis(keys)
        self.activated.connect(lambda index: self.experts_wanted.emit(index.data(LAYER)))
        theme.changed.connect(self.viewport().update)

    @property
    def proxy(self) -> LaneProxy:
        """The layers of this lane."""
        return self._proxy

    @property
    def dragging(self) -> bool:
        """True while layers of this lane are dragged: the view must live until that is over."""
        return self._dragging

    def set_info(self, info: LaneInfo) -> None:
        """What the lane is."""
        self._info = info
        self.setAccessibleName(self.tr("Layers in the lane {lane}").format(lane=info.title))
        self.viewport().update()

    def set_targets(self, lanes: tuple[LaneInfo, ...]) -> None:
        """The lanes the context menu offers."""
        self._targets = lanes

    def selected_layers(self) -> tuple[int, ...]:
        """The selected layers in order."""
        return tuple(sorted(index.data(LAYER) for index in self.selectionModel().selectedIndexes()))

    def select_layers(self, layers: tuple[int, ...]) -> None:
        """Select these layers and bring the first into view; those in other lanes are skipped."""
        here = [index for layer in layers if (index := self._proxy.row_of(layer)).isValid()]
        self.clearSelection()
        for index in here:
            self.selectionModel().select(index, QItemSelectionModel.SelectionFlag.Select)
        if here:
            self.selectionModel().setCurrentIndex(here[0], QItemSelectionModel.SelectionFlag.NoUpdate)
            self.scrollTo(here[-1])
            self.scrollTo(here[0])

    def context_menu(self) -> QMenu:
        """What can be done with the selected layers."""
        menu = QMenu(self)
        layers = self.selected_layers()
        if layers:
            current = self.currentIndex().data(LAYER)
            layer = current if current in layers else layers[0]
            experts = menu.addAction(self.tr("Experts of layer {layer}…").format(layer=layer))
            experts.triggered.connect(lambda _checked: self.experts_wanted.emit(layer))
            menu.addSeparator()
        for lane in self._targets:
            if lane.key == self._info.key or lane.kind == DISK:
                continue  # the disk lane takes no layers by hand: the system decides that
            action = menu.addAction(
                self.tr("Move {layers} to {lane}").format(layers=layers_text(len(layers)), lane=lane.title)
            )
            action.setEnabled(bool(layers) and not lane.note)
            action.triggered.connect(lambda _checked, key=lane.key: self.move_wanted.emit(layers, key))
        menu.addSeparator()
        everything = menu.addAction(self.tr("Select all layers of this lane"))
        everything.setEnabled(self._proxy.rowCount() > 0)
        everything.triggered.connect(self.selectAll)
        return menu

    # ---- Qt's events --------------------------------------------------------------------------

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        """Open the menu at the pointer, or at the current layer for the keyboard's menu key."""
        menu = self.context_menu()
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        if event.reason() is QContextMenuEvent.Reason.Keyboard:
            menu.popup(self.viewport().mapToGlobal(self.visualRect(self.currentIndex()).center()))
        else:
            menu.popup(event.globalPos())

    def event(self, event: QEvent) -> bool:
        """Keep the keys that move layers from the window's shortcuts."""
        if event.type() is QEvent.Type.ShortcutOverride and _step(event):
            event.accept()
            return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Alt and an arrow moves the selected layers to the lane beside this one."""
        step, layers = _step(event), self.selected_layers()
        if not step:
            super().keyPressEvent(event)
        elif layers:
            self.step_wanted.emit(layers, step)

    def startDrag(self, actions: Qt.DropAction) -> None:
        """Drag the selected layers under a chip that says how many they are."""
        indexes = self.selectedIndexes()
        if not indexes:
            return
        drag = QDrag(self)
        drag.setMimeData(self._proxy.mimeData(indexes))
        chip = self._chip(layers_text(len(indexes)))
        drag.setPixmap(chip)
        drag.setHotSpot(QPoint(-GRID, -GRID))
        self._dragging = True
        try:
            drag.exec(Qt.DropAction.MoveAction)
        finally:
            self._dragging = False
        self.drag_ended.emit()

    def sizeHint(self) -> QSize:
        """Little: lanes without layers leave their room to those with many."""
        return QSize(super().sizeHint().width(), SMALLEST_HEIGHT)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """The rows' height depends on the width."""
        super().resizeEvent(event)
        self.scheduleDelayedItemsLayout()

    def paintEvent(self, event: QPaintEvent) -> None:
        """The rows, or that there are none."""
        super().paintEvent(event)
        if self._proxy.rowCount() or self._info.note:
            return
        painter = QPainter(self.viewport())
        painter.setPen(self._theme.colors.muted_text)
        area = self.viewport().rect().adjusted(GRID, GRID, -GRID, -GRID)
        flags = Qt.AlignmentFlag.AlignCenter | Qt.TextFlag.TextWordWrap
        text = (
            self.tr("Main memory has room for every layer that is not on a GPU.")
            if self._info.kind == DISK
            else self.tr("No layers. Drag some here.")
        )
        painter.drawText(area, int(flags), text)
        painter.end()

    def changeEvent(self, event: QEvent) -> None:
        """A new font changes the rows' height."""
        super().changeEvent(event)
        if event.type() is QEvent.Type.FontChange:
            self.scheduleDelayedItemsLayout()

    def _chip(self, text: str) -> QPixmap:
        metrics = self.fontMetrics()
        ratio = self.devicePixelRatioF()
        width, height = metrics.horizontalAdvance(text) + 3 * GRID, metrics.height() + GRID
        pixmap = QPixmap(round(width * ratio), round(height * ratio))
        pixmap.setDevicePixelRatio(ratio)
        pixmap.fill(Qt.GlobalColor.transparent)
        colors = self._theme.colors
        painter = QPainter(pixmap)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setBrush(colors.accent)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.drawRoundedRect(QRect(0, 0, width, height), height / 2, height / 2)
        painter.setPen(colors.on_accent)
        painter.setFont(self.font())
        painter.drawText(QRect(0, 0, width, height), Qt.AlignmentFlag.AlignCenter, text)
        painter.end()
        return pixmap


def _step(event: QKeyEvent) -> int:
    """-1 or 1 for a key that moves layers to the lane before or after; 0 for any other."""
    held = event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier  # macOS sets it for arrows
    return _STEPS.get(Qt.Key(event.key()), 0) if held == Qt.KeyboardModifier.AltModifier else 0
