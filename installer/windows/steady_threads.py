"""Counts the threads that the frozen engine computes an answer with: they have to stay from one graph to the next.

The engine for Windows has ggml's own threads, which start and end with every graph unless they are kept
(app/engine/compute_threads.py). That costs time on any Windows, and under Wine, where a thread takes a millisecond to
start, nearly all of it: 12 tokens a second instead of 86 with two threads (November 2026).
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import tempfile
import threading
from pathlib import Path

import wine
from project import NAME

_TOKENS = 24
APP_HOME = "EXPERT_LANES_HOME"
"""The app's variable for the folder of all that it keeps."""
_LOOK_SECONDS = 0.004
_LOOKS_FOR_PROGRAMS = 50
# Python's, Windows', the app's own and those that compute; without the latter being kept there are 61 more a token.
MOST_THREADS = 100


class ThreadCounter:
    """Notes every thread that it sees in the programs of that name, while it is entered.

    Args:
        program: File name of the .exe.
        prefix: The Windows that it runs in.
    """

    def __init__(self, program: str, prefix: Path) -> None:
        self._program = program.encode()
        self._prefix = f"WINEPREFIX={prefix}".encode()
        self._end = threading.Event()
        self._seen: dict[str, set[str]] = {}
        self._watcher = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> ThreadCounter:
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._watcher.join()

    @property
    def most(self) -> int:
        """Threads of the process that had the most, over all its time."""
        return max((len(threads) for threads in self._seen.values()), default=0)

    def _watch(self) -> None:
        looks, ended = 0, False
        while not ended:
            ended = self._end.wait(_LOOK_SECONDS)  # and look once more then
            if ended or looks % _LOOKS_FOR_PROGRAMS == 0:
                self._find_programs()
            looks += 1
            for pid, seen in self._seen.items():
                with contextlib.suppress(OSError):  # it has ended
                    seen.update(path.name for path in Path("/proc", pid, "task").iterdir())

    def _find_programs(self) -> None:
        for process in Path("/proc").iterdir():
            if process.name.isdigit() and process.name not in self._seen:
                with contextlib.suppress(OSError):  # it has just ended, or is another user's
                    if self._is_watched(process):
                        self._seen[process.name] = set()

    def _is_watched(self, process: Path) -> bool:
        if self._program not in (process / "cmdline").read_bytes():
            return False
        return self._prefix in (process / "environ").read_bytes().split(b"\0")


def check(frozen: Path, prefix: Path) -> None:
    """Let the demo model answer with two threads, and count them.

    Args:
        frozen: The folder with the programs.
        prefix: The Windows to run them in.

    Raises:
        SystemExit: no answer came, or threads were started for its tokens.
        subprocess.TimeoutExpired: it took too long.
    """
    program = frozen / f"{NAME}.exe"
    options = ["--json", "--gpu", "none", "--threads", "2", "--max-tokens", str(_TOKENS), "--temperature", "0"]
    # Not in that Windows' own folders: the rehearsal begins with a copy of it, and with an app that was never used.
    with tempfile.TemporaryDirectory() as home:
        own = {APP_HOME: wine.windows_path(home)}
        _succeeded(wine.run([str(program), "demo"], prefix, more=own), "the demo model was not written")
        with ThreadCounter(program.name, prefix) as counter:
            done = wine.run([str(program), "chat", *options, "-p", "Count to twenty.", "demo"], prefix, more=own)
        _succeeded(done, "the demo model did not answer")
    rate = json.loads(done.stdout)["tokens_per_second"]
    print(f"windows: {rate:.1f} tokens a second with 2 threads, of {counter.most} in the engine in all", flush=True)
    if not 2 < counter.most < MOST_THREADS:
        raise SystemExit(f"windows: {counter.most} threads were seen for {_TOKENS} tokens: they are not kept")


def _succeeded(done: subprocess.CompletedProcess[bytes], failure: str) -> None:
    if done.returncode != 0:
        told = (done.stdout + done.stderr).decode(errors="replace").strip()
        raise SystemExit(f"windows: {failure} ({done.returncode})\n{told}")
