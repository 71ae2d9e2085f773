"""What holds for every model and machine."""

import msgspec
from factories import GIB, MIB, make_facts, make_gpu, make_machine
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from app.hardware.facts import GpuKind
from app.model.facts import KvLayer
from app.placement.kv_cache import usable_kv_types
from app.placement.lanes import gpu_lanes
from app.placement.memory import expert_bytes, fits, predict
from app.placement.plan import CPU_LANE, DISK_LANE, Plan
from app.placement.planner import STEP_DOES_NOT_FIT, STEP_MAPPED, Wishes, make_plan, with_lanes
from app.placement.pool import STEP_NO_POOL, STEP_POOL

some = settings(max_examples=150, deadline=None)
widths = st.sampled_from([0, 32, 80, 512, 1024])
kv_layer = st.one_of(
    st.builds(KvLayer, kind=st.just("full"), key_width=widths, value_width=widths),
    st.builds(
        KvLayer, kind=st.just("window"), key_width=widths, value_width=widths, window=st.sampled_from([128, 4096])
    ),
    st.builds(KvLayer, kind=st.just("recurrent"), state_bytes=st.integers(0, 4 * MIB)),
)


@st.composite
def models(draw):
    layers = draw(st.integers(1, 12))
    moe_layers = tuple(range(draw(st.integers(0, min(2, layers - 1))), layers))
    sizes = st.integers(1, 32).map(lambda count: count * MIB // 4)
    return make_facts(
        layers=layers,
        moe_layers=moe_layers,
        experts=draw(st.sampled_from([4, 64, 128])),
        used=4,
        expert_sizes=[draw(sizes) for _ in moe_layers],
        layer_size=draw(st.integers(0, 64)) * MIB,
        embeddings=draw(st.integers(0, 512)) * MIB,
        output=draw(st.integers(0, 512)) * MIB,
        embedding_length=draw(st.sampled_from([512, 4096])),
        vocab=draw(st.sampled_from([1000, 150_000])),
        context=draw(st.sampled_from([300, 2048, 40_000, 131_072])),
        kv_layers=tuple(draw(kv_layer) for _ in range(layers)),
        output_tied=draw(st.booleans()),
    )


def memories(least=0, most=12 * GIB):
    """Bytes spread evenly; plain integers of this size are mostly drawn near zero."""
    return st.integers(least // (32 * MIB), most // (32 * MIB)).map(lambda count: count * 32 * MIB + 7)


free_memory = memories()
kinds = st.sampled_from(list(GpuKind))
wishes = st.builds(
    Wishes,
    gpu=st.sampled_from(["auto", "CUDA0", None]),
    n_ctx=st.one_of(st.none(), st.integers(1, 300)),
    kv_type=st.sampled_from([None, "f16"]),
)


def with_memory(plan, facts, machine):
    return msgspec.structs.replace(plan, memory=predict(facts, machine, plan))


def smallest_plans(facts):
    """The plans that need least memory, with and without the GPU."""
    n_ctx = min(512, max(256, facts.context_length // 256 * 256))
    for gpu in ("CUDA0", None):
        yield Plan(
            model_files=facts.files,
            gpu=gpu,
            expert_lanes=dict.fromkeys(facts.moe_layers, DISK_LANE),
            n_ctx=n_ctx,
            n_batch=n_ctx,
            n_ubatch=n_ctx,
            kv_type=usable_kv_types(facts)[-1],
        )


@some
@given(models(), free_memory, free_memory, kinds, wishes)
def test_a_plan_is_over_budget_only_where_no_plan_fits_and_then_says_so(facts, free, ram, kind, wished):
    machine = make_machine(make_gpu(free, kind=kind), ram=ram, ram_total=16 * GIB)
    plan = make_plan(facts, machine, wished)
    if not fits(plan, machine):
        assert STEP_DOES_NOT_FIT not in [step.name for step in plan.steps]
        return
    assert plan.steps[-1].name == STEP_DOES_NOT_FIT
    allowed = [
        small
        for small in smallest_plans(facts)
        if small.gpu is None or (wished.gpu is not None and (wished.gpu == "CUDA0" or kind is not GpuKind.SOFTWARE))
    ]
    for small in allowed:
        if small.n_ctx <= plan.n_ctx:
            assert fits(with_memory(small, facts, machine), machine)


@some
@given(models(), free_memory, memories(most=2 * GIB), free_memory, st.sampled_from([None, 1024, 2048]))
def test_more_free_vram_never_puts_fewer_expert_bytes_on_the_gpu(facts, free, more, ram, n_ctx):
    """The staging area holds experts too: where it first fits, it may take the place of a small layer."""
    assume(n_ctx is None or n_ctx <= facts.context_length)
    total = 20 * GIB
    less, more_room = [
        make_plan(
            facts,
            make_machine(make_gpu(memory, total=total), ram=ram, ram_total=16 * GIB),
            Wishes(n_ctx=n_ctx),
        )
        for memory in (free, free + more)
    ]
    assert expert_bytes(facts, gpu_lanes(less)) <= expert_bytes(facts, gpu_lanes(more_room)) + more_room.staging_bytes


@some
@given(models(), memories(2 * GIB), free_memory, st.data())
def test_layers_that_move_to_another_lane_and_back_leave_the_lanes_as_they_were(facts, free, ram, data):
    machine = make_machine(make_gpu(free), ram=ram, ram_total=16 * GIB)
    plan = make_plan(facts, machine)
    assume(plan.gpu)
    off_gpu = [layer for layer in facts.moe_layers if plan.expert_lanes[layer] in (CPU_LANE, DISK_LANE)]
    on_gpu = list(gpu_lanes(plan))
    for group, there, back in ((off_gpu, "CUDA0", CPU_LANE), (on_gpu, CPU_LANE, "CUDA0")):
        layers = data.draw(st.lists(st.sampled_from(group), unique=True)) if group else []
        moved = with_lanes(plan, facts, machine, layers, there)
        returned = with_lanes(moved, facts, machine, layers, back)
        assert returned.expert_lanes == plan.expert_lanes
        assert returned.memory == plan.memory
        assert all((moved.expert_lanes[layer] == "CUDA0") == (there == "CUDA0") for layer in layers)


@some
@given(models(), free_memory, free_memory, kinds)
def test_every_moe_layer_has_one_lane_and_memory_is_that_of_the_lanes(facts, free, ram, kind):
    machine = make_machine(make_gpu(free, kind=kind), ram=ram, ram_total=16 * GIB)
    plan = make_plan(facts, machine)
    assert tuple(plan.expert_lanes) == facts.moe_layers
    assert set(plan.expert_lanes.values()) <= {"CUDA0", CPU_LANE, DISK_LANE}
    assert plan.memory == predict(facts, machine, plan)
    assert plan.gpu is not None or not gpu_lanes(plan)


@some
@given(models(), free_memory, free_memory, kinds, memories())
def test_a_wished_pool_is_as_large_as_wished_or_a_step_says_why_not(facts, free, ram, kind, wished):
    machine = make_machine(make_gpu(free, kind=kind), ram=ram, ram_total=16 * GIB)
    plan = make_plan(facts, machine, Wishes(gpu="CUDA0", pool_bytes=wished))
    named = [step.name for step in plan.steps]
    assert plan.pool_bytes <= wished
    assert (plan.pool_bytes < wished) == (STEP_POOL in named or STEP_NO_POOL in named)
    assert (plan.pool_bytes == 0) == (STEP_NO_POOL in named)
    assert plan.gpu or not plan.pool_bytes
    # Neither pool nor staging area is why a plan does not fit.
    bare = with_memory(msgspec.structs.replace(plan, pool_bytes=0, staging_bytes=0), facts, machine)
    assert [short.device for short in fits(plan, machine)] == [short.device for short in fits(bare, machine)]
    # What is off the GPU could fill the pool.
    off_gpu = [layer for layer in facts.moe_layers if layer not in gpu_lanes(plan)]
    assert plan.pool_bytes <= expert_bytes(facts, off_gpu)


@some
@given(models(), free_memory, free_memory, kinds)
def test_experts_are_repacked_only_where_a_copy_of_all_of_them_fits(facts, free, ram, kind):
    machine = make_machine(make_gpu(free, kind=kind), ram=ram, ram_total=16 * GIB)
    plan = make_plan(facts, machine)
    short = DISK_LANE in plan.expert_lanes.values() or any(its.device == CPU_LANE for its in fits(plan, machine))
    assert plan.residency == ("mapped" if short else "repacked")
    assert (STEP_MAPPED in [step.name for step in plan.steps]) == (short and bool(facts.moe_layers))


@some
@given(models(), free_memory, free_memory)
def test_main_memory_is_used_before_the_disk(facts, free, ram):
    """No layer is on disk that the free memory would hold."""
    machine = make_machine(make_gpu(free), ram=ram, ram_total=16 * GIB)
    plan = make_plan(facts, machine)
    spare = ram - plan.bytes_on("CPU")
    on_disk = [layer for layer, lane in plan.expert_lanes.items() if lane == DISK_LANE]
    assert all(expert_bytes(facts, [layer]) > spare for layer in on_disk)
