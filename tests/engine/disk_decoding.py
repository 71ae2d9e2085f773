"""A process of its own that decodes while something happens to its memory or its file: run by the disk lane's tests.

Usage: disk_decoding.py CASE MODEL OUT. OUT (.npz) gets what the case measured:

* `orders`: all `decode_logits.BATCHES` while another thread gives orders without a pause: `logits`, `orders`.
* `replaced`: the same after another file took the model's name: `logits`, `cold` (experts that were read).
* `cut`: a batch after the file's end was cut off (`result` of llama_decode, `failures` of the device), and, the end
  put back, the same batch `again`, as `before` all that.
"""

import os
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
from decode_logits import BATCHES, add_sources, counts, decode_batches, token_ids, warm_up
from llama_cpp import llama_cpp as llama
from llama_process import Context, LlamaProcess

from app.engine.cache import ExpertDevice, Phase, Residency

SHARE = 0.3


def orders(device: ExpertDevice, context: Context, _path: Path) -> dict[str, Any]:
    """Give every order there is, again and again."""
    ended, given = threading.Event(), 0
    total = experts_bytes(device, context)

    def give() -> None:
        nonlocal given
        shares = (0.3, 0.0, 1.0, 0.02, 0.6)
        while not ended.is_set():
            device.set_resident(context.id, int(shares[given % len(shares)] * total))
            device.warm_up(context.id)
            device.memory(context.id)
            device.residents(context.id)
            if given % 3 == 0:
                device.release(context.id)
            device.totals(context.id, Phase.DECODE)
            given += 1

    thread = threading.Thread(target=give)
    thread.start()
    try:
        logits = decode_batches(context, BATCHES, device)
        for _ in range(3):
            assert np.array_equal(decode_batches(context, BATCHES, device), logits)
    finally:
        ended.set()
        thread.join()
    return {"logits": logits, "orders": given}


def replaced(device: ExpertDevice, context: Context, path: Path) -> dict[str, Any]:
    """Another file takes the name; the mapping is of the old one."""
    other = path.with_suffix(".other")
    other.write_bytes(bytes(path.stat().st_size))
    other.replace(path)
    device.set_resident(context.id, int(SHARE * experts_bytes(device, context)))
    device.release(context.id)
    logits = decode_batches(context, BATCHES, device)
    return {"logits": logits, "cold": counts(device, context.id)["cold_experts"]}


def cut(device: ExpertDevice, context: Context, path: Path) -> dict[str, Any]:
    """The last layer's last tensor is gone for a while."""
    device.set_resident(context.id, int(SHARE * experts_bytes(device, context)))
    device.set_phase(context.id, Phase.PROMPT)
    ids = token_ids(64, context.model.vocabulary)
    context.clear()
    before = context.decode(ids)
    whole = path.read_bytes()
    last = device.layers(context.id)[-1]
    os.truncate(path, len(whole) - last.experts * last.expert_bytes // 3)
    context.clear()
    batch = llama.llama_batch_get_one((llama.llama_token * len(ids))(*ids), len(ids))
    result = llama.llama_decode(context.context, batch)
    failures = device.memory(context.id).failures
    with path.open("r+b") as file:
        file.write(whole)
    context.clear()
    again = context.decode(ids)
    return {"result": result, "failures": failures, "before": before, "again": again}


def experts_bytes(device: ExpertDevice, context: Context) -> int:
    """Of all experts."""
    return sum(layer.experts * layer.expert_bytes for layer in device.layers(context.id))


def main() -> None:
    """One case."""
    case, path, out = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    process = LlamaProcess(with_device=True)
    device = process.device
    assert device is not None
    device.set_residency(Residency.MAPPED)
    model = process.load(path, repack=False)
    context = model.context(threads=1)
    add_sources(device, context.id, path)
    warm_up(device, context, "CPU")
    np.savez(out, **{"orders": orders, "replaced": replaced, "cut": cut}[case](device, context, path))
    context.close()
    model.close()


if __name__ == "__main__":
    main()
