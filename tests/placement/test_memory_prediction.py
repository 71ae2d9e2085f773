"""The memory that plans are predicted to take, and whether it fits."""

import msgspec
import pytest
from factories import ENGINE, GIB, MIB, demo, gpt_oss_20b, make_facts, make_gpu, make_machine, qwen3_30b

from app.hardware.facts import GpuKind
from app.placement.compute import compute_bytes
from app.placement.memory import Shortfall, fits, predict, predicted_use, working_bytes
from app.placement.plan import CPU_LANE, DISK_LANE, MemoryPart, Plan


def plan_of(facts, gpu=None, lanes=CPU_LANE, **changes) -> Plan:
    lanes = lanes if isinstance(lanes, dict) else dict.fromkeys(facts.moe_layers, lanes)
    return Plan(**{"model_files": facts.files, "gpu": gpu, "expert_lanes": lanes, "n_ctx": 8192, **changes})


def sizes(facts, machine, plan):
    parts = predict(facts, machine, plan)
    assert len({(part.device, part.part) for part in parts}) == len(parts)
    return {(part.device, part.part): part.bytes for part in parts}


def with_memory(plan, facts, machine):
    return msgspec.structs.replace(plan, memory=predict(facts, machine, plan))


def test_on_the_cpu_every_weight_is_in_main_memory_once():
    facts = demo()
    got = sizes(facts, make_machine(), plan_of(facts))
    assert got["CPU", "weights"] + got["CPU", "experts"] == facts.bytes.total
    assert {device for device, _ in got} == {"CPU"}


def test_with_a_gpu_only_the_token_embeddings_and_the_cpu_layers_stay_in_main_memory():
    facts = qwen3_30b()
    lanes = {layer: "CUDA0" if layer < 12 else CPU_LANE if layer < 40 else DISK_LANE for layer in range(48)}
    got = sizes(facts, make_machine(make_gpu()), plan_of(facts, "CUDA0", lanes))
    assert got["CPU", "weights"] == facts.bytes.embeddings
    assert got["CUDA0", "weights"] == sum(facts.layer_bytes) + facts.bytes.output
    assert got["CUDA0", "experts"] == 12 * 128 * 2_856_960
    assert got["CPU", "experts"] == 28 * 128 * 2_856_960
    assert got["CUDA0", "kv"] == 768 * MIB
    assert ("CPU", "kv") not in got


def test_embeddings_that_are_the_output_too_are_copied_to_the_gpu():
    facts = demo()
    machine = make_machine(make_gpu())
    got = sizes(facts, machine, plan_of(facts, "CUDA0"))
    assert got["CPU", "weights"] == facts.bytes.embeddings
    assert got["CUDA0", "weights"] == 30 * 576_000 + 2_304 + facts.bytes.embeddings


def test_weights_of_draft_layers_count_nowhere():
    """They are in `bytes.other` and in the total, and llama.cpp does not load them."""
    plain = make_facts(layers=4)
    more = msgspec.structs.replace(plain.bytes, total=plain.bytes.total + GIB, other=GIB)
    drafting = msgspec.structs.replace(
        plain,
        bytes=more,
        layers=5,
        draft_layers=(4,),
        layer_bytes=(*plain.layer_bytes, 0),
    )
    machine = make_machine()
    assert predict(drafting, machine, plan_of(drafting)) == predict(plain, machine, plan_of(plain))
    # The same bytes without draft layers belong to tensors outside the layers, which are loaded.
    outside = msgspec.structs.replace(plain, bytes=more)
    extra = sizes(outside, machine, plan_of(outside))["CPU", "weights"]
    assert extra == sizes(plain, machine, plan_of(plain))["CPU", "weights"] + GIB


def test_the_parts_of_the_demo_are_those_the_engine_reports():
    """Reported by the engine for the demo model at 8,192 tokens; compute buffers within a tenth."""
    facts = demo()
    machine = make_machine(make_gpu(2 * GIB, device="Vulkan0", kind=GpuKind.SOFTWARE))
    reported = {
        None: {"CPU": 116.25 + 0.19},
        "Vulkan0": {"CPU": 29.4 + 0.19, "Vulkan0": 98.25},
    }
    for gpu, compute in reported.items():
        got = sizes(facts, machine, plan_of(facts, gpu))
        assert got[gpu or "CPU", "kv"] == 180 * MIB
        for device, mib in compute.items():
            assert got[device, "compute"] == pytest.approx(mib * MIB, rel=0.1)
            assert got[device, "compute"] >= mib * MIB * 0.99
    assert sizes(facts, machine, plan_of(facts, "Vulkan0"))["Vulkan0", "weights"] == pytest.approx(
        45.17 * MIB, rel=0.001
    )


