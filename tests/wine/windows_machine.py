"""Run by a Windows Python: asks `app.hardware` for everything, and prints what it answered and how long it took."""

import importlib
import json
import logging
import mmap
import os
import pkgutil
import shutil
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import psutil

import app.hardware
from app.hardware import (
    cpu_load,
    dxgi,
    engine_files,
    nvml,
    probe,
    process,
    snapshot,
    windows,
    windows_calls,
    windows_gpu,
    windows_load,
)
from app.hardware.answers import LIVE
from app.hardware.facts import Gpu, GpuKind
from app.hardware.sampling import Sampler
from app.hardware.working_set import WorkingSetShare

PAGES = 1000
_HOLDER = """
import mmap, sys
with open(sys.argv[1], "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
    print(mapped[0], flush=True)
    input()
"""


def gpu(name, device):
    kind, size = GpuKind.DISCRETE, 8 << 30
    return Gpu(name=name, backend=device[:-1], device=device, kind=kind, total_bytes=size, free_bytes=size)


GPUS = (gpu("NVIDIA GeForce RTX 3060", "CUDA0"), gpu("AMD Radeon RX 6800", "Vulkan0"))
CALLS = {
    "active power scheme": lambda: windows_calls.power_scheme(LIVE),
    "cores": lambda: windows.parse_cores(windows_calls.core_records(LIVE)),
    "drive": lambda: windows_calls.drive(LIVE, str(Path.home())),
    "drivers": lambda: windows_calls.display_drivers(LIVE),
    "dxgi": dxgi.read_adapters,
    "engine counters": windows_load.open_engine_counters,
    "engine files": lambda: engine_files.read_engine_files(contents=False),
    "firmware": lambda: len(windows_calls.firmware_tables(LIVE)),
    "gpu counters": windows_gpu.open_counters,
    "memory nodes": lambda: windows_calls.numa_nodes(LIVE),
    "nvml": nvml.open_nvml,
    "own peak": process.own_peak_bytes,
    "page files": windows_calls.page_files,
    "power": lambda: list(windows_calls.power_status(LIVE)),
    "processor times": lambda: cpu_load.parse_processor_times(cpu_load.processor_times()),
}


def timed(ask):
    begin = time.monotonic()
    try:
        answer = {"answer": msgspec.to_builtins(ask(), enc_hook=str, str_keys=True)}
    except Exception as error:
        answer = {"refused": str(error), "kind": type(error).__name__}
    return answer | {"seconds": time.monotonic() - begin}


def watched(pid, model, seconds):
    """Samples at ten a second."""
    sampler = Sampler(pid, GPUS, [model])
    slowest, count, begin, spent = 0.0, 0, time.monotonic(), time.process_time()
    while time.monotonic() - begin < seconds:
        moment = time.monotonic()
        sample = sampler.sample()
        taken = time.monotonic() - moment
        slowest, count = max(slowest, taken) if count else 0.0, count + 1
        time.sleep(max(0.0, 0.1 - taken))
    core = (time.process_time() - spent) / (time.monotonic() - begin)
    sampler.close()
    return {"samples": count, "slowest_seconds": slowest, "core": core, "last": msgspec.to_builtins(sample)}


def shares(model):
    """The share of a mapping of this process, after its first 0, half and all pages were read."""
    found = []
    with Path(model).open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        for pages in (0, PAGES // 2, PAGES):
            for page in range(pages):
                mapped[page * mmap.PAGESIZE]
            share = WorkingSetShare(os.getpid(), [model])
            found.append(share.share())
            share.close()
    return found


def main():
    logging.basicConfig(level=logging.WARNING)
    seconds = float(sys.argv[1])
    for module in pkgutil.iter_modules(app.hardware.__path__, "app.hardware."):
        importlib.import_module(module.name)
    told = {"system": sys.platform, "total_bytes": psutil.virtual_memory().total}
    told["calls"] = {name: timed(ask) for name, ask in CALLS.items()}
    models = Path.home() / "models àè 日本"
    shutil.rmtree(models, ignore_errors=True)  # left there by a run that was ended
    told["probe"] = timed(lambda: probe.probe(models, (), None))
    told["probe with cards"] = timed(lambda: probe.probe(models, GPUS, None))
    record, machine = snapshot.record(models, GPUS, None)
    snapshot.write_snapshot(Path.home() / "machine.json", record)
    told["played alike"] = snapshot.read_snapshot(Path.home() / "machine.json").machine().ram == machine.ram
    models.mkdir()
    model = str(models / "Model É.gguf")
    Path(model).write_bytes(bytes(PAGES * mmap.PAGESIZE))
    told["shares"] = timed(lambda: shares(model))
    command = [sys.executable, "-c", _HOLDER, model]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        holder.stdout.readline()
        told["watch"] = watched(holder.pid, model, seconds)
        holder.communicate(b"\n")
    told["gone"] = watched(holder.pid, model, 0.5)
    told["own"] = watched(os.getpid(), model, 0.5)
    print(json.dumps(told))


if __name__ == "__main__":
    main()
