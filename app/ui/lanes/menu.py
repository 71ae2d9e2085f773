"""The context menu of a lane: orders for the selection, moves of whole layers, and what to select."""

from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QMenu, QPushButton

from app.ui.lanes.lane_info import CPU, DISK
from app.ui.lanes.lane_view import LaneView
from app.ui.lanes.words import layers_text, translate

if TYPE_CHECKING:
    from app.ui.lanes.panel import LanesPanel


def lanes_menu(panel: "LanesPanel", view: LaneView) -> QMenu:
    """The menu for what is selected, asked for in `view`."""
    menu = QMenu(panel)
    menu.setToolTipsVisible(True)
    selection, board = panel.state.selection, panel.state.board
    about = menu.addAction(selection.spoken())
    about.setEnabled(False)
    for pin, action in panel.toolbar.pin_actions.items():
        key = {"gpu": "G", "cpu": "C", "auto": "A"}[pin]
        entry = menu.addAction(f"{action.text()}\t{key}")
        entry.setToolTip(action.toolTip())
        entry.setEnabled(action.isEnabled())
        entry.triggered.connect(action.trigger)
    menu.addSeparator()
    layers = tuple(selection.cells())
    whole = layers_text(len(layers))
    for info in panel.state.lanes:
        if info.kind == DISK:
            continue
        words = translate("Lanes", "Move {layers} whole to {lane} (needs a reload)")
        entry = menu.addAction(words.format(layers=whole, lane=info.title))
        homes = {board.lanes[int(board.home[board.row_of(layer)])] for layer in layers}
        entry.setEnabled(bool(layers) and not info.note and homes != {info.key})
        entry.setToolTip(info.note)
        entry.triggered.connect(lambda _checked=False, key=info.key: panel.orders.move_layers(layers, key))
    menu.addSeparator()
    table = menu.addAction(panel.table_action.text() + "\t" + translate("Lanes", "Enter"))
    shown = _layer(view, layers, board.layers)
    table.setEnabled(shown is not None)
    table.triggered.connect(lambda: panel.open_experts(shown))
    for button in _memory_buttons(panel, view):
        entry = _add(menu, button.accessibleName(), button.isEnabled())
        entry.setToolTip(button.toolTip())
        entry.triggered.connect(button.click)
    _add(menu, translate("Lanes", "Select the whole layers"), bool(layers)).triggered.connect(
        lambda: selection.set(np.repeat(selection.mask.any(axis=1)[:, None], board.experts, axis=1))
    )
    _add(menu, translate("Lanes", "Select all of this lane") + "\tCtrl+A", True).triggered.connect(
        lambda: selection.set(board.on(view.lane.key))
    )
    _add(menu, translate("Lanes", "Select nothing"), selection.count > 0).triggered.connect(selection.clear)
    return menu


def _memory_buttons(panel: "LanesPanel", view: LaneView) -> tuple[QPushButton, ...]:
    """The orders for main memory, which are of the CPU's and the disk's lane."""
    if view.lane.kind not in (CPU, DISK):
        return ()
    buttons = next(box.header.memory_buttons for box in panel.lanes.boxes if box.info.kind == CPU)
    return (buttons.warm, buttons.release)


def _layer(view: LaneView, layers: tuple[int, ...], shown: tuple[int, ...]) -> int | None:
    """The layer that a table would show."""
    if view.current is not None:
        return shown[view.current[0]]
    return layers[0] if layers else None


def _add(menu: QMenu, text: str, enabled: bool) -> QAction:
    action = menu.addAction(text)
    action.setEnabled(enabled)
    return action
