"""The board: every expert in one lane, whatever plan and reports it is shown."""

import msgspec
import numpy as np
import pytest
from board_factories import again, plan_of, shown
from hypothesis import given
from hypothesis import strategies as st
from ui_factories import MIB, make_experts, make_facts

from app.placement.plan import ExpertPin
from app.ui.lanes.board import AUTO, ON_CPU, ON_GPU


def test_without_an_engine_every_expert_is_where_the_plan_puts_its_layer():
    board = shown(plan_of("Vulkan0", "CPU", "CPU", "disk"))
    assert board.layers == (0, 1, 2, 3)
    assert (board.lane == np.array([0, 1, 1, 2])[:, None]).all()
    assert board.lane.shape == (4, 8)
    assert board.expert_bytes.tolist() == [MIB] * 4
    assert not board.counted.any()
    assert not board.slots.any()


def test_experts_in_the_pool_are_in_the_lane_of_the_device_that_holds_it():
    plan = plan_of("Vulkan0", "CPU", "CPU", "disk")
    reported = {
        1: make_experts((1, 2, 3, 4, 0, 0, 0, 0), lanes="ggcmcccc", pins="gaaacaaa", slots=3),
        3: make_experts((0,) * 8, lanes="cccccccg", slots=3),
    }
    board = shown(plan, reported)
    assert board.lane.tolist() == [[0] * 8, [0, 0, 1, 1, 1, 1, 1, 1], [1] * 8, [2] * 7 + [0]]
    assert board.pin[1].tolist() == [ON_GPU, AUTO, AUTO, AUTO, ON_CPU, AUTO, AUTO, AUTO]
    assert board.copying[1].tolist() == [False] * 3 + [True] + [False] * 4
    assert board.routed[1].tolist() == [1, 2, 3, 4, 0, 0, 0, 0]
    assert board.counted.tolist() == [False, True, False, True]
    assert board.slots.tolist() == [0, 3, 0, 3]


def test_a_layer_that_is_to_go_to_a_gpu_goes_there_with_the_experts_that_are_in_the_pool():
    reported = {1: make_experts((0,) * 8, lanes="ggmccccc", slots=2)}
    plan = plan_of("Vulkan0", "Vulkan1", "CPU", "CPU")
    board = shown(plan, reported, lanes=("Vulkan0", "Vulkan1", "CPU", "disk"))
    assert board.lane[1].tolist() == [1] * 8
    assert not board.copying.any()


def test_a_change_says_which_cells_moved_and_which_rows_to_paint_again():
    plan = plan_of("CPU", "CPU", "CPU", "CPU")
    before = {layer: make_experts((1,) * 8, lanes="gccccccc", slots=2) for layer in range(4)}
    board = shown(plan, before)
    after = before | {2: make_experts((1,) * 8, lanes="cccccccg", slots=2)}
    change = again(board, plan, after)
    assert not change.rebuilt
    assert change.rows.tolist() == [2, 2]
    assert change.experts.tolist() == [0, 7]
    assert (change.before.tolist(), change.after.tolist()) == ([0, 1], [1, 0])
    assert change.touched.tolist() == [2]
    assert change.moved == 2


@pytest.mark.parametrize(
    "other",
    [
        {"routed": (1, 1, 1, 1, 1, 1, 1, 9)},
        {"pins": "gaaaaaaa"},
        {"pins": "aaaaaaac"},
        {"lanes": "gmcccccc"},
        {"slots": 3},
    ],
)
def test_a_row_is_touched_by_whatever_can_be_seen_of_it(other):
    plan = plan_of("CPU", "CPU", "CPU", "CPU")
    fields = {"routed": (0,) * 7 + (9,), "lanes": "gccccccc", "slots": 2}
    reported = {layer: make_experts(**fields) for layer in range(4)}
    board = shown(plan, reported)
    assert not again(board, plan, dict(reported))
    change = again(board, plan, reported | {1: make_experts(**fields | other)})
    assert change.touched.tolist() == [1]


def test_the_same_report_again_changes_nothing():
    plan = plan_of("CPU", "CPU", "CPU", "CPU", pins=(ExpertPin(layer=1, expert=2, pin="cpu"),))
    board = shown(plan)
    assert not again(board, plan, {})
    assert not again(board, msgspec.structs.replace(plan, n_ctx=1024), {})


def test_an_expert_hotter_than_any_before_cools_the_colours_of_all_layers():
    plan = plan_of("CPU", "CPU", "CPU", "CPU")
    reported = {layer: make_experts((2, 1, 1, 1, 1, 1, 1, 1), slots=2) for layer in range(4)}
    board = shown(plan, reported)
    change = again(board, plan, reported | {0: make_experts((90, 1, 1, 1, 1, 1, 1, 1), slots=2)})
    assert change.touched.tolist() == [0, 1, 2, 3]
    assert board.fraction[0].max() == pytest.approx(1)
    assert board.fraction[1].max() < 0.5


