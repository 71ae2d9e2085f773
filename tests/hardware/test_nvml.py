"""NVML's own library is called rightly, through the real pynvml and a small library that plays the driver."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hardware_trees import GIB

READ_ALL = """
import json
from app.hardware.nvml import open_nvml
from app.hardware.sources import NotSeenError

nvml = open_nvml()
(card,) = nvml.cards()
memory, link, details = nvml.memory(card), nvml.link(card), nvml.details(card)
load = nvml.load(card)
assert nvml.load(card) == load
refusals = []
for pid in (8, 9):
    try:
        nvml.process_bytes(card, pid)
    except NotSeenError as error:
        refusals.append(str(error))
print(json.dumps({
    "driver": nvml.driver(), "name": card.name, "pci_id": card.pci_id,
    "memory": [memory.used_bytes, memory.total_bytes],
    "link": [link.generation, link.lanes, link.max_generation, link.max_lanes],
    "process": nvml.process_bytes(card, 7), "refusals": refusals,
    "uuid": details.uuid, "cuda": details.cuda, "watts": [details.power_limit_watts, details.power_max_watts],
    "load": dict(load.figures), "events": load.events, "load_refusals": dict(load.refusals),
    "programs": [[pid, size] for pid, _name, size in details.programs], "refused": details.programs_refused,
}))
nvml.close()
"""
REFUSED = """
from app.hardware.nvml import open_nvml
from app.hardware.sources import NotSeenError

try:
    open_nvml()
except NotSeenError as error:
    print(error)
"""


def run(program, library_folder):
    """Run with `library_folder` as the only place to find NVML in, so that no real driver answers."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"LD_LIBRARY_PATH": str(library_folder)},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@pytest.fixture(scope="session")
def played_driver(tmp_path_factory):
    """Folder with a libnvidia-ml.so.1 built from played_nvml.c."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("g++")
    assert compiler, "a C compiler builds the native library too"
    library = tmp_path_factory.mktemp("nvml") / "libnvidia-ml.so.1"
    source = Path(__file__).with_name("played_nvml.c")
    command = [compiler, "-x", "c", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-o", library, source]
    subprocess.run(command, check=True)
    return library.parent


def test_a_card_is_read_through_the_real_binding(played_driver):
    read = json.loads(run(READ_ALL, played_driver))
    refusals = read.pop("refusals")
    load_refusals = read.pop("load_refusals")
    assert list(load_refusals) == ["memory_max_mhz"]
    assert "nvmlDeviceGetMaxClockInfo" in load_refusals["memory_max_mhz"]
    assert read == {
        "driver": "550.54.14",
        "name": "NVIDIA GeForce RTX 3060",
        "pci_id": "0000:01:00.0",
        "memory": [2 * GIB, 12 * GIB],
        "link": [1, 8, 4, 16],
        "process": GIB,
        "uuid": "GPU-00000000-0000-0000-0000-000000000001",
        "cuda": "12.4",
        "watts": [115, 170],
        "load": {
            "busy_percent": 97,
            "core_mhz": 1777,
            "core_max_mhz": 2100,
            "memory_mhz": 7501,
            "celsius": 81,
            "watts": 169.5,
        },
        "events": 0x24,
        "programs": [[7, GIB], [8, None]],
        "refused": "",
    }
    assert "does not tell memory by program" in refusals[0]
    assert "lists no memory" in refusals[1]


def test_a_library_that_is_no_library_is_no_driver(tmp_path):
    (tmp_path / "libnvidia-ml.so.1").write_text("not a library")
    assert run(REFUSED, tmp_path) == "The NVIDIA driver's library (NVML) is not installed."
