"""A process of its own that decodes while something happens to its memory or its file: run by the disk lane's tests.

Usage: disk_decoding.py CASE MODEL OUT. OUT (.npz) gets what the case measured:

* `orders`: all `decode_logits.BATCHES` while another thread gives orders without a pause: `logits`, `orders`.
* `prompt`: one prompt with no expert in memory: `cold_experts`, `cold_bytes`, `cold_reads`
  of it, `routed` and `routed_bytes` of the experts that it was routed to, once each, and `tensors` of an expert.
* `locks`: a few dozen tokens: `locked` of the bytes `asked` for, `locked_pages` as the system counts them (bytes),
  `limit` in words, `left` (locked bytes without a budget); `refused`, `words`: where nothing may be locked.
* `undecided`: nobody says what main memory may hold: `told`, [moments, numbers], all 0; `logits`, and `again` after
  orders; `cold`; the `budget` after one was set.
* `failures`: batches that fail while another thread reads: `seen`, the count after each.
* `replaced`: the same after another file took the model's name: `logits`, `cold` (experts that were read).
* `cut`: a batch after the file's end was cut off (`result` of llama_decode, `failures` of
  the device), and, the end put back, the same batch `again`, as `before` all that.
"""

import ctypes
import os
import resource
import sys
import threading
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from decode_logits import BATCHES, add_sources, counts, decode_batches, token_ids, warm_up
from llama_cpp import llama_cpp as llama
from llama_process import Context, LlamaProcess

from app.engine.cache import ExpertDevice, Phase, Residency, library_path
from app.engine.cache_types import MemoryStruct

SHARE = 0.3
LEAST_ORDERS = 50
_CAP_IPC_LOCK = 14  # Linux
_CAPABILITY_VERSION = 0x20080522


