"""A plain law of speed for planner tests: what is read, over how fast it is read. No measured figure of anything."""

from app.placement.cache.hit_rates import assumed
from app.placement.lanes import gpu_lanes
from app.placement.plan import DISK_LANE
from app.placement.speed.types import Range, SpeedPrediction

GB = 1e9


def plain_speed(facts, *, cpu=30 * GB, gpu=200 * GB, disk=1 * GB, layer_seconds=0.0):
    """A planner's `speed_of`; `layer_seconds` is what each whole layer on a GPU costs beside its bytes."""

    def speed_of(plan):
        seconds = sum(facts.layer_bytes) / (gpu if plan.gpu else cpu)
        on_gpu = gpu_lanes(plan)
        left = [layer for layer in facts.moe_layers if layer not in on_gpu]
        hit = assumed(facts, left).at(plan.pool_bytes) if left and plan.pool_bytes else 0.0
        for layer, size in facts.expert_bytes.items():
            routed = size * facts.experts_used
            if layer in on_gpu:
                seconds += routed / gpu + layer_seconds
                continue
            slow = disk if plan.expert_lanes[layer] == DISK_LANE else cpu
            seconds += routed * hit / gpu + routed * (1 - hit) / slow
        likely = 1 / max(seconds, 1e-12)
        return SpeedPrediction(
            decode=Range(low=likely * 0.9, likely=likely, high=likely * 1.1),
            prompt=Range(low=1.0, likely=1.0, high=1.0),
            decode_bound="RAM bandwidth",
            prompt_bound="CPU",
            decode_parts=(),
            prompt_parts=(),
            hit_rate=hit,
            basis="assumed",
            sentence="A plain law.",
        )

    return speed_of
