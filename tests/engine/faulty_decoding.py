"""A process of its own that decodes with a pool on the device "FAULTY" and stores what came of each failure.

Usage: faulty_decoding.py FOLDER LIBRARY MODEL CASES, CASES being a list of `Case` as JSON. FOLDER/logits.npz gets
each case's logits, float32 [rows, vocabulary], by its name; the last line printed is JSON, a `Told` by case.
"""

import ctypes
import sys
import threading
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
from decode_logits import DRAFT, LAST_ROW_ONLY, PADDING, add_sources, token_ids, warm_up
from llama_cpp import llama_cpp as llama
from llama_process import Context, LlamaProcess, LoadedModel

from app.engine.cache import ExpertDevice, Phase
from app.placement.plan import CachePolicy, ExpertPin

DEVICE = "FAULTY"
# In the order of the device's own list.
FAULTS = (
    "start",
    "allocate",
    "copy",
    "upload",
    "download",
    "compute_status",
    "compute_throw",
    "wait",
    "allocate_throw",
    "clear",
    "host_throw",
    "lock",
)
# Batches of a case, in tokens; from the one whose number is `ARMED` on the device fails, if no case says otherwise.
BATCHES = (1, 1, 1, 3, 17, 1, 1, 1, 1, 3, 17, 1)
ARMED = 5
CHURNS, STIRS, COPY_MICROSECONDS = 120, 25, 100


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One context's life.

    Attributes:
        name: What its results are stored under.
        pool: Share of all experts that get a slot.
        staging: Experts that the staging area has room for.
        stream: One of STREAMS.
        pinned: All experts are pinned to the GPU, so that a pool of all of them is full from the start.
        fault, nth: Which call fails, and the how manieth after it is armed.
        armed: Before the pool is asked for, before batch `batch`, or before the pool gets another size (which is
            then done there).
        batch: See `armed`.
        resized: Share of the pool's new size.
        lock: Share of all experts' bytes that may be page-locked.
        resident: Share of all experts that main memory may keep, from before the pool on; 0 leaves it to the system.
        resident_later: The same, from before batch `batch` on.
        refuse_above: Largest allocation that is given, in bytes per layer and as a share of all its experts.
        refuse_op: ggml's name of an op that is not supported.
    """

    name: str
    pool: float = 0.5
    staging: int = 0
    stream: str = "off"
    pinned: bool = False
    fault: str = ""
    nth: int = 1
    armed: Literal["pool", "batch", "resize"] = "batch"
    batch: int = ARMED
    resized: float = 0.0
    lock: float = 0.0
    resident: float = 0.0
    resident_later: float = 0.0
    refuse_above: float = 0.0
    refuse_op: str = ""


class Locks(NamedTuple):
    """Bytes of main memory that are page-locked; copies from such memory, and from memory that is so in part."""

    bytes: int
    copies: int
    torn: int


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What the device answered and counted.

    Attributes:
        given: Answer to the first set_pool.
        resized: Answer to the second, where there was one.
        failed: How many calls failed.
        results, reasons: Of the pool, after it was asked for and after each batch.
        slots, allocated: Of the pool, at the same times; allocated bytes with the staging area's.
        hits, streamed, pairs: Of each batch: from the pool, copied over, all.
        ahead: Experts that were copied ahead of their layer and used, in the end.
        may_lock: Bytes that may be page-locked.
        locked: Of the pool, bytes, as `results`.
        locks: The device's own count in the end, and after the pool was given up: bytes, copies from locked memory
            and from memory that was locked in part.
        released: Answer to giving the pool up.
        kept, buffers: Allocations of the device that it still had after that, and after the context was freed.
    """

    given: int
    resized: int | None
    failed: int
    results: list[int]
    reasons: list[str]
    slots: list[int]
    allocated: list[int]
    hits: list[int]
    streamed: list[int]
    pairs: list[int]
    ahead: int
    may_lock: int
    locked: list[int]
    locks: tuple[Locks, Locks]
    released: int
    kept: int
    buffers: int


class FaultyDevice:
    """The device that fails when told to; one object a process."""

    def __init__(self, path: str) -> None:
        self._library = ctypes.CDLL(path)
        self._library.faulty_refuse_above.argtypes = [ctypes.c_uint64]
        self._library.faulty_slow_copies.argtypes = [ctypes.c_int64]
        self._library.faulty_locked.restype = ctypes.c_uint64
        self._library.faulty_register()
        self.heal()

    def fail(self, fault: str, nth: int) -> None:
        """The `nth` call from now fails, once."""
        self._library.faulty_fail(FAULTS.index(fault), nth)

    def failed(self) -> int:
        """How many calls failed so far."""
        return sum(self._library.faulty_failed(fault) for fault in range(len(FAULTS)))

    def refuse_above(self, size: int) -> None:
        """Allocations of more bytes are refused."""
        self._library.faulty_refuse_above(size)

    def refuse_op(self, name: str) -> None:
        """The device does not support that op."""
        self._library.faulty_refuse_op(name.encode())

    def slow_copies(self, microseconds: int) -> None:
        """Each copy of a tensor's share of an expert takes that long."""
        self._library.faulty_slow_copies(microseconds)

    def buffers(self) -> int:
        """Allocations that were not freed."""
        return int(self._library.faulty_buffers())

    def unwaited(self) -> int:
        """How many of its backends have work that nobody waited for."""
        return int(self._library.faulty_unwaited())

    def locks(self) -> Locks:
        """Page-locked main memory and the copies from it."""
        library = self._library
        return Locks(library.faulty_locked(), library.faulty_copies_locked(), library.faulty_copies_torn())

    @property
    def host_callback(self) -> Any:
        """An abort callback with which the processor runs out of memory while the device works ("host_throw")."""
        return self._library.faulty_host_callback

    def heal(self) -> None:
        """Nothing fails."""
        for fault in FAULTS:
            self.fail(fault, 0)
        self.refuse_above(2**64 - 1)
        self.refuse_op("")


