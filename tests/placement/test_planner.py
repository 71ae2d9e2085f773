"""Plans for models and machines as people have them."""

import msgspec
import pytest
from factories import (
    ENGINE,
    GIB,
    MIB,
    deepseek_v2_lite,
    demo,
    gpt_oss_20b,
    make_facts,
    make_gpu,
    make_machine,
    qwen3_30b,
)

from app.errors import AppError, ErrorCode
from app.hardware.facts import Cpu, GpuKind
from app.model.facts import KvLayer
from app.placement.memory import expert_bytes, fits
from app.placement.plan import CPU_LANE, DISK_LANE
from app.placement.planner import Wishes, make_plan


def names(plan):
    return [step.name for step in plan.steps]


def layers_in(plan, lane):
    return [layer for layer, its in plan.expert_lanes.items() if its == lane]


def test_without_a_gpu_everything_is_on_the_cpu():
    facts = qwen3_30b()
    plan = make_plan(facts, make_machine())
    assert plan.gpu is None
    assert plan.expert_lanes == dict.fromkeys(range(48), CPU_LANE)
    assert (plan.n_ctx, plan.kv_type) == (8192, "f16")
    assert plan.model_files == facts.files
    assert plan.steps == ()


def test_attention_and_cache_go_to_the_gpu_and_the_first_layers_fill_the_rest():
    facts = qwen3_30b()
    machine = make_machine(make_gpu(7 * GIB))
    plan = make_plan(facts, machine)
    on_gpu = layers_in(plan, "CUDA0")
    assert plan.gpu == "CUDA0"
    assert on_gpu == list(range(len(on_gpu)))
    assert 8 <= len(on_gpu) <= 14
    assert layers_in(plan, CPU_LANE) == list(range(len(on_gpu), 48))
    assert fits(plan, machine) == ()
    # One more layer would not have fitted.
    assert machine.gpus[0].free_bytes - plan.bytes_on("CUDA0") < expert_bytes(facts, [0])
    assert plan.steps == ()


def test_layers_fill_the_gpu_to_the_last_byte():
    facts = qwen3_30b()
    seven = make_plan(facts, make_machine(make_gpu(7 * GIB, total=8 * GIB)))
    needed = seven.bytes_on("CUDA0")
    assert layers_in(make_plan(facts, make_machine(make_gpu(needed, total=8 * GIB))), "CUDA0") == layers_in(
        seven, "CUDA0"
    )
    less = make_plan(facts, make_machine(make_gpu(needed - 1, total=8 * GIB)))
    assert layers_in(less, "CUDA0") == layers_in(seven, "CUDA0")[:-1]


def test_a_model_that_fits_is_whole_on_the_gpu():
    plan = make_plan(gpt_oss_20b(), make_machine(make_gpu(16 * GIB)))
    assert set(plan.expert_lanes.values()) == {"CUDA0"}


def test_a_dense_model_has_no_lanes():
    facts = make_facts(experts=0)
    plan = make_plan(facts, make_machine(make_gpu()))
    assert (plan.gpu, plan.expert_lanes) == ("CUDA0", {})


def test_dense_layers_of_a_moe_model_have_no_lane():
    plan = make_plan(deepseek_v2_lite(), make_machine())
    assert list(plan.expert_lanes) == list(range(1, 27))


def test_what_main_memory_cannot_hold_is_read_from_disk_and_the_plan_says_so():
    facts = qwen3_30b()
    machine = make_machine(ram=10 * GIB)
    plan = make_plan(facts, machine)
    on_disk = layers_in(plan, DISK_LANE)
    assert on_disk == list(range(48 - len(on_disk), 48))
    assert fits(plan, machine) == ()
    assert machine.ram.available_bytes - plan.bytes_on("CPU") < expert_bytes(facts, [0])
    step, mapped = plan.steps
    assert step.name == "experts on disk"
    assert "10.0 GiB available: beside the rest of the plan that is too little for all 16.3 GiB of" in step.reason
    assert (plan.residency, mapped.name) == ("mapped", "experts stay mapped")
    assert "no room for a copy" in mapped.reason
    assert "the system may drop" not in mapped.reason  # the plan says itself what stays
    undecided = make_plan(facts, machine, Wishes(resident_bytes=0))
    assert "the system may drop" in undecided.steps[-1].reason


