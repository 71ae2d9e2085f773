"""The command `simulate`: its keys, its table, and what it says about files and sizes that are wrong."""

import json
import os
import subprocess
import sys

import pytest
from made_traces import header, make_trace, skewed_trace, write_trace

from app.model import read_facts
from app.placement.cache import simulator
from app.placement.cache.trace import encode_header, encode_loss
from app.placement.plan import CachePolicy

KEYS = {
    "trace", "policy", "tokens", "routings", "cycle_slots", "cycle_bytes", "curve", "byte_curves", "pools",
    "replayed", "seconds", "memory",
}  # fmt: skip
PART_KEYS = {
    "hit_rate", "byte_hit_rate", "hits", "misses", "inserts", "evictions", "copied_bytes_per_token"
}  # fmt: skip


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A home of its own with the demonstration model."""
    folder = tmp_path_factory.mktemp("home") / "模型 è"
    folder.mkdir()
    assert run(folder, "demo", "--experts", 8, "--used", 2).returncode == 0
    return folder


@pytest.fixture(scope="module")
def recorded(home):
    """A trace of the demonstration model with its three first layers, its path and its facts."""
    facts = read_facts(next(home.rglob("*.gguf")))
    trace = skewed_trace(tokens=300, experts=8, used=2, fingerprint=facts.fingerprint, name=facts.name)
    path = home / "模型.trace"
    write_trace(path, trace, tail=encode_loss(12))
    return trace, path, facts


def run(home, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "app", *map(str, arguments)],
        capture_output=True, text=True, encoding="utf-8", timeout=240, check=False, stdin=subprocess.DEVNULL,
        env=dict(os.environ, EXPERT_LANES_HOME=str(home)),
    )  # fmt: skip


def run_json(home, *arguments, status=0):
    done = run(home, *arguments, "--json")
    assert done.returncode == status, done.stderr
    assert done.stdout.count("\n") == 1
    return json.loads(done.stdout)


def refusal(home, *arguments, status=2):
    return run_json(home, "simulate", *arguments, status=status)["error"]


def test_a_trace_without_a_model_is_told_by_slots(home, recorded):
    trace, path, _ = recorded
    told = run_json(home, "simulate", path, "--pool", "50%", "--pool", "3slots")
    assert set(told) == KEYS
    assert (told["tokens"], told["routings"], told["trace"]["lost"]) == (300, len(trace.entries), 12)
    assert (told["cycle_slots"], told["cycle_bytes"], told["byte_curves"]) == (2, None, None)
    assert [point["slots"] for point in told["curve"]] == list(range(9))
    hits = simulator.lru_hits(simulator.split_layers(trace))
    for point in told["curve"]:
        found = sum(of_layer[:, point["slots"]].sum() for of_layer in hits.values())
        assert point["whole"] == pytest.approx(found / len(trace.entries))
    half, three = told["pools"]
    assert (half["words"], half["slots"], half["share"], half["bytes"]) == ("50%", 12, 0.5, None)
    assert (three["slots"], three["holds_token_cycle"]) == (9, True)
    by_policy = {result["policy"]: result for result in half["policies"]}
    assert list(by_policy) == ["lru", "decay", "frozen", "oracle"]
    for result in half["policies"]:
        for part in ("whole", "transient", "steady"):
            assert set(result[part]) == PART_KEYS
        assert result["whole"]["hits"] + result["whole"]["misses"] == len(trace.entries)
        assert result["whole"]["hit_rate"] <= by_policy["oracle"]["whole"]["hit_rate"]
        assert [layer["layer"] for layer in result["layers"]] == [0, 1, 2]
    assert by_policy["frozen"]["filled"] == 12
    assert "hindsight" in by_policy["frozen"]["note"]
    assert told["replayed"] == len(trace.entries) * (1 + 2 * 4)


def test_with_the_model_pools_are_bytes_and_copies_too(home, recorded):
    trace, path, facts = recorded
    size = 3 * 4 * facts.expert_bytes[0]
    told = run_json(home, "simulate", path, "--model", "demo", "--pool", size, "--pool", "25%", "--policy", "lru")
    assert told["cycle_bytes"] == 3 * 2 * facts.expert_bytes[0]
    pool, quarter = told["pools"]
    assert (pool["bytes"], pool["slots"]) == (size, 12)
    assert quarter["bytes"] == size // 2
    [result] = pool["policies"]
    replayed = simulator.replay(simulator.split_layers(trace), CachePolicy(), dict.fromkeys(range(3), 4))
    inserts = sum(int(layer.inserts.sum()) for layer in replayed.values())
    assert result["whole"]["inserts"] == inserts
    assert result["whole"]["copied_bytes_per_token"] == pytest.approx(inserts * facts.expert_bytes[0] / 300)
    assert result["whole"]["byte_hit_rate"] == pytest.approx(result["whole"]["hit_rate"])
    curve = told["byte_curves"]["whole"]
    assert curve["basis"] == "trace"
    at_size = next(point for point in curve["points"] if point[0] == size)
    assert at_size[2] == pytest.approx(told["curve"][4]["whole"])


def test_the_settings_of_the_policy_and_pins_are_followed(home, recorded):
    trace, path, _ = recorded
    told = run_json(
        home, "simulate", path, "--policy", "lru", "--pool", "4slots", "--window", 0, "--insert-cap", 1,
        "--threshold", 0.3, "--decay", 0.9, "--margin", 2, "--pin", "0:1,3", "--pin", "2:5",
    )  # fmt: skip
    settings = {"insert_cap": 1, "window": 0, "threshold": 0.3, "decay": 0.9, "margin": 2}
    assert told["policy"] == told["policy"] | settings
    [result] = told["pools"][0]["policies"]
    assert result["filled"] == 3
    manual = run_json(home, "simulate", path, "--policy", "manual", "--pool", "4slots", "--pin", "0:1,3")
    [result] = manual["pools"][0]["policies"]
    assert result["whole"]["hits"] == sum(row[1] == 0 and row[2] in (1, 3) for row in trace.entries.tolist())
    assert (result["filled"], result["whole"]["inserts"]) == (2, 0)


def test_the_table_says_what_is_simulated_and_what_knows_the_future(home, recorded):
    _, path, _ = recorded
    done = run(home, "simulate", path, "--pool", "1slot", "--pool", "40%")
    assert done.returncode == 0, done.stderr
    text = done.stdout
    assert "300 tokens, 1,800 routings in 3 layers of 8 experts, top-2; 12 more were lost" in text
    assert "(token cycle)" in text
    assert "simulated" in text
    assert "hindsight" in text
    assert "foresight" in text
    assert "1slot: less than one token cycle, which is 2 slots a layer" in text
    assert sum(line.split()[:1] == ["40%"] for line in text.splitlines()) == 4


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--pool", "2GiB"), "only with --model"),
        (("--pool", "101%"), "100% are all experts"),
        (("--pool", "9slots"), "a layer has 8 experts"),
        (("--model", "demo", "--pool", "7EiB"), "A pool of 7.0 EiB is impossible"),
        (("--policy", "manual"), "--pin"),
        (("--pin", "7:0"), "Layer 7 has no experts that can be pinned"),
        (("--pin", "0:8"), "Layer 0 has no expert 8"),
        (("--decay", "0"), "decay"),
        (("--decay", "nan"), "decay"),
        (("--margin", "inf"), "margin"),
        (("--threshold", "2"), "threshold"),
    ],
)
def test_what_cannot_be_simulated_is_said_to_be_impossible(home, recorded, arguments, words):
    error = refusal(home, recorded[1], *arguments)
    assert error["code"] == "bad_usage"
    assert words in error["message"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--pool", "much"), "no pool"),
        (("--pool", "-5%"), "no pool"),
        (("--pin", "3"), "no pin"),
        (("--window", "-1"), "whole number"),
        (("--policy", "best"), "invalid choice"),
    ],
)
def test_arguments_that_mean_nothing_are_bad_usage(home, recorded, arguments, words):
    done = run(home, "simulate", recorded[1], *arguments[:1], *(f"{word}" for word in arguments[1:]))
    assert done.returncode == 2
    assert words in done.stderr or "expected one argument" in done.stderr


def test_files_that_are_no_whole_trace_are_refused_each_with_its_reason(home, recorded, tmp_path):
    file = tmp_path / "routing.trace"
    assert refusal(home, tmp_path / "none", status=3)["code"] == "file_missing"
    file.write_bytes(b"GGUF" * 100)
    assert "no routing trace" in refusal(home, file, status=3)["message"]
    file.write_bytes(encode_header(header(experts={0: 8})))
    assert "empty" in refusal(home, file)["message"]
    file.write_bytes(encode_header(header(experts={})))
    assert "empty" in refusal(home, file)["message"]
    write_trace(file, make_trace([(0, 0, 1, 0.5), (0, 0, 1, 0.5)], {0: 8}))
    error = refusal(home, file, status=3)
    assert error["code"] == "file_unreadable"
    assert "twice" in error["message"]


def test_a_trace_of_another_model_or_of_layers_that_it_lacks_is_refused(home, recorded, tmp_path):
    file = tmp_path / "routing.trace"
    write_trace(file, skewed_trace(tokens=3, name="Another one"))
    error = refusal(home, file, "--model", "demo")
    assert error["code"] == "bad_usage"
    assert "'Another one'" in error["message"]
    fingerprint = recorded[2].fingerprint
    for trace in (
        skewed_trace(tokens=3, experts=8, used=2, layers=(0, 99), fingerprint=fingerprint),
        skewed_trace(tokens=3, experts=9, used=2, fingerprint=fingerprint),
    ):
        write_trace(file, trace)
        assert "damaged" in refusal(home, file, "--model", "demo", status=3)["message"]


def test_a_name_in_a_trace_cannot_command_the_terminal(home, tmp_path):
    file = tmp_path / "routing.trace"
    write_trace(file, skewed_trace(tokens=3, name="evil\x1b[2J"))
    done = run(home, "simulate", file)
    assert done.returncode == 0
    assert "\x1b" not in done.stdout


def test_the_command_line_starts_without_numpy():
    program = "import sys, app.cli; print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
