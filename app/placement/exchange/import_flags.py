"""A llama.cpp command line as a plan: what it means for one model on one machine, and what cannot be taken over."""

import os
import re
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from app.errors import AppError, ErrorCode
from app.hardware.facts import Machine
from app.model.facts import ModelFacts
from app.placement.active_experts import check_experts_used, experts_used_key
from app.placement.exchange.check_plan import MOST_SEQUENCES, checked
from app.placement.exchange.command_line import split
from app.placement.exchange.formats import Imported
from app.placement.exchange.import_places import read_places
from app.placement.exchange.llama_flags import LlamaLine, number, read_line
from app.placement.kv_cache import full_cells
from app.placement.lanes import gpu_lanes, with_gpu_lanes
from app.placement.plan import CachePolicy, Plan
from app.placement.planner import make_plan
from app.placement.wishes import AUTO_GPU, Wishes, check_wishes

# What llama.cpp takes for a cache and this app does not: the next larger type that there is here.
_KV_TYPES = {"f32": "f16", "bf16": "f16", "q5_1": "q8_0", "q5_0": "q8_0", "q4_1": "q8_0", "iq4_nl": "q4_0"}
_KV_ORDER = ("f16", "q8_0", "q4_0")
_DEFAULT_BATCH, _DEFAULT_UBATCH = 2048, 512
"""llama.cpp's own, where the line does not say."""


class _Batches(NamedTuple):
    n_batch: int
    n_ubatch: int


def import_flags(
    text: str, facts: ModelFacts, machine: Machine, tensors: Sequence[str], shell: str | None = None
) -> Imported:
    """The plan that a command line means.

    What the line leaves open and llama.cpp would fit to memory (context, placement) is the planner's choice;
    what it leaves open otherwise has llama.cpp's default.

    Args:
        text: The line as pasted, with or without the program.
        facts: The model it is for.
        machine: Where the plan is to be loaded.
        tensors: Names of all the model's tensors, which patterns are matched with.
        shell: One of command_line.SHELLS; None to tell by the text.

    Raises:
        AppError: bad_usage, a value or pattern is impossible, or there is no flag at all; device_missing.
    """
    arguments = split(text, shell)
    if not arguments:
        raise AppError(ErrorCode.BAD_USAGE, "There is no command line to read: the text is empty.")
    if not any(argument.startswith("-") for argument in arguments):
        raise AppError(ErrorCode.BAD_USAGE, "The text is no command line: it has no flag.")
    line = read_line(arguments)
    remarks = list(line.remarks)
    kv_type = _kv_type(line, facts, remarks)
    batches = _batches(line)
    n_ctx = _context(line, facts, remarks)
    places = read_places(line, facts, machine, tensors) if line.places else None
    experts_used = _experts_used(line, facts, remarks)
    gpu = places.gpu if places else AUTO_GPU
    wishes = Wishes(gpu=gpu, n_ctx=n_ctx, kv_type=kv_type, experts_used=experts_used)
    base = make_plan(facts, machine, wishes)
    n_ctx = base.n_ctx if n_ctx is None else n_ctx
    threads, threads_batch = _threads(line, machine, base)
    plan = msgspec.structs.replace(
        base,
        n_ctx=n_ctx,
        kv_type=kv_type,
        n_batch=min(batches.n_batch, n_ctx),
        n_ubatch=min(batches.n_ubatch, n_ctx),
        threads=threads,
        threads_batch=threads_batch,
        cpu_cores=_cores(line, remarks),
        n_seq_max=_sequences(line, remarks),
        residency="mapped" if line.repack is False else "repacked",
        experts_used=experts_used,
        speed=None,
    )
    if places is None:
        remarks.append("The line says nothing of devices and layers: where they go is this app's choice.")
    else:
        remarks += places.remarks
        plan = msgspec.structs.replace(
            plan,
            gpu=places.gpu,
            expert_lanes=places.expert_lanes,
            pool_bytes=0,
            pool_device=None,
            staging_bytes=0,
            policy=CachePolicy(),
            steps=(),
        )
        # Which of the CPU's layers main memory has no room for follows from the machine.
        plan = with_gpu_lanes(plan, facts, machine, gpu_lanes(plan))
    if line.n_ctx is None:
        remarks.append(f"The line leaves the context open: {n_ctx:,} tokens are this app's choice.")
    _remark_rest(line, facts, kv_type, remarks)
    return checked(plan, facts, machine, remarks)


def _context(line: LlamaLine, facts: ModelFacts, remarks: list[str]) -> int | None:
    if line.n_ctx is None:
        return None
    if line.n_ctx == 0:
        remarks.append(f"-c 0 is the model's full context: {facts.context_length:,} tokens.")
    wished = line.n_ctx or facts.context_length
    check_wishes(facts, Wishes(n_ctx=wished))
    rounded = full_cells(wished)
    if rounded != wished and rounded <= facts.context_length:
        remarks.append(f"llama.cpp rounds a context of {wished:,} tokens up to {rounded:,}.")
        return rounded
    return wished