def test_a_larger_layer_is_passed_over_for_smaller_ones():
    facts = make_facts(layers=3, expert_sizes=[40 * MIB, 400 * MIB, 40 * MIB], experts=8)
    plan = make_plan(facts, make_machine(make_gpu(3 * GIB)))
    assert plan.expert_lanes == {0: "CUDA0", 1: CPU_LANE, 2: "CUDA0"}


# ---- which GPU -------------------------------------------------------------------------------


def test_the_discrete_gpu_with_most_free_memory_is_chosen():
    integrated = make_gpu(20 * GIB, device="Vulkan0", kind=GpuKind.INTEGRATED)
    machine = make_machine(integrated, make_gpu(4 * GIB, device="CUDA0"), make_gpu(6 * GIB, device="CUDA1"))
    assert make_plan(demo(), machine).gpu == "CUDA1"


def test_an_integrated_gpu_is_chosen_only_without_a_discrete_one_and_a_software_gpu_never():
    software = make_gpu(30 * GIB, device="Vulkan0", kind=GpuKind.SOFTWARE)
    integrated = make_gpu(4 * GIB, device="Vulkan1", kind=GpuKind.INTEGRATED)
    assert make_plan(demo(), make_machine(software)).gpu is None
    assert make_plan(demo(), make_machine(software, integrated)).gpu == "Vulkan1"


def test_a_card_offered_twice_is_used_through_its_makers_backend():
    vulkan = make_gpu(8 * GIB, device="Vulkan0", pci_id="0000:01:00.0")
    cuda = make_gpu(7 * GIB, device="CUDA0", pci_id="0000:01:00.0")
    assert make_plan(demo(), make_machine(vulkan, cuda)).gpu == "CUDA0"
    other = make_gpu(8 * GIB, device="Vulkan0", pci_id="0000:02:00.0")
    assert make_plan(demo(), make_machine(other, cuda)).gpu == "Vulkan0"


def test_a_software_gpu_is_used_when_named_and_experts_stay_off_it():
    machine = make_machine(make_gpu(2 * GIB, device="Vulkan0", kind=GpuKind.SOFTWARE))
    plan = make_plan(demo(), machine, Wishes(gpu="Vulkan0"))
    assert plan.gpu == "Vulkan0"
    assert set(plan.expert_lanes.values()) == {CPU_LANE}
    assert names(plan) == ["experts off the software GPU"]


def test_an_integrated_gpu_never_takes_more_than_main_memory_has():
    facts = qwen3_30b()
    machine = make_machine(make_gpu(16 * GIB, device="Vulkan0", kind=GpuKind.INTEGRATED), ram=12 * GIB)
    plan = make_plan(facts, machine)
    assert plan.gpu == "Vulkan0"
    assert layers_in(plan, "Vulkan0") == []
    assert layers_in(plan, DISK_LANE)
    assert fits(plan, machine) == ()
    assert "experts in one memory" in names(plan)


def test_no_gpu_may_be_wished():
    assert make_plan(demo(), make_machine(make_gpu()), Wishes(gpu=None)).gpu is None


def test_an_unknown_gpu_is_refused_and_those_there_are_named():
    machine = make_machine(make_gpu(), make_gpu(device="Vulkan0"))
    with pytest.raises(AppError, match=r"CUDA9.*CUDA0, Vulkan0") as caught:
        make_plan(demo(), machine, Wishes(gpu="CUDA9"))
    assert caught.value.code is ErrorCode.DEVICE_MISSING
    with pytest.raises(AppError, match="there are: none"):
        make_plan(demo(), make_machine(), Wishes(gpu="CUDA0"))


# ---- wishes ----------------------------------------------------------------------------------


def test_the_default_context_is_no_longer_than_the_models():
    assert make_plan(make_facts(context=4096), make_machine()).n_ctx == 4096
    assert make_plan(make_facts(context=131072), make_machine()).n_ctx == 8192


def test_a_wished_context_is_taken_up_to_the_models_own():
    facts = make_facts(context=32768)
    assert make_plan(facts, make_machine(), Wishes(n_ctx=32768)).n_ctx == 32768
    for impossible in (32769, 0, -1):
        with pytest.raises(AppError, match=r"1 to 32,768") as caught:
            make_plan(facts, make_machine(), Wishes(n_ctx=impossible))
        assert caught.value.code is ErrorCode.BAD_USAGE


@pytest.mark.parametrize(("wished", "taken"), [(1000, 1024), (1, 256), (8100, 7936)])
def test_a_context_of_no_whole_blocks_is_rounded_and_the_plan_says_so(wished, taken):
    plan = make_plan(make_facts(context=8100), make_machine(), Wishes(n_ctx=wished))
    assert plan.n_ctx == taken
    assert names(plan) == ["rounded context"]


