"""Reading llama.cpp's log of a load: places, sizes and reasons, on lines the pinned engine wrote."""

import pytest

from app.engine.load_report import LoadReport
from app.errors import ErrorCode

MIB = 1024 * 1024

# Written by the pinned engine for a three-layer model, attention on a GPU, experts of layers 0 and 2 kept off it.
LINES = """\
load_tensors: layer   0 assigned to device Vulkan0, is_swa = 0
load_tensors: layer   1 assigned to device Vulkan0, is_swa = 0
load_tensors: layer   2 assigned to device Vulkan0, is_swa = 0
load_tensors: layer   3 assigned to device Vulkan0, is_swa = 0
tensor blk.0.ffn_gate_exps.weight (0 MiB f32) buffer type overridden to EXPERTS
tensor blk.0.ffn_down_exps.weight (0 MiB f32) buffer type overridden to EXPERTS
tensor blk.2.ffn_up_exps.weight (0 MiB f32) buffer type overridden to EXPERTS
load_tensors: offloaded 4/4 layers to GPU
load_tensors:   CPU_Mapped model buffer size =     0.02 MiB
load_tensors:      EXPERTS model buffer size =     1.79 MiB
load_tensors:      Vulkan0 model buffer size =     0.17 MiB
llama_context: Vulkan_Host  output buffer size =     0.25 MiB
llama_kv_cache:    Vulkan0 KV buffer size =     0.09 MiB
sched_reserve:    Vulkan0 compute buffer size =     0.90 MiB
sched_reserve:    Vulkan0 compute buffer size =     0.10 MiB
sched_reserve:    EXPERTS compute buffer size =     0.16 MiB
sched_reserve: Vulkan_Host compute buffer size =     0.06 MiB
"""


def report(text: str) -> LoadReport:
    made = LoadReport()
    for line in text.splitlines():
        made.feed(line)
    return made


def test_a_layer_is_where_its_expert_tensors_were_overridden_to_else_where_it_was_assigned():
    lanes = report(LINES)
    assert [lanes.lane(layer) for layer in range(3)] == ["CPU", "Vulkan0", "CPU"]
    assert lanes.lane(17) is None


def test_buffers_are_summed_by_device_and_part_and_the_last_reservation_stands():
    sizes = {(b.device, b.part): b.bytes for b in report(LINES).buffers()}
    assert sizes == {
        ("CPU", "mapped"): round(1.81 * MIB),
        ("CPU", "output"): round(0.25 * MIB),
        ("CPU", "compute"): round(0.22 * MIB),
        ("Vulkan0", "weights"): round(0.17 * MIB),
        ("Vulkan0", "kv"): round(0.09 * MIB),
        ("Vulkan0", "compute"): round(0.10 * MIB),
    }


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("llama_model_load: error loading model: unknown model architecture: 'nova9'", "architecture_unknown", "nova9"),
        ("ggml_vulkan: Device memory allocation of size 9 failed.\nvk::Device::allocateMemory: ErrorOutOfDeviceMemory",
         "out_of_memory", "Memory"),
        ("llama_model_load: error loading model: unable to allocate Vulkan0 buffer", "out_of_memory", "Memory"),
        ("llama_init_from_model: failed to allocate compute buffers", "out_of_memory", "Memory"),
        ("load: tensor 'blk.1.x' data is not within the file bounds, model is corrupted or incomplete",
         "model_damaged", "damaged"),
        ("llama_model_load: error loading model: missing tensor 'blk.0.ffn_norm.weight'", "model_unsupported",
         "blk.0.ffn_norm.weight"),
        ("llama_model_load: error loading model: error loading model vocabulary: unknown pre-tokenizer type: 'q'",
         "model_unsupported", "vocabulary"),
        ("something nobody foresaw", "engine_failed", "Loading"),
    ],
)  # fmt: skip
def test_the_reason_in_the_log_becomes_a_typed_error(line, code, words):
    error = report(LINES + line).error("Loading the model")
    assert error.code is ErrorCode(code)
    assert words in error.message
    assert line.splitlines()[-1] in error.detail
