"""The command line's contract: keys, exit statuses, one JSON object and nothing else on standard output."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from app.model import read_facts
from app.placement.cache.trace import read_trace
from app.placement.memory import working_bytes

INSPECT_KEYS = {
    "architecture", "name", "files", "context_length", "vocab_size", "layers", "moe_layers", "expert_count",
    "experts_used", "experts_shared", "embedding_length", "expert_feed_forward_length", "bytes", "expert_bytes",
    "token_cycle_bytes", "kv_bytes_per_token", "chat_template",
}  # fmt: skip
BYTES_KEYS = {
    "total", "experts", "shared_experts", "attention", "router", "embeddings", "output", "other"
}  # fmt: skip
CHAT_KEYS = {
    "text", "stop_reason", "prompt_tokens", "completion_tokens", "ttft_seconds", "prompt_tokens_per_second",
    "tokens_per_second", "cache", "plan",
}  # fmt: skip
CACHE_KEYS = {
    "requested_bytes", "allocated_bytes", "used", "reason", "hits", "misses", "streamed", "copied_bytes"
}  # fmt: skip


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A home of its own whose path has blanks and Chinese characters, with the demo model built by the command."""
    folder = tmp_path_factory.mktemp("home") / "模型 folder è"
    folder.mkdir()
    return folder


