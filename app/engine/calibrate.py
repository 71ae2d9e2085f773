"""Measures what this machine does with expert weights: the plan within the time, one step after the other."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import psutil

from app.engine import disk_reads, protocol
from app.engine.cache_types import RESULT_WORDS, Result
from app.engine.calibrate_native import CPU, Bench, BenchError, Pass, Shares
from app.errors import AppError, ErrorCode
from app.hardware.caches import last_level_cache_bytes
from app.hardware.facts import Gpu, GpuKind
from app.hardware.memory import read_ram
from app.model.tensor_types import TENSOR_TYPES, ggml_name
from app.placement.speed.calibration import (
    FROM_DEVICE,
    TO_DEVICE,
    Calibration,
    ComputeRate,
    CopyRate,
    DiskRate,
    LayerCost,
    Overlap,
)
from app.units import format_share

PLAIN, REPACKED = "plain", "repacked"

MIB = 1 << 20
# What the weights take: enough that a cache holds little of them when they are used again, and bounded. While the
# faster layout is made there is one more third of it, and for copies to each GPU twice 64 MiB of main memory: all
# below 1 GiB.
_LEAST_WEIGHTS, _MOST_WEIGHTS, _CACHES = 256 * MIB, 384 * MIB, 4
_MOST_MEMORY, _COPY_MEMORY = 1024 * MIB, 128 * MIB
_RAM_SHARE, _VRAM_SHARE = 0.25, 0.25
_DEVICE_OVERHEAD = 160 * MIB  # of the share: what copies go to, and working memory of a batch
_SOFTWARE_WEIGHTS = 96 * MIB  # a processor that plays a GPU takes seconds for more
_MOST_DEVICES = 5

_REPETITIONS, _MOST_REPETITIONS = 3, 15
_BATCHES = (512, 256, 128, 64, 32, 16)
_TRIAL_TOKENS, _MOST_BATCH_SECONDS, _TOGETHER_TOKENS = 16, 0.5, 64
# Of a trial batch: two a weight, for the eight experts of each of its tokens in the benches' shape.
_TRIAL_FLOPS = 2 * _TRIAL_TOKENS * 8 * 3 * 2048 * 768
_MOST_SECONDS, _MOST_THREADS = 600.0, 512
_OTHERS_SHARE = 0.1
_TIMES = ("user", "system", "idle", "iowait", "irq", "softirq", "steal")  # what guests took is part of "user"


@dataclass(frozen=True)
class _Step:
    """One measurement: its share of the time, what it is in words, and what does it within so many seconds.

    `brief` is for the list of what there was no time for; the words are where it is empty.
    """

    weight: float
    words: str
    measure: Callable[[float], None]
    device: str = ""
    brief: str = ""


class Calibrator:
    """Carries out one `Calibrate`; use once, on the engine's worker thread, with no model loaded.

    Args:
        request: What to measure.
        gpus: The engine's GPUs with their memory now.
        engine: Version and build of the engine.
        emit: Takes the progress.
        stopped: True when it was cancelled.

    Raises:
        AppError: bad_usage for impossible values, device_missing for a device that is not there.
    """

    def __init__(
        self,
        request: protocol.Calibrate,
        gpus: tuple[Gpu, ...],
        engine: str,
        emit: Callable[[protocol.Event], None],
        stopped: Callable[[], bool],
    ) -> None:
        _check(request, gpus)
        self._request = request
        self._gpus = {gpu.device: gpu for gpu in gpus if gpu.device in request.devices}
        self._engine = engine
        self._emit = emit
        self._stopped = stopped
        self._types = tuple(dict.fromkeys(ggml_name(kind) for kind in request.types))
        self._threads = tuple(sorted(set(request.threads)))
        self._benches: dict[str, Bench] = {}
        self._failed: set[str] = set()
        self._weights: dict[str, str] = {}  # device to the type it has weights of
        self._fraction = 0.0
        self._compute: list[ComputeRate] = []
        self._copies: list[CopyRate] = []
        self._overlaps: list[Overlap] = []
        self._layer_costs: list[LayerCost] = []
        self._disk: list[DiskRate] = []
        self._skipped = [
            f"{gpu.name} ({gpu.device}) was not measured: it is a software device that computes on the processor. "
            "It is measured when it is named."
            for gpu in gpus
            if gpu.kind is GpuKind.SOFTWARE and gpu.device not in request.devices
        ]

    def run(self) -> Calibration:
        """Measure everything the time allows.

        Raises:
            AppError: cancelled; all memory is free again then.
        """
        started, measured_at = time.perf_counter(), datetime.now(UTC)
        others = _Others()
        try:
            self._run_steps(self._steps(), started + self._request.seconds)
        finally:
            for bench in self._benches.values():
                bench.close()
        busy_share = others.share()
        self._skipped += _words_of_others(busy_share)
        return Calibration(
            machine=self._request.machine,
            engine=self._engine,
            measured_at=measured_at.isoformat(timespec="seconds"),
            seconds=time.perf_counter() - started,
            compute=tuple(self._compute),
            copies=tuple(self._copies),
            overlaps=tuple(self._overlaps),
            layer_costs=tuple(self._layer_costs),
            disk=tuple(self._disk),
            skipped=tuple(self._skipped),
            busy_share=busy_share,
        )

    # ---- the plan -----------------------------------------------------------------------------

    def _steps(self) -> list[_Step]:
        """The cheap ones first, then type by type, the disk after the first: the last types may find no time left."""
        steps = [_Step(0.3, "the processor: cost of a layer", partial(self._layer, CPU), CPU)]
        for device in self._gpus:
            steps.append(_Step(1.0, f"{device}: copies", partial(self._copy, device), device))
            steps.append(_Step(0.3, f"{device}: cost of a layer", partial(self._layer, device), device))
        for kind in self._types:
            for layout in (PLAIN, REPACKED):
                faster = ", faster layout" if layout == REPACKED else ""
                words = f"the processor: {kind} weights{faster}"
                steps.append(
                    _Step(2.0, words, partial(self._rates, CPU, kind, layout), CPU, f"{kind} on {CPU}{faster}")
                )
            for device in self._gpus:
                words = f"{device}: {kind} weights"
                steps.append(
                    _Step(2.0, words, partial(self._rates, device, kind, PLAIN), device, f"{kind} on {device}")
                )
                if kind == self._types[0]:
                    words = f"the processor and {device} at once"
                    steps.append(_Step(1.0, words, partial(self._together, device), device))
            if kind == self._types[0] and self._request.disk_folder:
                steps.append(_Step(2.0, "the disk: reads of slices", self._read_disk))
        return steps

    def _run_steps(self, steps: list[_Step], end: float) -> None:
        whole = left = sum(step.weight for step in steps)
        late: dict[str, None] = {}
        for step in steps:
            seconds = (end - time.perf_counter()) * step.weight / left
            self._fraction = 1 - left / whole
            left -= step.weight
            self._check_stopped()
            if step.device in self._failed:
                continue
            if seconds <= 0 and self._compute:  # one rate is measured in any case: without it nothing is known
                brief = step.brief or step.words
                if not any(brief.startswith(f"{earlier},") for earlier in late):
                    late[brief] = None
                continue
            self._emit(protocol.CalibrateProgress(id=self._request.id, fraction=self._fraction, what=step.words))
            self._attempt(step, max(seconds, 0.0))
        if late:
            self._skipped.append(f"There was no time left for: {'; '.join(late)}.")

    def _attempt(self, step: _Step, seconds: float) -> None:
        """Measure; what a device refuses is told, and one that failed is left alone from then on."""
        try:
            step.measure(seconds)
        except BenchError as error:
            reason = RESULT_WORDS.get(error.result, error.result.name)
            self._skipped.append(f"Not measured, {step.words}: {reason}.")
            if error.result in (Result.DEVICE_FAILED, Result.NO_DEVICE):
                self._failed.add(step.device)
                self._skipped.append(f"{step.device} was left out from then on.")
        except disk_reads.NotReadError as error:
            self._skipped.append(str(error))

    def _check_stopped(self) -> None:
        if self._stopped():
            raise AppError(ErrorCode.CANCELLED, "The measurement was cancelled.")

    # ---- measurements ---------------------------------------------------------------------------

    def _bench(self, device: str) -> Bench:
        if device not in self._benches:
            self._benches[device] = Bench(device)
        return self._benches[device]

    def _repeat(self, measure: Callable[[], float], seconds: float, *, device: str) -> tuple[float, float]:
        """Median and spread of what `measure` gives, after a warm-up; a device may need more than one."""
        for _ in range(1 if device == CPU else 3):
            self._check_stopped()
            before = time.perf_counter()
            measure()
        slow = (time.perf_counter() - before) * _REPETITIONS > 2 * seconds
        least, end = (2 if slow else _REPETITIONS), time.perf_counter() + seconds
        found: list[float] = []
        while len(found) < least or (time.perf_counter() < end and len(found) < _MOST_REPETITIONS):
            self._check_stopped()
            found.append(measure())
        middle = statistics.median(found)
        return middle, (max(found) - min(found)) / middle

    def _layer(self, device: str, seconds: float) -> None:
        bench, threads = self._bench(device), self._threads[-1]
        middle, spread = self._repeat(lambda: bench.layer(threads), seconds, device=device)
        self._layer_costs.append(LayerCost(device=device, seconds=middle, spread=spread))

    def _copy(self, device: str, seconds: float) -> None:
        bench = self._bench(device)
        for pinned in (False, True):
            for direction in (TO_DEVICE, FROM_DEVICE):

                def rate(pinned: bool = pinned, direction: str = direction) -> float:
                    done = bench.copy(to_device=direction == TO_DEVICE, pinned=pinned)
                    return float(done.bytes / done.seconds)

                try:
                    middle, spread = self._repeat(rate, seconds / 4, device=device)
                except BenchError as error:
                    if not pinned or error.result != Result.UNSUPPORTED:
                        raise
                    self._skipped.append(f"{device} gives no page-locked memory: copies from it were not measured.")
                    return
                found = CopyRate(
                    device=device, direction=direction, pinned=pinned, bytes_per_second=middle, spread=spread
                )
                self._copies.append(found)

    def _read_disk(self, seconds: float) -> None:
        self._disk += disk_reads.measure(Path(self._request.disk_folder), seconds, self._check_stopped)

    def _rates(self, device: str, kind: str, layout: str, seconds: float) -> None:
        """One token with each count of threads, and a batch with the most."""
        bench, started = self._bench(device), time.perf_counter()
        if layout == PLAIN:
            self._weights.pop(device, None)
        try:
            bench.set_weights(kind, repacked=layout == REPACKED, most_bytes=self._weights_bytes(device))
        except BenchError as error:
            if layout == REPACKED and error.result == Result.UNSUPPORTED:
                return  # most types have none: nothing is missing
            raise
        self._weights[device] = kind
        threads = self._threads if device == CPU else (0,)
        seconds = max(seconds - (time.perf_counter() - started), 0.1) / (len(threads) + 2)
        for count in threads:
            self._add_rate(bench, kind, layout, count, 1, seconds)
        if tokens := self._batch_tokens(bench, _MOST_BATCH_SECONDS):
            self._add_rate(bench, kind, layout, threads[-1], tokens, 2 * seconds)
        else:
            who = "The processor" if device == CPU else device
            self._skipped.append(f"{who} takes too long for a batch of {kind} weights: prompts were not measured.")

    def _add_rate(self, bench: Bench, kind: str, layout: str, threads: int, tokens: int, seconds: float) -> None:
        last = Pass()

        def run() -> float:
            nonlocal last
            last = bench.run(max(threads, 1), tokens)
            return float(last.seconds)

        middle, spread = self._repeat(run, seconds, device=bench.device)
        self._compute.append(
            ComputeRate(
                device=bench.device,
                type=kind,
                layout=layout,
                threads=threads,
                tokens=tokens,
                bytes_per_second=last.bytes / middle,
                flops_per_second=last.flops / middle,
                spread=spread,
            )
        )

    def _batch_tokens(self, bench: Bench, most: float) -> int:
        """Tokens of the largest batch that the device computes in `most` seconds, by a small one; 0 for none."""
        self._check_stopped()
        threads = self._threads[-1]
        one = bench.run(threads, 1)
        if one.seconds / one.flops * _TRIAL_FLOPS > 2 * most:
            return 0
        bench.run(threads, _TRIAL_TOKENS)
        seconds = bench.run(threads, _TRIAL_TOKENS).seconds
        return next((tokens for tokens in _BATCHES if seconds * tokens / _TRIAL_TOKENS <= most), 0)

    def _together(self, device: str, seconds: float) -> None:
        """Of the type whose weights both have now; nothing where they have not."""
        if self._weights.get(CPU) is None or self._weights.get(CPU) != self._weights.get(device):
            return
        mine, other = self._bench(CPU), self._bench(device)
        threads, end = self._threads[-1], time.perf_counter() + seconds
        found: list[Shares] = []
        tokens = min(self._batch_tokens(other, _MOST_BATCH_SECONDS / 4), _TOGETHER_TOKENS)
        if not tokens:
            self._skipped.append(f"{device} takes too long: it was not measured beside the processor.")
            return
        while len(found) < _REPETITIONS or (time.perf_counter() < end and len(found) < _MOST_REPETITIONS):
            self._check_stopped()
            found.append(mine.together(other, threads, tokens))
        # Chance makes some shares larger than all there is.
        cpu, gpu, copy = (
            min(statistics.median(values), 1.0)
            for values in ([s.cpu for s in found], [s.device for s in found], [s.copy for s in found])
        )
        self._overlaps.append(Overlap(device=device, cpu_share=cpu, device_share=gpu, copy_share=copy))

    def _weights_bytes(self, device: str) -> int:
        if device != CPU:
            gpu = self._gpus[device]
            if gpu.kind is GpuKind.SOFTWARE:
                return _SOFTWARE_WEIGHTS
            return max(min(int(gpu.free_bytes * _VRAM_SHARE) - _DEVICE_OVERHEAD, _MOST_WEIGHTS), 0)
        cache = last_level_cache_bytes(Path("/")) or 0
        wanted = min(max(_LEAST_WEIGHTS, _CACHES * cache), _MOST_WEIGHTS)
        room = (_MOST_MEMORY - len(self._gpus) * _COPY_MEMORY) * 3 // 4
        available = int(read_ram(Path("/"))[0].available_bytes * _RAM_SHARE)
        return min(wanted, room, available)


class _Others:
    """How much of the processor other programs took since this was made: they make every rate lower."""

    def __init__(self) -> None:
        self._before = self._seconds()

    def share(self) -> float:
        """The share, of 1."""
        theirs, whole = (now - before for now, before in zip(self._seconds(), self._before, strict=True))
        return min(max(theirs / whole, 0.0), 1.0) if whole > 0 else 0.0

    @staticmethod
    def _seconds() -> tuple[float, float]:
        """Busy time of all processors without this process's, and all their time."""
        times, mine = psutil.cpu_times(), psutil.Process().cpu_times()
        whole = sum(getattr(times, name) for name in _TIMES if hasattr(times, name))
        idle = times.idle + getattr(times, "iowait", 0.0)
        return whole - idle - mine.user - mine.system, whole


