"""Loads a model and its context as a plan says, and compares what was loaded with the plan."""

import ctypes
import time
from collections.abc import Callable
from pathlib import Path

from llama_cpp import llama_cpp as llama

from app.engine.cache import ExpertDevice, Phase
from app.engine.compute_threads import ComputeThreads
from app.engine.context_cache import ContextCache
from app.engine.ggml import Ggml
from app.engine.load_report import LoadReport
from app.engine.logs import LogTap
from app.engine.mapped_files import MappedFiles
from app.engine.parameters import check_plan, context_parameters, model_parameters, model_path, residency_of
from app.engine.profiles import ProfileStore
from app.engine.protocol import Loaded
from app.errors import AppError, ErrorCode
from app.model import ExpertTensor, ModelFacts, read_expert_tensors, read_facts
from app.placement import comparison
from app.placement.active_experts import check_experts_used, facts_with
from app.placement.cache.orders import check_pins
from app.placement.plan import CPU_LANE, Plan
from app.placement.report import BufferReport
from app.units import format_bytes

_NO_VOCABULARY = 0


class LoadedModel:
    """A llama.cpp model with one context; owns both. Make it with `load`.

    Attributes:
        plan: The plan it was loaded by.
        facts: What the file says, with the number of experts that the plan says compute each token.
        files: What tells whether the files are still those that were loaded.
        report: What was really loaded.
        abort: Set its value to 1 to end the running decode early, from any thread.
        device_context: The expert device's id for the context, 0 when the device takes no part.
        cache: The expert cache of the context, None when the device takes no part.
    """

    def __init__(self, plan: Plan, facts: ModelFacts, device: ExpertDevice | None) -> None:
        self.plan = plan
        self.files = MappedFiles(facts.files)
        self.facts = facts
        self.device = device
        self.abort = ctypes.c_int32(0)
        self.device_context = 0
        self.cache: ContextCache | None = None
        self.model: int | None = None
        self.context: int | None = None
        self.threads: ComputeThreads | None = None
        self.report: Loaded
        self.keep_alive: list[object] = []  # what llama.cpp keeps pointers to

    @property
    def vocab(self) -> int:
        """The vocabulary's handle."""
        return llama.llama_model_get_vocab(self.model)  # type: ignore[no-any-return]

    def set_phase(self, phase: Phase) -> None:
        """Say whether the next decodes are prompt or answer, for the routing counts."""
        if self.device is not None and self.device_context:
            self.device.set_phase(self.device_context, phase)

    def batch_error(self, result: int) -> AppError:
        """Why llama.cpp answered so to a batch: why experts could not be read, if it is that, else engine_failed."""
        error = self.cache.memory.reading_error() if self.cache is not None else None
        return error or AppError(ErrorCode.ENGINE_FAILED, f"llama.cpp could not compute a batch (code {result}).")

    def close(self) -> None:
        """Free context and model; safe to call twice. The cache is closed by then."""
        self.cache = None
        self.device_context = 0
        if self.context is not None:
            llama.llama_free(self.context)
            self.context = None
        if self.model is not None:
            llama.llama_model_free(self.model)
            self.model = None
        if self.threads is not None:
            self.threads.close()
            self.threads = None


def load(
    plan: Plan,
    ggml: Ggml,
    device: ExpertDevice | None,
    device_reason: str,
    tap: LogTap,
    on_progress: Callable[[float], bool],
    profiles: Path | None = None,
    routing: Path | None = None,
) -> LoadedModel:
    """Load what `plan` says. `on_progress` gets the fraction read; returning False cancels.

    The cache is prepared last, for the device knows the layers only after their first token. A pool that
    cannot be had is a difference from the plan, no failure. `profiles` is the folder of saved heat, `routing` that
    of recorded routings.

    Raises:
        AppError: cancelled; model_damaged, the file was changed meanwhile; or the reason llama.cpp's log gives: file,
            architecture, memory, device.
    """
    started = time.perf_counter()
    check_plan(plan)
    facts = read_facts(Path(plan.model_files[0]))
    check_experts_used(facts, plan.experts_used)
    facts = facts_with(facts, plan.experts_used)
    check_pins(plan.pins, dict.fromkeys(facts.moe_layers, facts.expert_count))
    loaded = LoadedModel(plan, facts, device)
    report = LoadReport()
    cancelled = False

    def progress(fraction: float, _data: object) -> bool:
        nonlocal cancelled
        cancelled = cancelled or not on_progress(fraction)
        return not cancelled

    tap.on_line = lambda _level, line: report.feed(line)
    try:
        if device is not None:
            device.set_residency(residency_of(plan))
        parameters = model_parameters(plan, ggml, loaded.keep_alive, expert_device=device is not None)
        callback = llama.llama_progress_callback(progress)
        parameters.progress_callback = callback
        loaded.model = llama.llama_model_load_from_file(model_path(plan), parameters)
        if loaded.model is None:
            if cancelled:
                raise AppError(ErrorCode.CANCELLED, "Loading was cancelled.")
            raise report.error("Loading the model")
        if llama.llama_vocab_type(loaded.vocab) == _NO_VOCABULARY:
            raise AppError(ErrorCode.MODEL_UNSUPPORTED, "The model file holds no vocabulary, so it cannot chat.")
        _make_context(loaded, ggml, report)
        _warm_up(loaded, report)
        tensors = read_expert_tensors(Path(plan.model_files[0]))
        if device is not None and loaded.device_context:
            profile = ProfileStore(profiles, facts.fingerprint) if profiles else None
            loaded.cache = ContextCache(device, loaded.device_context, plan, facts, profile, routing)
            loaded.cache.prepare(plan, tensors)
        loaded.report = _loaded_report(loaded, report, tensors, device_reason, time.perf_counter() - started)
        if loaded.files.check():
            raise AppError(ErrorCode.MODEL_DAMAGED, "The model file was replaced while it was loaded.")
        if not on_progress(1.0):
            raise AppError(ErrorCode.CANCELLED, "Loading was cancelled.")
    except BaseException:
        loaded.close()
        raise
    finally:
        tap.on_line = None
    return loaded


