"""An order for the memory of mapped experts: when it is known what came of it, its figures, and what is said of it."""

import pytest
from ui_factories import MIB

from app.placement.cache.facts import MemoryFacts
from app.ui.lanes.memory_order_words import order_text
from app.ui.memory_order import LOOKS, MemoryOrder


def memory(resident, *, evictions=0):
    """32 MiB of experts, a budget of 16, `resident` MiB in memory."""
    return MemoryFacts(
        budget_bytes=16 * MIB,
        trusted_bytes=16 * MIB,
        resident_bytes=resident * MIB,
        total_bytes=32 * MIB,
        evictions=evictions,
        stale=0,
        reads=True,
    )


def given(warm, before, *readings):
    """An order that the engine took, and what it told since."""
    order = MemoryOrder(warm=warm, before=memory(before), answered=True)
    for reading in readings:
        order = order.seen(reading)
    return order


def test_what_is_asked_is_said_as_asked_until_the_engine_answers():
    warm, release = MemoryOrder(warm=True, before=memory(0)), MemoryOrder(warm=False, before=memory(16))
    assert order_text(warm) == "Asked the engine to read the hottest experts in…"
    assert order_text(release) == "Asked the engine to give up the memory of experts…"
    assert warm.seen(memory(16)) is warm, "a reading before the answer tells nothing of it"
    assert order_text(None) == ""


def test_what_came_into_memory_is_told_when_a_second_reading_shows_it():
    once = given(True, 4, memory(16))
    assert once.open
    assert order_text(once).startswith("Asked")
    twice = once.seen(memory(16))
    assert not twice.open
    assert order_text(twice) == "12.0 MiB of experts called into memory: 16.0 MiB of 32.0 MiB are there or being read."


def test_what_was_given_up_is_the_least_that_was_left_whatever_is_read_again_meanwhile():
    order = given(False, 16, memory(0), memory(2))
    assert order_text(order) == "16.0 MiB of main memory given up: 0 B of 32.0 MiB are in memory."


def test_an_order_that_waits_for_a_layer_is_followed_until_it_shows():
    order = given(False, 16, memory(16), memory(16), memory(16))
    assert order.open
    assert not order.seen(memory(0)).open


def test_a_warm_up_of_full_memory_tells_how_many_gave_their_places():
    order = given(True, 16, memory(16, evictions=3), memory(16, evictions=3))
    assert order_text(order) == (
        "3 experts gave their places in memory to hotter ones: 16.0 MiB of 32.0 MiB are there or being read."
    )
    assert order_text(given(True, 16, memory(16, evictions=1), memory(16, evictions=1))).startswith("1 expert gave its")


@pytest.mark.parametrize(
    ("warm", "words"),
    [
        (True, "Nothing had to be read in: 16.0 MiB of 32.0 MiB are in memory, as before."),
        (False, "No memory was given up: 16.0 MiB of 32.0 MiB are in memory, as before."),
    ],
)
def test_an_order_that_changes_nothing_says_so_after_some_readings(warm, words):
    order = given(warm, 16, *[memory(16)] * (LOOKS - 1))
    assert order.open
    assert order_text(order.seen(memory(16))) == words


def test_a_refusal_a_late_answer_and_an_engine_that_ends_are_told():
    asked = MemoryOrder(warm=True, before=memory(0))
    assert order_text(asked.ended("No room.")) == "No experts were read in: No room."
    assert order_text(MemoryOrder(warm=False).ended("No.")) == "The memory of experts was not given up: No."
    late = MemoryOrder(warm=True, late=True)
    assert order_text(late) == "Asked the engine to read the hottest experts in… It has not answered yet."
    done = given(True, 4, memory(16), memory(16))
    assert done.ended("The engine ended.") is done, "what came of it is known"


def test_without_figures_nothing_is_made_up():
    order = MemoryOrder(warm=False, answered=True)
    for _ in range(LOOKS):
        order = order.seen(None)
    assert order_text(order) == "The engine took the order, and tells nothing of what is in memory."
