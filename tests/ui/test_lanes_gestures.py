"""Every way to move layers: drag and drop, keyboard, context menu, undo; and that none is ever lost."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QContextMenuEvent, QDragEnterEvent, QDragLeaveEvent, QDropEvent
from PySide6.QtWidgets import QApplication, QStyleOptionViewItem

from app.errors import AppError
from app.placement.planner import Wishes
from app.ui.lanes import view as view_module
from app.ui.lanes.lane_info import ABSENT
from app.ui.lanes.panel import LanesPanel

ALT, NONE = Qt.KeyboardModifier.AltModifier, Qt.KeyboardModifier.NoModifier
MOVE, LEFT_BUTTON = Qt.DropAction.MoveAction, Qt.MouseButton.LeftButton


@pytest.fixture
def make_panel(make_controller, theme, make_facts, make_machine, qtbot):
    """A panel whose plan has every layer on the CPU; no engine runs."""

    def make(gpu=True, layers=4):
        controller = make_controller(facts=make_facts(layers=layers))
        controller._set_machine(make_machine(gpu))
        with qtbot.waitSignal(controller.model_changed, timeout=10000):
            controller.choose_model("model.gguf")
        controller.set_plan(controller.propose_plan(Wishes(gpu=None)))
        return shown_panel(controller, theme, qtbot)

    return make


def shown_panel(controller, theme, qtbot):
    panel = LanesPanel(controller, theme)
    qtbot.addWidget(panel)
    panel.resize(1100, 600)
    panel.show()
    return panel


def lanes_of_plan(panel):
    return panel._controller.plan.expert_lanes


def shown(panel):
    return {column.info.key: column.view.proxy.layers() for column in panel.columns}


def drop(panel, layers, lane):
    """What Qt does when a drag of `layers` ends over a lane; True if the drop was taken."""
    source = next(column for column in panel.columns if set(layers) <= set(column.view.proxy.layers())).view
    source.select_layers(layers)
    data = source.proxy.mimeData(source.selectedIndexes())
    target = panel.column(lane)
    enter = QDragEnterEvent(QPoint(5, 5), MOVE, data, LEFT_BUTTON, NONE)
    QApplication.sendEvent(target, enter)
    if not enter.isAccepted():
        QApplication.sendEvent(target, QDragLeaveEvent())
        return False
    event = QDropEvent(QPointF(5, 5), MOVE, data, LEFT_BUTTON, NONE)
    QApplication.sendEvent(target, event)
    QApplication.processEvents()  # the move follows when the drag's own event loop has ended
    return event.isAccepted()


def test_layers_dropped_on_a_lane_move_there(make_panel):
    panel = make_panel()
    assert drop(panel, (1, 2), "Vulkan0")
    assert lanes_of_plan(panel) == {0: "CPU", 1: "Vulkan0", 2: "Vulkan0", 3: "CPU"}
    assert shown(panel) == {"Vulkan0": (1, 2), "CPU": (0, 3), "disk": ()}


def test_a_drop_on_the_lane_the_layers_are_in_is_not_taken(make_panel):
    panel = make_panel()
    before = panel._controller.plan
    assert not drop(panel, (1,), "CPU")
    assert panel._controller.plan is before


def test_while_a_drag_hangs_over_a_lane_its_header_tells_what_a_drop_would_make(make_panel):
    panel = make_panel()
    gpu = panel.column("Vulkan0")
    before = gpu.header.text
    data = panel.column("CPU").view.proxy.mimeData([panel.column("CPU").view.proxy.index(0, 0)])
    enter = QDragEnterEvent(QPoint(5, 5), MOVE, data, LEFT_BUTTON, NONE)
    QApplication.sendEvent(gpu, enter)
    assert "1 layer · 8.0 MiB" in gpu.header.text
    assert "After the drop" in gpu.header.text
    assert "3 layers" in panel.column("CPU").header.text
    QApplication.sendEvent(gpu, QDragLeaveEvent())
    assert gpu.header.text == before


def test_a_started_drag_carries_the_selection_and_can_only_move(make_panel, monkeypatch):
    panel = make_panel()
    started = []

    class Drag(view_module.QDrag):
        def exec(self, actions):
            started.append((self.mimeData(), actions, self.pixmap().isNull()))
            return actions

    monkeypatch.setattr(view_module, "QDrag", Drag)
    cpu = panel.column("CPU").view
    cpu.startDrag(MOVE)
    assert started == []
    cpu.select_layers((0, 3))
    cpu.startDrag(MOVE)
    data, actions, blank = started[0]
    assert panel.column("Vulkan0").view.proxy.dragged(data) == (0, 3)
    assert actions == MOVE
    assert not blank
    assert shown(panel)["CPU"] == (0, 1, 2, 3)


def test_alt_and_an_arrow_move_the_selection_and_it_stays_selected(make_panel, qtbot):
    panel = make_panel()
    cpu, gpu = panel.column("CPU").view, panel.column("Vulkan0").view
    cpu.select_layers((0, 2))
    qtbot.keyClick(cpu, Qt.Key.Key_Left, ALT)
    assert lanes_of_plan(panel) == {0: "Vulkan0", 1: "CPU", 2: "Vulkan0", 3: "CPU"}
    assert gpu.selected_layers() == (0, 2)
    assert cpu.selected_layers() == ()
    qtbot.keyClick(gpu, Qt.Key.Key_Right, ALT)
    assert set(lanes_of_plan(panel).values()) == {"CPU"}
    assert cpu.selected_layers() == (0, 2)


def test_alt_and_an_arrow_past_the_last_lane_or_without_a_selection_change_nothing(make_panel, qtbot):
    panel = make_panel()
    before = panel._controller.plan
    cpu = panel.column("CPU").view
    cpu.clearSelection()
    qtbot.keyClick(cpu, Qt.Key.Key_Left, ALT)
    assert panel._controller.plan is before
    drop(panel, (0,), "Vulkan0")
    moved = panel._controller.plan
    qtbot.keyClick(panel.column("Vulkan0").view, Qt.Key.Key_Left, ALT)
    assert panel._controller.plan is moved


def test_an_arrow_alone_moves_the_cursor_and_no_layer(make_panel, qtbot):
    panel = make_panel()
    cpu = panel.column("CPU").view
    cpu.select_layers((0,))
    qtbot.keyClick(cpu, Qt.Key.Key_Down)
    assert cpu.selected_layers() == (1,)
    assert set(lanes_of_plan(panel).values()) == {"CPU"}


def menu_of(view):
    menu = view.context_menu()
    return {action.text(): action for action in menu.actions() if not action.isSeparator()}


def test_the_context_menu_moves_the_selection_to_a_named_lane(make_panel):
    panel = make_panel()
    cpu = panel.column("CPU").view
    cpu.select_layers((1, 3))
    menu_of(cpu)["Move 2 layers to GPU · Vulkan0"].trigger()
    assert shown(panel)["Vulkan0"] == (1, 3)


def test_the_context_menu_opens_from_mouse_and_keyboard(make_panel, qtbot):
    panel = make_panel()
    cpu = panel.column("CPU").view
    cpu.select_layers((1,))
    for reason in (QContextMenuEvent.Reason.Mouse, QContextMenuEvent.Reason.Keyboard):
        event = QContextMenuEvent(reason, QPoint(10, 10), cpu.mapToGlobal(QPoint(10, 10)))
        QApplication.sendEvent(cpu.viewport(), event)
        menu = QApplication.activePopupWidget()
        assert menu is not None
        assert any("Move 1 layer to" in action.text() for action in menu.actions())
        menu.close()
        qtbot.waitUntil(lambda: QApplication.activePopupWidget() is None)


def test_the_context_menu_selects_a_whole_lane_and_offers_no_move_of_nothing(make_panel):
    panel = make_panel()
    cpu = panel.column("CPU").view
    cpu.clearSelection()
    moves = [action for text, action in menu_of(cpu).items() if text.startswith("Move")]
    assert moves
    assert not any(action.isEnabled() for action in moves)
    menu_of(cpu)["Select all layers of this lane"].trigger()
    assert cpu.selected_layers() == (0, 1, 2, 3)


def test_layers_are_selected_in_one_lane_at_a_time(make_panel):
    panel = make_panel()
    drop(panel, (0, 1), "Vulkan0")
    cpu, gpu = panel.column("CPU").view, panel.column("Vulkan0").view
    cpu.select_layers((2, 3))
    assert gpu.selected_layers() == ()
    gpu.select_layers((0,))
    assert cpu.selected_layers() == ()


def test_each_move_can_be_taken_back_and_made_again(make_panel, qtbot):
    panel = make_panel()
    plans = [panel._controller.plan]
    for layer in (0, 1):
        drop(panel, (layer,), "Vulkan0")
        plans.append(panel._controller.plan)
    assert panel.moves.stack.undoText() == "move of 1 layer to Vulkan0"
    cpu = panel.column("CPU").view
    cpu.setFocus()
    panel.activateWindow()
    qtbot.waitUntil(cpu.hasFocus)
    qtbot.keyClick(cpu, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    assert panel._controller.plan == plans[1]
    assert shown(panel)["Vulkan0"] == (0,)
    panel.moves.stack.undo()
    assert panel._controller.plan == plans[0]
    panel.moves.stack.redo()
    panel.moves.stack.redo()
    assert panel._controller.plan == plans[2]
    assert shown(panel)["Vulkan0"] == (0, 1)


def test_a_plan_set_by_someone_else_ends_the_history(make_panel):
    panel = make_panel()
    drop(panel, (0,), "Vulkan0")
    assert panel.moves.stack.canUndo()
    panel._controller.set_plan(panel._controller.propose_plan())
    assert not panel.moves.stack.canUndo()


def test_discarding_goes_back_to_the_loaded_plan_and_can_be_undone(loaded_controller, theme, qtbot):
    controller = loaded_controller()
    panel = shown_panel(controller, theme, qtbot)
    assert not panel.moves.discard()
    loaded = panel._controller.loaded_plan
    drop(panel, (0, 1), "CPU")
    edited = panel._controller.plan
    assert edited != loaded
    assert panel.footer.discard_button.isVisibleTo(panel)
    panel.footer.discard_button.click()
    assert panel._controller.plan == loaded
    assert not panel.footer.discard_button.isVisibleTo(panel)
    panel.moves.stack.undo()
    assert panel._controller.plan == edited


def test_a_move_to_the_gpu_of_a_machine_without_one_is_refused_with_the_reason(make_panel, qtbot):
    panel = make_panel(gpu=False)
    before = panel._controller.plan
    assert drop(panel, (0,), ABSENT)
    assert panel._controller.plan is before
    assert "No GPU was found." in panel.notice.text
    cpu = panel.column("CPU").view
    cpu.select_layers((0,))
    qtbot.keyClick(cpu, Qt.Key.Key_Left, ALT)
    assert panel._controller.plan is before
    assert not any("GPU" in text and action.isEnabled() for text, action in menu_of(cpu).items())


def test_what_the_planner_refuses_is_said_in_its_own_words_and_changes_nothing(make_panel):
    panel = make_panel()
    before = panel._controller.plan
    with pytest.raises(AppError) as refusal:
        panel.moves.planned((0,), "disk")
    drop(panel, (0,), "disk")
    assert panel._controller.plan is before
    assert panel.notice.text == refusal.value.message
    assert shown(panel)["CPU"] == (0, 1, 2, 3)
    drop(panel, (0,), "Vulkan0")
    assert panel.notice.text == ""


LANES = st.sampled_from(["Vulkan0", "CPU", "disk"])
STEPS = st.one_of(
    st.tuples(st.just("drop"), st.frozensets(st.integers(0, 5), min_size=1), LANES),
    st.tuples(st.just("move"), st.frozensets(st.integers(0, 5)), LANES),
    st.tuples(st.just("key"), LANES, st.sampled_from([Qt.Key.Key_Left, Qt.Key.Key_Right])),
    st.tuples(st.sampled_from(["undo", "redo"])),
)


@pytest.fixture
def six_layers(make_panel):
    return make_panel(layers=6)


@given(steps=st.lists(STEPS, max_size=12))
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_no_sequence_of_moves_loses_or_doubles_a_layer(six_layers, steps, qtbot):
    panel = six_layers
    panel._controller.set_plan(panel._controller.propose_plan(Wishes(gpu=None)))
    first = panel._controller.plan
    for name, *arguments in steps:
        if name == "drop":
            here = next(column for column in panel.columns if column.view.proxy.layers())
            chosen = tuple(sorted(set(here.view.proxy.layers()) & arguments[0]))
            if chosen:
                drop(panel, chosen, arguments[1])
        elif name == "move":
            panel.moves.move(sorted(arguments[0]), arguments[1])
        elif name == "key":
            view = panel.column(arguments[0]).view
            view.selectAll()
            qtbot.keyClick(view, arguments[1], ALT)
        else:
            getattr(panel.moves.stack, name)()
        lanes = lanes_of_plan(panel)
        assert sorted(lanes) == [0, 1, 2, 3, 4, 5]
        assert sorted(layer for layers in shown(panel).values() for layer in layers) == [0, 1, 2, 3, 4, 5]
        assert all(lanes[layer] == lane for lane, layers in shown(panel).items() for layer in layers)
    while panel.moves.stack.canUndo():
        panel.moves.stack.undo()
    assert panel._controller.plan == first


def test_the_tooltip_tells_about_the_expert_under_the_pointer(make_panel):
    panel = make_panel()
    view = panel.column("CPU").view
    delegate, index = view.itemDelegate(), view.proxy.index(2, 0)
    option = QStyleOptionViewItem()
    view.initViewItemOption(option)
    option.rect = view.visualRect(index)
    layout = delegate.row_layout(option, index)
    inside = layout.strip + QPoint(layout.grid.left_of(5) + 1, 2)
    assert delegate.tip_at(inside, option, index).startswith("Layer 2, expert 5: ")
    assert "Drag it to another lane" in delegate.tip_at(QPoint(1, 1), option, index)


def test_the_keys_are_told_where_people_look_for_them(make_panel):
    view = make_panel().column("CPU").view
    for text in (view.whatsThis(), view.accessibleDescription()):
        assert "Alt+Left" in text
        assert "Ctrl+Z" in text
