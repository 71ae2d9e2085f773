"""Runs the self-test of a frozen app on this machine, with next to nothing of this shell's environment."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

SECONDS = 300
"""It has to be over by then, wherever it runs."""


def self_test(program: Path, label: str, **more: str) -> dict[str, Any]:
    """Run `--self-test` of `program`; prints and returns its result.

    Args:
        program: A program of the frozen app.
        label: What it is called in words.
        more: What the environment has besides a home, which is also the folder for temporary files.

    Raises:
        SystemExit: it failed.
        subprocess.TimeoutExpired: it took longer than `SECONDS`.
    """
    with tempfile.TemporaryDirectory() as home:
        environment = {"PATH": "/usr/bin:/bin", "HOME": home, "TMPDIR": home, "LANG": "C.UTF-8", **more}
        done = subprocess.run(
            [str(program), "--self-test"],
            env=environment,
            cwd=home,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    if done.returncode != 0:
        raise SystemExit(f"package: {program} --self-test ended with {done.returncode}\n{done.stderr.strip()}")
    facts = dict(json.loads(done.stdout))
    print(f"package: {label} passed its self-test: {json.dumps(facts, ensure_ascii=False)}")
    return facts
