"""What is drawn into cells: the same whatever part of the lane is painted at a time, and made again only if other."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lane_driver import picture, shown_view
from PySide6.QtGui import QColor
from told_board import ToldController, told_state
from ui_factories import make_experts

from app.ui.lanes import lane_cards, lane_paint, lane_stamps
from app.ui.lanes.lane_contents import LaneContents
from app.ui.lanes.lane_stamps import Stamps
from app.ui.lanes.packing import Packing
from app.ui.lanes.words import percent

PLACES = (np.repeat(np.arange(4), 8), np.tile(np.arange(8), 4))


def contents_of(state):
    """All cells of a board as one lane's."""
    board = state.board
    return LaneContents(
        board=board, packing=Packing(np.ones(board.lane.shape, bool)), selected=state.selection.mask, hatched=True
    )


@pytest.mark.parametrize("zoom", [18, 30, 72, 110])
def test_cells_look_the_same_however_many_rows_are_painted_at_a_time(qtbot, theme, monkeypatch, zoom):
    controller = ToldController(layers=12, experts=24)
    controller.tell_layer(1, routed=tuple(range(24)), lanes="c" * 20 + "mmcc", pins="agc" * 8, slots=4)
    looks = []
    for pixels in (1, 40_000, 10**9):
        monkeypatch.setattr(lane_paint, "_NEAR_PIXELS", pixels)
        view = shown_view(qtbot, controller, theme, size=(420, 330), zoom=zoom)
        view.verticalScrollBar().setValue(13)
        looks.append(picture(view))
    assert looks[0] == looks[1] == looks[2]


@given(
    st.lists(st.lists(st.integers(0, 9999), min_size=8, max_size=8), min_size=4, max_size=4),
    st.lists(st.booleans(), min_size=4, max_size=4),
)
@settings(max_examples=50, deadline=None)
def test_cells_have_one_code_exactly_where_their_shares_read_the_same(qapp, routed, told):
    controller = ToldController(layers=4, experts=8)
    state = told_state(controller)
    controller.tell({layer: make_experts(tuple(counts)) for layer, counts in enumerate(routed)})
    controller.cache.facts.layers = {layer: its for layer, its in controller.cache.facts.layers.items() if told[layer]}
    state.refresh()
    contents = contents_of(state)
    codes = contents.share_codes(*PLACES).tolist()
    texts = [contents.share_text(int(row), int(expert)) for row, expert in zip(*PLACES, strict=True)]
    # "10.0 %" and "10 %" are the same share.
    shares = [text if text in ("–", "< 0.01 %") else float(text.removesuffix(" %")) for text in texts]
    assert len(set(zip(codes, shares, strict=True))) == len(set(codes)) == len(set(shares))


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.0, "0"),
        (0.00001, "< 0.01"),
        (0.0001, "0.01"),
        (0.00784, "0.78"),
        (0.021, "2.1"),
        (0.0225, "2.3"),
        (0.125, "13"),
        (1.0, "100"),
    ],
)
def test_a_share_is_rounded_as_figures_are_everywhere(share, text):
    assert percent(share) == text


CARD = ((10.0, 8.0, 7.0), QColor("black"))


def test_pictures_beyond_the_most_that_are_kept_replace_the_oldest_alone(qapp, monkeypatch):
    monkeypatch.setattr(lane_stamps, "MOST_CARDS", 3)
    stamps, made = Stamps(qapp.font(), 1.0), []
    lines = stamps.lines
    monkeypatch.setattr(stamps, "lines", lambda *card: made.append(card[0][0]) or lines(*card))
    for name in "abcdbcda":
        assert stamps.card((name, "2 %", "1 MiB"), *CARD, 70.0)
    assert made == list("abcda")


def test_a_card_has_as_many_lines_as_it_has_room_for(qapp):
    stamps = Stamps(qapp.font(), 2.0)
    texts = ("7", "2 %", "1 MiB")
    assert stamps.card(texts, *CARD, 6.0) == stamps.lines(texts, *CARD, 6.0) == ()
    assert 0 < len(stamps.lines(texts, *CARD, 24.0)) < len(stamps.lines(texts, *CARD, 80.0)) == 3


def test_cards_that_are_not_one_picture_yet_look_the_same(qtbot, theme, monkeypatch):
    controller = ToldController(layers=12, experts=24)
    controller.tell_layer(1, routed=tuple(range(24)), slots=4)
    looks = []
    for most in (0, 3, 1000):
        monkeypatch.setattr(lane_cards, "_MOST_NEW", most)
        view = shown_view(qtbot, controller, theme, size=(420, 330), zoom=72)
        looks += [picture(view), picture(view)]
    assert all(look == looks[0] for look in looks)
