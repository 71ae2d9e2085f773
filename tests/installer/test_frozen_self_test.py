"""The self-test of a frozen app as the packaging runs it: in a home of its own, and its failure ends the build."""

import json
import os
from pathlib import Path

import pytest
import self_test

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the programs here are shell scripts")


def program(folder, text):
    path = folder / "expert-lanes"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_its_result_is_returned_and_told(tmp_path, capsys):
    told = program(tmp_path, """printf '{"answer": "%s", "home": "%s", "more": "%s"}' "$1" "$HOME" "$MORE" """)
    facts = self_test.self_test(told, "the app", MORE="yes")
    assert (facts["answer"], facts["more"]) == ("--self-test", "yes")
    assert facts["home"] != os.environ.get("HOME")
    assert not Path(facts["home"]).exists()
    assert capsys.readouterr().out == f"package: the app passed its self-test: {json.dumps(facts)}\n"


def test_nothing_of_this_environment_is_known_to_it(tmp_path, monkeypatch):
    monkeypatch.setenv("EXPERT_LANES_HOME", "/somewhere")
    told = program(tmp_path, """printf '{"home": "%s"}' "$EXPERT_LANES_HOME" """)
    assert self_test.self_test(told, "the app") == {"home": ""}


def test_a_failure_ends_everything_with_what_it_said(tmp_path):
    told = program(tmp_path, "echo no engine >&2; exit 5")
    with pytest.raises(SystemExit, match="ended with 5\nno engine"):
        self_test.self_test(told, "the app")
