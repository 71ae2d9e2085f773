"""`tune` on the demonstration model, with so little time that it is the course of things that is tested."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from short_model import build_short_demo

from app.engine.client import EngineClient
from app.errors import AppError, ErrorCode
from app.library.speed_evidence import evidence_of
from app.library.tuned_plans import keep_tuned, key, tuned_plan
from app.model import read_facts
from app.placement.plan import CPU_LANE, Plan
from app.placement.tuner.types import Budget, Candidate, Choice, Trial, TunedPlan

RESULT_KEYS = {"kept", "reason", "best", "words", "before", "after", "tried", "cancelled", "seconds", "file"}
SHORT = Budget(prompt_tokens=8, decode_tokens=6)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A short model below a home of its own."""
    return build_short_demo(tmp_path_factory.mktemp("home") / "models" / "demo.gguf")


def tune(model, *arguments, **options):
    """Start it with one thread: two on a busy machine wait for each other for a minute."""
    words = [sys.executable, "-m", "app", "tune", model, "--ctx", 512, "--threads", 1, "--json", *arguments]
    return subprocess.Popen(
        list(map(str, words)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8",
        env=dict(os.environ, EXPERT_LANES_HOME=str(model.parents[1]), GGML_VK_VISIBLE_DEVICES=""), **options,
    )  # fmt: skip


def test_the_result_is_one_object_with_every_key(model):
    running = tune(model, "--minutes", 0.02)
    output, errors = running.communicate(timeout=300)
    assert running.returncode == 0, errors
    result = json.loads(output)
    assert set(result) == RESULT_KEYS
    assert (result["kept"], result["file"], result["cancelled"]) == (False, None, False)
    assert result["best"]["n_ctx"] == 512
    assert "[1] search: the plan as it is" in errors


def test_nothing_is_searched_where_nothing_can_be_kept(model):
    folder = model.parents[1] / "data" / "machine" / "tuned"
    folder.parent.mkdir(parents=True, exist_ok=True)
    assert not list(folder.glob("*.json"))
    for its in folder.glob(".*"):
        its.unlink()
    if folder.is_dir():
        folder.rmdir()
    folder.write_text("a file in place of the folder")
    running = tune(model, "--minutes", 600)
    output, errors = running.communicate(timeout=300)
    folder.unlink()
    assert running.returncode == 2
    assert json.loads(output)["error"]["code"] == "folder_not_writable"
    assert "search" not in errors


@pytest.mark.usefixtures("interruptible")
@pytest.mark.skipif(sys.platform == "win32", reason="signals to a console's group")
def test_ctrl_c_ends_it_with_what_there_is(model):
    running = tune(model, "--minutes", 60, start_new_session=True)
    seen = ""
    while "[2]" not in seen:
        line = running.stderr.readline()
        assert line, "it ended before the second trial"
        seen += line
    os.killpg(running.pid, signal.SIGINT)
    output, errors = running.communicate(timeout=300)
    assert running.returncode == 0, errors
    result = json.loads(output)
    assert result["cancelled"]
    assert not result["kept"]
    assert "cancelled" in result["reason"]


@pytest.mark.parametrize("minutes", ["0", "-1", "nan", "inf", "soon", "99999"])
def test_impossible_times_are_refused(model, minutes):
    running = tune(model, f"--minutes={minutes}")
    _, errors = running.communicate(timeout=300)
    assert running.returncode == 2
    assert "minutes" in errors


# ---- measuring in an engine ------------------------------------------------------------------


def trial_of(model, **changes):
    facts = read_facts(model)
    fields = {"gpu": None, "threads": 1, "threads_batch": 1, "n_ctx": 512, **changes}
    plan = Plan(
        model_files=facts.files, expert_lanes=dict.fromkeys(facts.moe_layers, CPU_LANE), **fields
    )  # fmt: skip
    candidate = Candidate(choice=Choice(), words="", plan=plan)
    return Trial(candidate=candidate, budget=SHORT, stage="search", number=1, remaining_seconds=None)


@pytest.fixture
def runner(model, monkeypatch):
    from app.commands.tuning import TrialRunner

    monkeypatch.setenv("EXPERT_LANES_HOME", str(model.parents[1]))
    monkeypatch.setenv("GGML_VK_VISIBLE_DEVICES", "")
    with EngineClient() as client:
        made = TrialRunner(client, EngineClient, time.monotonic)
        yield made, client
        made.close()


def test_a_trial_is_measured_in_the_engine(model, runner):
    outcome = runner[0].measure(trial_of(model))
    assert outcome.failure == ""
    assert outcome.decode > 0
    assert outcome.prompt > 0
    assert outcome.load_seconds > 0


@pytest.mark.skipif(sys.platform == "win32", reason="kills by signal")
def test_an_engine_that_dies_is_a_failed_trial_and_the_next_one_has_a_new_engine(model, runner):
    measuring, client = runner
    os.kill(client.pid, signal.SIGKILL)
    assert "killed" in measuring.measure(trial_of(model)).failure
    assert measuring.measure(trial_of(model)).failure == ""


def test_a_plan_that_cannot_be_loaded_is_a_failed_trial_and_a_model_that_is_gone_ends_it(model, runner):
    outcome = runner[0].measure(trial_of(model, gpu="CUDA9"))
    assert "CUDA9" in outcome.failure
    files = (str(model.with_name("gone.gguf")),)
    plan = Plan(model_files=files, gpu=None, expert_lanes={}, n_ctx=512)
    gone = Trial(
        candidate=Candidate(choice=Choice(), words="", plan=plan),
        budget=SHORT, stage="search", number=1, remaining_seconds=None,
    )  # fmt: skip
    with pytest.raises(AppError) as caught:
        runner[0].measure(gone)
    assert caught.value.code is ErrorCode.FILE_MISSING


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the system does not tell")
def test_the_engine_computes_on_the_processors_of_the_plan_and_later_on_all_again(model, runner):
    measuring, client = runner
    first = min(os.sched_getaffinity(0))
    assert measuring.measure(trial_of(model, cpu_cores=(first,))).failure == ""
    assert os.sched_getaffinity(client.pid) == {first}
    assert measuring.measure(trial_of(model)).failure == ""
    assert os.sched_getaffinity(client.pid) == os.sched_getaffinity(0)
    assert "processor 9999" in measuring.measure(trial_of(model, cpu_cores=(9999,))).failure


# ---- what is kept ----------------------------------------------------------------------------


def test_a_kept_plan_is_found_for_the_same_model_machine_and_engine_only(model, monkeypatch, tmp_path):
    from app.hardware.facts import Cpu, Disk, Machine, Ram

    monkeypatch.setenv("EXPERT_LANES_HOME", str(tmp_path))
    facts = read_facts(model)
    cpu = Cpu(name="P", physical_cores=4, performance_cores=4, logical_cores=8, isa=())
    ram = Ram(total_bytes=2**34, available_bytes=2**33)
    disk = Disk(path="/", total_bytes=None, free_bytes=None)
    machine = Machine(os="Linux 6", cpu=cpu, ram=ram, gpus=(), disk=disk, engine=None)
    names = key(facts, machine)
    plan = trial_of(model, threads=3).candidate.plan
    record = TunedPlan(
        model=names[0], machine=names[1], engine=names[2], plan=plan, words="3 threads",
        before=None, after=None, tuned_at="2026-01-01T00:00:00+00:00",
    )  # fmt: skip
    assert tuned_plan(facts, machine) is None
    assert keep_tuned(record, facts, machine).is_file()
    assert tuned_plan(facts, machine) == record
    assert evidence_of(facts, machine).tuned == record
    more_cores = Machine(
        os="Linux 6", ram=ram, gpus=(), disk=disk, engine=None,
        cpu=Cpu(name="P", physical_cores=8, performance_cores=8, logical_cores=8, isa=()),
    )  # fmt: skip
    assert tuned_plan(facts, more_cores) is None
