"""`doctor` as a program: on this machine, on recorded ones, with a model, with a load, and with a broken engine."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from short_model import build_short_demo

from app import cli
from app.commands import doctor
from app.doctor.diagnosis import RULES
from app.doctor.record import SampleLine, read_record
from app.errors import AppError, ErrorCode
from app.hardware.samples import Sample

SNAPSHOTS = Path(__file__).resolve().parents[1] / "snapshots"
KEYS = {"hints", "fine", "not_judged", "notes"}
HINT_KEYS = {"rule", "title", "evidence", "action", "severity", "fix", "about"}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def model(home):
    return build_short_demo(home / "models" / "short.gguf")


def run(home, *arguments, **extra):
    return subprocess.run(
        [sys.executable, "-m", "app", "doctor", *map(str, arguments)],
        capture_output=True, text=True, encoding="utf-8", timeout=240, check=False, stdin=subprocess.DEVNULL,
        env=dict(os.environ, EXPERT_LANES_HOME=str(home), **extra),
    )  # fmt: skip


def run_json(home, *arguments, **extra):
    done = run(home, *arguments, "--json", **extra)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1
    found = json.loads(done.stdout)
    assert set(found) == KEYS
    assert all(set(hint) == HINT_KEYS for hint in found["hints"])
    told = {hint["rule"] for hint in found["hints"]} | set(found["fine"]) | {its["rule"] for its in found["not_judged"]}
    assert told == {rule.name for rule in RULES}
    return found


def test_this_machine_is_judged_without_a_model(home):
    found = run_json(home)
    assert "engine-files" in found["fine"]
    assert "name a model" in next(its["why"] for its in found["not_judged"] if its["rule"] == "idle-pool")


def test_a_recorded_machine_is_judged_and_hints_are_no_failure(home):
    done = run(home, "--snapshot", SNAPSHOTS / "laptop_nvidia_hybrid_single_channel.json")
    assert done.returncode == 0
    assert "Memory on a single channel" in done.stdout
    assert "38.4 GB/s" in done.stdout
    assert "Do: Add a module" in done.stdout


def test_a_fix_is_told_with_what_the_plan_has_now(home, model):
    found = run_json(
        home, model, "--snapshot", SNAPSHOTS / "desktop_nvidia_x16_dual_channel.json", "--gpu", "none", "--lock", "4TiB"
    )
    (fix,) = next(hint["fix"] for hint in found["hints"] if hint["rule"] == "locked-memory")
    assert fix["key"] == "lock_bytes"
    assert fix["now"] > fix["value"]


def test_a_load_on_a_software_device_judges_how_the_model_answers_and_its_record_is_judged_alike(home, model):
    plan = ("--gpu", "Vulkan0", "--layers", 0, "--pool", "8MiB", "--policy", "manual", "--threads", 1)
    record = home / "run.jsonl"
    found = run_json(home, model, "--load", *plan, "--record", record, GGML_VK_VISIBLE_DEVICES="0")
    again = run_json(home, "--replay", record)
    assert (again["hints"], again["fine"]) == (found["hints"], found["fine"])
    assert [its["rule"] for its in again["not_judged"]] == [its["rule"] for its in found["not_judged"]]
    assert str(home / "models") not in "".join(record.read_text(encoding="utf-8").splitlines()[1:])
    lines = [json.loads(line) for line in record.read_text(encoding="utf-8").splitlines()]
    kinds = [line["type"] for line in lines]
    assert kinds[:2] == ["doctor_record", "engine_files"]
    finished = lines[kinds.index("finished")]
    assert finished["completion_tokens"] > 0
    assert finished["text"] == "", "what was said is not written down"
    assert kinds.count("cache_facts") >= 3, "the engine was asked while it answered"
    words = run(home, "--replay", record).stdout
    assert "plan: kind manual → lru (--policy lru)" in words
    idle = next(hint for hint in found["hints"] if hint["rule"] == "idle-pool")
    assert "8.0 MiB was asked for" in idle["evidence"]
    assert "0 were computed in it" in idle["evidence"]
    assert idle["fix"] == [{"key": "kind", "value": "lru", "now": "manual"}]
    assert "missing-experts" in found["fine"]
    assert "3 answers" in next(its["why"] for its in found["not_judged"] if its["rule"] == "context")


def test_a_load_needs_a_model_and_this_machine(home, model):
    assert run(home, "--load").returncode == 2
    snapshot = SNAPSHOTS / "laptop_ryzen_uma.json"
    assert run(home, model, "--load", "--snapshot", snapshot).returncode == 2


def test_records_are_of_this_machine_and_replays_of_their_own_model(home, model, tmp_path):
    record = SNAPSHOTS / "pool_never_hit.jsonl"
    assert run(home, model, "--replay", record).returncode == 2
    assert run(home, "--replay", record, "--record", tmp_path / "x.jsonl").returncode == 2
    assert (
        run(home, "--snapshot", SNAPSHOTS / "laptop_ryzen_uma.json", "--record", tmp_path / "x.jsonl").returncode == 2
    )
    cut = tmp_path / "cut.jsonl"
    cut.write_bytes(record.read_bytes()[:-20])
    done = run(home, "--replay", cut)
    assert done.returncode == 2
    assert "cut.jsonl is no record" in done.stderr
    assert "Traceback" not in done.stderr


def test_this_machine_alone_can_be_recorded(home, tmp_path):
    record = tmp_path / "machine.jsonl"
    found = run_json(home, "--record", record)
    again = run_json(home, "--replay", record)
    assert (again["hints"], again["fine"]) == (found["hints"], found["fine"])
    assert [its["rule"] for its in again["not_judged"]] == [its["rule"] for its in found["not_judged"]]


def test_a_folder_of_models_that_a_link_leads_to_is_not_in_the_record(home, model, tmp_path):
    link, record = tmp_path / "secret place", tmp_path / "run.jsonl"
    link.symlink_to(model.parent, target_is_directory=True)
    assert run(home, link / model.name, "--gpu", "none", "--record", record).returncode == 0
    told = "".join(record.read_text(encoding="utf-8").splitlines()[1:])
    assert f"(scrubbed)/{model.name}" in told
    assert "secret place" not in told


def test_sizes_in_a_fix_are_told_as_people_read_them(home):
    done = run(home, "--replay", SNAPSHOTS / "memory_spills.jsonl")
    assert "plan: pool_bytes 2.0 GiB → 640.0 MiB (--pool 640MiB)" in done.stdout


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("vm_demo_thrashes_recorded", "(--resident 380MiB)"),
        ("integrated_gpu_slower", "plan: gpu Vulkan0 → none (--gpu none)"),
        ("pool_never_hit", "(--pool off)"),
        ("threads_twice_the_cores", "(--threads 8)"),
        ("mapped_file_thrashes", "(--ctx 4096)"),
        ("repacked_where_memory_is_short", "(--residency mapped)"),
        ("much_memory_locked", "(--lock 22"),
    ],
)
def test_a_fix_names_the_argument_that_makes_it(home, name, option):
    assert option in run(home, "--replay", SNAPSHOTS / f"{name}.jsonl").stdout


def test_an_engine_that_does_not_start_is_told_and_the_machine_judged_all_the_same(home, model, tmp_path):
    """As where a scanner took one of the engine's libraries: importing it fails."""
    package = tmp_path / "llama_cpp"
    package.mkdir()
    (package / "__init__.py").write_text("raise FileNotFoundError('Shared library with base name llama not found')\n")
    named = run_json(home, model, PYTHONPATH=str(tmp_path))
    assert "engine cannot be used" in next(its["why"] for its in named["not_judged"] if its["rule"] == "idle-pool")
    assert "rules that could be judged" in run(home, PYTHONPATH=str(tmp_path)).stdout
    found = run_json(home, PYTHONPATH=str(tmp_path))
    assert "The engine cannot be used" in found["notes"][0]
    assert "llama not found" in found["notes"][0]
    assert "did not" in next(its["why"] for its in found["not_judged"] if its["rule"] == "gpu-unseen")


