"""The budget handle of the expert pool: drags, keys, what the engine says meanwhile, and its words in the dock."""

import pytest
from controller_driver import PATIENCE, answer, seen
from lanes_driver import MIB, engine_pool, header_of, load_on_cpu, show
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.placement.memory import predicted_use
from app.ui.lanes import budget_bar
from app.ui.lanes.budget_bar import BudgetBar
from app.ui.widgets import Segment
from app.ui.words import in_bytes

KEY = Qt.Key


def color(colors):
    return colors.gpu


def fill(bar, pool=64, most=512, words="The pool in words."):
    """Show 256 MiB of other things and a pool on a device with 1024 MiB."""
    bar.show_fill((Segment(color, 256 * MIB),), Segment(color, pool * MIB), 1024 * MIB, most * MIB, words=words)


def place(bar, mib):
    """Where the handle is for a pool of this size."""
    return QPoint(round((256 + mib) * MIB * bar._scale()), bar.height() // 2)


@pytest.fixture
def bar(qtbot, theme):
    """A bar over a pool of 64 MiB, with the keyboard on it."""
    made = BudgetBar(theme)
    qtbot.addWidget(made)
    made.setAccessibleName("Size of the pool")
    made.resize(1036, made.height())  # one pixel is about one MiB
    fill(made)
    made.show()
    made.activateWindow()
    made.setFocus()
    qtbot.waitUntil(made.hasFocus)
    return made


def test_the_handle_is_dragged_and_asks_for_sizes_of_one_gesture(bar, qtbot, monkeypatch):
    bar._pace.setInterval(1)
    wanted = []
    bar.size_wanted.connect(lambda size, gesture: wanted.append((size // MIB, gesture)))
    QTest.mousePress(bar, Qt.MouseButton.LeftButton, pos=place(bar, 64))
    for mib in (100, 200):
        QTest.mouseMove(bar, place(bar, mib))
        qtbot.waitUntil(lambda mib=mib: bool(wanted) and abs(wanted[-1][0] - mib) <= 2, timeout=PATIENCE)
    QTest.mouseMove(bar, place(bar, 900))
    QTest.mouseRelease(bar, Qt.MouseButton.LeftButton, pos=place(bar, 900))
    assert wanted[-1][0] == 512  # no more than there is room for
    assert len({id(gesture) for _size, gesture in wanted}) == 1
    assert not bar.busy
    fill(bar, pool=512)
    QTest.mouseClick(bar, Qt.MouseButton.LeftButton, pos=place(bar, 128))
    assert wanted[-1][1] is not wanted[0][1]


def test_a_fast_drag_asks_no_more_often_than_the_device_can_follow(bar):
    wanted = seen(bar.size_wanted)
    QTest.mousePress(bar, Qt.MouseButton.LeftButton, pos=place(bar, 64))
    for mib in range(70, 200, 5):
        QTest.mouseMove(bar, place(bar, mib))
    assert len(wanted) <= 2
    QTest.mouseRelease(bar, Qt.MouseButton.LeftButton, pos=place(bar, 195))
    assert abs(wanted[-1] // MIB - 195) <= 1


@pytest.mark.parametrize(
    ("key", "mib"),
    [(KEY.Key_Right, 80), (KEY.Key_Left, 48), (KEY.Key_PageUp, 192), (KEY.Key_Home, 0), (KEY.Key_End, 512)],
)
def test_keys_change_the_size_in_steps(bar, qtbot, key, mib):
    wanted = seen(bar.size_wanted)
    QTest.keyClick(bar, key)
    qtbot.waitUntil(lambda: wanted == [mib * MIB], timeout=PATIENCE)


def test_keys_close_to_each_other_are_one_gesture(bar, qtbot):
    sizes, gestures = seen(bar.size_wanted), []
    bar.size_wanted.connect(lambda _size, gesture: gestures.append(gesture))
    bar._pace.setInterval(1)
    for _ in range(3):
        QTest.keyClick(bar, KEY.Key_Right)
    qtbot.waitUntil(lambda: not bar.busy, timeout=PATIENCE)
    assert len({id(gesture) for gesture in gestures}) == 1
    assert [size // MIB for size in sizes][-1] == 112


def test_what_the_engine_says_does_not_move_a_handle_that_is_held(bar):
    QTest.mousePress(bar, Qt.MouseButton.LeftButton, pos=place(bar, 64))
    QTest.mouseMove(bar, place(bar, 300))
    held = bar.value()
    fill(bar, pool=64)
    assert bar.value() == held
    QTest.mouseRelease(bar, Qt.MouseButton.LeftButton, pos=place(bar, 300))
    fill(bar, pool=64)  # refused: the engine's own stands
    assert bar.value() == 64


def test_scrolling_past_and_other_buttons_change_nothing(bar):
    QTest.mouseClick(bar, Qt.MouseButton.RightButton, pos=place(bar, 300))
    corner, none = QPointF(5, 5), Qt.MouseButton.NoButton
    phase, keys = Qt.ScrollPhase.NoScrollPhase, Qt.KeyboardModifier.NoModifier
    wheel = QWheelEvent(corner, bar.mapToGlobal(corner), QPoint(), QPoint(0, 120), none, keys, phase, False)
    QApplication.sendEvent(bar, wheel)
    assert bar.value() == 64


def test_a_device_with_much_room_has_coarser_steps_and_one_without_room_no_handle(bar):
    fill(bar, most=4096)
    assert bar.singleStep() == budget_bar.COARSE_STEP
    fill(bar, pool=0, most=0)
    assert not bar.isEnabled()
    fill(bar, pool=64, most=0)  # what is there can be given back
    assert bar.isEnabled()


def test_the_bar_says_in_words_what_it_shows(bar):
    assert bar.accessibleName() == "Size of the pool"
    assert bar.accessibleDescription() == bar.toolTip() == "The pool in words."


def test_both_looks_show_the_handle(bar, theme):
    light = bar.grab().toImage()
    fill(bar, pool=300)
    assert bar.grab().toImage() != light
    theme.force("dark")
    assert bar.grab().toImage() != light


# ---- in the dock -------------------------------------------------------------------------------------


@pytest.fixture
def make_panel(loaded_controller, theme, qtbot):
    """A shown, watching panel; attention on the GPU, 4 layers of 8 experts of 1 MiB on the CPU lane."""

    def make(*arguments, pool=0):
        controller = loaded_controller(*arguments)
        load_on_cpu(controller, qtbot, pool=pool)
        return show(controller, theme, qtbot)

    return make


def words_of(panel):
    return header_of(panel, "Vulkan0").text


def until_said(qtbot, panel, words):
    qtbot.waitUntil(lambda: words in words_of(panel), timeout=PATIENCE)


def test_only_the_lane_of_the_pool_has_the_handle(make_panel):
    panel = make_panel()
    assert header_of(panel, "Vulkan0").budget.isVisibleTo(panel)
    assert not header_of(panel, "CPU").budget.isVisibleTo(panel)
    assert "No expert pool" in words_of(panel)


def test_a_pool_made_by_hand_fills_while_the_model_answers_and_tells_its_hits(make_panel, qtbot):
    panel = make_panel("--tokens", 40, "--token-ms", 2)
    bar = header_of(panel, "Vulkan0").budget
    bar.setFocus()
    QTest.keyClick(bar, KEY.Key_Right)
    until_said(qtbot, panel, "Requested 16.0 MiB, allocated 16.0 MiB")
    assert "No expert was routed to since the load" in words_of(panel)
    qtbot.waitUntil(lambda: not bar.busy, timeout=PATIENCE)
    answer(qtbot, panel._controller)
    until_said(qtbot, panel, "in use: 16 experts in 16 slots")
    assert "of routed experts in the last answer" in words_of(panel)
    QTest.keyClick(bar, KEY.Key_Home)
    until_said(qtbot, panel, "No expert pool")
    qtbot.waitUntil(lambda: not bar.busy, timeout=PATIENCE)
    panel.orders.stack.undo()
    until_said(qtbot, panel, "Requested 16.0 MiB")


def test_a_live_pool_counts_in_the_lanes_predicted_memory_and_needs_no_reload(make_panel, qtbot):
    panel = make_panel()
    before = predicted_use(panel._controller.plan, "Vulkan0")
    assert panel.orders.set_pool(32 * MIB)
    predicted = predicted_use(panel._controller.plan, "Vulkan0")
    assert predicted == before + 32 * MIB
    until_said(qtbot, panel, f"Predicted {in_bytes(predicted)} of")
    assert panel.footer.text.startswith("This plan is loaded.")
    assert not panel.footer.apply_button.isVisibleTo(panel)


def test_a_refused_size_is_told_and_the_handle_goes_back(make_panel, qtbot):
    panel = make_panel("--fail-pool", "out_of_memory")
    bar = header_of(panel, "Vulkan0").budget
    QTest.keyClick(bar, KEY.Key_Right)
    qtbot.waitUntil(lambda: panel.notice.text == "The script fails this request.", timeout=PATIENCE)
    qtbot.waitUntil(lambda: bar.value() == 0 and not bar.busy, timeout=PATIENCE)
    assert panel._controller.plan.pool_bytes == 0


def test_a_device_that_gives_nothing_is_told_with_its_reason(make_panel, qtbot):
    panel = make_panel("--no-pool", "the driver refused 16.0 MiB")
    panel.orders.set_pool(16 * MIB)
    until_said(qtbot, panel, "The driver refused 16.0 MiB")
    assert "Requested 16.0 MiB, allocated 0 B, not in use" in words_of(panel)
    assert header_of(panel, "Vulkan0")._pool_warning.isVisibleTo(panel)


def test_pins_without_room_in_the_pool_are_told(make_panel, qtbot):
    panel = make_panel(pool=4 * MIB)
    panel._controller.cache.send_pins({(0, 1): "gpu", (0, 2): "gpu", (0, 3): "gpu"})
    until_said(qtbot, panel, "2 experts that you keep on the GPU have no slot")


def test_where_everything_is_on_the_gpu_the_reason_stands_instead(loaded_controller, theme, qtbot):
    panel = show(loaded_controller(), theme, qtbot)
    assert "All experts are on a GPU already" in words_of(panel)
    assert not header_of(panel, "Vulkan0").budget.isEnabled()


def test_a_planned_pool_is_told_as_planned(make_controller, make_machine, theme, qtbot):
    controller = make_controller()
    controller._set_machine(make_machine())
    with qtbot.waitSignal(controller.model_changed, timeout=PATIENCE):
        controller.choose_model("model.gguf")
    controller.set_plan(controller.propose_plan())
    panel = show(controller, theme, qtbot)
    panel.orders.move_layers(range(4), "CPU")
    assert "No expert pool planned" in words_of(panel)
    panel.orders.set_pool(16 * MIB)
    assert "Expert pool of 16.0 MiB from the next load on" in words_of(panel)


def test_a_drag_of_the_handle_is_one_step_of_the_history(make_panel, qtbot):
    panel = make_panel(pool=16 * MIB)
    bar = header_of(panel, "Vulkan0").budget
    bar._pace.setInterval(1)
    middle, edge = bar.height() // 2, bar.width()
    QTest.mousePress(bar, Qt.MouseButton.LeftButton, pos=QPoint(round(bar._handle()), middle))
    for x in (edge // 2, edge - 1, edge // 3, edge - 1):
        QTest.mouseMove(bar, QPoint(x, middle))
        QApplication.processEvents()
    QTest.mouseRelease(bar, Qt.MouseButton.LeftButton, pos=QPoint(edge - 1, middle))
    assert panel._controller.plan.pool_bytes == 32 * MIB
    assert panel.orders.stack.count() == 1
    qtbot.waitUntil(lambda: engine_pool(panel) == 32 * MIB, timeout=PATIENCE)
    panel.orders.stack.undo()
    qtbot.waitUntil(lambda: engine_pool(panel) == 16 * MIB, timeout=PATIENCE)


def test_a_size_that_is_being_chosen_is_not_given_to_another_model(make_panel, make_facts, qtbot):
    panel = make_panel(pool=16 * MIB)
    bar, sizes = header_of(panel, "Vulkan0").budget, []
    bar.size_wanted.connect(lambda size, _gesture: sizes.append(size))
    QTest.mousePress(bar, Qt.MouseButton.LeftButton, pos=QPoint(round(bar._handle()), bar.height() // 2))
    QTest.mouseMove(bar, QPoint(bar.width() - 1, bar.height() // 2))
    panel._controller._set_facts(make_facts(fingerprint="another"))
    QTest.mouseRelease(bar, Qt.MouseButton.LeftButton, pos=QPoint(bar.width() - 1, bar.height() // 2))
    qtbot.wait(2 * budget_bar.PACE_MILLISECONDS)
    assert sizes == []
    assert not bar.busy
