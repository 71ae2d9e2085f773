"""Main memory that is page-locked, because a card copies experts several times as fast from there: when, how much."""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from app.hardware.facts import Gpu, GpuKind, Machine
from app.model.facts import ModelFacts
from app.placement.memory import expert_bytes, spare_bytes
from app.placement.plan import CPU_LANE, DISK_LANE, Plan, Step
from app.placement.speed.calibration import TO_DEVICE, Calibration
from app.units import format_bytes

# Names of the steps a plan may tell of.
STEP_LOCKED = "page-locked memory"
STEP_NOT_LOCKED = "nothing page-locked"

LEAST_GAIN = 1.3
"""How many times as fast copies from page-locked memory must have been measured: other programs do without it."""

# Backends that can lock memory which something else was loaded into: CUDA's, and those that are built from its source.
_LOCKING_BACKENDS = ("CUDA", "ROCm", "MUSA")


class LockGain(NamedTuple):
    """Measured copies to a device, bytes a second: from page-locked and from ordinary memory."""

    locked: float
    ordinary: float

    @property
    def factor(self) -> float:
        """How many times as fast the first is."""
        return self.locked / self.ordinary


Gains = Mapping[str, LockGain]
"""The devices that page-locked memory was measured to be worth it for, by engine name."""

NO_GAINS: Gains = {}


def lock_gains(calibration: Calibration | None) -> Gains:
    """The devices to which copies from page-locked memory were measured to be at least LEAST_GAIN times as fast."""
    measured: dict[str, dict[bool, float]] = {}
    for copy in calibration.copies if calibration else ():
        if copy.direction == TO_DEVICE:
            measured.setdefault(copy.device, {})[copy.pinned] = copy.bytes_per_second
    both = {device: LockGain(found[True], found[False]) for device, found in measured.items() if len(found) == 2}
    return {device: gain for device, gain in both.items() if gain.factor >= LEAST_GAIN}


def may_lock(gpu: Gpu | None) -> bool:
    """Whether the expert device could lock memory for copies to this GPU, and they would travel over a bus at all."""
    return gpu is not None and gpu.kind is GpuKind.DISCRETE and gpu.backend in _LOCKING_BACKENDS


def locked_share(plan: Plan, facts: ModelFacts, machine: Machine) -> float:
    """Share of the experts off the GPUs, from 0 to 1, that are copied from page-locked memory."""
    off = expert_bytes(facts, _layers_in(plan, CPU_LANE, DISK_LANE)) if plan.policy.lock_bytes else 0
    if not off or not may_lock(_pool_gpu(plan, machine)):
        return 0.0
    return min(plan.policy.lock_bytes / off, 1.0)


def with_locked(plan: Plan, facts: ModelFacts, machine: Machine, gains: Gains) -> Plan:
    """`plan`, where nothing was wished, with as much memory locked as the experts take and main memory can spare.

    Of what main memory has left beside the plan half stays unlocked: beside experts in the processor's faster layout
    the file's pages are what is locked, and other programs need memory that the system can move. With layers in
    the disk lane nothing is locked.

    Args:
        plan: With its lanes, its pool and staging area and its memory; nothing is locked yet.
        facts: The model.
        machine: Where it is to be loaded.
        gains: What page-locking was measured to gain here.
    """
    gain = gains.get(plan.pool_on or "")
    copies = plan.pool_bytes or plan.policy.stream != "off"
    if gain is None or not copies or not may_lock(_pool_gpu(plan, machine)) or _layers_in(plan, DISK_LANE):
        return plan
    size = _most_locked(plan, facts, machine)
    if not size:
        return plan
    reason = (
        f"{plan.pool_on} was measured to copy experts {gain.factor:.1f} times as fast from page-locked memory "
        f"({gain.locked / 1e9:.1f} against {gain.ordinary / 1e9:.1f} GB/s), so a part of main memory that the plan "
        "leaves free is locked: other programs do not get it while the model is loaded."
    )
    return _with(plan, size, Step(name=STEP_LOCKED, reason=reason))


def checked_lock(plan: Plan, facts: ModelFacts, machine: Machine) -> Plan:
    """`plan` whose locked memory, wished or chosen before its lanes were, goes with them.

    What layers in the disk lane are read through may not be locked: the system needs it to keep what is used. What
    the planner chose by itself stays within what main memory can spare.
    """
    wished = plan.policy.lock_bytes
    if not wished:
        return plan
    if _layers_in(plan, DISK_LANE):
        reason = (
            f"{format_bytes(wished)} of main memory were to be page-locked. It has no room for all experts off the "
            "GPUs, and what is locked could not be used to keep those that are read from the file: nothing is locked."
        )
        return _with(plan, 0, Step(name=STEP_NOT_LOCKED, reason=reason))
    chosen = next((step for step in plan.steps if step.name == STEP_LOCKED), None)
    if chosen is None:
        return plan
    size = min(wished, _most_locked(plan, facts, machine))
    return _with(plan, size, *((chosen,) if size else ()))


def _most_locked(plan: Plan, facts: ModelFacts, machine: Machine) -> int:
    """What the experts take, or half of what is spare; 0 where that is not even one layer."""
    sizes = [expert_bytes(facts, (layer,)) for layer in _layers_in(plan, CPU_LANE)]
    most = min(sum(sizes), max(spare_bytes(plan, machine, CPU_LANE), 0) // 2)
    return most if most >= min(sizes, default=1) else 0


def _with(plan: Plan, lock_bytes: int, *steps: Step) -> Plan:
    """`plan` with so much locked; of its steps only `steps` tell of it."""
    others = tuple(step for step in plan.steps if step.name not in (STEP_LOCKED, STEP_NOT_LOCKED))
    policy = msgspec.structs.replace(plan.policy, lock_bytes=lock_bytes)
    return msgspec.structs.replace(plan, policy=policy, steps=(*others, *steps))


def _pool_gpu(plan: Plan, machine: Machine) -> Gpu | None:
    return next((gpu for gpu in machine.gpus if gpu.device == plan.pool_on), None)


def _layers_in(plan: Plan, *lanes: str) -> list[int]:
    return [layer for layer, lane in plan.expert_lanes.items() if lane in lanes]
