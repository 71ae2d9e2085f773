"""What the tests of the hardware share: patience, for a busy machine keeps a thread from answering for a while."""

import pytest

from app.hardware import probe, sampling

PATIENCE_SECONDS = 10.0


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """What answers is waited for; tests of what hangs set the limits that they are about."""
    monkeypatch.setattr(sampling, "KERNEL_SECONDS", PATIENCE_SECONDS)
    monkeypatch.setattr(probe, "COMPLETE_SECONDS", PATIENCE_SECONDS)
