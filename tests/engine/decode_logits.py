"""A process of its own that decodes token ids and prints what came of it: run by the device's tests.

ggml's registry is one per process, so "with the device" and "without" need two processes.
Usage: decode_logits.py MODEL stock|device OUT.npz [GPU]
"""

import ctypes
import sys

import numpy as np
from llama_cpp import llama_cpp as llama

from app.engine.cache import ExpertDevice, Phase
from app.engine.ggml import BufferTypeOverride, Ggml
from app.engine.logs import LogTap

BATCHES = (17, 1, 3, 8, 1, 1, 64, 1)


def main() -> None:
    model_path, mode, out = sys.argv[1:4]
    gpu = sys.argv[4] if len(sys.argv) > 4 else None
    tap = LogTap(lambda _level, line: print(line, file=sys.stderr))
    ggml = Ggml()
    ggml.load_backends()
    device = ExpertDevice() if mode == "device" else None
    llama.llama_backend_init()
    if device:
        device.set_model_tag(5)
    parameters = llama.llama_model_default_params()
    handles = [d.handle for d in ggml.devices() if d.name == gpu]
    array = (ctypes.c_void_p * (len(handles) + 1))(*handles, None)
    parameters.devices = ctypes.cast(array, ctypes.c_void_p)
    parameters.n_gpu_layers = 999 if handles else 0
    cpu = next(d for d in ggml.devices() if d.name == "CPU")
    override = (BufferTypeOverride * 2)()
    override[0].pattern = rb"\.ffn_(up|down|gate|gate_up)_(ch|)exps"
    override[0].buffer_type = ggml.buffer_type(cpu)
    parameters.tensor_buft_overrides = ctypes.cast(override, ctypes.c_void_p)
    model = llama.llama_model_load_from_file(model_path.encode(), parameters)
    assert model, "the model did not load"
    context_parameters = llama.llama_context_default_params()
    context_parameters.n_ctx = 256
    context_parameters.n_batch = context_parameters.n_ubatch = 64
    context_parameters.n_threads = context_parameters.n_threads_batch = 1
    context = llama.llama_init_from_model(model, context_parameters)
    assert context, "no context"
    n_vocab = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(model))
    ids = np.random.default_rng(3).integers(0, n_vocab, sum(BATCHES)).tolist()
    logits, at = [], 0
    id_of_context = device.last_context() if device else 0
    for size in BATCHES:
        if device:
            device.set_phase(id_of_context, Phase.DECODE if size == 1 else Phase.PROMPT)
        tokens = (llama.llama_token * size)(*ids[at : at + size])
        assert llama.llama_decode(context, llama.llama_batch_get_one(tokens, size)) == 0
        at += size
        logits.append(np.ctypeslib.as_array(llama.llama_get_logits_ith(context, -1), (n_vocab,)).copy())
    facts = {"logits": np.stack(logits)}
    if device:
        facts["decode"] = device.routing(id_of_context, Phase.DECODE)
        facts["prompt"] = device.routing(id_of_context, Phase.PROMPT)
        facts["work"] = np.array(device.work(id_of_context))
        facts["owned"] = np.array(sorted(device.owned_layers(5)))
        facts["owned_bytes"] = np.array(device.owned_bytes(5))
    llama.llama_free(context)
    llama.llama_model_free(model)
    if device:
        facts["owned_after_free"] = np.array(device.owned_bytes(5))
    np.savez(out, **facts)
    del tap


main()
