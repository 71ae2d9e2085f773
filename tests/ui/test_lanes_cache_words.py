"""The pool and single experts in words, and the room there is for a pool."""

import msgspec
import pytest
from ui_factories import MIB, make_experts, make_facts, make_machine, make_pool

from app.engine.protocol import Loaded
from app.placement.cache.facts import CacheReport
from app.placement.memory import spare_bytes
from app.placement.planner import make_plan, with_lanes
from app.ui.lanes import cache_words as words
from app.ui.lanes.pool import pool_room
from app.ui.truth_words import pool_in_words
from app.ui.words import in_percent


@pytest.fixture(autouse=True)
def _application(qapp):
    """Translations need an application."""


def report(**fields):
    return CacheReport(
        **{
            "requested_bytes": 64 * MIB,
            "allocated_bytes": 62 * MIB,
            "used": True,
            "reason": "",
            "hits": 71,
            "misses": 29,
            **fields,
        }
    )


def test_requested_allocated_and_used_are_three_facts():
    assert words.pool_text(make_pool()) == ("Requested 64.0 MiB, allocated 62.0 MiB, in use: 19 experts in 20 slots")
    refused = make_pool(allocated_bytes=0, used=False, slots=0, resident=0)
    assert words.pool_text(refused) == "Requested 64.0 MiB, allocated 0 B, not in use: 0 experts in 0 slots"


def test_a_full_pool_that_no_routed_expert_was_found_in_is_not_said_to_be_unused_and_full_at_once():
    assert words.pool_text(make_pool(used=False, slots=60, resident=60)) == (
        "Requested 64.0 MiB, allocated 62.0 MiB, holds 60 experts in 60 slots, but no routed expert was found there "
        "since the pool was set"
    )


@pytest.mark.parametrize("pool", [None, make_pool(requested_bytes=0, allocated_bytes=0, used=False)])
def test_no_pool_is_said_to_be_none(pool):
    assert words.pool_text(pool) == "No expert pool: the CPU computes the experts of its layers"


def test_memory_for_experts_that_pass_is_told_with_and_without_a_pool():
    passing = "8.0 MiB more on Vulkan0 for experts that are copied over for a prompt."
    assert words.staging_text(make_pool(staging_bytes=8 * MIB)) == passing
    none = make_pool(requested_bytes=0, allocated_bytes=0, used=False, staging_bytes=8 * MIB)
    assert words.staging_text(none) == passing
    assert words.staging_text(make_pool()) == words.staging_text(None) == ""


def test_a_refused_or_useless_pool_warns_and_one_that_only_waits_does_not():
    reason = "the device has no memory left"
    refused = make_pool(allocated_bytes=0, used=False, reason=reason)
    assert words.pool_warning(refused, 10 * MIB) == "The device has no memory left."
    small = make_pool(allocated_bytes=4 * MIB, reason="It will not help.")
    assert words.pool_warning(small, 10 * MIB) == "It will not help."
    waiting = make_pool(used=False, reason="No expert was routed to since the load.")
    assert words.pool_warning(waiting, 10 * MIB) == ""
    assert words.pool_note(waiting, 10 * MIB) == "No expert was routed to since the load."
    released = make_pool(requested_bytes=0, allocated_bytes=0, used=False, reason="No pool was asked for.")
    assert words.pool_warning(released, 10 * MIB) == ""
    assert words.pool_warning(None, 0) == words.pool_note(None, 0) == ""


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (1, "1 expert that you keep on the GPU has no slot in the pool."),
        (3, "3 experts that you keep on the GPU have no slot in the pool."),
    ],
)
def test_pins_without_a_slot_are_counted_also_without_a_pool(count, text):
    assert words.pool_warning(make_pool(unplaced_pins=count), 0) == text
    assert words.pool_warning(make_pool(requested_bytes=0, allocated_bytes=0, unplaced_pins=count), 0) == text


def test_the_hit_rate_is_told_only_where_it_was_counted_and_a_pool_was_asked_for():
    assert words.last_answer_text(report()) == "hits 71 % of routed experts in the last answer"
    assert words.last_answer_text(report(hits=0)) == "hits 0 % of routed experts in the last answer"
    for nothing in (None, report(misses=None), report(hits=0, misses=0), report(requested_bytes=0)):
        assert words.last_answer_text(nothing) == ""