def _words_of_others(share: float) -> tuple[str, ...]:
    """A sentence where it was much."""
    if share < _OTHERS_SHARE:
        return ()
    return (
        f"Other programs kept {format_share(share)} of the processor busy meanwhile: the rates are lower than on an "
        "idle machine, most of all with all threads. Measure again when they are done.",
    )


def _check(request: protocol.Calibrate, gpus: tuple[Gpu, ...]) -> None:
    known = {kind.name.lower() for kind in TENSOR_TYPES.values()}
    for kind in request.types:
        if kind.lower() not in known:
            raise AppError(ErrorCode.BAD_USAGE, f"'{kind}' is no type of weights.")
    if not request.types:
        raise AppError(ErrorCode.BAD_USAGE, "There is no type of weights to measure.")
    if not request.threads or not all(1 <= count <= _MOST_THREADS for count in request.threads):
        raise AppError(ErrorCode.BAD_USAGE, f"{list(request.threads)} are no counts of threads.")
    if not 0 < request.seconds <= _MOST_SECONDS:
        raise AppError(
            ErrorCode.BAD_USAGE, f"{request.seconds:g} s are impossible: above 0, at most {_MOST_SECONDS:g}."
        )
    there = {gpu.device for gpu in gpus}
    for device in request.devices:
        if device not in there:
            listed = ", ".join(sorted(there)) or "none"
            raise AppError(ErrorCode.DEVICE_MISSING, f"There is no device {device}; there are: {listed}.")
    if len(set(request.devices)) > _MOST_DEVICES:
        raise AppError(ErrorCode.BAD_USAGE, f"At most {_MOST_DEVICES} devices are measured at once.")
