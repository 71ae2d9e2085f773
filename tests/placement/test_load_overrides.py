"""A plan as llama.cpp's load arguments."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import AppError, ErrorCode
from app.placement.overrides import ALL_LAYERS, expert_pattern, load_arguments
from app.placement.plan import CPU_LANE, DISK_LANE, Plan

EXPERT_KINDS = [
    f"ffn_{part}_{chunk}exps.{kind}"
    for part in ("gate", "up", "down", "gate_up")
    for chunk in ("", "ch")
    for kind in ("weight", "bias", "scale")
]
OTHER_KINDS = [
    "ffn_gate_shexp.weight",
    "ffn_up_shexp.bias",
    "ffn_gate_inp.weight",
    "ffn_gate_inp_shexp.weight",
    "ffn_down.weight",
    "exp_probs_b.bias",
    "attn_q.weight",
    "ffn_norm.weight",
]
lanes_of_plans = st.dictionaries(
    st.integers(0, 400), st.sampled_from(["CUDA0", "CUDA1", CPU_LANE, DISK_LANE]), min_size=1
)


def plan_of(lanes, gpu="CUDA0", **fields):
    return Plan(model_files=("m.gguf",), gpu=gpu, expert_lanes=lanes, n_ctx=4096, **fields)


def lane_of_tensor(arguments, name, default):
    """As llama.cpp decides: the first pattern found anywhere in the name."""
    return next((lane for pattern, lane in arguments.overrides if re.search(pattern, name)), default)


def test_on_the_cpu_alone_nothing_is_offloaded_and_experts_are_named_so_that_the_log_tells_their_buffers():
    arguments = load_arguments(plan_of({0: CPU_LANE, 1: DISK_LANE}, gpu=None))
    assert (arguments.devices, arguments.n_gpu_layers) == ((), 0)
    assert arguments.overrides == ((r"^blk\.(0|1)\.ffn_(up|down|gate|gate_up)_(ch|)exps\.", "CPU"),)
    assert load_arguments(plan_of({}, gpu=None)).overrides == ()


def test_with_a_gpu_every_layer_goes_there_and_cpu_and_disk_are_one_override():
    arguments = load_arguments(plan_of({0: "CUDA0", 1: CPU_LANE, 3: DISK_LANE, 12: CPU_LANE}))
    assert arguments.devices == ("CUDA0",)
    assert arguments.n_gpu_layers == ALL_LAYERS
    assert arguments.overrides == ((r"^blk\.(1|3|12)\.ffn_(up|down|gate|gate_up)_(ch|)exps\.", "CPU"),)


def test_nothing_is_overridden_where_all_experts_are_with_the_attention():
    assert load_arguments(plan_of({0: "CUDA0", 1: "CUDA0"})).overrides == ()


def test_another_gpu_gets_an_override_of_its_own_and_comes_after_the_attentions():
    arguments = load_arguments(plan_of({0: "CUDA1", 1: "CUDA0", 2: CPU_LANE}))
    assert arguments.devices == ("CUDA0", "CUDA1")
    assert {lane for _, lane in arguments.overrides} == {"CPU", "CUDA1"}


def test_experts_on_a_gpu_without_attention_there_are_refused():
    with pytest.raises(AppError, match="CUDA0") as caught:
        load_arguments(plan_of({0: "CUDA0"}, gpu=None))
    assert caught.value.code is ErrorCode.BAD_USAGE


def test_the_gpu_that_holds_the_pool_is_among_the_devices():
    lanes = {0: CPU_LANE, 1: "CUDA1"}
    assert load_arguments(plan_of(lanes, pool_bytes=1)).devices == ("CUDA0", "CUDA1")
    assert load_arguments(plan_of(lanes, pool_bytes=1, pool_device="CUDA2")).devices == ("CUDA0", "CUDA1", "CUDA2")
    assert load_arguments(plan_of({0: CPU_LANE}, pool_device="CUDA2")).devices == ("CUDA0",)


def test_a_pool_on_the_cpu_is_no_device_to_offload_to():
    arguments = load_arguments(plan_of({0: CPU_LANE}, gpu=None, pool_bytes=1, pool_device=CPU_LANE))
    assert (arguments.devices, arguments.n_gpu_layers) == ((), 0)


def test_a_pool_on_a_gpu_without_attention_there_is_refused():
    with pytest.raises(AppError, match="a pool on CUDA0") as caught:
        load_arguments(plan_of({0: CPU_LANE}, gpu=None, pool_bytes=1, pool_device="CUDA0"))
    assert caught.value.code is ErrorCode.BAD_USAGE


@given(lanes_of_plans)
def test_every_tensor_of_every_layer_goes_to_its_lane_and_no_other(lanes):
    arguments = load_arguments(plan_of(lanes))
    for layer in range(402):
        lane = CPU_LANE if lanes.get(layer) == DISK_LANE else lanes.get(layer, "CUDA0")
        assert lane_of_tensor(arguments, f"blk.{layer}.ffn_up_exps.weight", "CUDA0") == lane


@pytest.mark.parametrize("kind", EXPERT_KINDS)
def test_weights_biases_and_scales_of_experts_match(kind):
    pattern = expert_pattern([3])
    assert re.search(pattern, f"blk.3.{kind}")
    for other in (13, 30, 33, 0):
        assert not re.search(pattern, f"blk.{other}.{kind}")


@pytest.mark.parametrize("kind", OTHER_KINDS)
def test_other_tensors_of_the_layer_do_not_match(kind):
    assert not re.search(expert_pattern([3]), f"blk.3.{kind}")
