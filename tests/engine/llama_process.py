"""llama.cpp in this process, with or without the expert device: models by path, contexts, token ids in, logits out.

ggml's registry is one per process, so tests compare processes; each of them imports this.
"""

import ctypes
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from llama_cpp import llama_cpp as llama

from app.engine.cache import ExpertDevice
from app.engine.ggml import BufferTypeOverride, Ggml
from app.engine.logs import LogTap
from app.engine.parameters import experts_used_override
from app.model import read_facts

EXPERTS_ON_CPU = rb"\.ffn_(up|down|gate|gate_up)_(ch|)exps"


class LlamaProcess:
    """Backends and, where asked for, the expert device; one object a process.

    Args:
        with_device: register the expert device, so that models loaded afterwards use it.
    """

    def __init__(self, *, with_device: bool) -> None:
        self._tap = LogTap(lambda _level, line: print(line, file=sys.stderr))
        self.ggml = Ggml()
        self.ggml.load_backends()
        self.device = ExpertDevice() if with_device else None
        llama.llama_backend_init()

    def load(
        self,
        path: Path,
        *,
        gpu: str | None = None,
        experts_on_gpu: bool = False,
        repack: bool = True,
        no_host: bool = False,
        experts_used: int | None = None,
    ) -> "LoadedModel":
        """A model.

        Args:
            path: GGUF file.
            gpu: ggml's name of the device for attention; None computes on the CPU.
            experts_on_gpu: leave the experts with their layers (stock, fully offloaded).
            repack: let llama.cpp use the CPU's faster layouts.
            no_host: keep the GPU's host buffers from coming before those.
            experts_used: experts that compute each token; None for the model's own number.
        """
        parameters = llama.llama_model_default_params()
        handles = [device.handle for device in self.ggml.devices() if device.name == gpu]
        assert gpu is None or handles, f"no device {gpu}"
        devices = (ctypes.c_void_p * (len(handles) + 1))(*handles, None)
        parameters.devices = ctypes.cast(devices, ctypes.c_void_p)
        parameters.n_gpu_layers = 999 if handles else 0
        parameters.use_extra_bufts = repack
        parameters.no_host = no_host
        override = (BufferTypeOverride * 2)()
        if not experts_on_gpu:
            cpu = next(device for device in self.ggml.devices() if device.name == "CPU")
            override[0].pattern, override[0].buffer_type = EXPERTS_ON_CPU, self.ggml.buffer_type(cpu)
            parameters.tensor_buft_overrides = ctypes.cast(override, ctypes.c_void_p)
        if experts_used is not None:
            parameters.kv_overrides = experts_used_override(read_facts(path), experts_used)
        model = llama.llama_model_load_from_file(str(path).encode(), parameters)
        assert model, f"{path} did not load"
        return LoadedModel(self, path, model, keep=(devices, override))


class LoadedModel:
    """A model in memory; `close` it after its contexts."""

    def __init__(self, process: LlamaProcess, path: Path, model: Any, keep: object) -> None:
        self.process, self.path, self.model, self._keep = process, path, model, keep
        self.vocabulary: int = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(model))

    def tokens(self, text: str) -> list[int]:
        """Ids of a text's tokens."""
        data = text.encode()
        out = (llama.llama_token * (len(data) + 8))()
        vocabulary = llama.llama_model_get_vocab(self.model)
        count = llama.llama_tokenize(vocabulary, data, len(data), out, len(out), True, True)
        assert count > 0
        return list(out[:count])

    def context(self, *, cells: int = 1024, threads: int = 1) -> "Context":
        """A context of `cells` KV cells and batches of up to 512 tokens."""
        return Context(self, cells, threads)

    def close(self) -> None:
        """Free it."""
        llama.llama_model_free(self.model)


class Context:
    """A llama.cpp context with one sequence; `id` is the expert device's name of it (0 without)."""

    def __init__(self, model: LoadedModel, cells: int, threads: int) -> None:
        parameters = llama.llama_context_default_params()
        parameters.n_ctx, parameters.n_batch, parameters.n_ubatch = cells, 512, 512
        parameters.n_threads = parameters.n_threads_batch = threads
        # Mesa's software Vulkan driver crashes in flash attention, and these tests are not about attention.
        parameters.flash_attn_type = llama.LLAMA_FLASH_ATTN_TYPE_DISABLED
        self.model = model
        self.context = llama.llama_init_from_model(model.model, parameters)
        assert self.context, "no context"
        device = model.process.device
        self.id = device.last_context() if device else 0
        self.position = 0

    def clear(self) -> None:
        """Forget the sequence."""
        llama.llama_memory_clear(llama.llama_get_memory(self.context), True)
        self.position = 0

    def decode(self, ids: Sequence[int], *, every: bool = False) -> npt.NDArray[np.float32]:
        """Compute one batch.

        Args:
            ids: the next tokens of the sequence.
            every: logits of every token, not only of the last.

        Returns:
            float32 [1 or len(ids), vocabulary].
        """
        n = len(ids)
        batch = llama.llama_batch_init(n, 0, 1)
        batch.n_tokens = n
        for index, token in enumerate(ids):
            batch.token[index] = token
            batch.pos[index] = self.position + index
            batch.n_seq_id[index] = 1
            batch.seq_id[index][0] = 0
            batch.logits[index] = every or index == n - 1
        result = llama.llama_decode(self.context, batch)
        llama.llama_batch_free(batch)
        assert result == 0, f"llama_decode answered {result}"
        self.position += n
        rows = range(n) if every else [n - 1]
        size = (self.model.vocabulary,)
        return np.stack(
            [np.ctypeslib.as_array(llama.llama_get_logits_ith(self.context, row), size).copy() for row in rows]
        )

    def close(self) -> None:
        """Free it."""
        llama.llama_free(self.context)
