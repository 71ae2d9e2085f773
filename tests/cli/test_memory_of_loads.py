"""`plan` and `chat` on memory: a dry run in place of the estimate, what a load shows, and what is learnt of it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A home of its own."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def demo(home):
    return Path(run(home, "demo", "--json")["path"])


def run(home, *arguments, text=False):
    done = subprocess.run(
        [sys.executable, "-m", "app", *map(str, arguments)],
        capture_output=True, text=True, timeout=240, check=False, stdin=subprocess.DEVNULL,
        env=dict(os.environ, EXPERT_LANES_HOME=str(home)),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout if text else json.loads(done.stdout)


def parts(plan):
    return {(part["device"], part["part"]): part for part in plan["memory"]}


def test_a_plan_for_this_machine_has_llama_cpps_own_figures_and_says_so(home, demo):
    found = parts(run(home, "plan", demo, "--gpu", "none", "--json"))
    assert {found["CPU", part]["basis"] for part in ("weights", "kv", "compute")} == {"dry run"}
    assert found["CPU", "context"]["basis"] == "estimated"
    text = run(home, "plan", demo, "--gpu", "none", text=True)
    assert "from llama.cpp's dry run" in text
    assert "from the model's tables" in text


def test_a_load_shows_prediction_report_and_observation_and_the_next_plan_knows(home, demo):
    answer = run(home, "chat", demo, "--gpu", "none", "-p", "Hello", "--max-tokens", 2, "--json")
    memory = answer["loaded"]["memory"]
    assert memory["dry_run"] is True
    rows = {(row["device"], row["part"]): row for row in memory["parts"]}
    for part in ("kv", "compute"):
        assert rows["CPU", part]["predicted_bytes"] == rows["CPU", part]["reported_bytes"]
    [ram] = memory["devices"]
    assert ram["device"] == "CPU"
    assert ram["observed_bytes"] > rows["CPU", "kv"]["reported_bytes"]
    assert "operating system" in ram["source"]
    learnt = parts(run(home, "plan", demo, "--gpu", "none", "--json"))["CPU", "context"]
    assert (learnt["basis"], learnt["bytes"]) == ("learnt", ram["unreported_bytes"])
    assert "as loads showed" in run(home, "probe", text=True)


def test_a_plan_for_another_machine_is_estimated(home, demo, tmp_path):
    profile = tmp_path / "machine.json"
    profile.write_text(run(home, "probe", "--json", text=True))
    found = parts(run(home, "plan", demo, "--hardware", profile, "--gpu", "none", "--json"))
    assert found["CPU", "compute"]["basis"] == "estimated"


def test_a_damaged_record_of_loads_is_told_with_the_plan(home, demo):
    record = home / "data" / "machine" / "memory.json"
    record.parent.mkdir(parents=True, exist_ok=True)
    before = record.read_bytes() if record.is_file() else None
    record.write_bytes(b"{")
    assert "What loads showed" in run(home, "plan", demo, "--gpu", "none", "--json")["notes"][0]
    assert "memory.json is damaged" in run(home, "plan", demo, "--gpu", "none", text=True)
    record.unlink()
    if before is not None:
        record.write_bytes(before)
