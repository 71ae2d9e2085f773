"""What the tests of updates share: a private home, so that no test reads or writes the user's own data."""

import pytest


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    folder = tmp_path / "home"
    monkeypatch.setenv("EXPERT_LANES_HOME", str(folder))
    return folder