def _kv_type(line: LlamaLine, facts: ModelFacts, remarks: list[str]) -> str:
    types = []
    for flag, written in (("-ctk", line.kv_key or "f16"), ("-ctv", line.kv_value or "f16")):
        kind = _KV_TYPES.get(written, written)
        if kind not in _KV_ORDER:
            possible = ", ".join((*_KV_ORDER, *_KV_TYPES))
            raise AppError(ErrorCode.BAD_USAGE, f"{flag}: llama.cpp has no cache type '{written}'; it has: {possible}.")
        if kind != written:
            remarks.append(f"{flag} {written}: there is no such cache here; {kind} is taken.")
        types.append(kind)
    if types[0] != types[1]:
        larger = min(types, key=_KV_ORDER.index)
        remarks.append(f"K is {types[0]} and V {types[1]}; here both have one type: {larger}, the larger.")
        types = [larger]
    check_wishes(facts, Wishes(kv_type=types[0]))
    return types[0]


def _batches(line: LlamaLine) -> _Batches:
    n_batch = _DEFAULT_BATCH if line.n_batch is None else line.n_batch
    n_ubatch = _DEFAULT_UBATCH if line.n_ubatch is None else line.n_ubatch
    if n_batch < 1 or n_ubatch < 0:
        raise AppError(ErrorCode.BAD_USAGE, f"Batches of {n_ubatch} in {n_batch} tokens (-ub, -b) are impossible.")
    # As llama.cpp does: none is the whole batch, and more than it is cut.
    return _Batches(n_batch, min(n_ubatch or n_batch, n_batch))


def _threads(line: LlamaLine, machine: Machine, base: Plan) -> tuple[int, int]:
    def known(count: int) -> int:
        return count if count > 0 else machine.cpu.logical_cores  # llama.cpp's meaning of none and less

    threads = base.threads if line.threads is None else known(line.threads)
    return threads, threads if line.threads_batch is None else known(line.threads_batch)


def _sequences(line: LlamaLine, remarks: list[str]) -> int:
    count = 1 if line.parallel in (None, -1) else line.parallel or 0
    if not 1 <= count <= MOST_SEQUENCES:
        raise AppError(ErrorCode.BAD_USAGE, f"-np {count} is impossible: 1 to {MOST_SEQUENCES} conversations.")
    if count > 1 and not line.unified:
        remarks.append(
            f"-np {count} without -kvu divides the context into {count} equal parts; here the conversations share it."
        )
    return count


def _experts_used(line: LlamaLine, facts: ModelFacts, remarks: list[str]) -> int | None:
    """The number of experts for each token, of which llama.cpp takes the first that the line says."""
    key, found = experts_used_key(facts.architecture), None
    for entry in line.metadata:
        name, _, value = entry.partition("=")
        if name != key:
            remarks.append(f"--override-kv {entry} is not taken over: the model is loaded as its file says.")
        elif not value.startswith("int:"):
            remarks.append(f"--override-kv {entry} does nothing: llama.cpp wants an int there.")
        elif found is not None:
            remarks.append(f"--override-kv {entry} does nothing: the first one, {found}, counts.")
        else:
            found = number("--override-kv", value.removeprefix("int:"))
            check_experts_used(facts, found)
    return found


def _cores(line: LlamaLine, remarks: list[str]) -> tuple[int, ...]:
    cores: set[int] = set()
    if line.cpu_mask is not None:
        if not re.fullmatch(r"(0x)?[0-9a-fA-F]{1,128}", line.cpu_mask):
            raise AppError(ErrorCode.BAD_USAGE, f"-C takes a hexadecimal mask of processors, not '{line.cpu_mask}'.")
        mask = int(line.cpu_mask, 16)
        cores |= {core for core in range(mask.bit_length()) if mask >> core & 1}
    if line.cpu_range is not None:
        bounds = re.fullmatch(r"(\d{1,3})-(\d{1,3})", line.cpu_range, re.ASCII)
        if bounds is None:
            raise AppError(ErrorCode.BAD_USAGE, f"-Cr takes a range of processors such as 0-7, not '{line.cpu_range}'.")
        cores |= set(range(int(bounds[1]), int(bounds[2]) + 1))
    if line.batch_mask is not None and line.batch_mask != line.cpu_mask:
        remarks.append(f"-Cb {line.batch_mask} is not taken over: prompts and answers have the same processors here.")
    return tuple(sorted(cores))


def _remark_rest(line: LlamaLine, facts: ModelFacts, kv_type: str, remarks: list[str]) -> None:
    if line.model is not None and re.split(r"[/\\]", line.model)[-1] != os.path.basename(facts.files[0]):  # noqa: PTH119
        remarks.append(f"The line is for the file {line.model}; the plan is made for {facts.name}.")
    if line.flash_attention in ("off", "disabled", "false", "0"):
        why = "llama.cpp refuses it with this cache" if kv_type != "f16" else "llama.cpp chooses it here"
        remarks.append(f"-fa {line.flash_attention} is not taken over: {why}.")
    if line.load_mode not in (None, "auto", "mmap"):
        remarks.append(f"-lm {line.load_mode} is not taken over: the model file is always mapped here.")