def share_bytes(device: ExpertDevice, context: Context, share: float) -> int:
    """Bytes of a pool of that share of the experts."""
    layers = device.layers(context.id)
    return sum(round(share * its.experts) * its.expert_bytes + (PADDING if share else 0) for its in layers)


def policy_of(device: ExpertDevice, context: Context, case: Case) -> CachePolicy:
    """A case's policy."""
    lock = share_bytes(device, context, case.lock)
    return CachePolicy(kind="lru", insert_cap=64, window=0, stream=case.stream, lock_bytes=lock)


def prepare(device: ExpertDevice, context: Context, case: Case) -> None:
    """Sources, one token, policy and pins of a case."""
    add_sources(device, context.id, context.model.path)
    warm_up(device, context, DEVICE)
    device.set_policy(context.id, policy_of(device, context, case), wait_for_copies=True)
    if case.pinned:
        pins = [
            ExpertPin(layer=its.layer, expert=e, pin="gpu")
            for its in device.layers(context.id)
            for e in range(its.experts)
        ]
        device.set_pins(context.id, pins)


def decode_case(faulty: FaultyDevice, model: LoadedModel, case: Case) -> tuple[np.ndarray, Told]:
    """Logits and answers of one case, in a context of its own."""
    device = model.process.device
    assert device
    context = model.context()
    prepare(device, context, case)
    layers = device.layers(context.id)
    staging = case.staging * max(its.expert_bytes for its in layers) * 2 + PADDING if case.staging else 0
    if case.refuse_above:
        faulty.refuse_above(round(case.refuse_above * layers[0].experts * layers[0].expert_bytes) + PADDING)
    faulty.refuse_op(case.refuse_op)
    if case.resident:
        device.set_resident(context.id, share_bytes(device, context, case.resident))
    before = faulty.failed()
    if case.fault and case.armed == "pool":
        faulty.fail(case.fault, case.nth)
    given = device.set_pool(context.id, DEVICE, share_bytes(device, context, case.pool), staging)
    resized = None
    context.clear()
    ids, rows = token_ids(sum(BATCHES), model.vocabulary), []
    pools, sums = [device.pool(context.id, DEVICE)], [(0, 0, 0)]
    for index, size in enumerate(BATCHES):
        if case.fault and case.armed == "batch" and index == case.batch:
            faulty.fail(case.fault, case.nth)
        if case.armed == "resize" and index == case.batch:
            faulty.heal()
            if case.fault:
                faulty.fail(case.fault, case.nth)
            resized = int(device.set_pool(context.id, DEVICE, share_bytes(device, context, case.resized), staging))
        if case.resident_later and index == case.batch:
            device.set_resident(context.id, share_bytes(device, context, case.resident_later))
        device.set_phase(context.id, Phase.DECODE if size <= DRAFT else Phase.PROMPT)
        batch, ids = ids[:size], ids[size:]
        rows.append(context.decode(batch, every=size not in LAST_ROW_ONLY))
        pools.append(device.pool(context.id, DEVICE))
        both = [device.totals(context.id, phase) for phase in (Phase.DECODE, Phase.PROMPT)]
        sums.append((sum(t.hits for t in both), sum(t.streamed for t in both), sum(t.hits + t.misses for t in both)))
    added = np.diff(np.array(sums, dtype=np.int64), axis=0)
    locks = faulty.locks()
    released = device.set_pool(context.id, DEVICE, 0, 0)
    kept = faulty.buffers()
    failed = faulty.failed() - before
    faulty.heal()
    told = Told(
        given=int(given),
        resized=resized,
        failed=failed,
        results=[pool.result for pool in pools],
        reasons=[pool.reason.decode() for pool in pools],
        slots=[pool.slots for pool in pools],
        allocated=[pool.allocated + pool.staging for pool in pools],
        hits=added[:, 0].tolist(),
        streamed=added[:, 1].tolist(),
        pairs=added[:, 2].tolist(),
        ahead=pools[-1].ahead,
        may_lock=share_bytes(device, context, case.lock),
        locked=[pool.locked for pool in pools],
        locks=(locks, faulty.locks()),
        released=int(released),
        kept=kept,
        buffers=0,
    )
    context.close()
    told = msgspec.structs.replace(told, buffers=faulty.buffers())
    return np.concatenate(rows), told


