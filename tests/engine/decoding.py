"""Runs `decode_logits.py` and reads what it stored; how far two sets of logits are apart."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from decode_logits import Job

PROGRAM = Path(__file__).parent / "decode_logits.py"

# The software Vulkan driver of Mesa 22.3 drops a reference it no longer holds when a buffer is freed that an older
# descriptor set names, and glibc ends the process. Seen with stock llama.cpp too, seldom; a pool frees more buffers.
# Such an end says nothing of the numbers: the process is run again. Any other end, and any wrong number, counts.
_DRIVER_FAULTS = ("corrupted double-linked list", "corrupted size vs. prev_size", "double free or corruption",
                  "unsorted double linked list corrupted", "unaligned tcache chunk")  # fmt: skip
_MOST_RUNS = 4


class Decoded(NamedTuple):
    """What a process stored of one model, by run: logits (or an answer's token ids) and the device's facts."""

    logits: dict[str, np.ndarray]
    facts: dict[str, dict[str, Any]]


def run_child(program: Path, *arguments: str, timeout: float = 300) -> str:
    """Run a program of these tests in a process of its own; its output."""
    on_software_gpu = any("Vulkan" in argument for argument in arguments)
    for left in reversed(range(_MOST_RUNS)):
        done = subprocess.run(
            [sys.executable, str(program), *arguments],
            capture_output=True, text=True, timeout=timeout, check=False,
            env=dict(os.environ, GGML_VK_VISIBLE_DEVICES="0"),
        )  # fmt: skip
        heap_broken = done.returncode < 0 and any(fault in done.stderr for fault in _DRIVER_FAULTS)
        driver_died = on_software_gpu and (heap_broken or done.returncode == -signal.SIGSEGV)
        if not driver_died or left == 0:
            break
    assert done.returncode == 0, done.stderr[-6000:]
    return done.stdout


def decode(folder: Path, job: Job, *models: Path) -> dict[str, Decoded]:
    """What `job` gives for each of `models`, by their names."""
    folder.mkdir(parents=True, exist_ok=True)
    run_child(PROGRAM, str(folder), msgspec.json.encode(job).decode(), *map(str, models))
    found = {}
    for model in models:
        with np.load(folder / f"{model.stem}.npz") as stored:
            results = {name: stored[name] for name in stored.files if name != "facts"}
            found[model.stem] = Decoded(results, json.loads(str(stored["facts"])))
    return found


def distances(logits: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Greatest difference of one logit; greatest and median difference of a row, relative to the row."""
    rows = np.linalg.norm(logits - reference, axis=1) / np.linalg.norm(reference, axis=1)
    return np.array([np.abs(logits - reference).max(), rows.max(), np.median(rows)])
