"""What the expert device answers to calls it cannot follow: a typed result, and nothing changed.

The tests run this file as a program, because a process can register the device once.
"""

import ctypes
import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from decode_logits import add_sources, token_ids
from decoding import run_child
from faulty_decoding import DEVICE, FaultyDevice
from llama_process import Context, LlamaProcess
from native_build import faulty_device
from tiny_shapes import mixtral, quantised_mixtral

from app.engine.cache import ExpertDevice, Phase, Residency, Result, library_path
from app.engine.cache_types import PinEntryStruct, PolicyStruct
from app.placement.plan import CachePolicy

MIB = 1 << 20
FINE = {
    "kind": 0, "insert_cap": 2, "window": 64, "decay": 0.98, "margin": 1.1, "threshold": 0.0, "stream": 1,
}  # fmt: skip
BAD_POLICIES = {
    "kind": (-1, 4),
    "insert_cap": (0, -1),
    "window": (-1,),
    "decay": (0.0, -0.5, 1.01, math.nan, math.inf),
    "margin": (0.99, math.nan, math.inf),
    "threshold": (-0.1, math.nan),
    "stream": (-1, 3),
}


def raw_calls(context: int) -> dict[str, int]:
    """What the library answers to wrong values, by call; the C functions themselves, which must not trust anyone."""
    raw = ctypes.CDLL(str(library_path()))
    id_, null, i32 = ctypes.c_int64(context), None, ctypes.c_int32
    cells = (ctypes.c_uint64 * 64)()
    out = ctypes.byref(cells)
    told: dict[str, int] = {}

    def call(function: str, *arguments: Any, name: str = "") -> None:
        told[f"{function} {name}".strip()] = getattr(raw, f"expert_device_{function}")(*arguments)

    call("set_phase", id_, 3)
    call("set_phase", id_, -1, name="below")
    call("set_residency", 2)
    call("add_source", id_, null, b"x", ctypes.c_uint64(0), ctypes.c_uint64(1), name="no path")
    call("add_source", id_, b"x", null, ctypes.c_uint64(0), ctypes.c_uint64(1), name="no tensor")
    call("set_layer_device", id_, -1, null)
    call("set_pool", id_, null, ctypes.c_uint64(MIB), ctypes.c_uint64(0))
    call("read_pool", id_, null, out, name="no device")
    call("read_pool", id_, DEVICE.encode(), null, name="nowhere")
    call("set_policy", id_, null, name="none")
    for field, values in BAD_POLICIES.items():
        for value in values:
            policy = PolicyStruct(**{**FINE, field: value})
            call("set_policy", id_, ctypes.byref(policy), name=f"{field} {value}")
    for layer, expert, pin in ((0, 8, 1), (0, -1, 1), (3, 0, 1), (-1, 0, 1), (0, 0, 3), (0, 0, -1)):
        pins = (PinEntryStruct * 2)((0, 1, 1), (layer, expert, pin))
        call("set_pins", id_, pins, 2, name=f"{layer} {expert} {pin}")
    call("set_pins", id_, null, 1, name="none")
    call("set_pins", id_, (PinEntryStruct * 1)(), -1, name="fewer than none")
    for index, (layer, values) in enumerate(
        ((0, [1.0] * 7), (3, [1.0] * 8), (0, [math.nan] * 8), (0, [-1.0] * 8), (0, [math.inf] * 8))
    ):
        heat = (ctypes.c_float * len(values))(*values)
        call("set_heat", id_, layer, heat, len(values), name=str(index))
    call("set_heat", id_, 0, null, 8, name="none")
    call("shape", id_, null, out)
    call("read_routing", id_, 2, out, 1, 1, name="phase")
    call("read_routing", id_, 1, out, -1, 1, name="layers")
    call("read_routing", id_, 1, null, 1, 1, name="nowhere")
    call("read_experts", id_, null, null, null, -1, 8)
    call("read_totals", id_, 2, out, name="phase")
    call("read_totals", id_, 1, null, name="nowhere")
    call("set_trace", id_, i32(-1))
    call("read_rates", id_, DEVICE.encode(), null)
    call("read_work", id_, null, out)
    return told


def state(device: ExpertDevice, context: int) -> dict[str, Any]:
    """What wrong calls must leave as it was."""
    experts = device.experts(context)
    pool = device.pool(context, DEVICE)
    return {
        "heat": experts.heat.tolist(),
        "lane": experts.lane.tolist(),
        "pin": experts.pin.tolist(),
        "pool": [pool.requested, pool.allocated, pool.slots, pool.result],
    }


def tokens(context: Context, count: int) -> list[list[float]]:
    """Logits of `count` tokens from an empty sequence."""
    context.clear()
    return [context.decode([token])[0].tolist() for token in token_ids(count, context.model.vocabulary)]


def arguments(folder: Path, library: str) -> dict[str, Any]:
    """Wrong arguments in the middle of an answer."""
    process, _ = LlamaProcess(with_device=True), FaultyDevice(library)
    device = process.device
    assert device
    model = process.load(folder / "mixtral.gguf")
    context = model.context()
    device.set_phase(context.id, Phase.IGNORE)
    reference = tokens(context, 4)
    device.set_layer_device(context.id, DEVICE)
    device.set_policy(context.id, CachePolicy(), wait_for_copies=True)  # nothing else changes what is compared
    assert device.set_pool(context.id, DEVICE, MIB, 0) == Result.OK
    device.set_phase(context.id, Phase.DECODE)
    tokens(context, 4)
    before = state(device, context.id)
    told = raw_calls(context.id)
    after = state(device, context.id)
    return {"told": told, "unchanged": before == after, "right": tokens(context, 4) == reference}


