"""Plans in words."""

import pytest
from factories import MIB, make_facts, qwen3_30b

from app.placement.plan import CPU_LANE, DISK_LANE, MemoryPart, Plan, Step
from app.placement.speed.types import Range, SpeedPrediction
from app.placement.words import describe_gain, describe_lanes, describe_plan, layer_runs

FACTS = qwen3_30b()


def part(device, name, mib):
    return MemoryPart(device=device, part=name, bytes=mib * MIB)


def plan_of(gpu, *lanes, **changes):
    """`lanes` are pairs of a lane and how many layers are in it, from the first layer on."""
    placed = [lane for lane, count in lanes for _ in range(count)]
    memory = (part("CUDA0", "experts", 6144), part("CUDA0", "margin", 512)) if gpu else ()
    fields = {
        "model_files": FACTS.files,
        "gpu": gpu,
        "expert_lanes": dict(enumerate(placed)),
        "n_ctx": 8192,
        "memory": (*memory, part("CPU", "experts", 9216), part("CPU", "margin", 1024)),
    }
    return Plan(**{**fields, **changes})


def test_a_plan_on_both_sides_counts_the_layers_of_each():
    assert describe_plan(plan_of("CUDA0", ("CUDA0", 18), (CPU_LANE, 30)), FACTS) == (
        "4 of 10 experts are on the GPU. Experts of 18 of 48 layers on the GPU, 30 on the CPU; context 8,192 tokens; "
        "predicted 6.0 GiB on CUDA0, 9.0 GiB of RAM"
    )


def test_without_a_gpu_there_is_no_word_of_one():
    assert describe_plan(plan_of(None, (CPU_LANE, 48)), FACTS) == (
        "Experts of all 48 layers on the CPU; context 8,192 tokens; predicted 9.0 GiB of RAM"
    )


@pytest.mark.parametrize(
    ("lanes", "words"),
    [
        ([("CUDA0", 48)], "Experts of all 48 layers on the GPU;"),
        ([(CPU_LANE, 48)], "Experts of all 48 layers on the CPU, attention on the GPU;"),
        (
            [("CUDA0", 18), (CPU_LANE, 20), (DISK_LANE, 10)],
            "4 of 10 experts are on the GPU; the system decides which experts off the GPUs stay in memory, which has "
            "room for about 6.8 of 10.2 GiB (predicted), and the others are read from the disk. Experts of 18 of 48 "
            "layers on the GPU, 30 on the CPU;",
        ),
        (
            [("CUDA0", 18), ("CUDA1", 20), (CPU_LANE, 10)],
            "8 of 10 experts are on GPUs. Experts of 18 of 48 layers on CUDA0, 20 on CUDA1, 10 on the CPU;",
        ),
        (
            [(DISK_LANE, 48)],
            "The system decides which experts stay in memory, which has no room for a layer of their 16.3 GiB "
            "(predicted), and the others are read from the disk. Experts of all 48 layers on the CPU, attention on "
            "the GPU;",
        ),
    ],
)
def test_every_spread_of_layers_has_its_words(lanes, words):
    assert describe_plan(plan_of("CUDA0", *lanes), FACTS).startswith(words)


def test_memory_is_told_for_each_gpu_without_the_margins():
    memory = (part("CUDA0", "kv", 1024), part("CUDA1", "experts", 2048), part("CPU", "weights", 512))
    plan = plan_of("CUDA0", ("CUDA1", 48), memory=memory)
    assert describe_plan(plan, FACTS).endswith("predicted 1.0 GiB on CUDA0, 2.0 GiB on CUDA1, 512.0 MiB of RAM")


def test_a_quantised_cache_is_told():
    assert "; context 8,192 tokens, q8_0 KV cache;" in describe_plan(
        plan_of(None, (CPU_LANE, 48), kv_type="q8_0"), FACTS
    )


