"""When the planner page-locks main memory for copies to a card, how much, and when nothing of the kind happens."""

import msgspec
import pytest
from factories import GIB, MIB, make_gpu, make_machine, qwen3_30b

from app.errors import AppError
from app.hardware.facts import GpuKind
from app.hardware.fingerprint import fingerprint
from app.placement.evidence import Evidence, planned
from app.placement.locking import LEAST_GAIN, LockGain, lock_gains, locked_share
from app.placement.memory import expert_bytes, spare_bytes
from app.placement.placing import with_lanes
from app.placement.plan import CPU_LANE, DISK_LANE, CachePolicy
from app.placement.planner import Wishes
from app.placement.speed.calibration import Calibration, ComputeRate, CopyRate
from app.placement.speed.prediction import predict_speed
from app.placement.words import describe_lanes

GB = 1e9
LOCKED, NOT_LOCKED = "page-locked memory", "nothing page-locked"


def copies(device="CUDA0", *, locked=38.6 * GB, ordinary=7.1 * GB, direction="to_device"):
    made = ((True, locked), (False, ordinary))
    return tuple(
        CopyRate(device=device, direction=direction, pinned=pinned, bytes_per_second=rate)
        for pinned, rate in made
        if rate
    )


def calibration(machine, *its):
    compute = (
        ComputeRate(device="CPU", type="q4_K", threads=6, bytes_per_second=20 * GB, flops_per_second=40 * GB),
        ComputeRate(device="CUDA0", type="q4_K", bytes_per_second=300 * GB, flops_per_second=600 * GB),
    )
    return Calibration(
        machine=fingerprint(machine), engine="1", measured_at="2026-01-01T00:00:00Z", seconds=1.0, copies=its,
        compute=compute,
    )  # fmt: skip


def plan_of(machine, *its, **wishes):
    its = its or copies()
    return planned(qwen3_30b(), machine, Wishes(**wishes), Evidence(calibration=calibration(machine, *its)))


def names(plan):
    return [step.name for step in plan.steps]


ROOMY = make_machine(make_gpu(8 * GIB), ram=60 * GIB, ram_total=64 * GIB)


def test_half_of_what_a_plan_leaves_free_is_locked_where_copies_were_measured_to_gain():
    machine = make_machine(make_gpu(8 * GIB), ram=30 * GIB, ram_total=32 * GIB)
    plan = plan_of(machine)
    assert plan.pool_bytes
    assert plan.policy.lock_bytes == spare_bytes(plan, machine, CPU_LANE) // 2 > GIB
    assert names(plan) == [LOCKED]
    assert "CUDA0 was measured to copy experts 5.4 times as fast" in plan.steps[0].reason
    assert "38.6 against 7.1 GB/s" in plan.steps[0].reason
    assert describe_lanes(plan, qwen3_30b())[-1].endswith(" page-locked for copies to CUDA0")


def test_no_more_is_locked_than_the_experts_that_are_copied_take():
    plan = plan_of(ROOMY)
    on_cpu = [layer for layer, lane in plan.expert_lanes.items() if lane == CPU_LANE]
    assert plan.policy.lock_bytes == expert_bytes(qwen3_30b(), on_cpu)
    assert locked_share(plan, qwen3_30b(), ROOMY) == 1.0


@pytest.mark.parametrize(
    "its",
    [
        copies(locked=7.1 * GB * LEAST_GAIN * 0.99),
        copies(ordinary=0.0),  # only one of both was measured
        copies(direction="from_device"),
        copies("CUDA1"),
    ],
)
def test_without_a_measured_gain_for_this_card_nothing_is_locked(its):
    plan = plan_of(ROOMY, *its)
    assert (plan.policy.lock_bytes, plan.steps) == (0, ())


def test_nothing_is_locked_without_a_calibration_or_with_that_of_another_machine():
    other = make_machine(make_gpu(8 * GIB), cores=4)
    for evidence in (Evidence(), Evidence(calibration=calibration(other, *copies()))):
        assert planned(qwen3_30b(), ROOMY, Wishes(), evidence).policy.lock_bytes == 0


def test_an_exact_gain_counts():
    assert lock_gains(calibration(ROOMY, *copies(locked=13 * GB, ordinary=10 * GB))) == {
        "CUDA0": LockGain(13 * GB, 10 * GB)
    }


def test_a_wish_for_none_turns_it_off_and_one_for_some_is_kept():
    off = plan_of(ROOMY, lock_bytes=0)
    assert (off.policy.lock_bytes, off.steps) == (0, ())
    some = plan_of(ROOMY, lock_bytes=GIB)
    assert (some.policy.lock_bytes, some.steps) == (GIB, ())
    with pytest.raises(AppError, match="locked memory"):
        plan_of(ROOMY, lock_bytes=-1)


def test_a_wished_policy_leaves_page_locking_to_the_planner():
    plan = plan_of(ROOMY, policy=CachePolicy(kind="decay"))
    assert plan.policy.kind == "decay"
    assert plan.policy.lock_bytes > 0