def devices(folder: Path, library: str) -> dict[str, Any]:
    """Pools asked for too early, on a device that is not there, and on one that does not start at first."""
    process, faulty = LlamaProcess(with_device=True), FaultyDevice(library)
    device = process.device
    assert device
    model = process.load(folder / "mixtral.gguf")
    context = model.context()
    told: dict[str, Any] = {"early": device.set_pool(context.id, DEVICE, MIB, 0)}
    reference = tokens(context, 4)
    told["absent"] = [device.set_layer_device(context.id, "Nowhere0")]
    told["absent"] += [device.set_pool(context.id, "Nowhere0", size, 0) for size in (MIB, 0)]
    told["absent right"] = tokens(context, 4) == reference
    device.set_layer_device(context.id, DEVICE)
    faulty.fail("start", 1)
    told["start"] = [device.set_pool(context.id, DEVICE, MIB, 0) for _ in range(2)]
    told["start slots"] = device.pool(context.id, DEVICE).slots
    told["start right"] = tokens(context, 4) == reference
    return told


def sources(folder: Path, library: str) -> dict[str, Any]:
    """A pool for repacked experts whose bytes nobody has named, until somebody does."""
    process, _ = LlamaProcess(with_device=True), FaultyDevice(library)
    device = process.device
    assert device
    device.set_residency(Residency.REPACKED)
    model = process.load(folder / "quantised_mixtral.gguf")
    context = model.context()
    device.set_phase(context.id, Phase.DECODE)
    reference = tokens(context, 4)
    device.set_layer_device(context.id, DEVICE)
    told: dict[str, Any] = {"repacked": sum(its.residency == Residency.REPACKED for its in device.layers(context.id))}
    told["without"] = device.set_pool(context.id, DEVICE, 8 * MIB, 0)
    pool = device.pool(context.id, DEVICE)
    told |= {"reason": pool.reason.decode(), "slots": pool.slots, "right": tokens(context, 4) == reference}
    short = str(model.path)
    told["outside"] = device.add_source(context.id, short, "blk.0.ffn_up_exps.weight", model.path.stat().st_size, 1)
    told["no file"] = device.add_source(context.id, str(folder / "none.gguf"), "blk.0.ffn_up_exps.weight", 0, 1)
    assert device.add_source(context.id, short, "blk.0.ffn_up_exps.weight", 0, 1) == Result.OK  # of another size
    told["wrong size"] = device.set_pool(context.id, DEVICE, 8 * MIB, 0)
    add_sources(device, context.id, model.path)
    told["with"] = device.set_pool(context.id, DEVICE, 8 * MIB, 0)
    told["with slots"] = device.pool(context.id, DEVICE).slots
    ours, given = (np.array(rows) for rows in (tokens(context, 8)[:4], reference))
    told["apart"] = float((np.linalg.norm(ours - given, axis=1) / np.linalg.norm(given, axis=1)).max())
    return told


TASKS: dict[str, Callable[[Path, str], dict[str, Any]]] = {
    "arguments": arguments,
    "devices": devices,
    "sources": sources,
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Runs a task in a process of its own."""
    folder = tmp_path_factory.mktemp("refusals")
    library = faulty_device(folder)
    mixtral(folder / "mixtral.gguf")
    quantised_mixtral(folder / "quantised_mixtral.gguf")

    def run_task(task: str) -> dict[str, Any]:
        return dict(json.loads(run_child(Path(__file__), task, str(folder), str(library)).splitlines()[-1]))

    return run_task


def test_wrong_arguments_are_refused_and_change_nothing(run):
    done = run("arguments")
    assert {name: result for name, result in done["told"].items() if result != Result.BAD_ARGUMENT} == {}
    assert len(done["told"]) > 40
    assert done["unchanged"]
    assert done["right"]


def test_devices_that_are_not_there_or_do_not_start_are_told_apart_from_a_context_without_tokens(run):
    told = run("devices")
    assert told["early"] == Result.NOT_READY
    assert told["absent"] == [Result.OK, Result.NO_DEVICE, Result.NO_DEVICE]
    assert told["absent right"]
    assert told["start"] == [Result.NO_DEVICE, Result.OK]
    assert told["start slots"] > 0
    assert told["start right"]


def test_a_repacked_model_gets_a_pool_only_with_the_bytes_of_its_file(run):
    told = run("sources")
    if not told["repacked"]:
        pytest.skip("this processor has no faster layout for these experts")
    assert told["without"] == Result.NO_SOURCE
    assert "blk.0.ffn_" in told["reason"]
    assert "in no file that was given" in told["reason"]
    assert told["slots"] == 0
    assert told["right"]
    assert told["outside"] == Result.NO_SOURCE
    assert told["no file"] == Result.NO_SOURCE
    assert told["wrong size"] == Result.NO_SOURCE
    assert told["with"] == Result.OK
    assert told["with slots"] == 2 * 8
    # The device computes from the file's own layout, whose kernels round otherwise than the repacked ones.
    assert told["apart"] < 0.02


if __name__ == "__main__":
    print(json.dumps(TASKS[sys.argv[1]](Path(sys.argv[2]), sys.argv[3])))
