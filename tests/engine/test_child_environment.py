"""What the engine's process is started with."""

import pytest

from app.engine.client import child_environment


@pytest.mark.parametrize("name", ["CUDA_PATH", "HIP_PATH"])
def test_a_toolkit_that_the_machine_names_is_not_passed_on_for_it_may_be_gone(monkeypatch, name):
    monkeypatch.setenv(name, "/gone")
    monkeypatch.setenv("UNTOUCHED", "1")
    environment = child_environment()
    assert name not in environment
    assert environment["UNTOUCHED"] == "1"