def test_a_single_moe_layer_and_a_dense_model_have_words_too():
    one = make_facts(layers=1)
    assert describe_plan(plan_of(None, (CPU_LANE, 1)), one).startswith("Experts of 1 layer on the CPU;")
    dense = make_facts(experts=0)
    assert describe_plan(plan_of("CUDA0"), dense).startswith("No experts to place: the whole model on the GPU;")
    assert describe_plan(plan_of(None), dense).startswith("No experts to place: the whole model on the CPU;")


@pytest.mark.parametrize(
    ("pool", "words"),
    [
        (0, ""),
        (1, "Fewer than 1 of 10 experts are on the GPU."),
        (1700, "1 of 10 experts is on the GPU."),
        (5000, "3 of 10 experts are on the GPU."),
        (16_700, "More than 9 of 10 experts are on the GPU."),
        (20_000, ""),
    ],
)
def test_the_share_of_experts_on_the_gpu_counts_the_pool(pool, words):
    assert describe_gain(plan_of("CUDA0", (CPU_LANE, 48), pool_bytes=pool * MIB), FACTS) == words


@pytest.mark.parametrize(
    ("low", "high", "basis", "words"),
    [
        (18.2, 21.7, "calibrated", "Expect 18–22 tokens/s (predicted from this machine's measured rates)."),
        (0.84, 2.31, "assumed", "Expect 0.8–2.3 tokens/s (predicted from typical rates of such hardware)."),
        (30.1, 30.2, "measured", "Expect 30 tokens/s (predicted from this model's measured answers)."),
    ],
)
def test_the_expected_speed_is_a_range_and_says_what_it_rests_on(low, high, basis, words):
    one = Range(low=low, likely=low, high=high)
    speed = SpeedPrediction(
        decode=one,
        prompt=one,
        decode_bound="GPU",
        prompt_bound="GPU",
        decode_parts=(),
        prompt_parts=(),
        hit_rate=0.0,
        basis=basis,
        sentence="",
    )
    plan = plan_of(None, (CPU_LANE, 48), speed=speed)
    assert describe_gain(plan, FACTS) == words
    assert describe_plan(plan, FACTS).startswith(f"{words} Experts of all 48 layers on the CPU;")
    both = describe_gain(plan_of("CUDA0", (CPU_LANE, 48), pool_bytes=5000 * MIB, speed=speed), FACTS)
    assert both == f"3 of 10 experts are on the GPU; e{words[1:]}"


def test_a_plan_that_does_not_fit_promises_no_speed():
    step = Step(name="does not fit", reason="Main memory would need more.")
    assert describe_gain(plan_of(None, (CPU_LANE, 48), steps=(step,)), FACTS) == "It is not expected to load."


def test_lanes_are_summed_up_one_by_one():
    plan = plan_of("CUDA0", ("CUDA0", 18), (CPU_LANE, 29), (DISK_LANE, 1))
    assert describe_lanes(plan, FACTS) == (
        "CUDA0: experts of 18 layers (0–17), 6.1 GiB",
        "CPU: experts of 30 layers (18–47), 10.2 GiB; the system decides which of them stay in memory",
    )


def test_a_pool_is_told_with_its_size_and_place():
    plan = plan_of("CUDA0", (CPU_LANE, 48), pool_bytes=2048 * MIB)
    assert describe_plan(plan, FACTS).startswith(
        "1 of 10 experts is on the GPU. Experts of all 48 layers on the CPU, attention on the GPU, "
        "a pool of 2.0 GiB for single experts on the GPU; context"
    )
    assert describe_lanes(plan, FACTS)[-1] == "CUDA0: pool for single experts, 2.0 GiB"
    assert "pool" not in describe_plan(plan_of("CUDA0", (CPU_LANE, 48), staging_bytes=MIB), FACTS)


def test_neighbouring_layers_are_joined():
    assert layer_runs([9, 1, 2, 3, 7, 6]) == "1–3, 6–7, 9"
    assert layer_runs([]) == ""
