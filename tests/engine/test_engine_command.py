"""How the engine child is started: from a checkout with Python, from the frozen app with itself."""

import sys

import pytest

from app.engine.client import engine_command


def test_a_checkout_starts_the_engine_with_its_own_python(monkeypatch):
    monkeypatch.delattr(sys, "frozen", raising=False)
    assert engine_command() == [sys.executable, "-P", "-m", "app", "--engine"]


@pytest.mark.parametrize("program", ["/opt/Expert Lanes/expert-lanes", "/usr/lib/expert-lanes/expert-lanes-window"])
def test_the_frozen_app_starts_itself_as_the_engine(monkeypatch, program):
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    monkeypatch.setattr(sys, "executable", program)
    assert engine_command() == [program, "--engine"]
