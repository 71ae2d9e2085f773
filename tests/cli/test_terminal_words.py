"""What the terminal says of the expert cache after an answer."""

import pytest

from app.placement.cache.facts import CacheReport
from app.terminal import cache_words

MIB = 1024**2


def report(**fields):
    values = {
        "requested_bytes": 64 * MIB, "allocated_bytes": 64 * MIB, "used": True, "reason": "", "hits": 812,
        "misses": 628, "copied_bytes": 12 * MIB,
    }  # fmt: skip
    return CacheReport(**{**values, **fields})


def test_hits_of_routed_experts_and_bytes_are_one_line():
    assert cache_words(report()) == ("pool 64.0 MiB: 812 of 1,440 routed experts were in it (56 %), 12.0 MiB copied")


def test_without_a_pool_there_is_nothing_to_say():
    assert cache_words(report(requested_bytes=0, allocated_bytes=0, used=False)) == ""


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"allocated_bytes": 60 * MIB}, "pool 60.0 MiB of 64.0 MiB asked for: 812 of"),
        ({"streamed": 7}, ", 7 copied over for one token,"),
        ({"used": False, "hits": 0, "reason": "It was lost."}, "not used, 0 of 628 routed experts were in it (0 %)"),
        ({"used": False, "hits": 0, "misses": None, "copied_bytes": 0, "reason": "Gone."}, "MiB: not used. Gone."),
        ({"reason": "It is too small."}, "copied. It is too small."),
    ],
)  # fmt: skip
def test_what_is_not_as_asked_is_said_with_its_reason(fields, words):
    assert words in cache_words(report(**fields))
