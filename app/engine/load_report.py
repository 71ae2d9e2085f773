"""Reads what llama.cpp says while it loads: buffers by device, each layer's place, and why a load failed.

The lines' forms are those of the pinned engine; `tests/engine` loads real models to notice a change.
"""

import re

from app.errors import AppError, ErrorCode
from app.placement.plan import CPU_LANE
from app.placement.report import BufferReport

_BUFFER = re.compile(
    r"^\w+:\s+(?P<name>\S+)\s+(?P<part>model|KV|RS|DSV4 \w+ state|output|compute) buffer size =\s*(?P<mib>[\d.]+) MiB"
)
_ASSIGNED = re.compile(r"^load_tensors: layer\s+(?P<layer>\d+) assigned to device (?P<device>\S+?),")
_OVERRIDDEN = re.compile(
    r"^tensor (?P<tensor>blk\.(?P<layer>\d+)\.ffn_\w*exps\S*) .* buffer type overridden to (?P<name>\S+)"
)
_EXPERTS_USED = re.compile(r"^print_info: n_expert_used\s*=\s*(?P<count>\d+)")
_PARTS = {"model": "weights", "KV": "kv", "RS": "kv", "output": "output", "compute": "compute"}
_MIB = 1024 * 1024
_RESOLUTION_MIB = 0.01  # of the sizes in the log
_MAPPED_SUFFIX, _HOST_SUFFIX = "_Mapped", "_Host"
_ACCELERATORS = ("EXPERTS", "AMX")  # whose buffers are main memory, like those whose names begin with CPU

# Where a load fails, llama.cpp says why in its log only.
_REASONS: tuple[tuple[re.Pattern[str], ErrorCode, str], ...] = (
    (
        re.compile(r"unknown model architecture: '(?P<what>[^']*)'"),
        ErrorCode.ARCHITECTURE_UNKNOWN,
        "The engine does not know the architecture '{what}'.",
    ),
    (
        re.compile(
            r"unable to allocate (?P<what>\S+)|failed to allocate (?P<what2>.*buffer)|out of (device )?memory"
            r"|OutOfDeviceMemory|OutOfHostMemory|cannot allocate memory|std::bad_alloc",
            re.IGNORECASE,
        ),
        ErrorCode.OUT_OF_MEMORY,
        "Memory ran out while loading.",
    ),
    (
        re.compile(r"not within the file bounds|corrupted|failed to read|invalid magic|tensor .* duplicated"),
        ErrorCode.MODEL_DAMAGED,
        "The model file is damaged or incomplete.",
    ),
    (
        re.compile(
            r"(?P<what>missing tensor '[^']*'|tensor '[^']*' not found|wrong number of tensors"
            r"|key not found in model: \S+|wrong shape|error loading model \w+:.*"
            r"|unknown pre-tokenizer type: '[^']*'|unsupported .*)"
        ),
        ErrorCode.MODEL_UNSUPPORTED,
        "The engine cannot use this model: {what}.",
    ),
)


def device_of_buffer(name: str) -> str:
    """The device whose memory a ggml buffer takes: "CPU" for every kind of host buffer."""
    if name in _ACCELERATORS or name.startswith("CPU") or name.endswith(_HOST_SUFFIX):
        return CPU_LANE
    return name


def is_repacked(name: str) -> bool:
    """Whether the buffer holds weights in a faster layout of the CPU's: a copy of what the file says."""
    plain = name in ("CPU", "EXPERTS") or name.endswith((_MAPPED_SUFFIX, _HOST_SUFFIX))
    return device_of_buffer(name) == CPU_LANE and not plain


def _bounded(part: str, size: int, file_bytes: int | None) -> int:
    return min(size, file_bytes) if part == "mapped" and file_bytes is not None else size


