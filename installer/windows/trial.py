"""Tries the frozen app under Wine: its own `--self-test`, also from a folder with any character in its name.

Wine is no Windows and has no graphics card; what is seen is that everything loads, the window is drawn, and the engine
answers.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import steady_threads
import wine
from project import NAME, WORK

AWKWARD = "Expert Lanes àè 日本"
_SECONDS = 420


def self_test(program: Path, prefix: Path, picture: Path | None = None) -> dict[str, Any] | None:
    """Run `--self-test` of a frozen program.

    Args:
        program: Its .exe.
        prefix: The Windows to run it in.
        picture: The file for a picture of the window.

    Returns:
        What it told; None for the one without a console, which cannot tell.

    Raises:
        SystemExit: it failed.
        subprocess.TimeoutExpired: it took longer than seven minutes.
    """
    arguments = [] if picture is None else [wine.windows_path(picture)]
    started = time.monotonic()
    command = [str(program), "--self-test", *arguments]
    done = wine.run(command, prefix, seconds=_SECONDS, cwd=program.parent, one_processor=True)
    seconds = time.monotonic() - started
    if done.returncode != 0:
        told = (done.stdout + done.stderr).decode(errors="replace").strip()
        raise SystemExit(f"windows: {program} --self-test ended with {done.returncode} after {seconds:.0f} s\n{told}")
    if picture is not None and not picture.is_file():
        raise SystemExit(f"windows: {program} --self-test wrote no picture")
    facts = json.loads(done.stdout) if done.stdout.strip() else None
    print(f"windows: self-test of {program.name} passed in {seconds:.1f} s: {json.dumps(facts)}", flush=True)
    return facts


def try_frozen(frozen: Path, prefix: Path, pictures: Path) -> dict[str, Any]:
    """Run the self-test of both programs where they were frozen and in a folder with an awkward name.

    Args:
        frozen: The folder with the programs.
        prefix: The Windows to run them in.
        pictures: Folder for a picture of each one's window.

    Returns:
        What the program for terminals told.

    Raises:
        SystemExit: one failed.
        subprocess.TimeoutExpired: one took too long.
    """
    pictures.mkdir(parents=True, exist_ok=True)
    facts = self_test(frozen / f"{NAME}.exe", prefix, pictures / "self-test.png")
    if facts is None:
        raise SystemExit("windows: the program for terminals told nothing")
    WORK.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=WORK) as scratch:
        moved = Path(scratch) / AWKWARD
        shutil.copytree(frozen, moved, copy_function=os.link)
        if self_test(moved / f"{NAME}.exe", prefix) is None:
            raise SystemExit(f"windows: the program for terminals told nothing in {AWKWARD}")
        self_test(moved / f"{NAME}-window.exe", prefix, pictures / "self-test-window.png")
    steady_threads.check(frozen, prefix)
    return facts