def churn(faulty: FaultyDevice, model: LoadedModel) -> tuple[np.ndarray, int]:
    """One token between ever other sizes of the pool and heats, while slow copies are under way.

    Returns:
        Logits, [CHURNS, vocabulary], and the hits.
    """
    device = model.process.device
    assert device
    context = model.context()
    prepare(device, context, Case(name="churn"))
    device.set_policy(context.id, CachePolicy(kind="lru", insert_cap=64, window=0, stream="off"))
    device.set_phase(context.id, Phase.DECODE)
    faulty.slow_copies(COPY_MICROSECONDS)
    context.clear()
    random, rows = np.random.default_rng(5), []
    for token in token_ids(CHURNS, model.vocabulary):
        for _ in range(3):
            for layer in device.layers(context.id):
                device.set_heat(context.id, layer.layer, random.uniform(0.1, 9, layer.experts))
            share = random.choice([0.3, 0.5, 0.7, 1.0])
            assert device.set_pool(context.id, DEVICE, share_bytes(device, context, share), 0) == 0
        rows.append(context.decode([token]))
    hits = device.totals(context.id, Phase.DECODE).hits
    context.close()
    faulty.slow_copies(0)
    return np.concatenate(rows), hits


def starve(faulty: FaultyDevice, model: LoadedModel) -> tuple[np.ndarray, dict[str, int]]:
    """The processor runs out of memory between two of its products while the device computes the layer's other part.

    Returns:
        Logits, [10, vocabulary], of ten tokens of which one failed at first; what was seen meanwhile.
    """
    device = model.process.device
    assert device
    context = model.context()
    prepare(device, context, Case(name="starve"))
    assert device.set_pool(context.id, DEVICE, share_bytes(device, context, 0.5), 0) == 0
    device.set_phase(context.id, Phase.DECODE)
    callback = ctypes.cast(faulty.host_callback, llama.ggml_abort_callback)
    llama.llama_set_abort_callback(context.context, callback, None)
    context.clear()
    rows, told = [], {"ended": 0, "unwaited": -1}
    for index, token in enumerate(token_ids(10, model.vocabulary)):
        if index == 4:
            faulty.fail("host_throw", 1)
        try:
            rows.append(context.decode([token]))
        except AssertionError:
            told = {"ended": told["ended"] + 1, "unwaited": faulty.unwaited()}
            rows.append(context.decode([token]))
    told["result"] = device.pool(context.id, DEVICE).result
    context.close()
    return np.concatenate(rows), told


def stir(faulty: FaultyDevice, model: LoadedModel) -> np.ndarray:
    """Prompts that are streamed, while another thread gives pool and staging area ever other sizes.

    Returns:
        Logits of the last tokens, [STIRS, vocabulary].
    """
    device = model.process.device
    assert device
    context = model.context()
    case = Case(name="stir", stream="always", lock=0.5)
    prepare(device, context, case)
    device.set_policy(context.id, policy_of(device, context, case))
    largest = max(its.expert_bytes for its in device.layers(context.id))
    device.set_phase(context.id, Phase.PROMPT)
    faulty.slow_copies(COPY_MICROSECONDS)
    random, over = np.random.default_rng(6), threading.Event()

    def resize() -> None:
        while not over.is_set():
            share, experts = random.choice([0.0, 0.3, 0.6]), int(random.integers(0, 5))
            size = share_bytes(device, context, share)
            assert device.set_pool(context.id, DEVICE, size, experts * 2 * largest + PADDING) == 0

    other = threading.Thread(target=resize)
    other.start()
    context.clear()
    ids = token_ids(17 * STIRS, model.vocabulary)
    rows = [context.decode(ids[17 * index :][:17]) for index in range(STIRS)]
    over.set()
    other.join()
    streamed = device.totals(context.id, Phase.PROMPT).streamed
    context.close()
    faulty.slow_copies(0)
    assert streamed > 0, "there was something to disturb"
    return np.concatenate(rows)


def main() -> None:
    """Decode every case with one model, then churn."""
    folder, library, path = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    process = LlamaProcess(with_device=True)
    faulty = FaultyDevice(library)
    model = process.load(path)
    logits: dict[str, Any] = {}
    told: dict[str, Told] = {}
    for case in msgspec.json.decode(sys.argv[4], type=list[Case]):
        print(f"case: {case.name}", file=sys.stderr, flush=True)  # the last one is where the process ended
        logits[case.name], told[case.name] = decode_case(faulty, model, case)
    churned, hits = churn(faulty, model)
    starved, starvation = starve(faulty, model)
    stirred = stir(faulty, model)
    model.close()
    logits |= {"stirred": stirred, "churned": churned, "churned_hits": np.array(hits), "starved": starved}
    np.savez(folder / "logits.npz", **logits, starvation=np.array(msgspec.json.encode(starvation).decode()))
    print(msgspec.json.encode(told).decode())


if __name__ == "__main__":
    main()
