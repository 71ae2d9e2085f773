"""Orders in the dock over the real engine: the demo model, attention and pool on a software Vulkan device."""

import pytest
from lanes_driver import (
    ALT,
    CTRL,
    click,
    drag_cells,
    engine_pins,
    engine_pool,
    entries,
    header_of,
    layers_in,
    offer,
    popup,
    show,
    shown,
    view_of,
)
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from vulkan_driver import (  # noqa: F401 - fixtures
    DEVICE,
    EAGER,
    MIB,
    demo_model,
    software_gpu,
    until,
    with_a_driver_that_lives,
    with_memory,
)

from app.engine.protocol import Sampling
from app.placement.plan import CPU_LANE, Plan
from app.ui.controller import Controller
from app.ui.engine import Engine

LAYER = 3
LEFT = Qt.MouseButton.LeftButton


@pytest.fixture
def make_panel(demo_model, store, home, theme, qtbot, monkeypatch):  # noqa: F811 - a fixture
    """A panel over the loaded demo with a pool of 64 MiB."""
    monkeypatch.setenv("GGML_VK_VISIBLE_DEVICES", "0")
    controllers = []

    def make():
        controller = Controller(Engine(), store, home, sampling=lambda: (Sampling(temperature=0), 4))
        controllers.append(controller)
        waiting = until(qtbot, controller)
        controller.probe()
        controller.choose_model(demo_model)
        waiting(lambda: controller.machine is not None and controller.facts is not None)
        facts = controller.facts
        plan = Plan(
            model_files=facts.files,
            gpu=DEVICE,
            expert_lanes=dict.fromkeys(facts.moe_layers, CPU_LANE),
            n_ctx=512,
            threads=2,
            threads_batch=2,
            pool_bytes=64 * MIB,
            policy=EAGER,
        )
        controller.set_plan(with_memory(plan, controller))
        controller.load()
        waiting(lambda: controller.loaded_facts is not None)
        panel = show(controller, theme, qtbot)
        waiting(lambda: engine_pins(panel, LAYER) != "")
        return panel, waiting

    yield make
    for controller in controllers:
        controller.shutdown()
        controller.engine.deleteLater()
        controller.deleteLater()


def test_a_pin_by_drag_is_kept_over_the_next_answer_and_taken_back_by_undo(make_panel):
    def steps():
        panel, wait = make_panel()
        controller = panel._controller
        assert drag_cells(panel, DEVICE, {LAYER: (1, 5)})
        wait(lambda: {1, 5} <= set(shown(panel)[DEVICE].get(LAYER, ())))
        assert engine_pins(panel, LAYER) == "agaaagaa"
        controller.ask("Name three colours of the rainbow.")
        wait(lambda: controller.cache.last_answer is not None)
        assert controller.cache.last_answer.hits > 0
        wait(lambda: controller.cache.facts.decode.tokens > 0)
        assert {1, 5} <= set(shown(panel)[DEVICE][LAYER])
        assert "of routed experts in the last answer" in header_of(panel, DEVICE).text
        assert panel.footer.text.startswith("This plan is loaded.")
        panel.orders.stack.undo()
        wait(lambda: engine_pins(panel, LAYER) == "a" * 8)
        assert controller.plan.pins == ()

    with_a_driver_that_lives(steps)


def test_a_full_layer_is_refused_and_a_larger_pool_holds_it(make_panel):
    def steps():
        panel, wait = make_panel()
        slots = panel._controller.cache.facts.layers[LAYER].slots
        assert 0 < slots < 8
        assert drag_cells(panel, DEVICE, {LAYER: tuple(range(8))})
        assert f"Layer {LAYER} has {slots} slots" in panel.notice.text
        assert panel._controller.plan.pins == ()
        offer(panel, "Grow the pool").click()
        wait(lambda: len(shown(panel)[DEVICE].get(LAYER, ())) == 8)
        facts = panel._controller.cache.facts
        assert facts.pool.unplaced_pins == 0
        assert facts.pool.allocated_bytes <= facts.pool.requested_bytes == panel._controller.plan.pool_bytes
        panel.orders.stack.undo()
        wait(lambda: engine_pool(panel) == 64 * MIB and engine_pins(panel, LAYER) == "a" * 8)

    with_a_driver_that_lives(steps)


def test_the_handle_resizes_the_pool_of_the_engine_and_keys_pin(make_panel):
    def steps():
        panel, wait = make_panel()
        bar = header_of(panel, DEVICE).budget
        QTest.keyClick(bar, Qt.Key.Key_Left)
        wait(lambda: engine_pool(panel) == 48 * MIB)
        assert "Requested 48.0 MiB, allocated" in header_of(panel, DEVICE).text
        panel.search(f"layer {LAYER} expert 6")
        QTest.keyClick(view_of(panel, CPU_LANE), Qt.Key.Key_C)
        wait(lambda: engine_pins(panel, LAYER)[6] == "c")
        panel.orders.stack.undo()
        panel.orders.stack.undo()
        wait(lambda: engine_pool(panel) == 64 * MIB and engine_pins(panel, LAYER)[6] == "a")

    with_a_driver_that_lives(steps)


