"""A process of its own that holds one variant's model and measures what it is asked to.

ggml's registry is one per process, so stock and ours cannot share one. Requests come as JSON lines on standard
input, each is answered by one JSON line on standard output; the end of the input ends the process. A request is an
object whose `do` says what:

* `devices`: the GPUs the engine sees, and its versions;
* `load` with `variant`: load it and compute a first token;
* `fill` with `ids`: make the pool and decode these tokens, so that it holds what they need;
* `decode` with `ids`, `warm_up`: decode them one by one; the first `warm_up` are not measured;
* `prompt` with `ids`, `batch`: compute them in batches of that size, each as a prompt of its own;
* `facts`: the pool, GPU memory taken since before the load, and whether routing was as counted here.

The answer to anything that went wrong is {"error": words}.
"""

import ctypes
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import llama_cpp
from bench_device import BenchDevice
from bench_variant import N_CTX, N_UBATCH, Variant
from llama_cpp import llama_cpp as llama

from app.engine.cache import Phase
from app.engine.ggml import BufferTypeOverride, Ggml
from app.engine.logs import LogTap
from app.errors import AppError, ErrorCode
from app.placement.overrides import ALL_LAYERS, expert_pattern


class Child:
    """The process's model, context and, for ours, device."""

    def __init__(self) -> None:
        self._tap = LogTap(lambda _level, line: print(line, file=sys.stderr))
        self._ggml = Ggml()
        self._ggml.load_backends()
        llama.llama_backend_init()
        self._keep_alive: list[object] = []  # what llama.cpp keeps pointers to
        self._device: BenchDevice | None = None
        self._variant: Variant
        self._context: int
        self._free_before = 0
        self._decoded: Counter[int] = Counter()

    def devices(self) -> dict[str, Any]:
        """GPUs as dicts, the engine's versions."""
        gpus = [{"device": g.device, "name": g.name, "kind": g.kind.value} for g in self._ggml.gpus()]
        return {"gpus": gpus, "llama_cpp_python": llama_cpp.__version__, "ggml": self._ggml.version}

    def load(self, variant: dict[str, Any]) -> dict[str, Any]:
        """Load the variant's model, make its context and compute one token."""
        self._variant = Variant(**variant)
        self._free_before = self._free_bytes()
        if self._variant.ours:
            self._device = BenchDevice(self._variant)
        started = time.perf_counter()
        model = llama.llama_model_load_from_file(os.fsencode(self._variant.model), self._model_parameters())
        if model is None:
            raise AppError(ErrorCode.ENGINE_FAILED, f"{self._variant.model} did not load.")
        parameters = llama.llama_context_default_params()
        parameters.n_ctx, parameters.n_ubatch = N_CTX, N_UBATCH
        parameters.n_threads = parameters.n_threads_batch = self._variant.threads
        self._context = llama.llama_init_from_model(model, parameters)
        if self._context is None:
            raise AppError(ErrorCode.ENGINE_FAILED, "The context could not be made.")
        if self._device:
            self._device.attach()
        self._compute([0], 1, Phase.IGNORE)
        return {"seconds": time.perf_counter() - started}

    def fill(self, ids: list[int]) -> dict[str, Any]:
        """Make the pool, then decode `ids`."""
        if self._device and self._variant.pool_device:
            self._device.make_pool()
            self._compute(ids, 1, Phase.DECODE)
        return {}

    def decode(self, ids: list[int], warm_up: int) -> dict[str, Any]:
        """Decode `ids` as one sequence, a token at a time; all but the first `warm_up` are measured."""
        self._compute(ids[:warm_up], 1, Phase.DECODE)
        return self._measured(ids[warm_up:], 1, Phase.DECODE)

    def prompt(self, ids: list[int], batch: int) -> dict[str, Any]:
        """Compute `ids` in batches, each in an empty context; one batch before them is not measured."""
        self._compute(ids[:batch], batch, Phase.PROMPT)
        return self._measured(ids, batch, Phase.PROMPT)

    def facts(self) -> dict[str, Any]:
        """What the variant took and did."""
        facts: dict[str, Any] = {"gpu_bytes": None, "pool": None, "routing": None, "decoded": None}
        if self._variant.gpu:
            facts["gpu_bytes"] = self._free_before - self._free_bytes()
        if self._device:
            facts["pool"] = self._device.pool()
            facts["routing"] = self._device.routing(Phase.DECODE)
            facts["decoded"] = sorted(self._decoded.elements())
        return facts

    def _measured(self, ids: list[int], batch: int, phase: Phase) -> dict[str, Any]:
        before = self._device.totals(phase) if self._device else None
        seconds = self._compute(ids, batch, phase)
        totals = None
        if self._device and before is not None:
            totals = {name: value - before[name] for name, value in self._device.totals(phase).items()}
        return {"seconds": seconds, "totals": totals}

    def _compute(self, ids: list[int], batch: int, phase: Phase) -> float:
        """Seconds that the batches took; the context is emptied first, and before every prompt."""
        pieces = [ids[at : at + batch] for at in range(0, len(ids), batch)]
        arrays = [(llama.llama_token * len(piece))(*piece) for piece in pieces]  # a batch only points to them
        prepared = [llama.llama_batch_get_one(array, len(array)) for array in arrays]
        if self._device:
            self._device.set_phase(phase)
        if phase is Phase.DECODE:
            self._decoded.update(ids)
        memory = llama.llama_get_memory(self._context)
        seconds = 0.0
        llama.llama_memory_clear(memory, True)
        for one in prepared:
            if phase is Phase.PROMPT:
                llama.llama_memory_clear(memory, True)
            started = time.perf_counter()
            result = llama.llama_decode(self._context, one)
            llama.llama_synchronize(self._context)
            seconds += time.perf_counter() - started
            if result != 0:
                raise AppError(ErrorCode.ENGINE_FAILED, f"llama_decode answered {result}.")
        return seconds

    def _model_parameters(self) -> llama.llama_model_params:
        """llama.cpp's defaults, but for which devices take part and where the experts go."""
        variant, devices = self._variant, {device.name: device for device in self._ggml.devices()}
        if variant.gpu and variant.gpu not in devices:
            raise AppError(ErrorCode.DEVICE_MISSING, f"The engine sees no device {variant.gpu}: {', '.join(devices)}.")
        parameters = llama.llama_model_default_params()
        handles = [devices[variant.gpu].handle] if variant.gpu else []
        array = (ctypes.c_void_p * (len(handles) + 1))(*handles, None)
        parameters.devices = ctypes.cast(array, ctypes.c_void_p)
        parameters.n_gpu_layers = ALL_LAYERS if handles else 0
        parameters.no_host = variant.ours and variant.residency == "repacked"  # as app.engine.parameters
        self._keep_alive.append(array)
        on_cpu = list(range(variant.gpu_expert_layers, variant.layers))
        if handles and on_cpu:
            overrides = (BufferTypeOverride * 2)()
            overrides[0].pattern = expert_pattern(on_cpu).encode()
            overrides[0].buffer_type = self._ggml.buffer_type(devices["CPU"])
            parameters.tensor_buft_overrides = ctypes.cast(overrides, ctypes.c_void_p)
            self._keep_alive.append(overrides)
        return parameters

    def _free_bytes(self) -> int:
        return next((g.free_bytes for g in self._ggml.gpus() if g.device == self._variant.gpu), 0)


def main() -> None:
    """Answer requests until the input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # a library that prints cannot spoil the answers
    child = Child()
    for line in sys.stdin:
        request = json.loads(line)
        handler: Callable[..., dict[str, Any]] = getattr(child, request.pop("do"))
        try:
            answer = handler(**request)
        except AppError as error:
            answer = {"error": f"{error.message} {error.detail}".strip()}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
