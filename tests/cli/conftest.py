"""What the tests of the commands share: children that Ctrl-C reaches."""

import signal

import pytest


@pytest.fixture
def interruptible():
    """Children of this test end at SIGINT, also where the tests run with it ignored, as in a shell's background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before or signal.SIG_DFL)
