"""How long a frozen app takes from its start to a painted window, on a screen of memory.

`python tests/bench/cold_start.py dist/expert-lanes/expert-lanes-window [--rounds 5]` prints one JSON object with
seconds. Cold: before each start the package's own files are put out of the page cache; the system's libraries stay
there, as on a desktop that is running. Warm: the same again at once. The screen is looked at every 5 ms; the time
ends with the first pixel of the window that is not black.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "installer" / "package"))
from screen import Screen, screen

LIMIT_SECONDS = 60.0
POLL_SECONDS = 0.005


def put_out_of_cache(folder: Path) -> int:
    """Have the system forget the contents of all files below `folder`; returns their bytes."""
    total = 0
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            total += path.stat().st_size
    return total


def seconds_to_window(program: Path, shown: Screen) -> float:
    """Start the program in an empty home, wait for its window, end it."""
    with tempfile.TemporaryDirectory() as home:
        environment = {
            "PATH": "/usr/bin:/bin",
            "HOME": home,
            "LANG": "C.UTF-8",
            "DISPLAY": shown.display,
            "QT_QPA_PLATFORM": "xcb",
        }
        started = time.monotonic()
        with subprocess.Popen(
            [program], env=environment, cwd=home, stderr=subprocess.DEVNULL, start_new_session=True
        ) as running:
            try:
                while not any(shown.row(0.25)):
                    if running.poll() is not None or time.monotonic() - started > LIMIT_SECONDS:
                        raise SystemExit(f"{program} opened no window (exit status {running.returncode})")
                    time.sleep(POLL_SECONDS)
                return time.monotonic() - started
            finally:
                if running.poll() is None:
                    os.killpg(running.pid, signal.SIGTERM)


def figures(seconds: list[float]) -> dict[str, float]:
    """Median, least and most, in seconds."""
    return {
        "median": round(statistics.median(seconds), 3),
        "least": round(min(seconds), 3),
        "most": round(max(seconds), 3),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Measure the start of the frozen window.")
    parser.add_argument("program", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    program = asked.program.resolve()
    cold, warm = [], []
    for _ in range(asked.rounds):
        total = put_out_of_cache(program.parent)
        # A screen of its own for each start: what an ended program left on it is no window.
        for found in (cold, warm):
            with screen() as shown:
                found.append(seconds_to_window(program, shown))
    print(json.dumps({"files_bytes": total, "rounds": asked.rounds, "cold": figures(cold), "warm": figures(warm)}))


if __name__ == "__main__":
    main()
