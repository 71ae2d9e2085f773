"""What loads show of the memory that nobody reports, and how the next prediction uses it."""

import msgspec
import pytest
from factories import ENGINE, GIB, MIB, demo, make_gpu, make_machine, qwen3_30b
from hypothesis import given
from hypothesis import strategies as st

from app.hardware.facts import GpuKind
from app.placement.memory import predict
from app.placement.memory_learning import MemoryRecord, device_totals, learn, learnt_words, with_learnt
from app.placement.plan import CPU_LANE, MemoryPart, Plan
from app.placement.report import BufferReport, ObservedMemory

MACHINE = make_machine(make_gpu(), make_gpu(device="Vulkan0"))
HERE = "a1"
BUFFERS = (
    BufferReport(device="CUDA0", part="weights", bytes=500 * MIB),
    BufferReport(device="CUDA0", part="pool", bytes=100 * MIB),
    BufferReport(device="CPU", part="mapped", bytes=900 * MIB),
    BufferReport(device="CPU", part="kv", bytes=50 * MIB),
)


def on_gpu(mib, device="CUDA0"):
    return ObservedMemory(device=device, bytes=mib * MIB, source="driver")


def in_ram(own, idle=100, mib=2000):
    return ObservedMemory(
        device="CPU", bytes=mib * MIB, own_bytes=own * MIB, idle_bytes=idle * MIB, source="operating system"
    )


def learnt(*loads, machine=MACHINE, record=None):
    for observed in loads:
        record = learn(record, machine, HERE, BUFFERS, observed)
    return record


def contexts(machine):
    return {gpu.device: gpu.context_bytes for gpu in machine.gpus}


def test_what_a_driver_shows_beside_the_reported_buffers_is_learnt_for_that_device():
    machine = with_learnt(MACHINE, HERE, learnt((on_gpu(1020),)))
    assert contexts(machine) == {"CUDA0": 420 * MIB, "Vulkan0": None}
    assert machine.engine_bytes is None


def test_the_median_of_the_last_loads_counts():
    loads = [(on_gpu(600 + more),) for more in (400, 410, 2000, 390, 405)]
    assert contexts(with_learnt(MACHINE, HERE, learnt(*loads)))["CUDA0"] == 405 * MIB
    # Old loads are forgotten: a new driver takes more.
    loads += [(on_gpu(600 + 700),)] * 9
    [overhead] = learnt(*loads).overheads
    assert (overhead.bytes, len(overhead.samples)) == (700 * MIB, 9)


@pytest.mark.parametrize("mib", [599, 10, 0, 600 + 4097])
def test_figures_that_cannot_be_are_not_learnt(mib):
    assert learnt((on_gpu(mib),)).overheads == ()


def test_a_device_without_reported_buffers_or_unknown_teaches_nothing():
    assert learnt((on_gpu(300, "Vulkan0"), on_gpu(300, "CUDA7"))).overheads == ()


def test_the_engines_own_process_is_what_is_left_but_not_less_than_it_was_when_idle():
    """The vocabulary is allowed for beside the idle process; mapped pages are no memory of its own."""
    assert with_learnt(MACHINE, HERE, learnt((in_ram(own=450),))).engine_bytes == 400 * MIB
    assert with_learnt(MACHINE, HERE, learnt((in_ram(own=120),))).engine_bytes == 160 * MIB
    unseen = ObservedMemory(device="CPU", bytes=GIB, source="operating system")
    assert with_learnt(MACHINE, HERE, learnt((unseen,))).engine_bytes is None


def test_what_lies_on_a_software_gpu_is_memory_of_the_engines_process():
    gpu = make_gpu(device="CUDA0", kind=GpuKind.SOFTWARE)
    machine = make_machine(gpu)
    learnt_here = with_learnt(machine, HERE, learnt((in_ram(own=1000),), machine=machine))
    assert learnt_here.engine_bytes == (1000 - 50 - 600) * MIB


def test_what_was_learnt_on_another_machine_or_backend_is_not_used():
    record = learnt((on_gpu(1020), in_ram(own=450)))
    assert with_learnt(MACHINE, "other", record) == MACHINE
    other = msgspec.structs.replace(MACHINE.gpus[0], backend="ROCm")
    assert contexts(with_learnt(make_machine(other), HERE, record)) == {"CUDA0": None}
    engine = msgspec.structs.replace(ENGINE, build="CPU")
    assert with_learnt(make_machine(engine=engine), HERE, record).engine_bytes is None