def test_menu_toolbar_keys_and_a_profile_reach_the_engine(make_panel, qtbot):
    def steps():
        panel, wait = make_panel()

        def until_pinned(expert, letter):
            wait(lambda: engine_pins(panel, LAYER)[expert] == letter)

        panel.search(f"layer {LAYER} expert 2")
        view_of(panel, CPU_LANE).ask_menu()
        with popup(qtbot) as menu:
            entries(menu)["▲ Keep on GPU"].trigger()
        until_pinned(2, "g")
        panel.toolbar.pin_actions["cpu"].trigger()
        until_pinned(2, "c")
        QTest.keyClick(view_of(panel, CPU_LANE), Qt.Key.Key_Left, ALT)
        until_pinned(2, "g")
        wait(lambda: 2 in shown(panel)[DEVICE].get(LAYER, ()))
        QTest.keyClick(view_of(panel, DEVICE), Qt.Key.Key_Right, ALT)
        until_pinned(2, "c")
        QTest.keyClick(view_of(panel, CPU_LANE), Qt.Key.Key_G)
        until_pinned(2, "g")
        panel.profiles.save("kept")
        wait(lambda: [its.name for its in panel.profiles.profiles] == ["kept"])
        QTest.keyClick(view_of(panel, DEVICE), Qt.Key.Key_A)
        until_pinned(2, "a")
        entries(entries(panel.profiles)["kept"].menu())["Load"].trigger()
        until_pinned(2, "g")
        assert panel.orders.stack.count() == 7
        for _ in range(7):
            panel.orders.stack.undo()
        wait(lambda: engine_pins(panel, LAYER) == "a" * 8)
        assert panel._controller.plan.pins == ()

    with_a_driver_that_lives(steps)


def test_clicks_a_rubber_band_and_the_hottest_select_what_is_dragged_to_the_pool(make_panel):
    def steps():
        panel, wait = make_panel()
        controller, selection = panel._controller, panel.state.selection
        panel.lanes.set_zoom(24.0)
        panel.lanes.go_to(LAYER, 0)
        click(panel, CPU_LANE, LAYER, 1)
        click(panel, CPU_LANE, LAYER, 4, CTRL)
        assert selection.cells() == {LAYER: (1, 4)}
        assert drag_cells(panel, DEVICE, selection.cells())
        wait(lambda: engine_pins(panel, LAYER) == "agaagaaa")
        view = view_of(panel, CPU_LANE)
        wait(lambda: {1, 4} <= set(shown(panel)[DEVICE].get(LAYER, ())))
        port, first, last = view.viewport(), view.cell_rect(LAYER, 5).center(), view.cell_rect(LAYER, 6).center()
        QTest.mousePress(port, LEFT, pos=first)
        QTest.mouseMove(port, last)
        QTest.mouseRelease(port, LEFT, pos=last)
        assert selection.cells() == {LAYER: (5, 6)}
        QTest.keyClick(view, Qt.Key.Key_C)
        wait(lambda: engine_pins(panel, LAYER) == "agaagcca")
        controller.ask("Name three colours of the rainbow.")
        wait(lambda: controller.cache.last_answer is not None and controller.cache.facts.decode.tokens > 0)
        panel.state.refresh()
        panel.select_hottest(10, True)
        assert {len(experts) for experts in selection.cells().values()} == {1}
        panel.orders.stack.undo()
        panel.orders.stack.undo()
        wait(lambda: engine_pins(panel, LAYER) == "a" * 8)

    with_a_driver_that_lives(steps)


def test_a_layer_moved_by_the_menu_is_on_the_gpu_after_apply(make_panel, qtbot):
    def steps():
        panel, wait = make_panel()
        controller = panel._controller
        panel.search(f"layer {LAYER}")
        view_of(panel, CPU_LANE).ask_menu()
        with popup(qtbot) as menu:
            moves = [text for text in entries(menu) if text.startswith("Move 1 layer whole to GPU")]
            entries(menu)[moves[0]].trigger()
        assert controller.plan.expert_lanes[LAYER] == DEVICE
        assert controller.loaded_plan.expert_lanes[LAYER] == CPU_LANE
        before = controller.loaded_report
        panel.footer.apply_button.click()
        wait(lambda: controller.loaded_report not in (None, before))
        assert controller.loaded_report.expert_layers[LAYER] == DEVICE
        wait(lambda: layers_in(panel, DEVICE) == (LAYER,))
        assert "routings are not counted" in view_of(panel, DEVICE).tip_at(
            view_of(panel, DEVICE).cell_rect(LAYER, 0).center()
        )

    with_a_driver_that_lives(steps)
