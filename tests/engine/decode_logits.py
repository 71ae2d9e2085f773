"""A process of its own that decodes fixed token ids and stores what came of it: run by the expert cache's tests.

Usage: decode_logits.py FOLDER JOB MODEL…, JOB being a `Job` as JSON. FOLDER/<model's name>.npz gets an array by
each run's name, logits in float32 [rows, vocabulary] or an answer's token ids, and `facts`: JSON, by run what the
device counted.
"""

import ctypes
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
from llama_process import Context, LlamaProcess

from app.engine.cache import ExpertDevice, Phase, Residency
from app.engine.compute_threads import ComputeThreads
from app.model import read_expert_tensors
from app.placement.plan import CachePolicy

# Of one sequence. Last rows only where llama.cpp then computes its last layer for one token of many.
BATCHES = (17, 1, 3, 8, 1, 1, 64, 1, 512)
LAST_ROW_ONLY = (17, 512)
# Batches of so many tokens are decoding: one token, or a draft that is verified.
DRAFT = 8
# Room for what a device pads its tensors to, on every tensor of a layer; far less than a slot of any model here.
PADDING = 4096


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One pass over the batches.

    Attributes:
        name: What its results are stored under.
        pool: Share of all experts that get a slot, or "one" for one slot a layer.
        stream: One of STREAMS.
        staging: Experts that the staging area has room for.
        kind: One of POLICIES.
        insert_cap, window: As in `CachePolicy`.
        wait: A layer waits for its copies, so that hits are the same in every run.
        lock_bytes: Main memory that may be page-locked for copies.
        resident: Share of all experts that may stay in main memory; 0 leaves that to the system.
    """

    name: str
    pool: float | str = 0.0
    stream: str = "off"
    staging: int = 0
    kind: str = "lru"
    insert_cap: int = 64
    window: int = 0
    wait: bool = True
    lock_bytes: int = 0
    resident: float = 0.0


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What to do with every model.

    Attributes:
        device: With the expert device.
        gpu: ggml's name of the device of the attention; None for the CPU.
        experts_on_gpu: Stock, fully offloaded.
        repack: Let llama.cpp use the CPU's faster layouts.
        repacked: Residency of the experts with the expert device.
        pool_device: ggml's name of the device that has the pool.
        device_library: Library of a device of the tests' own, which is loaded; empty for none.
        threads: Of the CPU.
        keep_threads: Keep these between graphs; ggml with OpenMP takes kept threads too, though it needs none.
        experts_used: Experts that compute each token; None for the model's own number.
        batches: Sizes, in tokens.
        prompt: Text to answer instead, greedily, with `answer` tokens; the ids are stored.
        runs: Passes, all in one context: pools are resized between them.
    """

    device: bool = False
    gpu: str | None = None
    experts_on_gpu: bool = False
    repack: bool = True
    repacked: bool = False
    pool_device: str = "CPU"
    device_library: str = ""
    threads: int = 1
    keep_threads: bool = False
    experts_used: int | None = None
    batches: tuple[int, ...] = BATCHES
    prompt: str = ""
    answer: int = 0
    runs: tuple[Run, ...] = (Run(name="stock"),)


def token_ids(count: int, vocabulary: int) -> list[int]:
    """The same ids in every process."""
    return list(np.random.default_rng(3).integers(0, vocabulary, count).tolist())


def decode_batches(
    context: Context, batches: Sequence[int], device: ExpertDevice | None = None
) -> npt.NDArray[np.float32]:
    """Logits of one pass from an empty sequence, [rows, vocabulary]."""
    context.clear()
    ids, rows = token_ids(sum(batches), context.model.vocabulary), []
    for size in batches:
        if device:
            device.set_phase(context.id, Phase.DECODE if size <= DRAFT else Phase.PROMPT)
        batch, ids = ids[:size], ids[size:]
        rows.append(context.decode(batch, every=size not in LAST_ROW_ONLY))
    return np.concatenate(rows)


def answer(context: Context, prompt: str, count: int, device: ExpertDevice | None) -> npt.NDArray[np.int64]:
    """Ids of the `count` most likely tokens after `prompt`, whatever they are."""
    context.clear()
    if device:
        device.set_phase(context.id, Phase.PROMPT)
    batch, ids = context.model.tokens(prompt), []
    for _ in range(count):
        ids.append(int(context.decode(batch)[0].argmax()))
        batch = ids[-1:]
        if device:
            device.set_phase(context.id, Phase.DECODE)
    return np.array(ids)


def add_sources(device: ExpertDevice, context: int, path: Path) -> None:
    """Tell the device where the experts' bytes lie in the file."""
    for tensor in read_expert_tensors(path):
        assert device.add_source(context, str(tensor.path), tensor.name, tensor.offset, tensor.bytes) == 0


def warm_up(device: ExpertDevice, context: Context, pool_device: str) -> None:
    """One token, after which the device knows the layers, and the device that the pools will be on."""
    device.set_phase(context.id, Phase.IGNORE)
    context.decode([0])
    assert device.set_layer_device(context.id, pool_device) == 0