def test_planned_pins_are_shown_in_the_pool_as_far_as_it_will_have_slots():
    pins = tuple(ExpertPin(layer=1, expert=expert, pin="gpu") for expert in (6, 2, 4))
    plan = plan_of("Vulkan0", "CPU", "CPU", "CPU", pool_bytes=2 * MIB, pins=pins)
    board = shown(plan)
    assert board.slots.tolist() == [0, 2, 0, 0]
    assert np.flatnonzero(board.pin[1] == ON_GPU).tolist() == [2, 4, 6]
    assert np.flatnonzero(board.lane[1] == 0).tolist() == [2, 4]
    assert (shown(msgspec.structs.replace(plan, pool_bytes=0)).lane[1] == 1).all()


def test_without_a_device_for_the_pool_nothing_is_shown_in_it():
    pins = (ExpertPin(layer=1, expert=2, pin="gpu"),)
    board = shown(plan_of("CPU", "CPU", "CPU", "CPU", pool_bytes=64 * MIB, pins=pins), pool_device=None)
    assert (board.lane == 1).all()
    assert not board.slots.any()
    assert board.pin[1, 2] == ON_GPU


def test_the_engine_overrules_the_pins_of_the_plan_where_it_tells_of_a_layer():
    pins = (ExpertPin(layer=0, expert=0, pin="cpu"), ExpertPin(layer=1, expert=0, pin="cpu"))
    reported = {1: make_experts((0,) * 8, pins="agaaaaaa")}
    board = shown(plan_of("CPU", "CPU", "CPU", "CPU", pins=pins), reported)
    assert board.pin[0].tolist() == [ON_CPU] + [AUTO] * 7
    assert board.pin[1].tolist() == [AUTO, ON_GPU] + [AUTO] * 6


def test_an_order_without_an_answer_is_shown_as_wanted_and_moves_nothing():
    reported = {1: make_experts((0,) * 8, pins="aaaaaaaa", lanes="gccccccc", slots=1)}
    plan = plan_of("CPU", "CPU", "CPU", "CPU")
    board = shown(plan, reported, ordered={(1, 0): "cpu", (1, 3): "gpu", (77, 0): "gpu", (1, 800): "gpu"})
    assert board.pin[1].tolist() == [ON_CPU, AUTO, AUTO, ON_GPU, AUTO, AUTO, AUTO, AUTO]
    assert board.lane[1].tolist() == [0] + [1] * 7
    assert again(board, plan, reported).touched.tolist() == [1]
    assert not board.pin.any()


def test_a_report_that_does_not_fit_the_model_is_left_out():
    reported = {
        0: make_experts((1,) * 4, slots=2),
        1: make_experts((1,) * 8, pins="aaa"),
        2: make_experts((1,) * 8, lanes="ggg"),
        9: make_experts((1,) * 8, lanes="gggggggg"),
    }
    board = shown(plan_of("CPU", "CPU", "CPU", "CPU"), reported)
    assert not board.counted.any()
    assert (board.lane == 1).all()


def test_a_lane_that_the_machine_lost_is_kept_while_the_plan_names_it():
    board = shown(plan_of("Vulkan1", "CPU", "CPU", "CPU"))
    assert board.lanes == ("Vulkan0", "CPU", "disk", "Vulkan1")
    assert board.on("Vulkan1")[0].all()
    assert not board.on("Vulkan7").any()


def test_other_lanes_another_model_and_no_model_rebuild_the_board():
    plan = plan_of("CPU", "CPU", "CPU", "CPU")
    board = shown(plan)
    facts = make_facts(layers=4)
    for arguments in (
        (facts, plan, ("CPU", "disk"), {}, None),
        (make_facts(layers=4, experts=16), plan, ("CPU", "disk"), {}, None),
        (make_facts(layers=4, experts=16, fingerprint="77aa"), plan, ("CPU", "disk"), {}, None),
        (None, None, ("CPU", "disk"), {}, None),
        (facts, plan, ("CPU", "disk"), {}, None),
        (facts, None, ("CPU", "disk"), {}, None),
    ):
        assert board.show(*arguments).rebuilt
        assert not board.show(*arguments)
    assert board.lane.shape == (0, 0)


def test_a_dense_model_has_a_board_without_cells():
    facts = make_facts(layers=4, experts=0, moe_layers=(), expert_bytes={})
    board = shown(plan_of(), facts=facts)
    assert board.lane.shape == (0, 0)
    assert board.even_share == 0
    assert board.cells(board.on("CPU")) == {}
    assert board.mask({0: (1,)}).shape == (0, 0)


def test_layers_that_the_model_does_not_have_are_not_on_the_board():
    facts = make_facts(layers=4, moe_layers=(1, 3), expert_bytes={1: MIB, 3: 2 * MIB})
    board = shown(plan_of("CPU", "CPU", "CPU", "CPU", "CPU"), facts=facts)
    assert board.layers == (1, 3)
    assert board.row_of(3) == 1
    assert board.expert_bytes.tolist() == [MIB, 2 * MIB]
    with pytest.raises(KeyError):
        board.row_of(2)


@given(st.dictionaries(st.integers(0, 5), st.lists(st.integers(-2, 9), unique=True)))
def test_cells_and_masks_say_the_same(cells):
    board = shown(plan_of("CPU", "CPU", "CPU", "CPU"))
    mask = board.mask(cells)
    kept = {layer: tuple(sorted(expert for expert in its if 0 <= expert < 8)) for layer, its in sorted(cells.items())}
    assert board.cells(mask) == {layer: its for layer, its in kept.items() if layer < 4 and its}
