"""`--self-test` as an installer runs it, here from the checkout: it passes with figures, or fails in one sentence."""

import json
import subprocess
import sys
from pathlib import Path

from app.errors import EXIT_ENGINE

ROOT = Path(__file__).resolve().parents[2]
WITHOUT_ENGINE = """
import sys
from app.engine import client
client.engine_command = lambda: ["/no/such/engine"]
from app.ui.self_test import run
sys.exit(run([]))
"""


def run_python(*arguments):
    return subprocess.run(
        [sys.executable, *arguments], check=False, capture_output=True, text=True, timeout=280, cwd=ROOT
    )


def test_it_passes_with_an_answer_its_figures_and_a_picture(tmp_path):
    picture = tmp_path / "window.png"
    done = run_python("-m", "app", "--self-test", str(picture))
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    facts = json.loads(line)
    assert facts["answer"]
    assert facts["tokens_per_second"] > 0
    assert facts["experts_routed"] > 0
    assert "CPU" in facts["backends"]
    assert set(facts["seconds"]) >= {"window", "demo", "load", "answer"}
    assert picture.stat().st_size > 10_000


def test_an_engine_that_is_missing_ends_it_with_one_sentence():
    done = run_python("-c", WITHOUT_ENGINE)
    assert done.returncode == EXIT_ENGINE
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("expert-lanes: the self-test failed: ")