def test_with_experts_on_disk_nothing_is_locked_and_a_wish_is_told_so():
    little = make_machine(make_gpu(8 * GIB), ram=6 * GIB, ram_total=16 * GIB)
    plan = plan_of(little)
    assert DISK_LANE in plan.expert_lanes.values()
    assert plan.policy.lock_bytes == 0
    assert not {LOCKED, NOT_LOCKED} & set(names(plan))
    wished = plan_of(little, lock_bytes=2 * GIB)
    assert wished.policy.lock_bytes == 0
    [step] = [step for step in wished.steps if step.name == NOT_LOCKED]
    assert "2.0 GiB" in step.reason


@pytest.mark.parametrize(
    ("device", "kind"),
    [("Vulkan0", GpuKind.DISCRETE), ("Vulkan0", GpuKind.INTEGRATED), ("Vulkan0", GpuKind.SOFTWARE)],
)
def test_devices_that_cannot_lock_loaded_memory_or_share_it_get_none(device, kind):
    machine = make_machine(make_gpu(8 * GIB, device=device, kind=kind), ram=60 * GIB, ram_total=64 * GIB)
    assert plan_of(machine, *copies(device), gpu=device).policy.lock_bytes == 0


def test_without_pool_and_staging_area_there_is_nothing_to_copy():
    everything = make_machine(make_gpu(30 * GIB), ram=60 * GIB, ram_total=64 * GIB)
    assert plan_of(everything).policy.lock_bytes == 0
    no_copies = plan_of(ROOMY, pool_bytes=0, policy=CachePolicy(stream="off"))
    assert (no_copies.pool_bytes, no_copies.policy.lock_bytes) == (0, 0)


def test_no_locking_of_less_than_a_layer():
    facts = qwen3_30b()
    plain = plan_of(ROOMY, lock_bytes=0)
    spare = 2 * expert_bytes(facts, [0]) - 2
    ram = ROOMY.ram.available_bytes - spare_bytes(plain, ROOMY, CPU_LANE) + spare
    tight = make_machine(make_gpu(8 * GIB), ram=ram, ram_total=64 * GIB)
    assert plan_of(tight).policy.lock_bytes == 0
    roomier = make_machine(make_gpu(8 * GIB), ram=ram + 4, ram_total=64 * GIB)
    assert plan_of(roomier).policy.lock_bytes == expert_bytes(facts, [0]) + 1


def test_what_was_chosen_goes_with_the_lanes_and_what_was_wished_stays_unless_they_go_to_disk():
    facts = qwen3_30b()
    machine = make_machine(make_gpu(8 * GIB), ram=30 * GIB, ram_total=32 * GIB)
    plan = plan_of(machine)
    freed = with_lanes(plan, facts, machine, facts.moe_layers[:8], "CUDA0")
    assert freed.policy.lock_bytes <= expert_bytes(facts, facts.moe_layers[8:])
    assert names(freed).count(LOCKED) == 1
    tight = msgspec.structs.replace(machine, ram=msgspec.structs.replace(machine.ram, available_bytes=8 * GIB))
    on_disk = with_lanes(plan, facts, tight, (), CPU_LANE)
    assert on_disk.policy.lock_bytes == 0
    assert NOT_LOCKED in names(on_disk)
    assert LOCKED not in names(on_disk)
    back = with_lanes(on_disk, facts, machine, (), CPU_LANE)
    assert not {LOCKED, NOT_LOCKED} & set(names(back))
    wished = plan_of(machine, lock_bytes=GIB)
    assert with_lanes(wished, facts, machine, facts.moe_layers[:8], CPU_LANE).policy.lock_bytes == GIB


def test_prompts_are_predicted_to_gain_by_the_share_that_is_locked():
    facts = qwen3_30b()
    known = calibration(ROOMY, *copies())
    plan = plan_of(ROOMY, lock_bytes=0)
    off = expert_bytes(facts, [layer for layer, lane in plan.expert_lanes.items() if lane == CPU_LANE])

    def copying(lock_bytes):
        policy = msgspec.structs.replace(plan.policy, lock_bytes=lock_bytes, stream="always")
        changed = msgspec.structs.replace(plan, policy=policy)
        speed = predict_speed(facts, ROOMY, changed, calibration=known)
        assert speed.basis == "calibrated"
        return next(part.seconds for part in speed.prompt_parts if part.name == "copies")

    none, half, every, more = (copying(share) for share in (0, off // 2, off, 2 * off))
    assert none / every == pytest.approx(38.6 / 7.1)
    assert half == pytest.approx((none + every) / 2)
    assert more == every
    speeds = [
        predict_speed(
            facts,
            ROOMY,
            msgspec.structs.replace(plan, policy=msgspec.structs.replace(plan.policy, lock_bytes=size)),
            calibration=known,
        )
        for size in range(0, off, 512 * MIB)
    ]
    for name in ("decode", "prompt"):
        likely = [getattr(speed, name).likely for speed in speeds]
        assert likely == sorted(likely)
