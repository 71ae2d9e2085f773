"""`export` and `import` on the demonstration model: what one writes the other reads."""

import json
import os
import subprocess
import sys

import pytest

from app.placement.plan import Plan


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A home of its own with the demonstration model."""
    folder = tmp_path_factory.mktemp("home") / "模型 è"
    folder.mkdir()
    assert run(folder, "demo").returncode == 0
    return folder


def run(home, *arguments, text=None):
    return subprocess.run(
        [sys.executable, "-m", "app", *map(str, arguments)],
        input=text, capture_output=True, text=True, encoding="utf-8", timeout=240, check=False,
        env=dict(os.environ, EXPERT_LANES_HOME=str(home)),
    )  # fmt: skip


def run_json(home, *arguments, status=0, text=None):
    done = run(home, *arguments, "--json", text=text)
    assert done.returncode == status, done.stderr
    assert done.stdout.count("\n") == 1
    return json.loads(done.stdout)


WISHES = ("--gpu", "none", "--ctx", "1024", "--kv", "q8_0", "--threads", "1")


def loading(plan):
    """What the engine acts on, without predictions and words."""
    names = set(Plan.__struct_fields__) - {"memory", "steps", "speed"}
    return {key: value for key, value in plan.items() if key in names}


@pytest.mark.parametrize("form", ["llama-server", "llama-cli", "json"])
def test_what_is_exported_is_imported_as_the_same_plan(home, tmp_path, form):
    text = run(home, "export", "demo", "--format", form, *WISHES).stdout
    planned = run_json(home, "plan", "demo", *WISHES)
    assert loading(run_json(home, "import", "demo", "-", text=text)["plan"]) == loading(planned)
    file = tmp_path / "line.txt"
    file.write_text(text, encoding="utf-16")
    assert loading(run_json(home, "import", "demo", file)["plan"]) == loading(planned)


@pytest.mark.parametrize("form", ["llama-server", "llama-cli", "lm-studio", "ollama", "device-map", "json"])
def test_every_format_has_a_text_and_says_what_is_lost(home, form):
    exported = run_json(home, "export", "demo", "--format", form, *WISHES)
    assert set(exported) == {"format", "text", "lost", "notes"}
    assert exported["format"] == form
    assert exported["text"]


@pytest.mark.parametrize("form", ["llama-server", "llama-cli", "json"])
def test_what_export_and_plan_print_as_json_is_imported_too(home, form):
    planned = run(home, "plan", "demo", *WISHES, "--json").stdout
    exported = run(home, "export", "demo", "--format", form, *WISHES, "--json").stdout
    for text in (planned, exported):
        imported = run_json(home, "import", "demo", "-", text=text)
        assert loading(imported["plan"]) == loading(json.loads(planned))
        assert imported["remarks"] == []


@pytest.mark.parametrize("form", ["lm-studio", "ollama", "device-map"])
def test_a_format_that_does_not_say_all_of_a_plan_is_refused_by_name(home, form):
    exported = run(home, "export", "demo", "--format", form, *WISHES, "--json").stdout
    assert f"'{form}'" in run_json(home, "import", "demo", "-", status=2, text=exported)["error"]["message"]


def test_what_is_not_taken_over_is_told_in_words(home):
    done = run(home, "import", "demo", "-", text="llama-server -ngl 0 -c 2048 --ngl 4 -ot 'exp_=CPU' --port 80\n")
    assert done.returncode == 0, done.stderr
    assert "context 2,048 tokens" in done.stdout
    assert "note: llama.cpp does not know '--ngl'" in done.stdout
    assert "note: -ot exp_=CPU matches no tensor of this model: it does nothing." in done.stdout
    assert "note: No part of a plan, not taken over: --port 80." in done.stdout


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the text is empty"),
        ("llama-server -c 99999999", "99,999,999 tokens"),
        ("llama-server -ot '(=CPU'", "no regular expression"),
        ("llama-server -ngl 99 -dev CUDA9", "'CUDA9'"),
        ("{", "not JSON"),
        ("{}", "no plan of this app"),
    ],
)
def test_bad_input_ends_with_a_reason_and_the_status_of_bad_usage(home, text, words):
    error = run_json(home, "import", "demo", "-", status=2, text=text)["error"]
    assert words in error["message"]


def test_a_file_that_is_not_there_or_no_text_is_told(home, tmp_path):
    assert run_json(home, "import", "demo", tmp_path / "no.txt", status=3)["error"]["code"] == "file_missing"
    (tmp_path / "bytes").write_bytes(b"\x80\x81")
    assert run_json(home, "import", "demo", tmp_path / "bytes", status=2)["error"]["code"] == "bad_usage"
    assert run_json(home, "import", "demo", tmp_path, status=3)["error"]["code"] == "file_unreadable"
