"""What a lane says of one expert, to who points at it and to a screen reader."""

import pytest
from board_factories import plan_of, shown
from ui_factories import make_experts

from app.placement.plan import ExpertPin
from app.ui.lanes.lane_words import cell_text

PLAN = plan_of("Vulkan0", "CPU", "CPU", "disk", pins=(ExpertPin(layer=2, expert=1, pin="cpu"),))
REPORTED = {
    1: make_experts((30, 1, 0, 9, 0, 0, 0, 0), lanes="gcmccccc", pins="gaaaaaac", slots=2),
    2: make_experts((0,) * 8, lanes="cccccccc", pins="acaaaaaa", slots=2),
}


@pytest.mark.parametrize(
    ("row", "expert", "text"),
    [
        (1, 0, "Layer 1, expert 0: routed 30 times, 75 % of this layer, 1.0 MiB, Vulkan0 lane, kept on the GPU by you"),
        (1, 1, "Layer 1, expert 1: routed once, 2.5 % of this layer, 1.0 MiB, CPU lane"),
        (1, 2, "Layer 1, expert 2: routed 0 times, 0 % of this layer, 1.0 MiB, CPU lane, being copied to the GPU pool"),
        (2, 1, "Layer 2, expert 1: no routing counted yet, 1.0 MiB, CPU lane, kept on the CPU by you"),
        (3, 7, "Layer 3, expert 7: no routing counted yet, 1.0 MiB, disk lane"),
    ],
)
def test_a_screen_reader_hears_the_whole_expert(row, expert, text):
    assert cell_text(shown(PLAN, REPORTED), row, expert) == text