def _make_context(loaded: LoadedModel, ggml: Ggml, report: LoadReport) -> None:
    """Make the context, and the threads that compute in it."""
    plan, device = loaded.plan, loaded.device
    before = device.last_context() if device else 0
    loaded.context = llama.llama_init_from_model(loaded.model, _context_parameters(plan, loaded))
    if loaded.context is None:
        raise report.error("Creating the context")
    if device is not None and (made := device.last_context()) != before:
        loaded.device_context = made
    loaded.threads = ComputeThreads(ggml, device, (plan.threads, plan.threads_batch))
    loaded.threads.attach(loaded.context, plan.threads, plan.threads_batch)


def _context_parameters(plan: Plan, loaded: LoadedModel) -> llama.llama_context_params:
    parameters = context_parameters(plan)
    if loaded.device is not None:
        # A compiled callback: it is called for every node and must not take Python's lock.
        callback = ctypes.cast(loaded.device.abort_when_set, llama.ggml_abort_callback)
        parameters.abort_callback = callback
        parameters.abort_callback_data = ctypes.cast(ctypes.pointer(loaded.abort), ctypes.c_void_p)
        loaded.keep_alive.append(callback)
    return parameters


def _warm_up(loaded: LoadedModel, report: LoadReport) -> None:
    """Compute one token, so that a device that cannot compute fails here and not in an answer."""
    loaded.set_phase(Phase.IGNORE)
    token = llama.llama_vocab_bos(loaded.vocab)
    tokens = (llama.llama_token * 1)(token if token >= 0 else 0)
    if llama.llama_decode(loaded.context, llama.llama_batch_get_one(tokens, 1)) != 0:
        raise report.error("Computing the first token")
    llama.llama_synchronize(loaded.context)
    llama.llama_memory_clear(llama.llama_get_memory(loaded.context), True)


def _loaded_report(
    loaded: LoadedModel,
    report: LoadReport,
    tensors: tuple[ExpertTensor, ...],
    device_reason: str,
    seconds: float,
) -> Loaded:
    plan, facts, cache = loaded.plan, loaded.facts, loaded.cache
    lanes = {layer: lane for layer in facts.moe_layers if (lane := report.lane(layer)) is not None}
    cpu_layers = {layer for layer, lane in lanes.items() if lane == CPU_LANE}
    seen = set(cache.layers) if cache else set()
    reason = device_reason
    if not facts.moe_layers:
        reason = "The model has no experts."
    elif loaded.device and not cpu_layers:
        reason = "No layer's experts are on the CPU, so there is nothing for it to compute."
    elif loaded.device and not cpu_layers <= seen:
        reason = f"llama.cpp kept {len(cpu_layers - seen)} of {len(cpu_layers)} layers from it."
    buffers = _buffers(report, facts.file_bytes, tensors, cache)
    n_ctx = int(llama.llama_n_ctx(loaded.context))
    found = list(comparison.differences(plan, lanes, buffers))
    if n_ctx != plan.n_ctx:
        found.append(f"The context holds {n_ctx} tokens; the plan said {plan.n_ctx}.")
    found += comparison.expert_differences(plan, report.experts_used)
    if pool_fault := _pool_fault(plan, cache, reason):
        found.append(pool_fault)
    if cache is not None and cache.memory.fault:
        found.append(cache.memory.fault)
    return Loaded(
        seconds=seconds,
        n_ctx=n_ctx,
        buffers=buffers,
        expert_layers=lanes,
        differences=tuple(found),
        expert_device=bool(cpu_layers) and not reason,
        reason=reason,
    )


def _buffers(
    report: LoadReport, file_bytes: int, tensors: tuple[ExpertTensor, ...], cache: ContextCache | None
) -> tuple[BufferReport, ...]:
    """llama.cpp's buffers and the expert device's, each byte in one of them."""
    repacked = sum(tensor.bytes for tensor in tensors if tensor.name in report.repacked_experts)
    buffers = list(report.buffers(repacked, file_bytes))
    # Without the device nobody says what of the mapping is experts: the copies of some are all that is known.
    if experts := max(repacked, cache.expert_bytes if cache else 0):
        buffers.append(BufferReport(device=CPU_LANE, part="experts", bytes=experts))
    pool = cache.pool_facts() if cache else None
    if pool is not None:
        given = {"pool": pool.allocated_bytes, "staging": pool.staging_bytes + pool.working_bytes}
        buffers += [BufferReport(device=pool.device, part=part, bytes=size) for part, size in given.items() if size]
    return tuple(buffers)


def _pool_fault(plan: Plan, cache: ContextCache | None, device_reason: str) -> str:
    """Why the pool that the plan asks for is not there, or an empty text."""
    if not plan.pool_bytes:
        return ""
    asked = f"The plan said a pool of {format_bytes(plan.pool_bytes)}; there is none"
    if cache is None:
        return f"{asked}: {device_reason}"
    if plan.pool_on is None:
        return f"{asked}: the plan uses no GPU that could hold it."
    pool = cache.pool_facts()
    return "" if pool is not None and pool.allocated_bytes else f"{asked}: {pool.reason if pool else device_reason}"
