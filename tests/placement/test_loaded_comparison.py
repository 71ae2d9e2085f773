"""What was loaded beside what the plan said."""

from factories import MIB

from app.placement.comparison import MemoryRow, differences, memory_table
from app.placement.plan import CPU_LANE, DISK_LANE, MemoryPart, Plan
from app.placement.report import BufferReport


def plan_of(lanes, gpu="CUDA0", memory=()):
    return Plan(model_files=("m.gguf",), gpu=gpu, expert_lanes=lanes, n_ctx=4096, memory=memory)


def buffers(*rows):
    return tuple(BufferReport(device=device, part=part, bytes=mib * MIB) for device, part, mib in rows)


ON_GPU = buffers(("CUDA0", "weights", 500), ("CUDA0", "kv", 96), ("CPU", "mapped", 900), ("CPU", "compute", 20))


def test_a_load_like_the_plan_differs_in_nothing():
    plan = plan_of({0: "CUDA0", 1: CPU_LANE, 2: DISK_LANE})
    assert differences(plan, {0: "CUDA0", 1: "CPU", 2: "CPU"}, ON_GPU) == ()
    on_cpu = buffers(("CPU", "mapped", 900), ("CPU", "kv", 96), ("CPU", "experts", 800))
    assert differences(plan_of({0: CPU_LANE}, gpu=None), {0: "CPU"}, on_cpu) == ()


def test_layers_elsewhere_are_told_together():
    plan = plan_of({0: "CUDA0", 1: "CUDA0", 2: "CUDA0", 5: "CUDA0", 6: CPU_LANE})
    seen = {0: "CPU", 1: "CPU", 2: "CUDA0", 5: "CPU", 6: "CUDA0"}
    assert differences(plan, seen, ON_GPU) == (
        "The experts of layers 0–1, 5 are on CPU; the plan said CUDA0.",
        "The experts of layer 6 are on CUDA0; the plan said CPU.",
    )


def test_layers_that_nobody_saw_are_no_silent_success():
    [sentence] = differences(plan_of({0: "CUDA0", 1: DISK_LANE}), {0: "CUDA0"}, ON_GPU)
    assert sentence == "Where the experts of layer 1 are is unknown; the plan said CPU."


def test_a_cache_on_another_device_is_told_with_its_size():
    moved = buffers(("CUDA0", "weights", 500), ("CUDA0", "kv", 64), ("CPU", "kv", 32))
    assert differences(plan_of({0: "CUDA0"}), {0: "CUDA0"}, moved) == (
        "32.0 MiB of KV cache are on CPU; the plan said CUDA0.",
    )


def test_a_gpu_without_weights_is_told():
    nothing = buffers(("CPU", "weights", 900), ("CPU", "kv", 96))
    assert differences(plan_of({0: CPU_LANE}), {0: "CPU"}, nothing) == (
        "96.0 MiB of KV cache are on CPU; the plan said CUDA0.",
        "No weights are on CUDA0; the plan said attention and output.",
    )


def test_memory_on_a_gpu_that_the_plan_does_not_use_is_told():
    used = buffers(("CPU", "kv", 96), ("Vulkan0", "weights", 10), ("Vulkan0", "compute", 20))
    assert differences(plan_of({0: CPU_LANE}, gpu=None), {0: "CPU"}, used) == (
        "30.0 MiB are on Vulkan0, which the plan does not use.",
    )


def test_the_table_sets_prediction_and_report_side_by_side():
    memory = tuple(
        MemoryPart(device=device, part=part, bytes=mib * MIB)
        for device, part, mib in (
            ("CUDA0", "weights", 300),
            ("CUDA0", "experts", 210),
            ("CUDA0", "kv", 96),
            ("CUDA0", "context", 400),
            ("CPU", "experts", 800),
            ("CPU", "compute", 30),
        )
    )
    reported = buffers(
        ("CUDA0", "weights", 500),
        ("CUDA0", "kv", 96),
        ("CPU", "experts", 790),
        ("CPU", "compute", 20),
        ("CPU", "output", 1),
        ("CPU", "mapped", 1500),
    )

    def row(device, part, predicted, found):
        return MemoryRow(
            device=device,
            part=part,
            predicted_bytes=None if predicted is None else predicted * MIB,
            reported_bytes=None if found is None else found * MIB,
        )

    assert memory_table(plan_of({0: "CUDA0"}, memory=memory), reported) == (
        row("CUDA0", "weights and experts", 510, 500),
        row("CUDA0", "kv", 96, 96),
        row("CUDA0", "context", 400, None),
        row("CPU", "experts", 800, 790),
        row("CPU", "compute", 30, 21),
        row("CPU", "mapped", None, 1500),
    )


def test_pool_and_staging_are_rows_of_their_own_and_repacked_weights_are_compared_with_nothing():
    """Only a part of the CPU's weights is repacked; the rest is mapped, which is no memory of its own."""
    memory = tuple(
        MemoryPart(device=device, part=part, bytes=mib * MIB)
        for device, part, mib in (("CUDA0", "pool", 64), ("CUDA0", "staging", 8), ("CPU", "weights", 100))
    )
    reported = buffers(("CUDA0", "pool", 60), ("CUDA0", "staging", 8), ("CPU", "repacked", 40))
    table = memory_table(plan_of({0: CPU_LANE}, memory=memory), reported)
    assert [(row.part, row.predicted_bytes, row.reported_bytes) for row in table] == [
        ("pool", 64 * MIB, 60 * MIB),
        ("staging", 8 * MIB, 8 * MIB),
        ("weights", 100 * MIB, None),
        ("repacked", None, 40 * MIB),
    ]
