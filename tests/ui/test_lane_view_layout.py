"""Where cells lie: folding, zoom, points and places, and that the pixels show what the board says."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from app.ui.lanes.lane_layout import LARGEST, LARGEST_OVERVIEW, SMALLEST, lane_layout
from app.ui.lanes.lane_panes import lane_panes
from app.ui.lanes.lane_pixels import Canvas, Window, mixed, square, triangle

COUNTS = st.lists(st.integers(1, 40), min_size=0, max_size=8)
ROOMS = st.tuples(st.integers(1, 900), st.integers(1, 700))
ZOOMS = st.sampled_from([0.0, 3.0, 11.5, 40.0, 90.0])
RATIOS = st.sampled_from([1.0, 1.25, 1.5, 2.0])


def test_the_overview_of_a_large_model_shows_every_cell_at_once():
    layout = lane_layout([512] * 48, (1000, 600))
    assert layout.width <= 1000
    assert layout.height <= 600
    assert layout.pitch >= SMALLEST
    assert layout.fold < 512


def test_lines_are_folded_where_the_lane_is_narrow_and_scroll_down_where_not_even_that_fits():
    layout = lane_layout([512] * 48, (200, 100))
    assert layout.pitch == SMALLEST
    assert layout.width <= 200
    assert layout.height > 100


def test_a_lane_with_few_cells_does_not_blow_them_up():
    assert lane_layout([3, 2], (1000, 600)).pitch < 30


def test_zooming_keeps_how_lines_are_folded():
    folds = {lane_layout([100] * 10, (300, 300), zoom=zoom).fold for zoom in (0, 5, 20, 80, 1000)}
    assert len(folds) == 1
    assert lane_layout([100], (300, 300), zoom=1000).pitch == LARGEST


def test_a_cell_more_or_less_does_not_fold_lines_anew():
    assert lane_layout([409] * 48, (500, 500), step=32).fold == lane_layout([412] * 48, (500, 500), step=32).fold


def test_a_cell_is_as_large_on_a_sharper_screen():
    for ratio in (1.25, 1.5, 2.0):
        assert abs(lane_layout([64] * 4, (900, 600), ratio, zoom=40).pitch / ratio - 40) < 0.5


@given(counts=COUNTS, room=ROOMS, zoom=ZOOMS, ratio=RATIOS)
@settings(max_examples=80, deadline=None)
def test_every_cell_is_found_at_its_own_place_and_nowhere_else(counts, room, zoom, ratio):
    layout = lane_layout(counts, room, ratio, zoom)
    seen = set()
    for line, count in enumerate(counts):
        for column in range(count):
            left, top = layout.corner(line, column)
            assert (left, top) not in seen
            seen.add((left, top))
            for x, y in ((left, top), (left + layout.cell - 1, top + layout.cell - 1)):
                assert layout.place_at(x, y) == (line, column)
                assert layout.line_at(y) == line
            assert left + layout.cell <= layout.width
            assert top + layout.cell <= layout.height
    for point in ((-1, 0), (0, -1), (0, layout.height), (layout.fold * layout.pitch, 0)):
        assert layout.place_at(*point) is None


def test_a_wide_and_low_lane_is_cut_into_panes_with_larger_cells_that_are_all_seen():
    header, room = 75, (460 - 75, 78)
    whole, panes = lane_layout([22] * 30, room), lane_panes([22] * 30, room, header)
    assert panes.firsts == (0, 15)
    assert panes.pitch == 2 * whole.pitch == 4
    assert whole.height > room[1] >= panes.height
    assert panes.width <= room[0]
    # Going down comes before going right.
    assert panes.corner(14, 0)[0] == 0
    assert panes.corner(15, 0) == (panes.stride, 0)
    assert panes.stride >= 22 * panes.pitch + header
    assert [part.lines for part in panes.parts] == [15, 15]


def test_a_lane_that_is_high_or_whose_cells_are_at_their_largest_is_not_cut():
    assert lane_panes([22] * 30, (300, 900), 75).count == 1
    assert lane_panes([512] * 48, (300, 700), 75).count == 1
    largest = lane_panes([8] * 4, (1800, 200), 75)
    assert (largest.count, largest.pitch) == (1, LARGEST_OVERVIEW)


def test_larger_cells_than_those_of_the_overview_are_not_cut_and_their_lines_are_folded_as_there():
    layouts = [lane_panes([22] * 30, (800, 90), 75, zoom=zoom) for zoom in (0, 1, 7.5, 40, 1000)]
    assert layouts[0].count > 1
    assert layouts[1] == layouts[0]
    assert [its.count for its in layouts[2:]] == [1, 1, 1]
    assert len({its.sheet.fold for its in layouts}) == 1


def test_a_cell_more_or_less_does_not_cut_a_lane_anew():
    many, few = (lane_panes([count] * 30, (800, 90), 75, step=4) for count in (24, 22))
    assert (many.firsts, many.stride, many.pitch) == (few.firsts, few.stride, few.pitch)
    assert many.count > 1


def test_the_point_at_a_cell_is_at_the_same_cell_in_larger_ones():
    panes, large = (lane_panes([22] * 30, (800, 90), 75, zoom=zoom) for zoom in (0, 30))
    for place in ((0, 0), (11, 21), (29, 3)):
        left, top = panes.corner(*place)
        x, y = panes.point_in(large, (left + panes.sheet.cell // 2, top + panes.sheet.cell // 2))
        assert large.place_at(int(x), int(y)) == place


@given(
    counts=st.lists(st.integers(1, 40), min_size=0, max_size=40),
    room=st.tuples(st.integers(1, 1500), st.integers(1, 200)),
    zoom=ZOOMS,
    ratio=RATIOS,
    header=st.integers(0, 90),
)
@settings(max_examples=120, deadline=None)
def test_every_cell_of_every_pane_is_found_at_its_own_place_beside_its_names(counts, room, zoom, ratio, header):
    panes = lane_panes(counts, room, header, ratio, zoom)
    if panes.count > 1:
        assert panes.width <= room[0]
        assert panes.height <= room[1]
        assert panes.pitch >= lane_layout(counts, room, ratio).pitch
    lines = np.repeat(np.arange(len(counts)), counts)
    columns = np.concatenate([np.zeros(0, np.intp), *(np.arange(count) for count in counts)]).astype(np.intp)
    corners = list(zip(*(lengths.tolist() for lengths in panes.corners(lines, columns)), strict=True))
    assert len(set(corners)) == len(corners)
    last = panes.sheet.cell - 1
    for line, column, (left, top) in zip(lines.tolist(), columns.tolist(), corners, strict=True):
        assert panes.corner(line, column) == (left, top)
        for x, y in ((left, top), (left + last, top + last)):
            assert panes.place_at(x, y) == (line, column)
            assert panes.line_at(x, y) == line
            assert not panes.in_names(x)
        assert left + last < panes.width
        assert top + last < panes.height
    for line in range(len(counts)):
        left, top = panes.corner(line, 0)
        if header:
            assert panes.in_names(left - 1)
            assert panes.line_at(left - 1, top) == line
            assert panes.place_at(left - 1, top) is None
    assert panes.place_at(0, -1) is None
    assert panes.place_at(0, panes.height) is None


def pixels_of(canvas, window):
    """All parts of a canvas, one below the other."""
    pixels = np.full((window.height, window.width), 77, np.uint32)
    for part, (first, last) in enumerate(canvas.parts):
        canvas.pixels(part, pixels[first:last])
    return pixels


@given(
    counts=COUNTS,
    room=ROOMS,
    zoom=ZOOMS,
    left=st.integers(-80, 200),
    top=st.integers(-80, 200),
    rows=st.integers(1, 50),
)
@settings(max_examples=60, deadline=None)
def test_a_pixel_has_the_colour_of_the_cell_that_lies_there(counts, room, zoom, left, top, rows):
    layout = lane_layout(counts, room, 1.0, zoom)
    colors = np.zeros((len(counts), max(counts, default=0)), np.uint32)
    for line, count in enumerate(counts):
        colors[line, :count] = 1000 * (line + 1) + np.arange(count)
    window = Window(left, top, 60, 40, header=7)
    canvas = Canvas(layout, window, rows)
    canvas.fill(colors, ground=0)
    pixels = pixels_of(canvas, window)
    for y in range(0, 40, 3):
        for x in range(0, 60, 3):
            place = layout.place_at(left + x, top + y) if x >= 7 else None
            expected = 0
            if place is not None and place[1] < counts[place[0]]:
                corner = layout.corner(*place)
                inside = left + x - corner[0] < layout.cell and top + y - corner[1] < layout.cell
                expected = colors[place] if inside else 0
            assert pixels[y, x] == expected


@given(
    counts=COUNTS,
    room=ROOMS,
    zoom=ZOOMS,
    left=st.integers(-80, 200),
    top=st.integers(-80, 200),
    rows=st.integers(1, 50),
    seed=st.integers(0, 99),
)
@settings(max_examples=60, deadline=None)
def test_what_is_drawn_part_by_part_is_what_is_drawn_at_once(counts, room, zoom, left, top, rows, seed):
    layout = lane_layout(counts, room, 1.0, zoom)
    shape = (len(counts), max(counts, default=0))
    marked = np.random.default_rng(seed).random((3, *shape)) < 0.4
    marked &= np.arange(shape[1]) < np.array(counts, np.intp)[:, None]

    def draw(canvas):
        canvas.hatch(marked[0], 5, 6)
        canvas.outline(marked[1], 6, inset=0, thick=1)
        canvas.stamp(marked[2], 7, square(max(layout.cell // 2, 1)), (0, layout.cell // 2))

    window = Window(left, top, 60, 40, header=7)
    whole, parts = (drawn(layout, marked[0], draw, window, rows=its) for its in (window.height, rows))
    assert (whole == parts).all()


def drawn(layout, cells, draw, window=None, rows=1000):
    """What a canvas draws into a ground of zeros."""
    window = window or Window(0, 0, layout.width, layout.height)
    canvas = Canvas(layout, window, rows)
    canvas.fill(np.zeros(cells.shape, np.uint32), ground=0)
    draw(canvas)
    return pixels_of(canvas, window)


def test_an_outline_is_a_frame_in_the_chosen_cells_alone():
    layout = lane_layout([3], (300, 100), zoom=12)
    cells = np.array([[False, True, False]])
    pixels = drawn(layout, cells, lambda canvas: canvas.outline(cells, 5, inset=1, thick=1))
    frame = np.zeros((layout.cell, layout.cell), np.uint32)
    frame[1:-1, 1:-1] = 5
    frame[2:-2, 2:-2] = 0
    left, top = layout.corner(0, 1)
    assert (pixels[top : top + layout.cell, left : left + layout.cell] == frame).all()
    assert (pixels == 5).sum() == frame.astype(bool).sum()


def test_a_stamp_is_cut_off_at_the_edges_and_below_the_names():
    layout = lane_layout([4], (40, 100), zoom=10)
    cells = np.ones((1, 4), bool)
    pixels = drawn(
        layout, cells, lambda canvas: canvas.stamp(cells, 5, square(9), (0, 0)), Window(4, 3, 20, 4, header=5)
    )
    assert not pixels[:, :5].any()
    assert pixels[:, 7:].any()


def test_hatching_draws_diagonals_into_the_chosen_cells():
    layout = lane_layout([2], (400, 100), zoom=24)
    cells = np.array([[True, False]])
    pixels = drawn(layout, cells, lambda canvas: canvas.hatch(cells, 5, 6))
    ys, xs = np.nonzero(pixels)
    assert set((xs + ys) % 6) == {0}
    assert xs.max() < layout.cell
    assert len(xs) > layout.cell


def test_the_shapes_of_the_pins_differ_in_more_than_colour():
    assert triangle(5)[0].sum() == 1
    assert triangle(5)[-1].all()
    assert square(5).all()


def test_a_mixture_goes_from_one_colour_to_the_other():
    black, white = np.array([0xFF000000], np.uint32), 0xFFFFFFFF
    assert mixed(black, white, 0.0)[0] == 0xFF000000
    assert mixed(black, white, 1.0)[0] == 0xFFFFFFFF
    assert mixed(black, white, 0.5)[0] == 0xFF7F7F7F