def test_a_record_that_cannot_be_written_is_told_before_the_model_is_loaded(home, model, tmp_path):
    broken = tmp_path / "llama_cpp"
    broken.mkdir()
    (broken / "__init__.py").write_text("raise AssertionError('the engine was started')\n")
    for path in (tmp_path / "none" / "x.jsonl", tmp_path):
        done = run(home, model, "--load", "--record", path, PYTHONPATH=str(tmp_path))
        assert done.returncode == 2, done.stderr
        assert "could not be written" in done.stderr
        assert "engine" not in done.stderr


def test_a_record_of_before_is_kept_where_there_is_no_new_one(home, model, tmp_path):
    broken = tmp_path / "llama_cpp"
    broken.mkdir()
    (broken / "__init__.py").write_text("raise ImportError('gone')\n")
    before = tmp_path / "before.jsonl"
    before.write_text("before\n")
    for record in (before, tmp_path / "new.jsonl"):
        assert run(home, model, "--load", "--record", record, PYTHONPATH=str(tmp_path)).returncode == 5
    assert before.read_text() == "before\n"
    assert not (tmp_path / "new.jsonl").exists()


@pytest.mark.parametrize("unwritable", [False, True])
def test_what_was_seen_before_the_engine_died_is_recorded(home, model, tmp_path, monkeypatch, capsys, unwritable):
    record = tmp_path / "cut.jsonl"

    def dies(_client, _seen, _plan, _facts, lines, *, quiet):
        assert not quiet
        lines.append(SampleLine(sample=Sample(time_seconds=1.0, engine_rss_bytes=77), decoding=True))
        if unwritable:
            record.mkdir()
        raise AppError(ErrorCode.ENGINE_CRASHED, "The engine died.")

    monkeypatch.setenv("EXPERT_LANES_HOME", str(home))
    monkeypatch.setattr(doctor, "watch_answer", dies)
    assert cli.main(["doctor", str(model), "--load", "--gpu", "none", "--record", str(record)]) == 5
    told = capsys.readouterr().err
    assert "The engine died." in told
    if unwritable:
        assert "No record: " in told
    else:
        assert "What was seen until then is in" in told
        assert read_record(record).observation().latest.engine_rss_bytes == 77
