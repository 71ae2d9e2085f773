"""Which experts main memory and the disk hold together, and who decides which of them stay."""

import msgspec
import pytest
from factories import GIB, make_machine, qwen3_30b

from app.placement.evidence import planned
from app.placement.memory import bytes_off_gpus, expert_bytes
from app.placement.memory_share import memory_share
from app.placement.plan import CPU_LANE, DISK_LANE
from app.placement.planner import Wishes, make_plan
from app.placement.words import describe_gain, describe_lanes, describe_plan

FACTS = qwen3_30b()
SHORT = make_machine(ram=10 * GIB)


def test_with_a_budget_the_engine_keeps_what_was_used_last_within_it():
    plan = make_plan(FACTS, SHORT)
    share = memory_share(plan, FACTS)
    assert share.decides == "engine"
    assert share.kept_bytes == plan.resident_bytes
    assert share.total_bytes == bytes_off_gpus(FACTS, plan)
    assert share.layers == FACTS.moe_layers


def test_without_one_the_system_decides_and_no_layer_is_said_to_be_in_memory():
    plan = make_plan(FACTS, SHORT, Wishes(resident_bytes=0))
    first = [layer for layer, lane in plan.expert_lanes.items() if lane == CPU_LANE]
    share = memory_share(plan, FACTS)
    assert share.decides == "system"
    assert share.layers == FACTS.moe_layers
    assert share.kept_bytes == expert_bytes(FACTS, first) < share.total_bytes
    (line,) = describe_lanes(plan, FACTS)
    assert line == "CPU: experts of 48 layers (0–47), 16.3 GiB; the system decides which of them stay in memory"
    words = describe_plan(plan, FACTS)
    assert words.startswith("The system decides which experts stay in memory, which has room for about ")
    assert "Experts of all 48 layers on the CPU;" in words


def test_what_is_read_a_token_is_told_beside_it():
    plan = planned(FACTS, SHORT, Wishes(resident_bytes=0))
    assert plan.speed.cold_experts > 0
    assert " others a token are read from the disk (predicted); expect " in describe_gain(plan, FACTS)


@pytest.mark.parametrize("resident", [None, 0])
def test_where_memory_has_room_for_all_nothing_is_shared(resident):
    plan = make_plan(FACTS, make_machine(ram=30 * GIB), Wishes(resident_bytes=resident))
    assert DISK_LANE not in plan.expert_lanes.values()
    assert memory_share(plan, FACTS) is None
    assert "system decides" not in describe_plan(plan, FACTS)


def test_a_budget_for_all_experts_shares_nothing():
    plan = make_plan(FACTS, make_machine(ram=30 * GIB), Wishes(residency="mapped"))
    whole = msgspec.structs.replace(plan, resident_bytes=bytes_off_gpus(FACTS, plan))
    assert memory_share(whole, FACTS) is None
    less = msgspec.structs.replace(plan, resident_bytes=GIB)
    assert memory_share(less, FACTS).kept_bytes == GIB