def run(home, *arguments, timeout=240, **extra):
    environment = dict(os.environ, EXPERT_LANES_HOME=str(home), QT_QPA_PLATFORM="offscreen", **extra)
    return subprocess.run(
        [sys.executable, "-m", "app", *map(str, arguments)],
        capture_output=True, text=True, encoding="utf-8", timeout=timeout, check=False, env=environment,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip


def run_json(home, *arguments, status=0, **extra):
    done = run(home, *arguments, "--json", **extra)
    assert done.returncode == status, done.stderr
    assert done.stdout.count("\n") == 1
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def demo(home):
    made = run_json(home, "demo", "--experts", 8, "--used", 2)
    return Path(made["path"]), made


def test_demo_writes_the_model_and_says_what_it_is(home, demo):
    path, made = demo
    assert set(made) == {"path", "bytes", "sha256", "experts", "used"}
    assert path.is_relative_to(home)
    assert path.stat().st_size == made["bytes"]
    assert (made["experts"], made["used"]) == (8, 2)


def test_probe_has_every_key_of_the_contract(home):
    machine = run_json(home, "probe")
    assert {"os", "cpu", "ram", "gpus", "disk", "engine"} <= set(machine)
    assert {"name", "physical_cores", "performance_cores", "logical_cores", "isa"} <= set(machine["cpu"])
    assert 0 < machine["ram"]["available_bytes"] <= machine["ram"]["total_bytes"]
    assert {"llama_cpp_python", "ggml", "build", "backends"} <= set(machine["engine"])
    assert machine["engine"]["llama_cpp_python"] == "0.3.36"
    assert "CPU" in machine["engine"]["backends"]


def test_inspect_has_every_key_of_the_contract(home, demo):
    facts = run_json(home, "inspect", demo[0])
    assert set(facts) >= INSPECT_KEYS
    assert facts["architecture"] == "llama"
    assert facts["moe_layers"] == list(range(30))
    assert (facts["expert_count"], facts["experts_used"]) == (8, 2)
    assert set(facts["bytes"]) == BYTES_KEYS
    assert sum(v for k, v in facts["bytes"].items() if k != "total") == facts["bytes"]["total"]
    assert facts["token_cycle_bytes"] == sum(2 * size for size in facts["expert_bytes"].values())
    assert set(facts["kv_bytes_per_token"]) == {"f16", "q8_0", "q4_0"}
    assert facts["chat_template"] is True


def test_plan_places_every_layer_and_adds_up(home, demo):
    plan = run_json(home, "plan", "demo", "--gpu", "none", "--ctx", 1024)
    assert plan["gpu"] is None
    assert set(plan["expert_lanes"]) == {str(layer) for layer in range(30)}
    assert plan["n_ctx"] == 1024
    assert all(part["bytes"] >= 0 for part in plan["memory"])


def test_chat_answers_with_every_measured_key(home, demo):
    answer = run_json(home, "chat", "demo", "-p", "Say hello.", "--max-tokens", 16, "--temperature", 0, "--gpu", "none")
    assert set(answer) >= CHAT_KEYS
    assert set(answer["cache"]) == CACHE_KEYS
    assert (answer["cache"]["used"], answer["cache"]["reason"]) == (False, "No pool was asked for.")
    assert answer["text"]
    assert answer["ttft_seconds"] > 0
    assert answer["loaded"]["expert_device"] is True
    assert answer["loaded"]["differences"] == []


@pytest.fixture(scope="module")
def software_gpu(home):
    """The software Vulkan device as `probe` names it; skips where there is none."""
    gpus = run_json(home, "probe", GGML_VK_VISIBLE_DEVICES="0")["gpus"]
    software = [gpu["device"] for gpu in gpus if gpu["kind"] == "software"]
    if not software:
        pytest.skip("no software Vulkan device: the driver or the engine's Vulkan backend is missing")
    return software[0]


def test_a_pool_on_a_gpu_is_used_and_the_answer_says_what_it_did(home, demo, software_gpu, tmp_path):
    trace = tmp_path / "模型.trace"
    answer = run_json(
        home, "chat", "demo", "-p", "Say hello.", "--max-tokens", 12, "--temperature", 0, "--gpu", software_gpu,
        "--pool", "64MiB", "--ctx", 256, "--trace", trace, GGML_VK_VISIBLE_DEVICES="0",
    )  # fmt: skip
    cache = answer["cache"]
    assert cache["used"] is True
    assert cache["hits"] > 0
    assert 0 < cache["allocated_bytes"] <= cache["requested_bytes"] == 64 * 1024**2
    assert cache["copied_bytes"] > 0
    assert "help" in cache["reason"]  # one token takes 95 MiB of experts
    assert answer["plan"]["pool_bytes"] == 64 * 1024**2
    assert answer["loaded"]["differences"] == []
    recorded = read_trace(trace)
    assert answer["trace"] == {"path": str(trace), "entries": len(recorded.entries), "dropped": 0}
    assert len(recorded.entries) == cache["hits"] + cache["misses"]


def test_a_conversation_says_in_one_line_what_the_cache_did(home, demo, software_gpu):
    done = run(
        home, "chat", "demo", "-p", "Say hello.", "--max-tokens", 6, "--gpu", software_gpu, "--pool", "96MiB",
        "--ctx", 256, GGML_VK_VISIBLE_DEVICES="0",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    [line] = [line for line in done.stderr.splitlines() if line.startswith("[pool ")]
    assert "routed experts were in it" in line
    assert "MiB" in line


def test_a_plan_tells_the_wished_cache(home, demo):
    plan = run_json(
        home, "plan", "demo", "--gpu", "none", "--pool", "1G", "--policy", "decay", "--stream", "off",
        "--residency", "mapped",
    )  # fmt: skip
    assert (plan["pool_bytes"], plan["residency"]) == (0, "mapped")
    assert (plan["policy"]["kind"], plan["policy"]["stream"]) == ("decay", "off")
    assert "no pool" in [step["name"] for step in plan["steps"]]
    off = run_json(home, "plan", "demo", "--gpu", "none", "--pool", "off")
    assert (off["pool_bytes"], off["residency"], off["policy"]["kind"]) == (0, "repacked", "lru")
    assert "no pool" not in [step["name"] for step in off["steps"]]


def test_a_pool_on_a_software_gpu_is_planned_with_its_bytes(home, demo, software_gpu):
    plan = run_json(home, "plan", "demo", "--gpu", software_gpu, "--pool", "96MiB", GGML_VK_VISIBLE_DEVICES="0")
    parts = {(part["device"], part["part"]): part["bytes"] for part in plan["memory"]}
    assert parts[software_gpu, "pool"] == plan["pool_bytes"] == 96 * 1024**2
    # The part also counts what the experts of pool and staging area are computed in.
    assert parts[software_gpu, "staging"] == plan["staging_bytes"] + working_bytes(read_facts(demo[0]))
    assert parts[software_gpu, "staging"] > plan["staging_bytes"] > 0
    words = run(home, "plan", "demo", "--gpu", software_gpu, "--pool", "96MiB", GGML_VK_VISIBLE_DEVICES="0").stdout
    assert "a pool of 96.0 MiB for single experts" in words


def test_a_trace_where_nothing_can_be_written_is_an_error_with_advice(home, demo, tmp_path):
    failed = run_json(
        home,
        "chat",
        "demo",
        "-p",
        "x",
        "--gpu",
        "none",
        "--trace",
        tmp_path / "none" / "t",
        "--max-tokens",
        2,
        status=2,
    )
    assert failed["error"]["code"] == "folder_not_writable"
    assert failed["error"]["advice"]


def test_greedy_chat_is_repeatable_and_seeds_are_too(home, demo):
    options = ("-p", "Name a fruit.", "--max-tokens", 12, "--gpu", "none")
    assert (
        run_json(home, "chat", "demo", *options, "--temperature", 0)["text"]
        == run_json(home, "chat", "demo", *options, "--temperature", 0)["text"]
    )
    assert (
        run_json(home, "chat", "demo", *options, "--temperature", 2, "--seed", 5)["text"]
        == run_json(home, "chat", "demo", *options, "--temperature", 2, "--seed", 5)["text"]
    )


def test_without_a_prompt_lines_of_standard_input_are_a_conversation(home, demo):
    environment = dict(os.environ, EXPERT_LANES_HOME=str(home))
    done = subprocess.run(
        [sys.executable, "-m", "app", "chat", "demo", "--gpu", "none", "--temperature", "0", "--max-tokens", "12"],
        input="Hello.\n\nAnd who are you?\n",
        capture_output=True, text=True, timeout=240, check=True, env=environment,
    )  # fmt: skip
    assert done.stderr.count("tokens/s") >= 2
    assert done.stdout.strip()


@pytest.mark.usefixtures("interruptible")
@pytest.mark.skipif(sys.platform == "win32", reason="signals of a terminal")
def test_ctrl_c_stops_an_answer_and_what_was_said_stays(home, demo):
    environment = dict(os.environ, EXPERT_LANES_HOME=str(home))
    child = subprocess.Popen(
        [sys.executable, "-m", "app", "chat", "demo", "--gpu", "none", "--max-tokens", "2000", "-p",
         "Write a long story about a lighthouse keeper."],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, start_new_session=True,
    )  # fmt: skip
    first = os.read(child.stdout.fileno(), 1)
    os.killpg(child.pid, signal.SIGINT)
    _, err = child.communicate(timeout=240)
    assert child.returncode == 0, err.decode()
    assert first
    assert b"stopped" in err, "an answer that went on to its end would say another reason"


@pytest.mark.skipif(sys.platform == "win32", reason="bytes of a command line")
def test_a_prompt_of_another_encoding_is_bad_usage_and_does_not_hang(home, demo):
    environment = dict(os.environ, EXPERT_LANES_HOME=str(home))
    command = [sys.executable, "-m", "app", "chat", "demo", "--gpu", "none", "-p", b"caf\xe9"]
    done = subprocess.run(
        command, capture_output=True, timeout=240, check=False, env=environment, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 2
    assert b"Unicode" in done.stderr


def test_any_characters_are_printed_whatever_the_consoles_encoding_is(home, demo, tmp_path):
    path = tmp_path / "模型.gguf"
    path.symlink_to(demo[0])
    done = run(home, "inspect", path, "--json", PYTHONIOENCODING="cp1252")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["files"] == [str(path)]


def test_a_home_of_an_unknown_user_is_bad_usage(home):
    failed = run_json(home, "inspect", "~nobody-here-has-this-name/x.gguf", status=2)
    assert failed["error"]["code"] == "bad_usage"


@pytest.mark.skipif(sys.platform == "win32", reason="a pipe whose reader is gone")
def test_a_reader_that_leaves_ends_the_command_quietly(home, demo):
    environment = dict(os.environ, EXPERT_LANES_HOME=str(home))
    environment.pop("PYTHONUNBUFFERED", None)
    done = subprocess.run(
        ["/bin/sh", "-c", f"{sys.executable} -m app inspect demo; echo $? >&2"],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=True, env=environment,
    )  # fmt: skip
    assert done.stderr == "0\n"
    read, write = os.pipe()
    os.close(read)
    child = subprocess.run(
        [sys.executable, "-m", "app", "inspect", "demo"],
        stdout=write, stderr=subprocess.PIPE, text=True, check=False, env=environment,
    )  # fmt: skip
    os.close(write)
    assert (child.returncode, child.stderr) == (0, "")


def test_seeds_at_the_edge_of_the_range_are_repeatable_too(home, demo):
    options = ("-p", "Name a fruit.", "--max-tokens", 12, "--gpu", "none", "--temperature", 2, "--seed=-1")
    assert run_json(home, "chat", "demo", *options)["text"] == run_json(home, "chat", "demo", *options)["text"]


BAD_USAGE = [
    ("frobnicate",),
    ("chat", "demo", "-p", "x", "--max-tokens", "0"),
    ("chat", "demo", "-p", "x", "--temperature", "hot"),
    ("chat", "demo", "-p", "x", "--kv", "q2"),
    ("plan", "demo", "--ctx", "-5"),
    ("plan", "demo", "--pool", "much"),
    ("plan", "demo", "--pool", "-1"),
    ("plan", "demo", "--policy", "best"),
    ("chat", "demo", "-p", "x", "--stream", "sometimes"),
    ("chat", "demo", "-p", "x", "--residency", "compressed"),
    ("demo", "--experts", "4", "--used", "5"),
    ("demo", "--experts", "65"),
    ("chat", "demo", "--json"),
]


@pytest.mark.parametrize("arguments", BAD_USAGE, ids=" ".join)
def test_bad_usage_ends_with_status_2_and_says_why(home, demo, arguments):
    done = run(home, *arguments)
    assert done.returncode == 2
    assert len(done.stderr) > 20
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("arguments", BAD_USAGE, ids=" ".join)
def test_bad_usage_is_one_object_too_where_json_was_asked_for(home, demo, arguments):
    failed = run_json(home, *arguments, status=2)
    assert set(failed["error"]) == {"code", "message", "advice", "detail"}
    assert failed["error"]["code"] == "bad_usage"


def test_a_context_beyond_the_models_is_bad_usage_with_the_limit(home, demo):
    failed = run_json(home, "plan", "demo", "--ctx", 10_000_000, status=2)
    assert failed["error"]["code"] == "bad_usage"
    assert "8192" in failed["error"]["message"].replace(",", "")


def test_a_device_that_is_not_there_is_bad_usage(home, demo):
    failed = run_json(home, "chat", "demo", "-p", "x", "--gpu", "CUDA9", status=2)
    assert failed["error"]["code"] == "device_missing"


def bad_files(folder: Path, good: Path):
    text = folder / "notes 笔记.gguf"
    text.write_text("this is no model")
    cut = folder / "cut.gguf"
    with good.open("rb") as source:
        cut.write_bytes(source.read(3_000_000))
    empty = folder / "empty.gguf"
    empty.write_bytes(b"")
    return {
        "missing": (folder / "nowhere.gguf", "file_missing"),
        "text": (text, "not_gguf"),
        "empty": (empty, "not_gguf"),
        "cut": (cut, "model_damaged"),
        "folder": (folder, "file_unreadable"),
    }


@pytest.mark.parametrize("kind", ["missing", "text", "empty", "cut", "folder"])
@pytest.mark.parametrize("command", ["inspect", "chat"])
def test_a_bad_model_file_ends_with_status_3_and_advice(home, demo, tmp_path, kind, command):
    path, code = bad_files(tmp_path, demo[0])[kind]
    failed = run_json(home, command, path, *(("-p", "x") if command == "chat" else ()), status=3)
    assert failed["error"]["code"] == code
    assert failed["error"]["advice"]


def test_an_unknown_architecture_is_named_with_status_3(home, tmp_path):
    import tiny_unknown

    path = tmp_path / "unknown 未知.gguf"
    tiny_unknown.write(path)
    assert run_json(home, "inspect", path)["architecture"] == "nova9"
    failed = run_json(home, "chat", path, "-p", "x", "--gpu", "none", status=3)
    assert failed["error"]["code"] == "architecture_unknown"
    assert "nova9" in failed["error"]["message"]
    planned = run_json(home, "plan", path, status=3)
    assert planned["error"] == failed["error"]


def test_the_window_is_not_needed_for_the_version(home):
    done = run(home, "--version")
    assert done.returncode == 0
    assert done.stdout.startswith("expert-lanes ")
