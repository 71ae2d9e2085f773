"""`calibrate`: the record it prints and keeps, words, bad values, and Ctrl-C."""

import json
import os
import signal
import subprocess
import sys

import pytest

KEYS = {
    "version", "machine", "engine", "measured_at", "seconds", "compute", "copies", "overlaps", "layer_costs", "disk",
    "skipped", "busy_share",
}  # fmt: skip


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("home")


def environment(home):
    return dict(os.environ, EXPERT_LANES_HOME=str(home), GGML_VK_VISIBLE_DEVICES="")


def run(home, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "app", "calibrate", *map(str, arguments)],
        capture_output=True, text=True, timeout=240, check=False, env=environment(home), stdin=subprocess.DEVNULL,
    )  # fmt: skip


@pytest.fixture(scope="module")
def demo(home):
    made = subprocess.run(
        [sys.executable, "-m", "app", "demo", "--experts", "8", "--used", "2", "--json"],
        capture_output=True, text=True, check=True, env=environment(home),
    )  # fmt: skip
    return json.loads(made.stdout)["path"]


@pytest.fixture(scope="module")
def measured(home, demo):
    done = run(home, demo, "--gpu", "none", "--seconds", 30, "--json")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1
    return json.loads(done.stdout)


def test_json_is_the_record_with_the_model_s_own_types(measured):
    assert set(measured) == KEYS
    assert {rate["type"] for rate in measured["compute"]} == {"q4_1"}
    assert measured["compute"][0]["device"] == "CPU"
    assert measured["compute"][0]["bytes_per_second"] > 0


def test_the_record_is_kept_for_this_machine(home, measured):
    path = home / "machine" / f"calibration-{measured['machine']}.json"
    found = list(home.rglob(path.name))
    assert found, "the record is in the data folder"
    kept = json.loads(found[0].read_text())
    assert measured in kept["calibrations"]


def test_words_have_units(home):
    done = run(home, "--gpu", "none", "--seconds", 2)
    assert done.returncode == 0, done.stderr
    assert "Processor, expert weights in RAM:" in done.stdout
    assert "GB/s" in done.stdout
    assert "µs beside its products" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--seconds", "nan"), "not between 2 and 600 seconds"),
        (("--seconds", "0"), "not between 2 and 600 seconds"),
        (("--gpu", "CUDA7", "--seconds", "2"), "There is no device CUDA7"),
        (("/nowhere.gguf",), "nowhere.gguf"),
    ],
)
def test_bad_values_are_told(home, arguments, words):
    done = run(home, *arguments)
    assert done.returncode != 0
    assert words in done.stderr


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_ends_it_without_a_record(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-m", "app", "calibrate", "--gpu", "none", "--seconds", "600", "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(tmp_path),
    )  # fmt: skip
    engine_log = tmp_path
    while not list(engine_log.rglob("engine-output-*.log")):  # the child is up: what follows is asked of it
        assert process.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(3)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=300)
    assert process.returncode == 2
    assert json.loads(out)["error"]["code"] == "cancelled"
    assert not list(tmp_path.rglob("calibration-*.json"))


def test_what_could_not_be_kept_is_not_measured(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "machine").write_text("a file in place of the folder")
    done = run(tmp_path, "--gpu", "none", "--seconds", 500, "--json")  # it would end by the time limit of `run`
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["code"] == "folder_not_writable"


def test_a_damaged_record_is_told_before_anything_is_measured(home, measured):
    path = next(home.rglob(f"calibration-{measured['machine']}.json"))
    whole = path.read_bytes()
    path.write_text("{")
    done = run(home, "--gpu", "none", "--seconds", 500, "--json")
    assert done.returncode == 3
    assert "is damaged; once it is moved away" in json.loads(done.stdout)["error"]["message"]
    assert path.read_text() == "{"
    path.write_bytes(whole)