def pool_bytes(device: ExpertDevice, context: int, pool: float | str) -> int:
    """Bytes of a pool of that share of the experts; of whole slots, so that a share of 1 holds them all."""
    layers = device.layers(context)
    slots = [1 if pool == "one" else round(float(pool) * layer.experts) for layer in layers]
    wanted = sum(n * layer.expert_bytes for n, layer in zip(slots, layers, strict=True))
    return wanted + PADDING * len(layers) if wanted else 0


def configure(device: ExpertDevice, context: int, run: Run, pool_device: str) -> None:
    """Policy and pool of a run; the pool is given up first, so that every run begins with an empty one."""
    policy = CachePolicy(
        kind=run.kind,
        insert_cap=run.insert_cap,
        window=run.window,
        stream=run.stream,
        lock_bytes=run.lock_bytes,
    )
    device.set_policy(context, policy, wait_for_copies=run.wait)
    largest = max(layer.expert_bytes for layer in device.layers(context))
    staging = run.staging * largest + PADDING if run.staging else 0
    device.set_pool(context, pool_device, 0, 0)
    experts = sum(layer.experts * layer.expert_bytes for layer in device.layers(context))
    device.set_resident(context, math.ceil(run.resident * experts))
    result = device.set_pool(context, pool_device, pool_bytes(device, context, run.pool), staging)
    assert result == 0, f"set_pool answered {result!r}: {device.pool(context, pool_device).reason!r}"


def counts(device: ExpertDevice, context: int) -> dict[str, int]:
    """Sums over decoding and prompts."""
    totals = [device.totals(context, phase) for phase in (Phase.DECODE, Phase.PROMPT)]
    names = ("tokens", "hits", "misses", "streamed", "inserts", "evictions", "inserted_bytes", "layers",
             "cold_experts", "cold_reads", "cold_bytes")  # fmt: skip
    sums = {name: sum(int(getattr(total, name)) for total in totals) for name in names}
    routed = [device.routing(context, phase) for phase in (Phase.DECODE, Phase.PROMPT)]
    graphs, nodes = device.work(context)
    sums |= {"routed": int(sum(counted.sum() for counted in routed)), "graphs": graphs, "nodes": nodes}
    # Heat of the runs before fills a new pool at once, so what a run leaves there is not what it inserted.
    return sums | {"newly_resident": sum(layer.resident for layer in device.layers(context))}


def facts(device: ExpertDevice, context: int, before: dict[str, int], pool_device: str) -> dict[str, Any]:
    """What one run added to the counts, and the pool after it."""
    after = counts(device, context)
    pool = device.pool(context, pool_device)
    layers = device.layers(context)
    return {name: after[name] - before[name] for name in after} | {
        "requested": pool.requested,
        "allocated": pool.allocated,
        "slots": pool.slots,
        "resident": pool.resident,
        "result": pool.result,
        "reason": pool.reason.decode(),
        "in_memory": device.memory(context).resident,
        "given_up": device.memory(context).evictions,
        "reading": bool(device.memory(context).on),
        "locked": pool.locked,
        "ahead": pool.ahead,
        "layer_slots": [layer.slots for layer in layers],
        "layer_resident": [layer.resident for layer in layers],
        "layer_experts": [layer.experts for layer in layers],
        "expert_bytes": [layer.expert_bytes for layer in layers],
        "decoded_by_layer": device.routing(context, Phase.DECODE).sum(axis=1).tolist(),
        "repacked_layers": sum(layer.residency == Residency.REPACKED for layer in layers),
        "on_gpu": int((device.experts(context).lane == 1).sum()),
    }


def decode(process: LlamaProcess, path: Path, job: Job) -> dict[str, Any]:
    """All runs of one model."""
    device = process.device
    if device:
        device.set_residency(Residency.REPACKED if job.repacked else Residency.MAPPED)
    model = process.load(
        path,
        gpu=job.gpu,
        experts_on_gpu=job.experts_on_gpu,
        repack=job.repack,
        no_host=job.repacked,
        experts_used=job.experts_used,
    )
    context = model.context(threads=job.threads)
    threads = ComputeThreads(process.ggml, device, (job.threads,), also_with_openmp=True) if job.keep_threads else None
    if threads:
        threads.attach(context.context, job.threads, job.threads)
    found: dict[str, Any] = {}
    told: dict[str, Any] = {}
    if device:
        add_sources(device, context.id, path)
        warm_up(device, context, job.pool_device)
    for run in job.runs:
        before: dict[str, int] = {}
        if device:
            configure(device, context.id, run, job.pool_device)
            before = counts(device, context.id)
        if job.prompt:
            found[run.name] = answer(context, job.prompt, job.answer, device)
        else:
            found[run.name] = decode_batches(context, job.batches, device)
        if device:
            told[run.name] = facts(device, context.id, before, job.pool_device)
    context.close()
    model.close()
    if threads:
        threads.close()
    return found | {"facts": np.array(json.dumps(told))}


def main() -> None:
    """Decode every model that was named."""
    folder, job = Path(sys.argv[1]), msgspec.json.decode(sys.argv[2], type=Job)
    process = LlamaProcess(with_device=job.device)
    if job.device_library:
        ctypes.CDLL(job.device_library).faulty_register()
    for name in sys.argv[3:]:
        np.savez(folder / f"{Path(name).stem}.npz", **decode(process, Path(name), job))


if __name__ == "__main__":
    main()