@pytest.mark.parametrize(
    ("share", "text"), [(0, "0 %"), (0.001, "< 1 %"), (0.714, "71 %"), (0.999, "> 99 %"), (1, "100 %")]
)
def test_a_percentage_is_never_rounded_to_none_or_all(share, text):
    assert in_percent(share) == text


def test_a_layer_without_pool_and_pins_needs_no_words():
    assert words.residency_text(make_experts((1, 2, 3))) == ""


def test_the_truth_line_takes_the_latest_facts_and_without_a_look_the_last_answers():
    class Cache:
        facts = None
        last_answer = report()

    assert pool_in_words(Cache()) == (
        "Expert pool: requested 64.0 MiB, allocated 62.0 MiB, in use, hits 71 %",
        "",
    )
    Cache.last_answer = report(requested_bytes=0, allocated_bytes=0, used=False, reason="No pool was asked for.")
    assert pool_in_words(Cache()) == ("", "")
    Cache.last_answer = report(used=False, allocated_bytes=0, reason="no memory", hits=0)
    assert pool_in_words(Cache()) == ("Expert pool: requested 64.0 MiB, allocated 0 B, not in use", "no memory")


# ---- the room for a pool ---------------------------------------------------------------------------


def loaded(plan, **fields):
    told = {"seconds": 1.0, "n_ctx": 512, "buffers": (), "differences": (), "expert_device": True}
    return Loaded(**{**told, "expert_layers": plan.expert_lanes, **fields})


@pytest.fixture
def on_cpu():
    """A model with attention on the GPU and experts on the CPU lane: (facts, plan, machine)."""
    facts, machine = make_facts(layers=4, expert_mib=2), make_machine()
    return facts, with_lanes(make_plan(facts, machine), facts, machine, range(4), "CPU"), machine


def test_a_pool_may_take_what_the_plan_leaves_free_and_no_more_than_all_experts(on_cpu):
    facts, plan, machine = on_cpu
    room = pool_room(facts, plan, loaded(plan), machine, None)
    assert (room.device, room.why_not) == ("Vulkan0", "")
    assert room.most_bytes == 4 * 8 * 2 * MIB < spare_bytes(plan, machine, "Vulkan0")
    assert room.cycle_bytes == 4 * 2 * 2 * MIB
    used = machine.gpus[0].free_bytes - spare_bytes(plan, machine, "Vulkan0")
    tight = make_machine(gpus=(msgspec.structs.replace(machine.gpus[0], free_bytes=used + 20 * MIB),))
    assert pool_room(facts, plan, loaded(plan), tight, None).most_bytes == 20 * MIB
    # What the engine holds already is no less possible for a later probe's figure.
    assert pool_room(facts, plan, loaded(plan), tight, make_pool()).most_bytes == 64 * MIB


def test_every_reason_against_a_pool_is_told(on_cpu):
    facts, plan, machine = on_cpu
    told = loaded(plan)
    none = make_machine(gpu=False)
    on_gpu = loaded(plan, expert_layers=dict.fromkeys(range(4), "Vulkan0"))
    full = make_machine(gpus=(msgspec.structs.replace(machine.gpus[0], free_bytes=100 * MIB),))
    no_gpu = msgspec.structs.replace(plan, gpu=None)
    reasons = [
        (pool_room(facts, plan, told, none, None), "A pool needs a GPU, and none was found"),
        (pool_room(facts, plan, told, None, None), "A pool needs a GPU, and none was found"),
        (pool_room(None, None, None, machine, None), "Choose a model"),
        (pool_room(facts, plan, loaded(plan, expert_device=False, reason="ggml is too new"), machine, None), "ggml is"),
        (pool_room(facts, plan, on_gpu, machine, None), "All experts are on a GPU already"),
        (pool_room(facts, no_gpu, told, machine, None), "This plan uses no GPU."),
        (pool_room(facts, plan, told, full, None), "Vulkan0 has no room for a pool"),
    ]
    for room, words_of_it in reasons:
        assert room.why_not.startswith(words_of_it)
        assert room.most_bytes == 0
