"""Packing the cells of a lane into lines, and finding them again."""

import numpy as np
from hypothesis import given
from hypothesis.extra.numpy import array_shapes, arrays

from app.ui.lanes.packing import EMPTY, Packing

MASKS = arrays(bool, array_shapes(min_dims=2, max_dims=2, min_side=0, max_side=9))


def packed(*lines):
    return Packing(np.array([[letter == "x" for letter in line] for line in lines]))


def test_cells_lie_from_left_to_right_by_index_in_the_rows_that_have_some():
    packing = packed("..x.x", ".....", "x....")
    assert packing.rows.tolist() == [0, 2]
    assert packing.table.tolist() == [[2, 4], [0, EMPTY]]
    assert {row: experts.tolist() for row, experts in packing.order.items()} == {0: [2, 4], 2: [0]}
    assert packing.place_of(0, 4) == (0, 1)
    assert packing.place_of(2, 0) == (1, 0)
    assert packing.place_of(2, 1) is None
    assert packing.cell_at(1, 0) == (2, 0)
    assert (packing.line_of(1), packing.line_of(2), packing.line_of(3), packing.line_of(-1)) == (None, 1, None, None)


def test_a_lane_without_cells_has_no_lines():
    for packing in (packed("...", "..."), Packing(np.zeros((0, 0), bool)), Packing(np.zeros((3, 0), bool))):
        assert (packing.lines, packing.columns, packing.cells, packing.order) == (0, 0, 0, {})
        assert packing.cell_at(0, 0) is None
        assert packing.place_of(0, 0) is None


def test_nothing_lies_behind_the_last_cell_or_outside_the_lane():
    packing = packed("xx", "x.")
    for line, column in ((1, 1), (0, 2), (2, 0), (-1, 0), (0, -1)):
        assert packing.cell_at(line, column) is None
    for row, expert in ((1, 1), (2, 0), (-1, 0), (0, -1), (0, 2)):
        assert packing.place_of(row, expert) is None


def packing_mask(packing):
    mask = np.zeros(packing.shape, bool)
    for row, experts in packing.order.items():
        mask[row, experts] = True
    return mask


@given(MASKS)
def test_every_cell_of_the_lane_lies_in_one_place_and_the_place_leads_back_to_it(mask):
    packing = Packing(mask)
    assert (packing_mask(packing) == mask).all()
    found = [
        cell
        for line in range(packing.lines)
        for column in range(packing.columns)
        if (cell := packing.cell_at(line, column))
    ]
    assert found == [(int(row), int(expert)) for row, expert in np.argwhere(mask)]
    assert [packing.cell_at(*packing.place_of(*cell)) for cell in found] == found
    assert packing.cells == len(found)
    rows, experts = np.indices(mask.shape)
    lines, columns = packing.places_of(rows.ravel(), experts.ravel())
    assert ((columns != EMPTY).reshape(mask.shape) == mask).all()
    assert ((lines != EMPTY).reshape(mask.shape) == mask.any(axis=1, keepdims=True)).all()
