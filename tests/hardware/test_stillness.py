"""A process that neither computes nor reads is told from one that works."""

import signal
import subprocess
import sys

import pytest

from app.hardware.stillness import Stillness

BUSY = "print(flush=True)\nwhile True:\n    sum(range(10000))"


class Clock:
    """Seconds that pass when told."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def busy():
    """A process that computes all the time."""
    with subprocess.Popen([sys.executable, "-c", BUSY], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        yield process
        process.kill()


def looked(still, clock, seconds):
    clock.now += seconds
    still.look()
    return still.idle_seconds


def test_one_that_computes_is_never_idle(busy):
    clock = Clock()
    still = Stillness(busy.pid, clock)
    seen = []
    for _ in range(3):
        before = sum_of_times(busy.pid)
        while sum_of_times(busy.pid) == before:
            pass
        seen.append(looked(still, clock, 10))
    assert seen == [0, 0, 0]
    assert still.unread_seconds == 30, "computing is no reading"


@pytest.mark.skipif(sys.platform == "win32", reason="there is no signal that stops a process")
def test_one_that_is_held_is_idle_for_as_long_as_it_is(busy):
    busy.send_signal(signal.SIGSTOP)
    wait_until_stopped(busy.pid)
    clock = Clock()
    still = Stillness(busy.pid, clock)
    assert looked(still, clock, 10) == 10
    assert looked(still, clock, 5) == 15
    busy.send_signal(signal.SIGCONT)
    before = sum_of_times(busy.pid)
    while sum_of_times(busy.pid) == before:
        pass
    assert looked(still, clock, 5) == 0


def test_one_that_has_ended_does_nothing(busy):
    busy.kill()
    busy.wait()
    clock = Clock()
    still = Stillness(busy.pid, clock)
    assert looked(still, clock, 7) == 7


def sum_of_times(pid):
    import psutil

    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


def wait_until_stopped(pid):
    import psutil

    while psutil.Process(pid).status() != psutil.STATUS_STOPPED:
        pass
