"""A process of its own that counts the experts stock llama.cpp routes to, read from its graph as it computes.

Independent of the expert device: llama.cpp's evaluation callback shows every layer's ranking of the experts.
Usage: stock_routing.py MODEL IDS.npy OUT.npz, with the token ids of one sequence (int32). OUT holds `counts`
(uint64 [layers, experts]) and `logits` (float32 [n_vocab], of the last token).
"""

import ctypes
import os
import sys

import numpy as np
import numpy.typing as npt
from llama_cpp import llama_cpp as llama

from app.engine.ggml import Ggml, _loaded_library
from app.engine.logs import LogTap

_RANKING = b"ffn_moe_argsort-"  # int32 [tokens, experts], the most wanted first
_BATCH = 64


class RoutingCounter:
    """Counts what `callback` is shown.

    Args:
        base: ggml's base library.
        used: Experts of a token.
        layers, experts: The model's.
    """

    def __init__(self, base: ctypes.CDLL, used: int, layers: int, experts: int) -> None:
        self.counts = np.zeros((layers, experts), dtype=np.uint64)
        self._used = used
        self._name, self._bytes, self._get = base.ggml_get_name, base.ggml_nbytes, base.ggml_backend_tensor_get
        self._name.restype, self._name.argtypes = ctypes.c_char_p, [ctypes.c_void_p]
        self._bytes.restype, self._bytes.argtypes = ctypes.c_size_t, [ctypes.c_void_p]
        self._get.restype = None
        self._get.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t]
        self.callback = llama.ggml_backend_sched_eval_callback(self._evaluated)

    def _evaluated(self, tensor: int, ask: bool, _data: object) -> bool:
        name = self._name(tensor)
        if not name.startswith(_RANKING):
            return not ask  # when asked: not wanted; when shown: go on
        if not ask:
            ranking = np.empty(self._bytes(tensor) // 4, dtype=np.int32)
            self._get(tensor, ranking.ctypes.data, 0, ranking.nbytes)
            chosen = ranking.reshape(-1, self.counts.shape[1])[:, : self._used]
            np.add.at(self.counts[int(name.removeprefix(_RANKING))], chosen, np.uint64(1))
        return True


def main() -> None:
    """Decode the ids and write what was seen."""
    model_path, ids_path, out = sys.argv[1:4]
    ids: npt.NDArray[np.int32] = np.load(ids_path)
    tap = LogTap(lambda _level, line: print(line, file=sys.stderr))
    ggml = Ggml()
    ggml.load_backends()
    llama.llama_backend_init()
    parameters = llama.llama_model_default_params()
    no_devices = (ctypes.c_void_p * 1)(None)
    parameters.devices = ctypes.cast(no_devices, ctypes.c_void_p)
    model = llama.llama_model_load_from_file(os.fsencode(model_path), parameters)
    assert model, "the model did not load"
    counter = RoutingCounter(_loaded_library("ggml-base"), *_shape(model))
    context_parameters = llama.llama_context_default_params()
    context_parameters.n_ctx = len(ids) + _BATCH
    context_parameters.n_batch = context_parameters.n_ubatch = _BATCH
    context_parameters.n_threads = context_parameters.n_threads_batch = 1
    context_parameters.cb_eval = counter.callback
    context = llama.llama_init_from_model(model, context_parameters)
    assert context, "no context"
    batch = llama.llama_batch_init(_BATCH, 0, 1)
    for start in range(0, len(ids), _BATCH):
        _fill(batch, start, ids[start : start + _BATCH])
        assert llama.llama_decode(context, batch) == 0
    llama.llama_batch_free(batch)
    n_vocab = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(model))
    logits = np.ctypeslib.as_array(llama.llama_get_logits_ith(context, -1), (n_vocab,)).copy()
    np.savez(out, counts=counter.counts, logits=logits)
    llama.llama_free(context)
    llama.llama_model_free(model)
    del tap


def _fill(batch: llama.llama_batch, start: int, ids: npt.NDArray[np.int32]) -> None:
    """Put `ids` into the batch, from position `start` of the one sequence, with the output of every token wanted.

    llama.cpp computes the last layer only for such tokens, and all are to be counted.
    """
    batch.n_tokens = len(ids)
    for index, token in enumerate(ids.tolist()):
        batch.token[index] = token
        batch.pos[index] = start + index
        batch.n_seq_id[index] = 1
        batch.seq_id[index][0] = 0
        batch.logits[index] = 1


def _shape(model: int) -> tuple[int, int, int]:
    """Experts of a token, layers, experts of a layer."""

    def number(key: str) -> int:
        text = ctypes.create_string_buffer(32)
        assert llama.llama_model_meta_val_str(model, key.encode(), text, len(text)) > 0, key
        return int(text.value)

    return (
        number("qwen3moe.expert_used_count"),
        number("qwen3moe.block_count"),
        number("qwen3moe.expert_count"),
    )


if __name__ == "__main__":
    main()
