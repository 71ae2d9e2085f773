"""The engine within the child: llama.cpp with its backends and the expert device, and one model at a time."""

import contextlib
import logging
import re
import threading
from collections.abc import Callable
from pathlib import Path

import llama_cpp
import msgspec
from llama_cpp import llama_cpp as llama

from app.engine import dry_run, loading, protocol
from app.engine.cache import ExpertDevice
from app.engine.calibrate import Calibrator
from app.engine.components import load_components
from app.engine.compute_threads import ComputeThreads
from app.engine.context_cache import ContextCache, without_pool
from app.engine.cores import Cores
from app.engine.ggml import Ggml, library_folder, not_loaded
from app.engine.logs import LogTap
from app.engine.measure import Measurer
from app.engine.observer import Observer
from app.engine.parameters import residency_of
from app.engine.session import Session
from app.errors import AppError, ErrorCode
from app.hardware.cgroups import groups_apart
from app.hardware.facts import EngineBuild, Gpu
from app.hardware.fingerprint import engine_name

Routings = dict[int, tuple[int, ...]]


class Engine:
    """llama.cpp, initialised once a process; loads, answers and frees on one thread.

    `abort`, `routing` and `short_order` may be called from another thread while the lock given to `load` is
    held, so the model is not freed meanwhile. `long_order` may be called from one more thread without that
    lock: what frees the model waits for it.

    Args:
        stock: Leave the expert device out.
        on_log: Called with level and line of what the user should see.
        profiles: The folder of saved heat, None to keep none.
        routing: The folder of answers' recorded routings, None to keep none.
        components: The folder of backends that are installed apart, None for none.
    """

    def __init__(
        self,
        *,
        stock: bool,
        on_log: Callable[[int, str], None],
        profiles: Path | None = None,
        routing: Path | None = None,
        components: Path | None = None,
    ) -> None:
        self._on_log = on_log
        self._profiles = profiles
        self._routing = routing
        self._long = threading.Lock()  # held by a long order, and while the model is freed; before the other lock
        self._session: Session | None = None
        self._measurer: Measurer | None = None  # of the session, whose context it shares
        self._tap = LogTap(self._tell_error)
        self._cores = Cores()
        self._ggml = Ggml()
        self._notes: list[str] = []
        self._cpu_variant: str | None = None
        self._tap.on_line = self._note
        self._notes += load_components(self._ggml, components) if components else ()
        self._ggml.load_backends()
        self._tap.on_line = None
        self._notes += not_loaded(library_folder(), self._ggml.backends())
        self._device, self._device_reason = self._expert_device(stock)
        self._observer: Observer | None = None
        llama.llama_backend_init()

    def _expert_device(self, stock: bool) -> tuple[ExpertDevice | None, str]:
        if stock:
            return None, "The engine was started without it, for comparison."
        try:
            return ExpertDevice(), ""
        except AppError as error:
            self._on_log(logging.ERROR, f"{error.message} {error.detail}".strip())
            return None, error.message

    def _tell_error(self, level: int, line: str) -> None:
        """Pass an error of llama.cpp on, but not its complaints about a stop that was asked for."""
        if self._session is None or not self._session.loaded.abort.value:
            self._on_log(level, line)

    def _note(self, level: int, line: str) -> None:
        """Keep what a backend says it cannot see or load, and which build for the processor was loaded."""
        if variant := re.search(r"loaded CPU backend from .*ggml-cpu-(\w+)\.", line):
            self._cpu_variant = variant[1]
        words = line.lower()
        if level >= logging.WARNING or "no devices found" in words or "failed" in words:
            self._notes.append(line)

    def devices(self) -> tuple[tuple[Gpu, ...], EngineBuild]:
        """The GPUs now, and what the engine was built from."""
        backends = self._ggml.backends()
        computing = tuple(name for name in backends if name != "EXPERTS")
        return self._ggml.gpus(), EngineBuild(
            llama_cpp_python=llama_cpp.__version__,
            ggml=self._ggml.version,
            build=" + ".join(sorted(computing)),
            backends=computing,
            expert_device=self._device is not None,
            expert_device_reason=self._device_reason,
            notes=tuple(self._notes),
            cpu_variant=self._cpu_variant,
            cpu_features=self._ggml.cpu_features(),
            control_groups=groups_apart(),
        )

    def load(
        self,
        request: protocol.Load,
        emit: Callable[[protocol.Event], None],
        stopped: Callable[[], bool],
        lock: threading.Lock,
    ) -> protocol.Loaded:
        """Free the loaded model and load another.

        Raises:
            AppError: as `loading.load` and `Session` do; nothing is loaded then.
        """
        self.unload(lock)
        # Before llama.cpp starts threads: these are on the processors of the one that starts them.
        self._cores.keep_to(request.plan.cpu_cores)
        observer = self._watch()
        last_percent = -1

        def progress(fraction: float) -> bool:
            nonlocal last_percent
            percent = int(fraction * 100)
            if percent != last_percent:
                last_percent = percent
                emit(protocol.LoadProgress(id=request.id, fraction=fraction))
            return not stopped()

        loaded = loading.load(
            request.plan,
            self._ggml,
            self._device,
            self._device_reason,
            self._tap,
            progress,
            self._profiles,
            self._routing,
        )
        try:
            session = Session(loaded)
        except BaseException:
            loaded.close()
            raise
        if session.prompter.fallback:
            self._on_log(logging.WARNING, session.prompter.fallback)
        with lock:
            self._session, self._measurer = session, Measurer(session)
        return msgspec.structs.replace(loaded.report, id=request.id, observed=observer.observe())

    def dry_run(self, request: protocol.DryRun) -> protocol.DryRan:
        """Lay a plan out without loading it; the loaded model stays.

        Raises:
            AppError: as `dry_run.dry_run` does.
        """
        self._watch()
        try:
            return dry_run.dry_run(request.plan, self._ggml, self._device, self._tap)
        finally:
            if self._device is not None and self._session is not None:
                self._device.set_residency(residency_of(self._session.loaded.plan))

    def generate(
        self,
        request: protocol.Generate,
        emit: Callable[[protocol.Event], None],
        stopped: Callable[[], bool],
    ) -> protocol.Finished:
        """Answer with the loaded model.

        Raises:
            AppError: engine_failed without a model; model_damaged, its files were written to; and as
                `Session.generate` does.
        """
        if self._session is None or self._measurer is None:
            raise AppError(ErrorCode.ENGINE_FAILED, "No model is loaded.")
        self._check_files()
        self._measurer.forget()
        if (cache := self._session.loaded.cache) is not None:
            cache.begin_answer()
        try:
            finished = self._session.generate(request, emit, stopped)
            self._check_files()
            return finished
        finally:
            if cache is not None:
                cache.save_profile(only_if_due=True)

    def answer_told(self) -> None:
        """Keep what the answer taught; call it when its end is told, for it may wait for a disk."""
        if self._session is not None and (cache := self._session.loaded.cache) is not None:
            cache.end_answer()

    def measure(
        self,
        request: protocol.Measure,
        emit: Callable[[protocol.Event], None],
        stopped: Callable[[], bool],
    ) -> protocol.Measured:
        """Measure the loaded model.

        Raises:
            AppError: engine_failed without a model; model_damaged, its files were written to; and as
                `Measurer.measure` does.
        """
        if self._measurer is None:
            raise AppError(ErrorCode.ENGINE_FAILED, "No model is loaded.")
        self._check_files()
        measured = self._measurer.measure(request, emit, stopped)
        self._check_files()
        return measured

    def calibrate(
        self,
        request: protocol.Calibrate,
        emit: Callable[[protocol.Event], None],
        stopped: Callable[[], bool],
        lock: threading.Lock,
    ) -> protocol.Calibrated:
        """Free the loaded model and measure what the machine does with expert weights.

        Raises:
            AppError: engine_failed without the expert device, and as `Calibrator` does.
        """
        if self._device is None:
            message = f"The machine can be measured only with the expert device: {self._device_reason}"
            raise AppError(ErrorCode.ENGINE_FAILED, message)
        self.unload(lock)
        gpus, build = self.devices()
        calibrator = Calibrator(request, gpus, engine_name(build), emit, stopped)
        with contextlib.closing(ComputeThreads(self._ggml, self._device, request.threads)):
            return protocol.Calibrated(id=request.id, calibration=calibrator.run())

    def unload(self, lock: threading.Lock) -> None:
        """Free the model, if any; the lock keeps `routing`, `short_order` and `abort` out meanwhile."""
        with self._long:
            if self._session is not None and (cache := self._session.loaded.cache) is not None:
                cache.close()
            with lock:
                session, self._session, self._measurer = self._session, None, None
                if session is not None:
                    session.loaded.close()

    def abort(self) -> None:
        """End the running decode early; it returns as stopped."""
        if self._session is not None:
            self._session.loaded.abort.value = 1

    def routing(self) -> tuple[Routings, Routings]:
        """Routings of (decode, prompt) since the load; empty without a model."""
        return self._session.routing() if self._session is not None else ({}, {})

    def short_order(self, request: protocol.ShortOrder) -> protocol.CacheFacts:
        """Carry out an order to the expert cache that takes no time, and tell its facts.

        Raises:
            AppError: engine_failed without a model or expert device, bad_usage for impossible values.
        """
        session = self._loaded_session()
        cache = session.loaded.cache
        if isinstance(request, protocol.ReadCache):
            if cache is None:
                return without_pool(session.loaded.plan.policy)
            return cache.facts(experts=request.experts, since=request.since)
        cache = self._cache_of(session)
        if isinstance(request, protocol.SetPins):
            cache.set_pins(request.pins)
        else:
            cache.set_policy(request.policy)
        return cache.facts(experts=True, since=0)

    def long_order(
        self, request: protocol.LongOrder, lock: threading.Lock
    ) -> protocol.CacheFacts | protocol.TraceState:
        """Carry out an order that may wait for a layer, for copies or for a disk.

        Raises:
            AppError: as `short_order`, out_of_memory for more main memory than there is; OSError: the trace's file
                cannot be made.
        """
        with self._long:
            with lock:
                cache = self._cache_of(self._loaded_session())
            if isinstance(request, protocol.SetTrace):
                return cache.set_trace(request.path)
            if isinstance(request, protocol.SetMemory):
                cache.memory.set_budget(request.budget_bytes)
            elif isinstance(request, protocol.WarmMemory):
                cache.memory.warm_up()
            elif isinstance(request, protocol.ReleaseMemory):
                cache.memory.release()
            else:
                cache.set_pool(request.pool_bytes, request.staging_bytes)
            return cache.facts(experts=True, since=0)

    def _check_files(self) -> None:
        """Refuse to go on with files that were written to, and warn of those that were replaced."""
        session = self._loaded_session()
        try:
            sentences = session.loaded.files.check()
        except AppError:
            session.forget()  # what is in the context may come of the other bytes
            raise
        for sentence in sentences:
            self._on_log(logging.WARNING, sentence)

    def _watch(self) -> Observer:
        """Who looks at this process's memory, made before anything was loaded."""
        if self._observer is None:
            self._observer = Observer(self._ggml.gpus())
        return self._observer

    def _loaded_session(self) -> Session:
        if self._session is None:
            raise AppError(ErrorCode.ENGINE_FAILED, "No model is loaded.")
        return self._session

    def _cache_of(self, session: Session) -> ContextCache:
        if session.loaded.cache is None:
            raise AppError(ErrorCode.ENGINE_FAILED, f"There is no expert cache: {session.loaded.report.reason}")
        return session.loaded.cache
