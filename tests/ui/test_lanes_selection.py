"""The selection of experts: by hand, by heat, and what a search means."""

import numpy as np
import pytest
from board_factories import again, plan_of, shown
from hypothesis import given
from hypothesis import strategies as st
from ui_factories import MIB, make_experts, make_facts

from app.errors import AppError
from app.ui.lanes.selection import Selection

ON_CPU = plan_of("CPU", "CPU", "CPU", "CPU")


def reports(*layers):
    return {layer: make_experts(routed, slots=2) for layer, routed in enumerate(layers) if routed}


@pytest.fixture
def board():
    return shown(
        ON_CPU, reports((5, 0, 7, 7, 1, 1, 1, 1), (0, 0, 0, 9, 0, 0, 0, 0), (0,) * 8, (8, 7, 6, 5, 4, 3, 2, 1))
    )


@pytest.fixture
def selection(board, qapp):
    return Selection(board)


def test_cells_are_set_added_and_toggled(selection, board, qtbot):
    selection.set(board.mask({1: (2, 3)}))
    selection.add(board.mask({0: (7,), 1: (3,)}))
    assert selection.cells() == {0: (7,), 1: (2, 3)}
    assert (selection.count, selection.bytes) == (3, 3 * MIB)
    selection.toggle(board.mask({1: (3, 4)}))
    assert selection.cells() == {0: (7,), 1: (2, 4)}
    selection.clear()
    assert (selection.count, selection.bytes, selection.cells()) == (0, 0, {})


def test_only_a_different_selection_is_told(selection, board, qtbot):
    told = []
    selection.changed.connect(lambda: told.append(selection.count))
    selection.clear()
    selection.set(board.mask({1: (2,)}))
    selection.set(board.mask({1: (2,)}))
    selection.add(board.mask({1: (2,)}))
    selection.toggle(board.mask({}))
    selection.clear()
    assert told == [1, 0]


def test_the_given_mask_can_be_changed_afterwards(selection, board):
    mask = board.mask({1: (2,)})
    selection.set(mask)
    mask[:] = True
    assert selection.count == 1


def test_a_mask_of_another_board_is_refused(selection):
    for change in (selection.set, selection.add, selection.toggle):
        with pytest.raises(ValueError, match="mask"):
            change(np.zeros((4, 9), bool))


def test_the_selection_stays_while_experts_move(selection, board):
    selection.set(board.mask({1: (2, 3)}))
    again(board, ON_CPU, {1: make_experts((0,) * 8, lanes="ccggcccc", slots=2)})
    assert selection.cells() == {1: (2, 3)}


def test_a_rebuilt_board_has_nothing_selected_even_before_anyone_says_so(selection, board):
    selection.set(board.mask({1: (2, 3)}))
    again(board, ON_CPU, {}, facts=make_facts(layers=4, experts=16))
    assert selection.mask.shape == (4, 16)
    assert selection.count == 0
    selection.set(board.mask({0: (15,)}))
    assert selection.cells() == {0: (15,)}


def test_the_hottest_of_one_layer_are_chosen_by_how_often_they_were_routed_to(selection):
    selection.hottest(25, layer=3)
    assert selection.cells() == {3: (0, 1)}
    selection.hottest(25, layer=0)
    assert selection.cells() == {0: (2, 3)}


def test_the_hottest_of_all_layers_are_the_same_share_of_each(selection):
    selection.hottest(25)
    assert selection.cells() == {0: (2, 3), 1: (3,), 3: (0, 1)}


def test_at_least_one_expert_of_a_layer_is_hot_and_none_that_was_never_routed_to(selection):
    selection.hottest(0.1, layer=3)
    assert selection.cells() == {3: (0,)}
    selection.hottest(100)
    assert selection.cells() == {0: (0, 2, 3, 4, 5, 6, 7), 1: (3,), 3: tuple(range(8))}


