"""Lays plans out and, where asked, loads them, in one process; prints what llama.cpp says of each one's memory.

Reads a JSON list of jobs from standard input, `{"plan": …, "load": true}`, and prints a list of results. The
one argument is the compiled `native/memory_breakdown.cpp`, or "" to do without.
"""

import ctypes
import json
import sys
from pathlib import Path
from typing import Any

import msgspec
from llama_cpp import llama_cpp as llama

from app.engine.cache import ExpertDevice
from app.engine.dry_run import laid_out
from app.engine.ggml import Ggml
from app.engine.load_report import LoadReport, device_of_buffer
from app.engine.logs import LogTap
from app.engine.parameters import context_parameters, model_parameters, model_path, residency_of
from app.model import read_tensor_bytes
from app.placement.plan import Plan

_MOST_TEXT = 16384


def main() -> None:
    """Run every job of standard input."""
    tap = LogTap(lambda _level, line: print(line, file=sys.stderr))
    ggml = Ggml()
    ggml.load_backends()
    device = ExpertDevice()
    llama.llama_backend_init()
    library = ctypes.CDLL(sys.argv[1]) if sys.argv[1] else None
    results = []
    for job in json.load(sys.stdin):
        plan = msgspec.convert(job["plan"], Plan, strict=False)
        with laid_out(plan, ggml, device, tap) as layout:
            buffers = layout.log.buffers(read_tensor_bytes(Path(plan.model_files[0])))
            told = breakdown(library, layout.context) if library else {}
        loaded = load(plan, ggml, device, tap) if job.get("load") else ()
        results.append(
            {
                "dry": msgspec.to_builtins(buffers),
                "breakdown": told,
                "loaded": msgspec.to_builtins(loaded),
            }
        )
    json.dump(results, sys.stdout)


def load(plan: Plan, ggml: Ggml, device: ExpertDevice, tap: LogTap) -> Any:
    """What llama.cpp reports of a real load; a vocabulary is not needed, for nothing is computed."""
    report, keep = LoadReport(), []
    tap.on_line = lambda _level, line: report.feed(line)
    device.set_residency(residency_of(plan))
    model = llama.llama_model_load_from_file(model_path(plan), model_parameters(plan, ggml, keep, expert_device=True))
    assert model, report.lines[-5:]
    context = llama.llama_init_from_model(model, context_parameters(plan))
    assert context, report.lines[-5:]
    tap.on_line = None
    llama.llama_free(context)
    llama.llama_model_free(model)
    return report.buffers()


def breakdown(library: ctypes.CDLL, context: int) -> dict[str, dict[str, int]]:
    """llama.cpp's own account: device to bytes of model, context and compute buffers."""
    text = ctypes.create_string_buffer(_MOST_TEXT)
    assert library.memory_breakdown(ctypes.c_void_p(context), text, _MOST_TEXT) >= 0
    sums: dict[str, dict[str, int]] = {}
    for line in text.value.decode().splitlines():
        name, *sizes = line.split("|")
        its = sums.setdefault(device_of_buffer(name), {"model": 0, "context": 0, "compute": 0})
        for kind, size in zip(its, sizes, strict=True):
            its[kind] += int(size)
    return sums


if __name__ == "__main__":
    main()