def test_equal_cards_learn_together_and_further_records_stay():
    twins = make_machine(make_gpu(name="Card"), make_gpu(device="CUDA1", name="Card"))
    record = learn(learnt((on_gpu(1000),)), twins, "b2", BUFFERS, (on_gpu(900),))
    assert contexts(with_learnt(twins, "b2", record)) == {"CUDA0": 300 * MIB, "CUDA1": 300 * MIB}
    assert contexts(with_learnt(MACHINE, HERE, record))["CUDA0"] == 400 * MIB


def test_a_prediction_takes_what_was_learnt_and_says_so():
    facts = demo()
    plan = Plan(model_files=facts.files, gpu="CUDA0", expert_lanes=dict.fromkeys(range(30), CPU_LANE), n_ctx=1024)
    machine = with_learnt(MACHINE, HERE, learnt((on_gpu(900), in_ram(own=250))))

    def context(machine):
        return {
            part.device: (part.bytes, part.basis) for part in predict(facts, machine, plan) if part.part == "context"
        }

    assert context(machine) == {"CUDA0": (300 * MIB, "learnt"), "CPU": (200 * MIB, "learnt")}
    assert {basis for _, basis in context(MACHINE).values()} == {"estimated"}


def test_what_was_learnt_is_told_in_words():
    assert learnt_words(MACHINE) == ()
    words = learnt_words(with_learnt(MACHINE, HERE, learnt((on_gpu(900), in_ram(own=250)))))
    assert words == (
        "CUDA0: driver and CUDA backend take 300.0 MiB there, as loads showed.",
        "The engine's own process takes 200.0 MiB of RAM, as loads showed.",
    )


def test_the_totals_of_a_device_stand_side_by_side():
    memory = (
        MemoryPart(device="CUDA0", part="weights", bytes=510 * MIB),
        MemoryPart(device="CUDA0", part="context", bytes=400 * MIB),
        MemoryPart(device="CUDA0", part="margin", bytes=300 * MIB),
        MemoryPart(device="CPU", part="kv", bytes=50 * MIB),
    )
    plan = Plan(model_files=("m",), gpu="CUDA0", expert_lanes={}, n_ctx=1024, memory=memory)
    gpu, ram = device_totals(plan, MACHINE, BUFFERS, (on_gpu(1020),))
    assert (gpu.predicted_bytes, gpu.reported_bytes, gpu.observed_bytes, gpu.unreported_bytes, gpu.source) == (
        910 * MIB, 600 * MIB, 1020 * MIB, 420 * MIB, "driver",
    )  # fmt: skip
    assert (ram.device, ram.reported_bytes, ram.observed_bytes, ram.unreported_bytes) == ("CPU", 50 * MIB, None, None)


@given(st.lists(st.integers(0, 20_000), max_size=30))
def test_whatever_loads_show_the_record_stays_small_and_what_is_learnt_possible(loads):
    record = learnt(*[(on_gpu(mib), in_ram(own=mib, idle=10)) for mib in loads], record=MemoryRecord())
    machine = with_learnt(MACHINE, HERE, record)
    assert all(len(its.samples) <= 9 for its in record.overheads)
    for size in (machine.engine_bytes, *contexts(machine).values()):
        assert size is None or 0 <= size <= 4 * GIB
    assert msgspec.json.decode(msgspec.json.encode(record), type=MemoryRecord) == record


def test_a_large_driver_leaves_room_for_fewer_layers():
    from app.placement.planner import make_plan

    facts = qwen3_30b()
    small = make_machine(make_gpu())
    large = msgspec.structs.replace(small, gpus=(msgspec.structs.replace(small.gpus[0], context_bytes=1500 * MIB),))
    on_card = [make_plan(facts, its).bytes_on("CUDA0") for its in (small, large)]
    assert all(size <= 7 * GIB for size in on_card)
    experts = [
        sum(
            part.bytes
            for part in make_plan(facts, its).memory
            if (part.device, part.part) in (("CUDA0", "experts"), ("CUDA0", "pool"))
        )
        for its in (small, large)
    ]
    assert experts[1] < experts[0]