@given(st.lists(st.lists(st.integers(0, 9), min_size=8, max_size=8), min_size=4, max_size=4), st.integers(1, 100))
def test_no_expert_left_out_is_hotter_than_one_chosen(routed, percent):
    board = shown(ON_CPU, reports(*map(tuple, routed)))
    selection = Selection(board)
    if not board.routed.any():
        return
    selection.hottest(percent)
    for row in range(4):
        mask = selection.mask[row]
        assert mask.sum() == min(max(int(8 * percent / 100 + 0.5), 1), np.count_nonzero(board.routed[row]))
        if mask.any() and not mask.all():
            assert board.routed[row][mask].min() >= board.routed[row][~mask].max()


@pytest.mark.parametrize("percent", [0, -5, 100.5, float("nan"), float("inf")])
def test_an_impossible_share_is_refused(selection, percent):
    with pytest.raises(AppError, match="100 %"):
        selection.hottest(percent)


def test_without_counted_routings_there_is_no_hottest_expert_and_it_is_said_why(qapp, selection):
    with pytest.raises(AppError, match="nothing was routed yet"):
        selection.hottest(10, layer=2)
    with pytest.raises(AppError, match="No layer 9"):
        selection.hottest(10, layer=9)
    with pytest.raises(AppError, match="Load the model"):
        Selection(shown(ON_CPU)).hottest(10)
    part = shown(plan_of("Vulkan0", "CPU", "CPU", "CPU"), reports(None, (1,) * 8))
    with pytest.raises(AppError, match="Layer 0 was loaded on a GPU"):
        Selection(part).hottest(10, layer=0)
    dense = shown(plan_of(), facts=make_facts(layers=4, experts=0, moe_layers=(), expert_bytes={}))
    with pytest.raises(AppError, match="No experts are shown"):
        Selection(dense).hottest(10)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("layer 3 expert 7", (3, 7)),
        ("Layer 3, Expert 7", (3, 7)),
        ("3/7", (3, 7)),
        ("3 7", (3, 7)),
        (" 3 : 7 ", (3, 7)),
        ("L3", (3, None)),
        ("l3e7", (3, 7)),
        ("layer #3", (3, None)),
        ("3", (3, None)),
        ("expert 7, layer 3", (3, 7)),
        ("e7 l0", (0, 7)),
        ("003 / 07", (3, 7)),
    ],
)
def test_a_search_finds_a_layer_or_an_expert_of_it(selection, text, found):
    assert selection.search(text) == found


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "names no layer"),
        ("   ", "names no layer"),
        ("layer", "names no layer"),
        ("expert 7", "Every layer has an expert 7"),
        ("3 7 1", "names no layer"),
        ("layer 3 layer 2", "names no layer"),
        ("attention 3", "names no layer"),
        ("-3", "names no layer"),
        ("3.5.1", "names no layer"),
        ("²", "names no layer"),
        ("9" * 5000, "names no layer"),
        ("4", "No layer 4 with experts: the model has 0–3"),
        ("3/8", "its experts are 0 to 7"),
        ("99999999999999999999/1", "No layer 99999999999999999999"),
    ],
)
def test_a_search_that_finds_nothing_says_why(selection, text, why):
    with pytest.raises(AppError, match=why):
        selection.search(text)


@given(st.text(max_size=80))
def test_any_text_is_found_or_refused_in_words(text):
    selection = Selection(shown(ON_CPU))
    try:
        layer, expert = selection.search(text)
    except AppError as error:
        message = error.message
    else:
        message = f"layer {layer}"
        assert 0 <= layer < 4
        assert expert is None or 0 <= expert < 8
    assert 0 < len(message) < 300


def test_a_search_over_no_experts_says_so(qapp):
    dense = shown(plan_of(), facts=make_facts(layers=4, experts=0, moe_layers=(), expert_bytes={}))
    with pytest.raises(AppError, match="No experts are shown"):
        Selection(dense).search("1/1")


def test_the_selection_is_told_in_a_sentence(selection, board):
    assert selection.spoken() == "Nothing selected"
    selection.set(board.mask({1: (2,)}))
    assert selection.spoken() == "Layer 1, expert 2 selected, 1.0 MiB"
    selection.set(board.mask({1: (2, 3, 4)}))
    assert selection.spoken() == "3 experts of layer 1 selected, 3.0 MiB"
    selection.add(board.mask({0: (1,)}))
    assert selection.spoken() == "4 experts of 2 layers selected, 4.0 MiB"
