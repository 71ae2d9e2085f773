"""llama.cpp's parameters for what a plan says: the same for a load and for a dry run of it."""

import ctypes
import os
from pathlib import Path

from llama_cpp import llama_cpp as llama

from app.engine.cache import Residency
from app.engine.ggml import BufferTypeOverride, Ggml
from app.errors import AppError, ErrorCode
from app.model import ModelFacts, read_facts
from app.placement import overrides
from app.placement.active_experts import check_experts_used, experts_used_key
from app.placement.cache.orders import check_policy, check_pool, check_residency, check_resident
from app.placement.plan import KV_TYPES, Plan

_GGML_TYPES = {"f16": 1, "q8_0": 8, "q4_0": 2}
_LOAD_MODE_MMAP = 1
_SPLIT_NONE, _SPLIT_LAYER = 0, 1
_FLASH_AUTO, _FLASH_ENABLED = -1, 1
_MOST_THREADS = 512  # ggml's own bound (GGML_MAX_N_THREADS)
_MOST_CONTEXT = 2**31 - 1
_MOST_SEQUENCES = 256  # llama.cpp's own bound (LLAMA_MAX_SEQ)


def check_plan(plan: Plan) -> None:
    """Refuse values llama.cpp would abort on; the planner makes none of them.

    Raises:
        AppError: bad_usage, naming the value.
    """
    faults = {
        "no model file": not plan.model_files,
        f"a context of {plan.n_ctx}": not 1 <= plan.n_ctx <= _MOST_CONTEXT,
        f"batches of {plan.n_ubatch} in {plan.n_batch}": not 1 <= plan.n_ubatch <= plan.n_batch <= _MOST_CONTEXT,
        f"the KV type {plan.kv_type}": plan.kv_type not in KV_TYPES,
        f"{plan.threads} and {plan.threads_batch} threads": not (
            1 <= plan.threads <= _MOST_THREADS and 1 <= plan.threads_batch <= _MOST_THREADS
        ),
        f"{plan.n_seq_max} conversations at once": not 1 <= plan.n_seq_max <= _MOST_SEQUENCES,
    }
    for what, wrong in faults.items():
        if wrong:
            raise AppError(ErrorCode.BAD_USAGE, f"The plan cannot be loaded: it asks for {what}.")
    check_residency(plan.residency)
    check_resident(plan.resident_bytes or 0)
    check_policy(plan.policy)
    check_pool(plan.pool_bytes, plan.staging_bytes)


def residency_of(plan: Plan) -> Residency:
    """How the expert device is to keep the CPU's experts."""
    return Residency.REPACKED if plan.residency == "repacked" else Residency.MAPPED


def model_path(plan: Plan) -> bytes:
    """The file that llama.cpp opens, as it takes it."""
    return os.fsencode(plan.model_files[0]) if os.name != "nt" else plan.model_files[0].encode()


def model_parameters(
    plan: Plan, ggml: Ggml, keep_alive: list[object], *, expert_device: bool
) -> llama.llama_model_params:
    """Parameters of the model: devices, overrides, split.

    Args:
        plan: The plan.
        ggml: The process's ggml, for handles of devices.
        expert_device: The expert device is registered.
        keep_alive: Gets what the parameters point to; it must live as long as the model.

    Raises:
        AppError: device_missing, a device of the plan is not there; bad_usage, a number of experts that this model
            cannot compute with.
    """
    devices = {device.name: device for device in ggml.devices()}
    arguments = overrides.load_arguments(plan)
    missing = [name for name in arguments.devices if name not in devices]
    if missing:
        raise AppError(
            ErrorCode.DEVICE_MISSING,
            f"The device {missing[0]} is not there now; there are: {', '.join(devices) or 'none'}.",
        )
    parameters = llama.llama_model_default_params()
    handles = [devices[name].handle for name in arguments.devices]
    device_array = (ctypes.c_void_p * (len(handles) + 1))(*handles, None)
    parameters.devices = ctypes.cast(device_array, ctypes.c_void_p)
    override_array = (BufferTypeOverride * (len(arguments.overrides) + 1))()
    for entry, (pattern, lane) in zip(override_array, arguments.overrides, strict=False):
        entry.pattern = pattern.encode()
        entry.buffer_type = ggml.buffer_type(devices[lane])
    parameters.tensor_buft_overrides = ctypes.cast(override_array, ctypes.c_void_p)
    parameters.n_gpu_layers = arguments.n_gpu_layers
    parameters.load_mode = _LOAD_MODE_MMAP
    # The CPU's faster layouts are copies: without room for them everything stays as it lies in the file.
    parameters.use_extra_bufts = plan.residency == "repacked"
    # With a GPU llama.cpp prefers that card's host buffers to the faster layouts, and with a mapped file then plain
    # memory: neither repacked nor, under the repacked residency, the expert device's. It wants them for copying whole
    # tensors of large batches over, which the expert device does itself.
    parameters.no_host = expert_device and plan.residency == "repacked"
    if len(handles) > 1:
        # Further GPUs hold experts only: attention, KV cache and output stay on the first.
        split = (ctypes.c_float * llama.llama_max_devices())()
        split[0] = 1.0
        parameters.split_mode = _SPLIT_LAYER
        parameters.tensor_split = split
        keep_alive.append(split)
    else:
        parameters.split_mode = _SPLIT_NONE if handles else _SPLIT_LAYER
        parameters.main_gpu = 0
    if plan.experts_used is not None:
        facts = read_facts(Path(plan.model_files[0]))
        check_experts_used(facts, plan.experts_used)
        metadata = experts_used_override(facts, plan.experts_used)
        parameters.kv_overrides = metadata
        keep_alive.append(metadata)
    keep_alive += [device_array, override_array]
    return parameters


def experts_used_override(facts: ModelFacts, count: int) -> "ctypes.Array[llama.llama_model_kv_override]":
    """The model's metadata with `count` experts computing each token, as `kv_overrides` takes it.

    llama.cpp overrides single values only: a model that lists a number for each layer keeps its own.
    """
    entries = (llama.llama_model_kv_override * 2)()  # the second, without a key, ends the list
    entries[0].tag = llama.LLAMA_KV_OVERRIDE_TYPE_INT
    entries[0].key = experts_used_key(facts.architecture).encode()
    entries[0].value.val_i64 = count
    return entries  # type: ignore[no-any-return]


def context_parameters(plan: Plan) -> llama.llama_context_params:
    """Parameters of the context, without callbacks."""
    parameters = llama.llama_context_default_params()
    parameters.n_ctx = plan.n_ctx
    parameters.n_batch = plan.n_batch
    parameters.n_ubatch = plan.n_ubatch
    parameters.n_seq_max = plan.n_seq_max
    parameters.kv_unified = plan.n_seq_max > 1  # conversations share the cells; else each gets its part of them
    parameters.n_threads = plan.threads
    parameters.n_threads_batch = plan.threads_batch
    parameters.type_k = parameters.type_v = _GGML_TYPES[plan.kv_type]
    parameters.flash_attn_type = _FLASH_AUTO if plan.kv_type == "f16" else _FLASH_ENABLED
    parameters.offload_kqv = plan.gpu is not None
    parameters.no_perf = True
    parameters.swa_full = False  # its default gives sliding-window layers a full-length cache
    return parameters
