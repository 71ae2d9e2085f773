"""The heat strip's geometry and picture."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import QPoint

from app.ui.lanes.strip import GAP, SCALE_STEPS, SMALLEST_CELL, Marks, strip_grid, strip_image

PALETTE = np.arange(SCALE_STEPS, dtype=np.uint32) + 0xFF000000


@given(st.integers(1, 1024), st.integers(120, 1200))
def test_every_expert_has_one_cell_inside_the_strip_that_points_back_to_it(experts, width):
    grid = strip_grid(experts, width)
    edges = [grid.left_of(column) for column in range(grid.columns + 1)]
    widths = np.diff(edges)
    assert widths.min() >= SMALLEST_CELL
    assert widths.max() - widths.min() <= 1
    assert edges[-1] == grid.width == width
    assert grid.columns * grid.rows >= experts > grid.columns * (grid.rows - 1)
    for inside in (0, -1):  # the first and the last pixel of a cell
        found = [
            grid.expert_at(QPoint(edges[column] if inside == 0 else edges[column + 1] - 1, row * grid.cell_height))
            for row in range(grid.rows)
            for column in range(grid.columns)
        ]
        assert [expert for expert in found if expert is not None] == list(range(experts))


@pytest.mark.parametrize(
    ("experts", "width", "rows", "columns"),
    [(8, 160, 1, 8), (128, 700, 1, 128), (128, 300, 2, 64), (128, 160, 4, 32), (60, 160, 2, 30)],
)
def test_usual_expert_counts_fill_their_rows(experts, width, rows, columns):
    grid = strip_grid(experts, width)
    assert (grid.rows, grid.columns) == (rows, columns)


def test_points_outside_the_strip_are_no_expert():
    grid = strip_grid(8, 160)
    for point in (QPoint(-1, 0), QPoint(0, -1), QPoint(160, 0), QPoint(0, grid.cell_height)):
        assert grid.expert_at(point) is None


def test_a_cell_has_the_colour_of_its_fraction_and_gaps_and_missing_cells_have_none():
    grid = strip_grid(60, 160)
    fractions = np.zeros(60)
    fractions[31] = 1.0
    image = strip_image(fractions, grid, PALETTE)
    assert (image.width(), image.height()) == (grid.width, grid.height)
    assert image.pixel(grid.left_of(1), grid.cell_height) == PALETTE[-1]
    assert image.pixel(0, 0) == PALETTE[0]
    assert image.pixelColor(grid.left_of(1) - GAP, 0).alpha() == 0
    assert image.pixelColor(0, grid.cell_height - GAP).alpha() == 0
    short = strip_grid(41, 110)
    assert short.columns * short.rows == 42
    picture = strip_image(np.ones(41), short, PALETTE)
    assert picture.pixel(short.left_of(short.columns - 1), 0) == PALETTE[-1]
    assert picture.pixelColor(short.left_of(short.columns - 1), short.height - 1).alpha() == 0


LINE, OVER = 0xFF00AA00, 0xFFAA0000


def lines_of(lanes, pins, width):
    """Pixels of each cell's last and first line that have the marks' colours, as (under, over) per expert."""
    grid = strip_grid(len(lanes), width)
    image = strip_image(np.zeros(len(lanes)), grid, PALETTE, Marks(lanes, pins, LINE, OVER))
    counts = []
    for expert in range(len(lanes)):
        row, column = divmod(expert, grid.columns)
        across = range(grid.left_of(column), grid.left_of(column + 1))
        bottom, top = (row + 1) * grid.cell_height - GAP - 1, row * grid.cell_height
        counts.append(
            (sum(image.pixel(x, bottom) == LINE for x in across), sum(image.pixel(x, top) == OVER for x in across))
        )
    return counts


@pytest.mark.parametrize("width", [320, 64, 16])
def test_lanes_and_pins_are_told_by_the_length_of_a_line_below_and_above(width):
    (pooled, none), (copied, _), (cpu, on_gpu), (_, on_cpu) = lines_of("gmcc", "aagc", width)
    assert pooled > copied > 0 == cpu
    assert on_gpu > on_cpu > 0 == none


@given(st.integers(1, 300), st.integers(40, 800), st.data())
def test_a_mark_stays_in_its_own_cell_whatever_the_grid(experts, width, data):
    expert = data.draw(st.integers(0, experts - 1))
    lanes = "".join("g" if place == expert else "c" for place in range(experts))
    counts = lines_of(lanes, "a" * experts, width)
    assert [place for place, (under, _over) in enumerate(counts) if under] == [expert]


def test_a_marked_cell_still_shows_its_heat_at_every_height():
    for width in (320, 64, 16):
        grid = strip_grid(8, width)
        image = strip_image(np.ones(8), grid, PALETTE, Marks("g" * 8, "g" * 8, LINE, OVER))
        heights = [image.pixel(0, y) for y in range(grid.cell_height)].count(int(PALETTE[-1]))
        assert heights >= 2