def test_a_small_context_has_small_batches():
    plan = make_plan(make_facts(), make_machine(), Wishes(n_ctx=256))
    assert (plan.n_ctx, plan.n_batch, plan.n_ubatch) == (256, 256, 256)


def test_a_wished_cache_type_is_taken():
    assert make_plan(demo(), make_machine(), Wishes(kv_type="q4_0")).kv_type == "q4_0"


def test_cache_types_that_are_unknown_or_do_not_divide_are_refused():
    with pytest.raises(AppError, match="f16, q8_0, q4_0") as caught:
        make_plan(demo(), make_machine(), Wishes(kv_type="q5_1"))
    assert caught.value.code is ErrorCode.BAD_USAGE
    odd = make_facts(kv_layers=KvLayer(kind="full", key_width=80, value_width=80))
    with pytest.raises(AppError, match="possible: f16") as caught:
        make_plan(odd, make_machine(), Wishes(kv_type="q8_0"))
    assert caught.value.code is ErrorCode.BAD_USAGE


def test_threads_are_the_performance_cores():
    plan = make_plan(demo(), make_machine(cores=14, performance=6))
    assert (plan.threads, plan.threads_batch) == (6, 6)


def test_threads_are_no_more_than_this_program_may_keep_busy():
    cpu = Cpu(name="p", physical_cores=8, performance_cores=8, logical_cores=16, isa=(), allowed_threads=2)
    assert make_plan(demo(), make_machine(cpu=cpu)).threads == 2


def test_wished_threads_are_taken_up_to_the_physical_cores():
    machine = make_machine(cores=8, performance=6)
    assert make_plan(demo(), machine, Wishes(threads=8)).threads == 8
    plan = make_plan(demo(), machine, Wishes(threads=64))
    assert (plan.threads, plan.threads_batch) == (8, 8)
    assert names(plan) == ["fewer threads"]
    with pytest.raises(AppError, match="at least 1") as caught:
        make_plan(demo(), machine, Wishes(threads=0))
    assert caught.value.code is ErrorCode.BAD_USAGE


# ---- concessions -----------------------------------------------------------------------------


def free_for(facts, n_ctx, kv_type="f16"):
    """Bytes that a CUDA GPU must have free for attention and a cache like this, and no byte more."""
    plenty = make_machine(make_gpu(100 * GIB, total=8 * GIB))
    plan = make_plan(facts, plenty, Wishes(n_ctx=n_ctx, kv_type=kv_type))
    bare = [part for part in plan.memory if part.device == "CUDA0" and part.part != "experts"]
    return sum(part.bytes for part in bare)


def on_a_gpu_with(facts, free, wishes=None, **machine):
    return make_plan(facts, make_machine(make_gpu(free, total=8 * GIB), **machine), wishes or Wishes())


def test_concessions_come_in_their_order_as_the_gpu_gets_smaller():
    facts = qwen3_30b()
    enough = free_for(facts, 8192)
    assert on_a_gpu_with(facts, enough).steps == ()
    expected = [
        (enough - 1, 4096, "f16", ["smaller context"]),
        (free_for(facts, 4096) - 1, 2048, "f16", ["smaller context"]),
        (free_for(facts, 2048) - 1, 2048, "q8_0", ["smaller context", "q8_0 KV cache"]),
        (free_for(facts, 2048, "q8_0") - 1, 2048, "q4_0", ["smaller context", "q8_0 KV cache", "q4_0 KV cache"]),
    ]
    for free, n_ctx, kv_type, steps in expected:
        plan = on_a_gpu_with(facts, free)
        assert (plan.gpu, plan.n_ctx, plan.kv_type, names(plan)) == ("CUDA0", n_ctx, kv_type, steps)
        assert all("CUDA0 would need" in step.reason and "(predicted)" in step.reason for step in plan.steps)
        assert not layers_in(plan, "CUDA0")
    last = on_a_gpu_with(facts, free_for(facts, 2048, "q4_0") - 1)
    # On the CPU nothing needs to be conceded any more.
    assert (last.gpu, last.n_ctx, last.kv_type, names(last)) == (None, 8192, "f16", ["cpu only"])
    assert "2,048 tokens of q4_0" in last.steps[0].reason


