"""Reading llama.cpp's log of a load: places, sizes and reasons, on lines the pinned engine wrote."""

import pytest

from app.engine.load_report import LoadReport, device_of_buffer, is_repacked
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

# Written by it for a model of two layers in Q4_0 on the CPU, the second layer's `down` in Q5_1, which the CPU
# has no faster layout for; attention and output share the layout's buffer with the experts.
REPACKED_LINES = """\
load_tensors: layer   0 assigned to device CPU, is_swa = 0
load_tensors: layer   1 assigned to device CPU, is_swa = 0
load_tensors: layer   2 assigned to device CPU, is_swa = 0
tensor blk.0.ffn_gate_exps.weight (0 MiB q4_0) buffer type overridden to CPU_REPACK
tensor blk.0.ffn_down_exps.weight (0 MiB q4_0) buffer type overridden to CPU_REPACK
tensor blk.0.ffn_up_exps.weight (0 MiB q4_0) buffer type overridden to CPU_REPACK
tensor blk.1.ffn_gate_exps.weight (0 MiB q4_0) buffer type overridden to CPU_REPACK
tensor blk.1.ffn_down_exps.weight (0 MiB q5_1) buffer type overridden to CPU
tensor blk.1.ffn_up_exps.weight (0 MiB q4_0) buffer type overridden to CPU_REPACK
load_tensors:   CPU_Mapped model buffer size =     2.03 MiB
load_tensors:   CPU_REPACK model buffer size =     1.63 MiB
llama_kv_cache:        CPU KV buffer size =     0.25 MiB
"""
ONE_REPACKED = 8 * 256 * 256 * 18 // 32  # bytes of each of them


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


def test_stretches_of_a_mapping_that_overlap_are_no_more_than_the_file():
    lines = LINES + "\nload_tensors:      EXPERTS model buffer size =     1.50 MiB\n"
    for file_bytes, told in ((2 * MIB, 2 * MIB), (4 * MIB, round(3.31 * MIB))):
        sizes = {(b.device, b.part): b.bytes for b in report(lines).buffers(file_bytes=file_bytes)}
        assert sizes["CPU", "mapped"] == told
        assert sizes["CPU", "compute"] == round(0.22 * MIB)


def test_repacked_experts_are_told_by_name_and_taken_out_of_what_they_share_a_buffer_with():
    told = report(REPACKED_LINES)
    kinds = {0: ("gate", "down", "up"), 1: ("gate", "up")}
    assert told.repacked_experts == {f"blk.{layer}.ffn_{kind}_exps.weight" for layer in kinds for kind in kinds[layer]}
    assert [told.lane(layer) for layer in range(2)] == ["CPU", "CPU"]
    sizes = {(b.device, b.part): b.bytes for b in told.buffers(5 * ONE_REPACKED)}
    attention_and_output = (2 * (2 * 256 * 256 + 2 * 128 * 256) + 64 * 256) * 18 // 32
    assert sizes.pop(("CPU", "repacked")) == pytest.approx(attention_and_output, abs=0.005 * MIB)
    assert sizes == {("CPU", "mapped"): round(2.03 * MIB), ("CPU", "kv"): round(0.25 * MIB)}


def test_a_buffer_of_nothing_but_repacked_experts_is_reported_once_as_experts():
    only_experts = REPACKED_LINES.replace("1.63 MiB", f"{5 * ONE_REPACKED / MIB:.2f} MiB")
    assert ("CPU", "repacked") not in {(b.device, b.part) for b in report(only_experts).buffers(5 * ONE_REPACKED)}


@pytest.mark.parametrize(
    ("name", "device", "repacked"),
    [
        ("CPU", "CPU", False), ("CPU_Mapped", "CPU", False), ("CPU_REPACK", "CPU", True), ("AMX", "CPU", True),
        ("CPU_KLEIDIAI", "CPU", True), ("EXPERTS", "CPU", False), ("CUDA_Host", "CPU", False),
        ("CUDA0", "CUDA0", False), ("Vulkan0", "Vulkan0", False),
    ],
)  # fmt: skip
def test_buffers_of_the_cpus_faster_layouts_are_main_memory(name, device, repacked):
    assert (device_of_buffer(name), is_repacked(name)) == (device, repacked)


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