@pytest.mark.parametrize(
    ("facts", "n_ctx", "mib"),
    [(qwen3_30b(), 4096, 372.8), (qwen3_30b(), 32768, 372.8), (gpt_oss_20b(), 4096, 479.5)],
)
def test_compute_buffers_are_close_to_what_llama_cpp_reserves(facts, n_ctx, mib):
    estimate = compute_bytes(facts, plan_of(facts, n_ctx=n_ctx), copies_weights=False)["CPU"]
    assert mib * MIB <= estimate <= mib * MIB * 1.1


@pytest.mark.parametrize(("n_ctx", "mib"), [(4096, 92.5), (32768, 148.5)])
def test_beside_a_gpu_the_cpu_keeps_masks_inputs_and_the_chain_of_experts(n_ctx, mib):
    """Reserved by llama.cpp for gpt-oss-20b with 8,192 words, which leaves the output on the GPU."""
    facts = gpt_oss_20b(vocab=8192)
    estimate = compute_bytes(facts, plan_of(facts, "Vulkan0", n_ctx=n_ctx), copies_weights=False)["CPU"]
    assert mib * MIB <= estimate <= mib * MIB * 1.03


def test_the_logits_of_one_token_are_handed_out_in_main_memory():
    few, many = (
        compute_bytes(facts, plan_of(facts, "CUDA0"), copies_weights=False)["CPU"]
        for facts in (make_facts(vocab=1000), make_facts(vocab=151_000))
    )
    assert many - few == 150_000 * 4


def test_experts_on_a_gpu_need_room_to_work_there():
    facts = make_facts(vocab=1000, embedding_length=2048, used=8)
    machine = make_machine(make_gpu())
    off = sizes(facts, machine, plan_of(facts, "CUDA0"))
    on = sizes(facts, machine, plan_of(facts, "CUDA0", "CUDA0"))
    assert on["CUDA0", "compute"] > off["CUDA0", "compute"]
    assert on["CPU", "compute"] < off["CPU", "compute"]


def test_a_second_gpu_holds_experts_its_driver_and_their_working_memory_only():
    facts = qwen3_30b()
    machine = make_machine(make_gpu(), make_gpu(device="CUDA1"))
    lanes = {layer: "CUDA1" if layer < 4 else CPU_LANE for layer in range(48)}
    got = sizes(facts, machine, plan_of(facts, "CUDA0", lanes))
    assert {part for device, part in got if device == "CUDA1"} == {"experts", "compute", "context", "margin"}


def test_without_the_expert_device_the_gpu_must_hold_copies_of_cpu_experts():
    facts = qwen3_30b()
    stock = msgspec.structs.replace(ENGINE, expert_device=False, expert_device_reason="It is not installed.")
    with_device, without = (
        sizes(facts, make_machine(make_gpu(), engine=engine), plan_of(facts, "CUDA0")) for engine in (ENGINE, stock)
    )
    assert without["CUDA0", "compute"] - with_device["CUDA0", "compute"] > 0
    everything = plan_of(facts, "CUDA0", "CUDA0")
    assert predict(facts, make_machine(make_gpu(), engine=stock), everything) == predict(
        facts, make_machine(make_gpu()), everything
    )


def test_pool_and_staging_area_count_on_the_device_that_holds_them_and_nowhere_else():
    facts = qwen3_30b()
    machine = make_machine(make_gpu(), make_gpu(device="CUDA1"))
    lanes = {layer: "CUDA1" if layer < 4 else CPU_LANE for layer in range(48)}
    for device in (None, "CUDA0", "CUDA1"):
        plan = plan_of(facts, "CUDA0", lanes, pool_bytes=GIB, staging_bytes=3 * MIB, pool_device=device)
        got = sizes(facts, machine, plan)
        staged = 3 * MIB + working_bytes(facts)
        expected = {(device or "CUDA0", "pool"): GIB, (device or "CUDA0", "staging"): staged}
        assert {key: size for key, size in got.items() if key[1] in ("pool", "staging")} == expected


