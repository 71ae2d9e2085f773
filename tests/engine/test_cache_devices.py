"""Layers of one model whose pools are on different devices.

The test runs this file as a program: a process can register the expert device once.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from decode_logits import Job, token_ids, warm_up
from decoding import decode, run_child
from faulty_decoding import FaultyDevice, share_bytes
from llama_process import LlamaProcess
from native_build import faulty_device
from tiny_shapes import mixtral

from app.engine.cache import Phase
from app.placement.plan import CachePolicy

TOKENS = token_ids(36, 96)
OTHER = "FAULTY"  # a device with memory of its own; here nothing fails on it
EAGER = CachePolicy(kind="lru", insert_cap=64, window=0, stream="auto", lock_bytes=1 << 22)


def two_devices(folder: Path, library: str) -> dict[str, Any]:
    """Layer 1 on one device and the others on another; later all on one. What each holds, and the logits."""
    process = LlamaProcess(with_device=True)
    device, other = process.device, FaultyDevice(library)
    assert device
    model = process.load(folder / "model.gguf")
    context = model.context()
    warm_up(device, context, "CPU")
    device.set_policy(context.id, EAGER, wait_for_copies=True)
    assert device.set_layer_device(context.id, OTHER, 1) == 0
    size = share_bytes(device, context, 0.5)
    told: dict[str, Any] = {
        "given": [int(device.set_pool(context.id, name, size, size // 4)) for name in ("CPU", OTHER)]
    }

    def look(name: str) -> None:
        pools = {where: device.pool(context.id, where) for where in ("CPU", OTHER)}
        told[name] = {
            "slots": {where: pool.slots for where, pool in pools.items()},
            "resident": {where: pool.resident for where, pool in pools.items()},
            "layer_slots": [layer.slots for layer in device.layers(context.id)],
            "layer_resident": [layer.resident for layer in device.layers(context.id)],
            "locked": {where: pool.locked for where, pool in pools.items()},
            "reasons": {where: pool.reason.decode() for where, pool in pools.items()},
            "hits": device.totals(context.id, Phase.DECODE).hits,
            "buffers": other.buffers(),
        }

    context.clear()
    device.set_phase(context.id, Phase.DECODE)
    rows = [context.decode([token]) for token in TOKENS[:20]]
    look("apart")
    assert device.set_layer_device(context.id, "CPU", 1) == 0
    look("moved")
    told["given"] += [int(device.set_pool(context.id, OTHER, 0, 0)), int(device.set_pool(context.id, "CPU", size, 0))]
    rows += [context.decode([token]) for token in TOKENS[20:]]
    look("together")
    np.save(folder / "logits.npy", np.concatenate(rows))
    context.close()
    model.close()
    return told


@pytest.fixture(scope="module")
def told(tmp_path_factory) -> tuple[dict[str, Any], Path]:
    folder = tmp_path_factory.mktemp("devices")
    mixtral(folder / "model.gguf")
    output = run_child(Path(__file__), str(folder), str(faulty_device(folder)))
    return json.loads(output.splitlines()[-1]), folder


def test_each_layer_has_its_slots_on_its_own_device(told):
    apart = told[0]["apart"]
    assert told[0]["given"] == [0, 0, 0, 0]
    assert apart["slots"] == {"CPU": apart["layer_slots"][0] + apart["layer_slots"][2], OTHER: apart["layer_slots"][1]}
    assert min(apart["layer_slots"]) > 0
    assert apart["resident"][OTHER] == apart["layer_resident"][1] > 0
    assert apart["hits"] > 0


def test_a_layer_that_moves_gives_its_slots_up_and_gets_others_with_the_next_size(told):
    moved, together = told[0]["moved"], told[0]["together"]
    assert moved["slots"][OTHER] == moved["layer_slots"][1] == 0
    assert together["slots"] == {"CPU": sum(together["layer_slots"]), OTHER: 0}
    assert min(together["layer_slots"]) > 0
    assert together["hits"] > moved["hits"]
    assert together["buffers"] == 0, "nothing is left on the device that was given up"


def test_a_device_that_cannot_lock_memory_says_so_and_works_without(told):
    apart, moved = told[0]["apart"], told[0]["moved"]
    assert apart["locked"][OTHER] > apart["locked"]["CPU"] == 0
    assert apart["reasons"] == {"CPU": "CPU cannot lock main memory: copies to it are made without.", OTHER: ""}
    assert moved["locked"][OTHER] == 0, "nothing of a layer that left"


def test_the_numbers_are_stocks_wherever_the_pools_are(told, tmp_path):
    batches = (1,) * len(TOKENS)
    folder = told[1]
    stock = decode(tmp_path, Job(batches=batches), folder / "model.gguf")["model"].logits["stock"]
    ours = np.load(folder / "logits.npy")
    assert ours.shape == stock.shape
    np.testing.assert_array_equal(ours, stock)


if __name__ == "__main__":
    print(json.dumps(two_devices(Path(sys.argv[1]), sys.argv[2])))