def orders(device: ExpertDevice, context: Context, _path: Path) -> dict[str, Any]:
    """Give every order there is, again and again."""
    ended, given = threading.Event(), 0
    total = experts_bytes(device, context)

    def give() -> None:
        nonlocal given
        shares = (0.3, 0.0, 1.0, 0.02, 0.6)
        while not ended.is_set():
            device.set_resident(context.id, int(shares[given % len(shares)] * total))
            device.set_memory_lock(context.id, total // (1 + given % 5))
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
        passes = 0
        while passes < 3 or given <= LEAST_ORDERS:  # a busy machine lets the other thread wait
            assert np.array_equal(decode_batches(context, BATCHES, device), logits)
            passes += 1
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
    tokens = (llama.llama_token * len(ids))(*ids)  # the batch only points there
    result = llama.llama_decode(context.context, llama.llama_batch_get_one(tokens, len(ids)))
    failures = device.memory(context.id).failures
    with path.open("r+b") as file:
        file.write(whole)
    context.clear()
    again = context.decode(ids)
    return {"result": result, "failures": failures, "before": before, "again": again}


def experts_bytes(device: ExpertDevice, context: Context) -> int:
    """Of all experts."""
    return sum(layer.experts * layer.expert_bytes for layer in device.layers(context.id))


def prompt(device: ExpertDevice, context: Context, path: Path) -> dict[str, Any]:
    """Compute one prompt for which everything has to be read."""
    device.set_resident(context.id, int(SHARE * experts_bytes(device, context)))
    device.release(context.id)
    context.clear()
    device.set_phase(context.id, Phase.PROMPT)
    before, routed_before = counts(device, context.id), device.routing(context.id, Phase.PROMPT)
    context.decode(token_ids(64, context.model.vocabulary))
    after, routed = counts(device, context.id), device.routing(context.id, Phase.PROMPT) - routed_before
    once = (routed > 0).sum(axis=1)
    sizes = {layer.layer: layer.expert_bytes for layer in device.layers(context.id)}
    cold = {name: after[name] - before[name] for name in ("cold_experts", "cold_bytes", "cold_reads")}
    return cold | {
        "routed": once.sum(),
        "routed_bytes": sum(int(n) * sizes.get(layer, 0) for layer, n in enumerate(once)),
        "tensors": sum("_exps.weight" in tensor.name for tensor in gguf.GGUFReader(path).tensors) / len(sizes),
    }


def locks(device: ExpertDevice, context: Context, _path: Path) -> dict[str, Any]:
    """Decode until the hottest are locked; then, with no right to lock, again."""
    memory = experts_bytes(device, context)

    def decoded() -> MemoryStruct:
        device.set_memory_lock(context.id, memory // 4)
        device.set_resident(context.id, 0)
        device.set_resident(context.id, int(0.9 * memory))
        context.clear()
        device.set_phase(context.id, Phase.DECODE)
        for token in token_ids(48, context.model.vocabulary):
            context.decode([token])
        return device.memory(context.id)

    found = decoded()
    pages = locked_pages()
    device.set_resident(context.id, 0)
    left = locked_pages()
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (0, 0))
    give_up_capability(_CAP_IPC_LOCK)
    refused = decoded()
    told = {"asked": memory // 4, "locked": found.locked, "locked_pages": pages, "limit": found.reason.decode()}
    return told | {"left": left, "refused": refused.locked, "words": refused.reason.decode()}


def undecided(device: ExpertDevice, context: Context, _path: Path) -> dict[str, Any]:
    """Decode before anybody said what main memory may hold, and give the orders that need no budget."""
    told: list[list[int]] = []

    def look() -> None:
        its, lacking = device.memory(context.id), device.residents(context.id) == 0
        numbers = (its.budget, its.trusted, its.resident, its.total, its.locked, its.on, len(its.reason))
        told.append([*numbers, int(lacking.sum()), locked_pages()])

    look()
    logits = decode_batches(context, BATCHES, device)
    look()
    device.set_memory_lock(context.id, experts_bytes(device, context))
    device.warm_up(context.id)
    look()
    device.release(context.id)
    look()
    again = decode_batches(context, BATCHES, device)
    look()
    cold = counts(device, context.id)["cold_experts"]
    device.set_resident(context.id, int(SHARE * experts_bytes(device, context)))
    budget = device.memory(context.id).budget
    return {"told": told, "logits": logits, "again": again, "cold": cold, "budget": budget}


def failures(device: ExpertDevice, context: Context, path: Path) -> dict[str, Any]:
    """Fail again and again while another thread reads, so that the context's lock is mostly held."""
    device.set_resident(context.id, int(SHARE * experts_bytes(device, context)))
    device.set_phase(context.id, Phase.PROMPT)
    ids = token_ids(64, context.model.vocabulary)
    last, ended = device.layers(context.id)[-1], threading.Event()
    os.truncate(path, path.stat().st_size - last.experts * last.expert_bytes // 3)
    tokens = (llama.llama_token * len(ids))(*ids)
    library, many = ctypes.CDLL(str(library_path())), 1000
    held = (ctypes.c_uint8 * many**2)()

    def read() -> None:
        while not ended.is_set():
            library.expert_device_read_residents(ctypes.c_int64(context.id), held, many, many)

    thread = threading.Thread(target=read)
    thread.start()
    seen = [0]
    try:
        for _ in range(20):
            device.release(context.id)
            context.clear()
            result = llama.llama_decode(context.context, llama.llama_batch_get_one(tokens, len(ids)))
            seen.append(device.memory(context.id).failures)
            assert result < 0
    finally:
        ended.set()
        thread.join()
    return {"seen": seen}


def locked_pages() -> int:
    """Bytes of this process that are locked."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmLck"))
    return int(line.split()[1]) * 1024


def give_up_capability(number: int) -> None:
    """Take a capability from this thread's effective and permitted ones."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    data = (ctypes.c_uint32 * 6)()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.capget(header, data) == 0:
        for kind in range(2):  # effective, permitted
            data[3 * (number // 32) + kind] &= ~(1 << number % 32)
        libc.capset(header, data)


CASES = {
    "locks": locks,
    "undecided": undecided,
    "failures": failures,
    "prompt": prompt,
    "orders": orders,
    "replaced": replaced,
    "cut": cut,
}


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
    np.savez(out, **CASES[case](device, context, path))
    context.close()
    model.close()


if __name__ == "__main__":
    main()