def test_a_gpu_that_only_holds_the_pool_needs_its_driver_and_a_margin_too():
    facts = qwen3_30b()
    machine = make_machine(make_gpu(), make_gpu(2 * GIB, device="CUDA1"))
    plan = plan_of(facts, "CUDA0", pool_bytes=GIB, pool_device="CUDA1")
    parts = {part: size for (device, part), size in sizes(facts, machine, plan).items() if device == "CUDA1"}
    assert set(parts) == {"pool", "staging", "context", "margin"}
    assert parts["staging"] == working_bytes(facts), "what it computes in, without a staging area"
    larger = with_memory(msgspec.structs.replace(plan, pool_bytes=2 * GIB), facts, machine)
    assert [short.device for short in fits(larger, machine)] == ["CUDA1"]


def test_a_pool_in_main_memory_counts_there():
    facts = qwen3_30b()
    plan = plan_of(facts, pool_bytes=GIB, pool_device=CPU_LANE)
    assert sizes(facts, make_machine(), plan)["CPU", "pool"] == GIB


def test_cuda_takes_more_before_anything_is_loaded_than_vulkan_and_a_software_gpu_nothing():
    facts = demo()
    contexts = []
    for gpu in (
        make_gpu(device="CUDA0"),
        make_gpu(device="Vulkan0"),
        make_gpu(device="Vulkan0", kind=GpuKind.SOFTWARE),
    ):
        got = sizes(facts, make_machine(gpu), plan_of(facts, gpu.device))
        contexts.append(got.get((gpu.device, "context"), 0))
    assert contexts == sorted(contexts, reverse=True)
    assert 300 * 10**6 <= contexts[0] <= 500 * 10**6
    assert contexts[2] == 0


def test_margins_are_left_free_and_are_no_use():
    facts = demo()
    machine = make_machine(make_gpu())
    plan = with_memory(plan_of(facts, "CUDA0"), facts, machine)
    margins = {part.device: part.bytes for part in plan.memory if part.part == "margin"}
    assert set(margins) == {"CUDA0", "CPU"}
    for device, margin in margins.items():
        assert predicted_use(plan, device) == plan.bytes_on(device) - margin


def fixed_plan(gpu, gpu_bytes, cpu_bytes, margin=0):
    memory = [MemoryPart(device="CPU", part="experts", bytes=cpu_bytes)]
    if gpu:
        memory += [
            MemoryPart(device=gpu, part="experts", bytes=gpu_bytes),
            MemoryPart(device=gpu, part="margin", bytes=margin),
        ]
    return Plan(model_files=("m",), gpu=gpu, expert_lanes={}, n_ctx=1024, memory=tuple(memory))


def test_a_plan_fits_up_to_the_last_free_byte():
    machine = make_machine(make_gpu(3 * GIB), ram=8 * GIB)
    assert fits(fixed_plan("CUDA0", 3 * GIB, 8 * GIB), machine) == ()
    assert fits(fixed_plan("CUDA0", 3 * GIB + 1, 8 * GIB), machine) == (
        Shortfall(device="CUDA0", needed_bytes=3 * GIB + 1, free_bytes=3 * GIB),
    )
    assert fits(fixed_plan("CUDA0", 3 * GIB, 8 * GIB + 1), machine) == (
        Shortfall(device="CPU", needed_bytes=8 * GIB + 1, free_bytes=8 * GIB),
    )


@pytest.mark.parametrize("kind", [GpuKind.SOFTWARE, GpuKind.INTEGRATED])
def test_memory_of_a_gpu_without_its_own_counts_against_main_memory_once(kind):
    machine = make_machine(make_gpu(6 * GIB, device="Vulkan0", kind=kind), ram=8 * GIB)
    assert fits(fixed_plan("Vulkan0", 5 * GIB, 3 * GIB, margin=GIB), machine) == ()
    over = fits(fixed_plan("Vulkan0", 5 * GIB, 3 * GIB + 1, margin=GIB), machine)
    assert [(short.device, short.needed_bytes) for short in over] == [("CPU", 8 * GIB + 1)]


def test_a_gpu_that_is_not_there_has_nothing_free():
    short = fits(fixed_plan("CUDA7", GIB, GIB), make_machine(make_gpu()))
    assert [(short.device, short.free_bytes) for short in short] == [("CUDA7", 0)]


def test_a_shortfall_says_its_figures_and_that_they_are_predicted():
    gpu = Shortfall(device="CUDA0", needed_bytes=3 * GIB, free_bytes=2 * GIB)
    assert gpu.sentence == "CUDA0 would need 3.0 GiB (predicted); 2.0 GiB is free."
    assert gpu.lacking_bytes == GIB
    ram = Shortfall(device="CPU", needed_bytes=3 * GIB, free_bytes=2 * GIB)
    assert ram.sentence == "Main memory would need 3.0 GiB (predicted); 2.0 GiB is available."