class LoadReport:
    """Collects llama.cpp's lines of one load; feed it every line, then read the facts.

    Attributes:
        lines: All of them.
        experts_used: Experts that llama.cpp computes each token with; None where it did not say.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.experts_used: int | None = None
        self._buffers: dict[tuple[str, str], float] = {}
        self._assigned: dict[int, str] = {}
        self._overridden: dict[int, str] = {}
        self._expert_buffers: dict[str, str] = {}

    def feed(self, line: str) -> None:
        """Take one line of the log."""
        self.lines.append(line)
        if found := _BUFFER.match(line):
            self._add_buffer(found["name"], found["part"], float(found["mib"]))
        elif found := _ASSIGNED.match(line):
            self._assigned[int(found["layer"])] = found["device"]
        elif found := _OVERRIDDEN.match(line):
            self._overridden[int(found["layer"])] = device_of_buffer(found["name"])
            self._expert_buffers[found["tensor"]] = found["name"]
        elif found := _EXPERTS_USED.match(line):
            self.experts_used = int(found["count"])

    def _add_buffer(self, name: str, part: str, mib: float) -> None:
        kind = _PARTS.get(part, "kv")  # what DeepSeek-V4 is about to compress is a part of its cache
        if part == "model" and (name == "EXPERTS" or name.endswith(_MAPPED_SUFFIX)):
            kind = "mapped"
        elif part == "model" and is_repacked(name):
            kind = "repacked"
        key = (device_of_buffer(name), kind)
        if part == "compute":
            # Reported again after every reservation: the last one stands. Host buffers are several.
            key = (name, part)
            self._buffers[key] = mib
        else:
            self._buffers[key] = self._buffers.get(key, 0.0) + mib

    @property
    def repacked_experts(self) -> frozenset[str]:
        """Names of the expert tensors that were copied into a faster layout of the CPU's."""
        return frozenset(tensor for tensor, name in self._expert_buffers.items() if is_repacked(name))

    def buffers(self, repacked_expert_bytes: int = 0, file_bytes: int | None = None) -> tuple[BufferReport, ...]:
        """What llama.cpp allocated, by device and part, in its own resolution of 0.01 MiB.

        Args:
            repacked_expert_bytes: Bytes of `repacked_experts`, which llama.cpp reports in one sum with the
                other weights of the same layout: they are taken out of "repacked".
            file_bytes: The model's. What is mapped is told as one stretch for the CPU and one for the expert
                device, from the first to the last tensor of each: they overlap, and are never more than the file.
        """
        sums: dict[tuple[str, str], float] = {(CPU_LANE, "repacked"): -repacked_expert_bytes / _MIB}
        for (name, part), mib in self._buffers.items():
            key = (device_of_buffer(name), part)
            sums[key] = sums.get(key, 0.0) + mib
        return tuple(
            BufferReport(device=device, part=part, bytes=_bounded(part, round(mib * _MIB), file_bytes))
            for (device, part), mib in sorted(sums.items())
            if mib > (_RESOLUTION_MIB if part == "repacked" else 0)
        )

    def lane(self, layer: int) -> str | None:
        """The device that holds the expert tensors of `layer`, or None when the log does not say."""
        return self._overridden.get(layer) or self._assigned.get(layer)

    def assigned(self, layer: int) -> str | None:
        """The device that `layer` was assigned to, or None when the log does not say."""
        return self._assigned.get(layer)

    @property
    def output_device(self) -> str | None:
        """The device of what follows the last layer, which llama.cpp counts as one layer more."""
        return self._assigned[max(self._assigned)] if self._assigned else None

    def error(self, what: str) -> AppError:
        """The typed error for a load that failed; `what` says what was being done."""
        detail = "\n".join(self.lines[-12:])
        for line in reversed(self.lines):
            for pattern, code, words in _REASONS:
                if found := pattern.search(line):
                    return AppError(code, words.format(**{"what": "", **found.groupdict()}), detail)
        return AppError(ErrorCode.ENGINE_FAILED, f"{what} failed.", detail)
