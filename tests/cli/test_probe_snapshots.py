"""`probe` writes what every source returned, and computes a machine from such a file."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SNAPSHOTS = Path(__file__).parents[1] / "snapshots"


def probe(home, *arguments, status=0, **extra):
    done = subprocess.run(
        [sys.executable, "-m", "app", "probe", *map(str, arguments)],
        env=os.environ | {"HOME": str(home), "XDG_DATA_HOME": str(home / "data")} | extra,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status, done.stderr
    return done.stdout


def test_a_record_is_this_machine_and_is_played_back(tmp_path):
    file = tmp_path / "machine.json"
    live = json.loads(probe(tmp_path, "--record", file, "--json"))
    text = file.read_text(encoding="utf-8")
    assert json.loads(text)["origin"] == "recorded"
    assert str(tmp_path) not in text
    played = json.loads(probe(tmp_path, "--replay", file, "--json"))
    for fact in ("os", "cpu", "gpus", "engine", "power", "virtual", "product", "unseen"):
        assert played[fact] == live[fact], fact
    assert played["ram"] == live["ram"]


def test_a_snapshot_is_told_in_words_with_what_could_not_be_seen(tmp_path):
    told = probe(tmp_path, "--replay", SNAPSHOTS / "laptop_nvidia_hybrid_single_channel.json")
    assert "CUDA0, Vulkan1: NVIDIA GeForce RTX 3060 Laptop GPU" in told
    assert "1 channel, 1 slot free" in told
    assert "laptop on mains power (80 %)" in told
    hanging = probe(tmp_path, "--replay", SNAPSHOTS / "desktop_nvidia_nvml_hangs.json")
    assert "Not seen CUDA0: The NVIDIA driver did not answer in time." in hanging


@pytest.mark.parametrize("arguments", [("--replay", "none.json"), ("--record", "a", "--replay", "b")])
def test_what_cannot_be_read_is_refused(tmp_path, arguments):
    assert probe(tmp_path, *arguments, status=3 if arguments[1] == "none.json" else 2) == ""


def test_a_place_that_cannot_be_written_is_told(tmp_path):
    failed = json.loads(probe(tmp_path, "--record", tmp_path / "none" / "x.json", "--json", status=2))
    assert failed["error"]["code"] == "folder_not_writable"


def test_an_engine_that_does_not_start_is_told_and_the_other_sources_all_the_same(tmp_path):
    package = tmp_path / "llama_cpp"
    package.mkdir()
    (package / "__init__.py").write_text("raise FileNotFoundError('Shared library with base name llama not found')\n")
    file = tmp_path / "machine.json"
    told = probe(tmp_path, "--record", file, PYTHONPATH=str(tmp_path))
    assert "Note     The engine cannot be used: The engine failed (FileNotFoundError(" in told
    assert "GPU      not known" in told
    assert "\nCPU      " in told
    assert "\nRAM      " in told
    machine = json.loads(probe(tmp_path, "--json", PYTHONPATH=str(tmp_path)))
    assert machine["engine"] is None
    assert "llama not found" in machine["notes"][0]
    assert json.loads(probe(tmp_path, "--replay", file, "--json"))["cpu"] == machine["cpu"]


def test_names_from_a_file_cannot_command_the_terminal(tmp_path):
    snapshot = json.loads((SNAPSHOTS / "desktop_nvidia_x16_dual_channel.json").read_text(encoding="utf-8"))
    snapshot["gpus"][0]["name"] = "Card\x1b]0;owned\x07\x1b[2J"
    file = tmp_path / "hostile.json"
    file.write_text(json.dumps(snapshot), encoding="utf-8")
    told = probe(tmp_path, "--replay", file)
    assert "Card" in told
    assert not set(told) & {"\x1b", "\x07"}
