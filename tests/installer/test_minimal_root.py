"""Minimal roots: what they take over from this machine, what they must not have, and why there may be none."""

import os

import minimal_root
import pytest
from minimal_root import Root


def test_how_mirrors_are_reached_is_taken_over_and_nothing_else():
    settings = [
        'Acquire::GzipIndexes "true";\n',
        'Acquire::Check-Valid-Until "false";\n',
        'Acquire::http::Proxy "http://proxy.example:3128";\n',
        'Acquire::IndexTargets::deb::DEP-11 "";\n',
    ]
    assert minimal_root._wanted(settings) == settings[1:3]


def test_a_root_with_a_developers_tools_is_not_minimal(tmp_path):
    (tmp_path / "usr/bin").mkdir(parents=True)
    (tmp_path / "usr/bin/env").touch()
    Root(tmp_path).check_minimal()
    (tmp_path / "usr/bin/python3").symlink_to("python3.11")
    with pytest.raises(SystemExit, match="python3"):
        Root(tmp_path).check_minimal()


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="no users of this kind")
def test_without_an_administrator_the_reason_is_told(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "administrator" in minimal_root.why_not()


def test_programs_inside_get_only_the_environment_that_is_given(tmp_path):
    command = Root(tmp_path).command("program", "--option", environment={"HOME": "/home/user"}, user=1000)
    assert command[-5:] == ["env", "-i", "HOME=/home/user", "program", "--option"]
    assert command[command.index(str(tmp_path)) + 1] == "1000:1000"
