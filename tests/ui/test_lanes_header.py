"""The head of a lane: a warning of the pool leaves room for the experts where the dock is low."""

import pytest

from app.ui.lanes.header import LaneHeader, PoolShown
from app.ui.lanes.lane_info import GPU, LaneInfo

WARNING = "A pool of 64.0 MiB helps little: it has 1 slot in each layer. What would help: more of it."


@pytest.fixture
def header(theme, qtbot):
    made = LaneHeader(LaneInfo(key="Vulkan0", kind=GPU, title="GPU", words="A card", free_bytes=2**30), theme)
    qtbot.addWidget(made)
    made.show_pool(PoolShown(2**30, 2**26, "64.0 MiB in use.", "A tip.", warning=WARNING))
    return made


def test_a_compact_head_keeps_the_start_of_a_warning_and_tells_all_of_it_to_pointer_and_reader(header):
    header.set_compact(True)
    assert header._pool_warning.text() == "A pool of 64.0 MiB helps little …"
    assert header._pool_warning.toolTip() == WARNING
    assert WARNING.rstrip(".") in header.text
    header.set_compact(False)
    assert header._pool_warning.text() == WARNING
    assert header._pool_warning.toolTip() == ""


def test_a_warning_that_has_gone_is_not_shown(header):
    header.set_compact(True)
    header.show_pool(PoolShown(2**30, 2**27, "128.0 MiB in use.", "A tip."))
    assert header._pool_warning.isHidden()
    assert header._pool_warning.text() == header._pool_warning.toolTip() == ""
