"""The most memory that a process ever had, told by itself."""

import subprocess
import sys

# In a process of its own: this one may give back memory of other tests meanwhile.
TOUCHING = """
import psutil
from app.hardware.process import own_peak_bytes

MIB = 1024**2
before = own_peak_bytes()
assert before >= psutil.Process().memory_info().rss * 0.9
block = bytearray(b"\\1") * (before + 64 * MIB - psutil.Process().memory_info().rss)
assert own_peak_bytes() >= before + 32 * MIB
del block
assert own_peak_bytes() >= before + 32 * MIB
"""


def test_the_peak_stays_when_the_memory_is_given_back():
    done = subprocess.run([sys.executable, "-c", TOUCHING], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
