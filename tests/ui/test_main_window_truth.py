"""The line of truth in words: what was planned, what the engine reports, and never one for the other."""

import pytest

from app.engine.protocol import Loaded
from app.placement.plan import MemoryPart, Plan
from app.placement.report import BufferReport
from app.ui.truth_words import devices_in_words, expert_device_in_words, memory_in_detail, memory_in_words

GIB = 1024**3


def report(**overrides):
    buffers = (("kv", 2 * GIB), ("compute", GIB // 2), ("output", GIB // 2), ("mapped", 9 * GIB))
    fields = {
        "seconds": 1.0,
        "n_ctx": 512,
        "buffers": tuple(BufferReport(device="CPU", part=part, bytes=size) for part, size in buffers),
        "expert_layers": {0: "CPU"},
        "differences": (),
        "expert_device": True,
    }
    return Loaded(**{**fields, **overrides})


@pytest.mark.parametrize(
    ("kv_devices", "lanes", "words"),
    [
        (("CPU",), {0: "CPU"}, "CPU"),
        (("Vulkan0",), {0: "Vulkan0"}, "Vulkan0"),
        (("Vulkan0",), {0: "CPU", 1: "Vulkan0"}, "attention on Vulkan0, experts on CPU + Vulkan0"),
        (("CPU", "Vulkan0"), {0: "CPU"}, "attention on CPU + Vulkan0, experts on CPU"),
        (("Vulkan0",), {}, "Vulkan0"),
        ((), {0: "CPU"}, "attention on Vulkan0 (planned), experts on CPU"),
        ((), {}, "Vulkan0 (planned)"),
    ],
)
def test_attention_is_where_the_engine_reports_its_cache_whatever_was_planned(kv_devices, lanes, words):
    plan = Plan(model_files=("m.gguf",), gpu="Vulkan0", expert_lanes={0: "CPU"}, n_ctx=512)
    buffers = tuple(BufferReport(device=device, part="kv", bytes=GIB) for device in kv_devices)
    assert devices_in_words(plan, report(buffers=buffers, expert_layers=lanes)) == words


def plan_of(*parts):
    memory = tuple(MemoryPart(device="CPU", part=part, bytes=size) for part, size in parts)
    return Plan(model_files=("m.gguf",), gpu=None, expert_lanes={0: "CPU"}, n_ctx=512, memory=memory)


def test_only_what_both_name_is_compared():
    plan = plan_of(("weights", 5 * GIB), ("kv", 2 * GIB), ("compute", GIB), ("margin", GIB))
    assert memory_in_words(plan, report()) == "Predicted 3.0 GiB · reported by the engine 3.0 GiB"
    detail = memory_in_detail(plan, report()).splitlines()
    assert "CPU, KV cache: predicted 2.0 GiB, reported 2.0 GiB" in detail
    assert "CPU, safety margin: predicted 1.0 GiB, not reported by the engine" in detail
    assert any(line.startswith("CPU, mapped model file") and "not predicted" in line for line in detail)


def test_nothing_is_compared_where_nothing_can_be():
    assert memory_in_words(plan_of(), report()) == "The engine reports nothing that was predicted"


@pytest.mark.parametrize(
    ("changes", "moe", "words"),
    [
        ({}, True, "Expert device on"),
        ({"expert_device": False, "reason": "another ggml"}, True, "routings are not counted (another ggml)"),
        ({"expert_device": False}, False, "Dense model"),
    ],
)
def test_the_expert_device_is_told_in_words(changes, moe, words):
    assert words in expert_device_in_words(report(**changes), moe=moe)
