"""Dry runs of many plans in one child process, for tests of the memory model."""

import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
from native_build import SOURCES, compile_with_ggml, ggml_source

from app.engine.ggml import library_folder

CHILD = Path(__file__).with_name("dry_run_child.py")
ROOT = Path(__file__).resolve().parents[2]


def breakdown_library(folder: Path) -> Path:
    """llama.cpp's own account of a context's memory, compiled to a library in `folder`; skips without a compiler."""
    path = folder / "libmemory_breakdown.so"
    llama_cpp = ggml_source().parent
    includes = [part for name in ("include", "src") for part in ("-isystem", str(llama_cpp / name))]
    compile_with_ggml(
        path, "-O1", "-shared", "-fPIC", *includes, str(SOURCES / "memory_breakdown.cpp"),
        f"-L{library_folder()}", "-lllama", "-lggml-base",
    )  # fmt: skip
    return path


def dry_runs(plans, *, load=False, library: Path | str = "", gpu=False):
    """What llama.cpp says of each plan: "dry" and "loaded" by (device, part), "breakdown" by device and kind."""
    jobs = [{"plan": msgspec.to_builtins(plan, str_keys=True), "load": load} for plan in plans]
    environment = dict(os.environ, PYTHONPATH=str(ROOT))
    if gpu:
        environment["GGML_VK_VISIBLE_DEVICES"] = "0"
    done = subprocess.run(
        [sys.executable, str(CHILD), str(library)],
        input=json.dumps(jobs), capture_output=True, text=True, check=False, env=environment, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    results = json.loads(done.stdout)
    for result in results:
        for kind in ("dry", "loaded"):
            result[kind] = {(its["device"], its["part"]): its["bytes"] for its in result[kind]}
    return results