def test_a_wished_context_stays_and_the_cache_type_gives_way():
    facts = qwen3_30b()
    plan = on_a_gpu_with(facts, free_for(facts, 16384) - 1, Wishes(n_ctx=16384))
    assert (plan.gpu, plan.n_ctx, plan.kv_type) == ("CUDA0", 16384, "q8_0")
    assert names(plan) == ["q8_0 KV cache"]


def test_a_wished_cache_type_stays_and_the_context_gives_way():
    facts = qwen3_30b()
    plan = on_a_gpu_with(facts, free_for(facts, 8192) - 1, Wishes(kv_type="f16"))
    assert (plan.n_ctx, plan.kv_type, names(plan)) == (4096, "f16", ["smaller context"])


def test_a_named_gpu_that_cannot_even_hold_attention_is_given_up_with_a_reason():
    plan = on_a_gpu_with(qwen3_30b(), 300 * MIB, Wishes(gpu="CUDA0", n_ctx=16384, kv_type="f16"))
    assert (plan.gpu, plan.n_ctx, plan.kv_type) == (None, 16384, "f16")
    assert names(plan) == ["cpu only"]
    assert "300.0 MiB is free" in plan.steps[0].reason


def test_a_wished_context_shrinks_where_nothing_else_helps():
    facts = qwen3_30b()
    machine = make_machine(ram=int(2.5 * GIB), ram_total=4 * GIB)
    plan = make_plan(facts, machine, Wishes(n_ctx=40960, kv_type="f16"))
    assert fits(plan, machine) == ()
    assert (plan.n_ctx, plan.kv_type) == (5120, "f16")
    assert names(plan)[0] == "smaller context"
    assert "40,960 tokens" in plan.steps[0].reason
    assert "Main memory would need" in plan.steps[0].reason


def test_main_memory_that_is_short_makes_the_context_smaller_down_to_512():
    facts = qwen3_30b()
    machine = make_machine(ram=int(1.75 * GIB), ram_total=4 * GIB)
    plan = make_plan(facts, machine)
    assert fits(plan, machine) == ()
    assert 512 <= plan.n_ctx < 2048
    assert plan.kv_type == "q4_0"
    assert set(plan.expert_lanes.values()) == {DISK_LANE}


def test_a_wished_cache_type_gives_way_last_of_all():
    facts = qwen3_30b(kv_layers=KvLayer(kind="full", key_width=4096, value_width=4096))
    machine = make_machine(ram=2 * GIB, ram_total=4 * GIB)
    plan = make_plan(facts, machine, Wishes(n_ctx=4096, kv_type="f16"))
    assert fits(plan, machine) == ()
    assert (plan.n_ctx, plan.kv_type) == (512, "q8_0")
    assert names(plan)[:2] == ["smaller context", "q8_0 KV cache"]


def test_where_nothing_fits_the_plan_that_lacks_least_says_so():
    machine = make_machine(make_gpu(GIB), ram=GIB // 2)
    plan = make_plan(qwen3_30b(), machine)
    assert fits(plan, machine)
    assert names(plan)[-1] == "does not fit"
    assert "Main memory would need" in plan.steps[-1].reason
    assert (plan.n_ctx, plan.kv_type) == (512, "q4_0")


def test_predictions_of_the_plan_are_those_of_its_own_lanes():
    facts = gpt_oss_20b()
    machine = make_machine(make_gpu(9 * GIB), ram=5 * GIB)
    plan = make_plan(facts, machine)
    experts = {part.device: part.bytes for part in plan.memory if part.part == "experts"}
    assert experts == {"CUDA0": expert_bytes(facts, layers_in(plan, "CUDA0")), CPU_LANE: plan.resident_bytes}
    # Main memory has no room for one more layer, and keeps single experts of those there is no room for.
    less, more = (expert_bytes(facts, layers_in(plan, CPU_LANE)[:end]) for end in (None, 1))
    assert less <= plan.resident_bytes < less + more


def test_without_the_expert_device_llama_cpps_own_copies_take_the_staging_areas_place():
    facts = qwen3_30b()
    stock = msgspec.structs.replace(ENGINE, expert_device=False, expert_device_reason="It is not installed.")
    with_device = make_plan(facts, make_machine(make_gpu()))
    without = make_plan(facts, make_machine(make_gpu(), engine=stock))
    assert fits(without, make_machine(make_gpu(), engine=stock)) == ()
    assert without.staging_bytes == 0 < with_device.staging_bytes
    assert abs(len(layers_in(without, "CUDA0")) - len(layers_in(with_device, "CUDA0"))) <= 1
