"""The lanes dock's sentences."""

import msgspec
import pytest

from app.hardware.facts import GpuKind
from app.placement.plan import MemoryPart, Plan
from app.ui.lanes import words
from app.ui.lanes.lane_info import ABSENT, CPU, DISK, GPU, lanes_of
from app.ui.machine_words import why_no_gpu

GIB = 1024**3
PLAN = Plan(
    model_files=("m.gguf",),
    gpu=None,
    expert_lanes=dict.fromkeys(range(8), "CPU"),
    n_ctx=4096,
    memory=(MemoryPart(device="CPU", part="experts", bytes=9 * GIB),),
)


@pytest.fixture(autouse=True)
def _application(qapp):
    """Translations need an application."""


def changed(**fields):
    return msgspec.structs.replace(PLAN, **fields)


def test_nothing_is_said_of_a_plan_that_loads_the_same():
    assert words.difference_text(PLAN, changed(memory=(), steps=())) == ""


def test_changed_lanes_are_counted_and_named_by_where_they_go():
    edited = changed(expert_lanes={**PLAN.expert_lanes, 1: "Vulkan0", 2: "Vulkan0", 7: "Vulkan0"})
    assert words.difference_text(PLAN, edited) == "3 layers change lane: 1–2, 7 from CPU to Vulkan0"
    assert words.difference_text(edited, PLAN) == "3 layers change lane: 1–2, 7 from Vulkan0 to CPU"
    one = changed(expert_lanes={**PLAN.expert_lanes, 5: "disk"})
    assert words.difference_text(PLAN, one) == "1 layer changes lane: 5 from CPU to disk"


def test_other_load_time_choices_are_told_too():
    edited = changed(n_ctx=8192, kv_type="q8_0", gpu="CUDA0", pool_bytes=GIB)
    text = words.difference_text(PLAN, edited)
    assert text.split(" · ") == [
        "attention on CPU → CUDA0",
        "context 4,096 → 8,192",
        "KV cache type f16 → q8_0",
        f"expert pool none → {words.in_bytes(GIB)}",
    ]


def test_many_runs_of_layers_are_cut_short():
    assert words.runs_text([3]) == "3"
    assert words.runs_text([6, 4, 5, 1]) == "1, 4–6"
    assert words.runs_text(range(0, 20, 2)) == "0, 2, 4, 6, …"


def test_memory_is_told_before_and_after_only_where_it_changes():
    after = changed(
        memory=(
            MemoryPart(device="CPU", part="experts", bytes=8 * GIB),
            MemoryPart(device="CUDA0", part="experts", bytes=GIB),
        )
    )
    text = words.memory_change_text(PLAN, after, ["CUDA0", "CPU"])
    assert text == f"CUDA0 0 B → {words.in_bytes(GIB)}, CPU {words.in_bytes(9 * GIB)} → {words.in_bytes(8 * GIB)}"
    assert words.memory_change_text(PLAN, PLAN, ["CPU"]) == f"CPU {words.in_bytes(9 * GIB)}"
    assert words.memory_change_text(None, PLAN, ["CPU"]) == f"CPU {words.in_bytes(9 * GIB)}"


@pytest.mark.parametrize(
    ("share", "text"),
    [(0, "0"), (0.0000001, "< 0.01"), (0.0078125, "0.78"), (0.021, "2.1"), (0.25, "25"), (1, "100")],
)
def test_a_small_share_is_never_rounded_to_zero(share, text):
    assert words.percent(share) == text


def test_every_gpu_has_a_lane_and_the_disk_comes_last(make_machine):
    machine = make_machine()
    second = msgspec.structs.replace(machine.gpus[0], device="Vulkan1", kind=GpuKind.SOFTWARE)
    lanes = lanes_of(make_machine(gpus=(machine.gpus[0], second)), PLAN)
    assert [(lane.key, lane.kind) for lane in lanes] == [
        ("Vulkan0", GPU),
        ("Vulkan1", GPU),
        ("CPU", CPU),
        ("disk", DISK),
    ]
    assert "software" in lanes[1].words
    assert lanes[0].free_bytes == machine.gpus[0].free_bytes
    assert lanes[3].free_bytes is None


@pytest.fixture
def offered_twice(make_machine):
    """One card by CUDA and by Vulkan, which offers it first, and another card that only Vulkan offers."""
    (gpu,) = make_machine().gpus
    place = {"card": "0000:01:00.0", "pci_id": "0000:01:00.0"}
    vulkan = msgspec.structs.replace(gpu, **place)
    cuda = msgspec.structs.replace(gpu, device="CUDA0", backend="CUDA", free_bytes=GIB, **place)
    other = msgspec.structs.replace(gpu, device="Vulkan1", card="0000:02:00.0", pci_id="0000:02:00.0")
    return make_machine(gpus=(vulkan, other, cuda))


def test_a_card_that_two_backends_offer_is_one_lane_as_plans_choose_it(offered_twice):
    lanes = lanes_of(offered_twice, PLAN)
    assert [lane.key for lane in lanes] == ["Vulkan1", "CUDA0", "CPU", "disk"]
    assert lanes[1].words.endswith("also offered as Vulkan0")
    assert lanes[1].free_bytes == GIB
    assert "offered" not in lanes[0].words


def test_a_card_that_is_used_by_its_other_backend_is_the_lane_of_that(offered_twice):
    for plan, pool in ((changed(gpu="Vulkan0"), None), (changed(expert_lanes={0: "Vulkan0"}), None), (PLAN, "Vulkan0")):
        lanes = lanes_of(offered_twice, plan, pool)
        assert [lane.key for lane in lanes] == ["Vulkan0", "Vulkan1", "CPU", "disk"]
        assert lanes[0].words.endswith("also offered as CUDA0")


def test_no_device_that_experts_are_on_lacks_a_lane(offered_twice):
    lanes = lanes_of(offered_twice, changed(gpu="CUDA0"), "Vulkan0")
    assert {"CUDA0", "Vulkan0", "Vulkan1"} <= {lane.key for lane in lanes}


def test_a_gpu_that_is_gone_keeps_its_lane_while_the_plan_names_it(make_machine):
    plan = changed(expert_lanes={0: "CUDA0"})
    lanes = lanes_of(make_machine(gpu=False), plan)
    assert [lane.key for lane in lanes] == ["CUDA0", "CPU", "disk"]
    assert "did not find" in lanes[0].note


def test_without_a_gpu_the_lane_says_what_was_built_and_what_each_backend_saw(make_machine):
    machine = make_machine(gpu=False)
    lane = lanes_of(machine, PLAN)[0]
    assert lane.key == ABSENT
    assert "No GPU was found." in lane.note
    assert machine.engine.build in lane.note
    assert "Vulkan loaded and reports no device." in lane.note
    noted = msgspec.structs.replace(machine.engine, notes=("Vulkan: no driver is installed.",))
    assert "Vulkan: no driver is installed." in why_no_gpu(make_machine(gpu=False, engine=noted))
    assert "could not be asked" in why_no_gpu(make_machine(gpu=False, engine=None))
    assert "not probed" in why_no_gpu(None)
