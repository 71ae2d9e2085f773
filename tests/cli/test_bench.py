"""`bench`: a real quick run against stock, its JSON, its table, its chart, an end before time, bad input."""

import json
import os
import signal
import subprocess
import sys

import pytest
from short_model import build_short_demo

from app.commands import bench_runs
from app.errors import AppError, ErrorCode
from app.placement.plan import Plan
from app.placement.scenarios.schedule import OURS, QUICK, make_cases, schedule

PLAN = Plan(model_files=("/models/none.gguf",), gpu=None, expert_lanes={}, n_ctx=2048)
MODEL = "models/short demo.gguf"
SCENARIOS = ("chat", "long-context", "batch8", "conflict", "sweep")
RESULT_KEYS = {
    "scenario", "case", "variant", "threads", "n_ubatch", "prompt", "transient", "steady", "decode", "hit_rate",
    "context_tokens", "peak_ram_bytes", "vram_bytes", "steady_per_gib_ram", "steady_per_gib_vram", "buffers",
}  # fmt: skip


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench home è")
    build_short_demo(folder / MODEL)
    return folder


def start(home, *arguments, **extra):
    return subprocess.Popen(
        [sys.executable, "-m", "app", *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, encoding="utf-8",
        env=dict(environment(home), **extra),
    )  # fmt: skip


def environment(home):
    kept = {name: value for name, value in os.environ.items() if name not in ("DISPLAY", "QT_QPA_PLATFORM")}
    # Without a wish for the GPU that is played by the processor nobody waits for its driver.
    return dict(kept, EXPERT_LANES_HOME=str(home), GGML_VK_VISIBLE_DEVICES="")


def run(home, *arguments, **extra):
    with start(home, *arguments, **extra) as process:
        try:
            out, errors = process.communicate(timeout=500)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    return subprocess.CompletedProcess(arguments, process.returncode, out, errors)


def quick(home, *arguments, **extra):
    return run(home, "bench", home / MODEL, "--quick", "--threads", 1, *arguments, **extra)


@pytest.fixture(scope="module")
def whole(home):
    """Everything once, against stock, with a chart; without a display."""
    chart = home / "chart.png"
    done = quick(
        home, "--scenario", "all", "--against", "stock", "--rounds", 1, "--gpu", "none", "--chart", chart, "--json"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1
    return json.loads(done.stdout), chart, done.stderr


def test_every_scenario_is_measured_with_both_variants(whole):
    told, _, _ = whole
    assert told["scenarios"] == list(SCENARIOS)
    assert (told["complete"], told["quick"], told["failures"]) == (True, True, [])
    for result in told["results"]:
        assert set(result) == RESULT_KEYS
        assert result["prompt"]["median"] > 0
        assert result["steady"]["samples"] == 1
        assert result["peak_ram_bytes"] > 50_000_000
        assert result["steady_per_gib_ram"] > 0
        assert result["vram_bytes"] == 0
    pairs = {(result["scenario"], result["variant"]) for result in told["results"]}
    assert pairs == {(scenario, variant) for scenario in SCENARIOS for variant in ("ours", "stock")}


def test_ours_decodes_what_stock_decodes(whole):
    told, _, _ = whole
    assert {ratio["case"] for ratio in told["ratios"]} == {result["case"] for result in told["results"]}
    assert all(ratio["same_text"] for ratio in told["ratios"])
    assert all(ratio["steady"]["median"] > 0 for ratio in told["ratios"])


def test_every_step_is_told_divided_where_the_subject_changes(whole):
    told, _, _ = whole
    steps = {sample["case"]: [len(steps) for steps in sample["stretches"]] for sample in told["samples"]}
    assert steps["chat"] == [12]  # two turns on one subject
    assert steps["conflict"] == [4, 4, 4]
    together = next(sample for sample in told["samples"] if sample["case"] == "batch8")
    assert together["sequences"] == 8
    long = next(sample for sample in told["samples"] if sample["case"] == "long-context")
    assert 400 < long["context_tokens"] <= 512


def test_the_plans_are_told_and_the_sweep_changes_them(whole):
    told, _, _ = whole
    for result in told["results"]:
        plan = told["plans"][result["case"]][result["variant"]]
        if result["scenario"] == "sweep":
            assert (plan["threads"], plan["n_ubatch"]) == (result["threads"], result["n_ubatch"])
        assert plan["n_seq_max"] == (8 if result["scenario"] == "batch8" else 1)


def test_progress_with_the_time_left_goes_to_standard_error(whole):
    _, _, errors = whole
    assert "long-context, stock, round 1, about" in errors
    assert "left" in errors


def test_a_chart_is_drawn_without_a_display(whole):
    told, chart, _ = whole
    assert told["chart"] == str(chart)
    assert chart.read_bytes().startswith(b"\x89PNG")


def test_the_table_says_what_was_measured_and_that_it_was_quick(home):
    done = quick(home, "--scenario", "conflict", "--rounds", 2, "--gpu", "none", "--chart", home / "chart.svg")
    assert done.returncode == 0, done.stderr
    assert "conflict  ours" in done.stdout
    assert "Medians of 2 rounds" in done.stdout
    assert "peak RAM" in done.stdout
    assert "quick run" in done.stdout
    assert "Incomplete" not in done.stdout
    assert "<svg" in (home / "chart.svg").read_text(encoding="utf-8")


def test_a_pool_and_its_hits_are_told(home):
    """Not against stock, whose whole layers a software GPU computes far too slowly for a test."""
    gpus = json.loads(run(home, "probe", "--json", GGML_VK_VISIBLE_DEVICES="0").stdout)["gpus"]
    software = [gpu["device"] for gpu in gpus if gpu["kind"] == "software"]
    if not software:
        pytest.skip("no software Vulkan device: the driver or the engine's Vulkan backend is missing")
    wishes = ("--gpu", software[0], "--pool", "12MiB", "--rounds", 1, "--json")
    done = quick(home, *wishes, GGML_VK_VISIBLE_DEVICES="0")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    (result,) = told["results"]
    assert 0 < result["hit_rate"]["median"] <= 1
    pool = sum(buffer["bytes"] for buffer in result["buffers"] if buffer["part"] == "pool")
    assert 0.8 * 12 * 1024**2 < pool <= 12 * 1024**2
    assert result["vram_bytes"] > pool
    assert result["steady_per_gib_vram"] > 0


@pytest.mark.usefixtures("interruptible")
@pytest.mark.skipif(sys.platform == "win32", reason="a console's Ctrl-C cannot be sent to one process there")
def test_ctrl_c_gives_what_was_measured_marked_incomplete(home):
    arguments = ("bench", home / MODEL, "--quick", "--rounds", 40, "--threads", 1, "--gpu", "none", "--json")
    with start(home, *arguments) as process:
        for line in process.stderr:
            if line.startswith("[3/"):
                process.send_signal(signal.SIGINT)
                break
        out, _ = process.communicate(timeout=300)
    assert process.returncode == 0
    told = json.loads(out)
    assert told["complete"] is False
    assert [sample["round"] for sample in told["samples"]] == [0, 1]


def test_a_context_too_small_for_the_only_scenario_is_the_error(home):
    done = quick(home, "--scenario", "batch8", "--gpu", "none", "--ctx", 256, "--json")
    assert done.returncode == 2
    error = json.loads(done.stdout)["error"]
    assert error["code"] == "context_full"
    assert "the context holds 256" in error["message"]


def test_what_cannot_be_measured_is_told_once_and_the_rest_is_measured(monkeypatch):
    chat, conflict = make_cases(("chat", "conflict"), QUICK, PLAN, 2)
    seen = []

    def measure(visit, plan, show):
        seen.append((visit.case.name, visit.round))
        if visit.case is conflict:
            raise AppError(ErrorCode.OUT_OF_MEMORY, "Memory ran out.")
        return visit

    monkeypatch.setattr(bench_runs, "measure", measure)
    plans = {(case.name, OURS): PLAN for case in (chat, conflict)}
    visits = schedule((chat, conflict), (OURS,), 3)
    run = bench_runs.BenchRun(visits, plans, bench_runs.Progress())
    run.run()
    assert run.complete
    assert run.samples == [visit for visit in visits if visit.case is chat]
    assert seen.count(("conflict", 0)) == 1
    assert ("conflict", 1) not in seen
    assert [(its.case, its.reason) for its in run.failures] == [("conflict", "Memory ran out.")]
    assert run.first_error.code is ErrorCode.OUT_OF_MEMORY


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--scenario", "chess"), "invalid choice"),
        (("--rounds", "0"), "not a whole number above 0"),
        (("--against", "ollama"), "invalid choice"),
        (("--chart", "speeds.pdf"), ".png, .svg"),
        (("--chart", "/no/such/folder/speeds.png"), "There is no folder"),
    ],
)
def test_bad_input_is_refused_before_anything_is_loaded(home, arguments, words):
    done = run(home, "bench", "demo", *arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert done.stdout == ""


def test_a_model_that_is_not_there_is_the_models_error(home):
    assert run(home, "bench", home / "none.gguf").returncode == 3
