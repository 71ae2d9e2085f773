"""`--resident`: a budget of main memory for experts through the commands, and what an answer says of the disk."""

import json
import os
import shutil
import subprocess
import sys

import pytest
from short_model import build_short_demo

from app.errors import EXIT_MODEL

MIB = 1024**2
MODEL = "models/short demo.gguf"
BUDGET = 8 * MIB
ASKED = ("-p", "Say hello.", "--max-tokens", 8, "--temperature", 0)
WISHES = ("--gpu", "none", "--ctx", 512, "--threads", 1, "--resident", "8MiB")
DISK_KEYS = {
    "budget_bytes", "resident_bytes", "total_bytes", "resident_share", "tokens", "cold_reads_per_token",
    "cold_bytes_per_token", "read_bytes_per_second", "stall_seconds_per_token",
}  # fmt: skip


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("resident home")
    build_short_demo(folder / MODEL)
    return folder


def run(home, command, *arguments, text=None):
    return subprocess.run(
        [sys.executable, "-m", "app", command, *map(str, (home / MODEL, *arguments))],
        input=text, capture_output=True, text=True, encoding="utf-8", timeout=300, check=False,
        env=dict(os.environ, EXPERT_LANES_HOME=str(home), GGML_VK_VISIBLE_DEVICES=""),
    )  # fmt: skip


def run_json(home, command, *arguments, status=0, text=None):
    done = run(home, command, *arguments, "--json", text=text)
    assert done.returncode == status, done.stderr
    return json.loads(done.stdout)


def test_a_plan_takes_the_budget_and_leaves_experts_in_the_file(home):
    plan = run_json(home, "plan", *WISHES)
    assert (plan["resident_bytes"], plan["residency"]) == (BUDGET, "mapped")
    off = run_json(home, "plan", "--gpu", "none", "--resident", "off")
    assert off["resident_bytes"] == 0


def test_copies_and_a_budget_cannot_both_be_had(home):
    failed = run_json(home, "plan", *WISHES, "--residency", "repacked", status=2)
    assert failed["error"]["code"] == "bad_usage"
    assert "repacked" in failed["error"]["message"]
    assert "is not a size" in run(home, "plan", "--resident", "much").stderr


def test_an_answer_that_reads_experts_says_what_that_cost(home):
    answer = run_json(home, "chat", *ASKED, *WISHES)
    disk = answer["disk"]
    assert set(disk) == DISK_KEYS
    assert answer["loaded"]["differences"] == []
    assert 0 < disk["resident_bytes"] <= disk["budget_bytes"] == BUDGET < disk["total_bytes"]
    assert disk["resident_share"] == pytest.approx(disk["resident_bytes"] / disk["total_bytes"])
    assert disk["tokens"] == answer["completion_tokens"] - 1
    assert disk["cold_reads_per_token"] > 0
    assert disk["cold_bytes_per_token"] > 0
    rate = disk["cold_bytes_per_token"] * answer["tokens_per_second"]
    assert disk["read_bytes_per_second"] == pytest.approx(rate)
    plain = run_json(home, "chat", *ASKED, "--gpu", "none", "--ctx", 512, "--threads", 1)
    assert "disk" not in plain
    assert plain["text"] == answer["text"]


def test_the_words_of_it_are_one_line_and_only_where_something_lies_on_the_disk(home):
    done = run(home, "chat", *ASKED, *WISHES)
    [line] = [line for line in done.stderr.splitlines() if line.startswith("[experts in memory: ")]
    assert "reads and" in line
    assert "MB/s, waiting" in line
    plain = run(home, "chat", *ASKED, "--gpu", "none", "--ctx", 512, "--threads", 1, "--resident", "off")
    assert plain.returncode == 0
    assert "experts in memory" not in plain.stderr


def test_the_budget_is_exported_and_imported_and_what_llama_cpp_loses_is_said(home):
    exported = run(home, "export", "--format", "json", *WISHES)
    imported = run_json(home, "import", "-", text=exported.stdout)
    assert imported["plan"]["resident_bytes"] == BUDGET
    flags = run_json(home, "export", "--format", "llama-server", *WISHES)
    [lost] = [sentence for sentence in flags["lost"] if "budget of main memory" in sentence]
    assert "8.0 MiB is lost" in lost


def test_a_benchmark_measures_the_plan_with_its_budget(home):
    told = run_json(home, "bench", "--quick", "--rounds", 1, *WISHES)
    [plans] = told["plans"].values()
    assert plans["ours"]["resident_bytes"] == BUDGET
    assert told["results"][0]["decode"]["median"] > 0


@pytest.mark.skipif(sys.platform == "win32", reason="a mapped file cannot be cut on Windows")
@pytest.mark.parametrize("budget", ["8MiB", "off"])
def test_a_conversation_whose_model_file_is_cut_ends_with_the_reason_in_words(home, tmp_path, budget):
    model = tmp_path / "cut.gguf"
    shutil.copy(home / MODEL, model)
    asked = ("chat", str(model), "--max-tokens", "4", "--gpu", "none", "--ctx", "512", "--resident", budget)
    with subprocess.Popen(
        [sys.executable, "-m", "app", *asked],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8",
        env=dict(os.environ, EXPERT_LANES_HOME=str(home), GGML_VK_VISIBLE_DEVICES=""),
    ) as process:  # fmt: skip
        try:
            process.stdin.write("Hello.\n")
            process.stdin.flush()
            while not (line := process.stderr.readline()).startswith("[4 tokens"):
                assert line, "it ended before it answered"
            os.truncate(model, 1_000_000)
            _, errors = process.communicate("And again?\n", timeout=300)
        finally:
            process.kill()
    assert process.returncode == EXIT_MODEL
    assert "was changed while the model was loaded: cut.gguf" in errors
    assert "Traceback" not in errors
