"""A dry run: llama.cpp lays out a plan's model and context without allocating or reading them, and says the sizes.

With `no_alloc` llama.cpp plans the compute buffers of the very graphs that it would compute, split over the very
devices. Weights and KV cache become buffers of no size, though: their sizes follow from the tensors that it says to
create, the device that it assigns each layer to, and the total that it states for each cache.
"""

import contextlib
import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from llama_cpp import llama_cpp as llama

from app.engine import protocol
from app.engine.cache import ExpertDevice
from app.engine.ggml import Ggml
from app.engine.load_report import LoadReport, device_of_buffer
from app.engine.logs import LogTap
from app.engine.parameters import check_plan, context_parameters, model_parameters, model_path, residency_of
from app.model import read_tensor_bytes
from app.placement.plan import CPU_LANE, Plan
from app.placement.report import BufferReport

_TENSOR = re.compile(r"^create_tensor: loading tensor (?P<name>\S+)$")
_UNUSED = re.compile(r"^model has unused tensor (?P<name>\S+) ")
_CACHE_ON = re.compile(r"^llama_kv_cache:\s+(?P<name>\S+) KV buffer size =")
_CACHE = re.compile(r"^llama_kv_cache: size =\s*(?P<mib>[\d.]+) MiB")
_BLOCK = re.compile(r"^blk\.(?P<layer>\d+)\.")
_ROUTED = re.compile(r"^blk\.\d+\.ffn_(up|down|gate|gate_up)_(ch|)exps\.")
# What llama.cpp reads rows of, which it always does on the CPU.
_INPUTS = ("token_embd.weight", "position_embd.weight", "token_types.weight", "per_layer_token_embd.weight")
_LOAD_MODE_NONE = 0  # there is nothing to map
_MIB = 1024 * 1024


@dataclass(frozen=True)
class Layout:
    """A model and a context of it that take no memory worth speaking of: handles and what was logged."""

    model: int
    context: int
    log: "LayoutLog"


def dry_run(plan: Plan, ggml: Ggml, device: ExpertDevice | None, tap: LogTap) -> protocol.DryRan:
    """What llama.cpp would allocate for `plan`; a model of another load stays as it is.

    Main memory's "weights" and "experts" are what the file holds of them: copies in a faster layout come on top.
    What the expert device adds (pool, staging area) is no part of it.

    Raises:
        AppError: as a load, but for what only reading or allocating can show.
    """
    started = time.perf_counter()
    sizes = read_tensor_bytes(Path(plan.model_files[0])) if plan.model_files else {}
    with laid_out(plan, ggml, device, tap) as layout:
        buffers = layout.log.buffers(sizes)
    return protocol.DryRan(buffers=buffers, seconds=time.perf_counter() - started)


@contextlib.contextmanager
def laid_out(plan: Plan, ggml: Ggml, device: ExpertDevice | None, tap: LogTap) -> Iterator[Layout]:
    """Lay `plan` out for as long as the block runs.

    Raises:
        AppError: as `dry_run`.
    """
    check_plan(plan)
    keep_alive: list[object] = []
    log = LayoutLog()
    model = context = None
    tap.on_line = lambda _level, line: log.feed(line)
    try:
        if device is not None:
            device.set_residency(residency_of(plan))
        parameters = model_parameters(plan, ggml, keep_alive, expert_device=device is not None)
        parameters.no_alloc = True
        parameters.load_mode = _LOAD_MODE_NONE
        model = llama.llama_model_load_from_file(model_path(plan), parameters)
        if model is None:
            raise log.report.error("Laying out the model")
        context = llama.llama_init_from_model(model, context_parameters(plan))
        if context is None:
            raise log.report.error("Laying out the context")
        tap.on_line = None
        yield Layout(model, context, log)
    finally:
        tap.on_line = None
        if context is not None:
            llama.llama_free(context)
        if model is not None:
            llama.llama_model_free(model)


class LayoutLog:
    """Collects llama.cpp's lines of one dry run; feed it every line, then read the sizes.

    Attributes:
        report: The lines as of a load: places, compute buffers, and why it failed.
    """

    def __init__(self) -> None:
        self.report = LoadReport()
        self._created: Counter[str] = Counter()
        self._unused: set[str] = set()
        self._cache_mib: defaultdict[str, float] = defaultdict(float)
        self._cache_on: list[str] = []

    def feed(self, line: str) -> None:
        """Take one line of the log."""
        self.report.feed(line)
        if found := _TENSOR.match(line):
            self._created[found["name"]] += 1
        elif found := _UNUSED.match(line):
            self._unused.add(found["name"])
        elif found := _CACHE_ON.match(line):
            self._cache_on.append(found["name"])
        elif (found := _CACHE.match(line)) and self._cache_on:
            # A plan keeps all of a cache on one device, so there is one buffer to every total.
            self._cache_mib[device_of_buffer(self._cache_on[-1])] += float(found["mib"])
            self._cache_on.clear()

    def buffers(self, sizes: Mapping[str, int]) -> tuple[BufferReport, ...]:
        """What would be allocated, by device and part.

        Args:
            sizes: Bytes of every tensor of the file.
        """
        sums: Counter[tuple[str, str]] = Counter()
        for name, times in self._created.items():
            if name in sizes and name not in self._unused:
                part = "experts" if _ROUTED.match(name) else "weights"
                for device in self._devices(name, times):
                    sums[device, part] += sizes[name]
        for device, mib in self._cache_mib.items():
            sums[device, "kv"] += round(mib * _MIB)
        for buffer in self.report.buffers():
            sums[buffer.device, buffer.part] += buffer.bytes
        return tuple(
            BufferReport(device=device, part=part, bytes=size) for (device, part), size in sorted(sums.items()) if size
        )

    def _devices(self, name: str, times: int) -> set[str]:
        """Where the tensor lies: embeddings that are the output too lie on the output's device as well."""
        block = _BLOCK.match(name)
        if block:
            layer = int(block["layer"])
            moved = self.report.lane(layer) if _ROUTED.match(name) else None
            return {moved or self.report.assigned(layer) or CPU_LANE}
        output = self.report.output_device or CPU_LANE
        if name not in _INPUTS:
            return {output}
        return {CPU_LANE, output} if times > 1 else {CPU_LANE}
