"""The most memory that this process ever had."""

import psutil

from app.hardware.process import own_peak_bytes

MIB = 1024**2


def test_the_peak_stays_when_the_memory_is_given_back():
    before = own_peak_bytes()
    assert before >= psutil.Process().memory_info().rss * 0.9
    block = bytearray(b"\1") * (before + 64 * MIB - psutil.Process().memory_info().rss)
    assert own_peak_bytes() >= before + 32 * MIB
    del block
    assert own_peak_bytes() >= before + 32 * MIB
