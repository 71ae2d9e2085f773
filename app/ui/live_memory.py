"""What the engine holds of the devices now: its report of the load, with the pool that it has since. No Qt."""

from app.engine.protocol import Loaded
from app.placement.cache.facts import PoolFacts
from app.placement.report import BufferReport

_OF_THE_POOL = ("pool", "staging")


def buffers_now(report: Loaded, pool: PoolFacts | None) -> tuple[BufferReport, ...]:
    """The reported buffers; those of the pool as the engine's latest facts have them.

    Args:
        report: What the engine reported after the load.
        pool: The latest facts of the pool; None where nobody has looked yet.
    """
    if pool is None:
        return report.buffers
    now = {"pool": pool.allocated_bytes, "staging": pool.staging_bytes + pool.working_bytes}
    given = (BufferReport(device=pool.device, part=part, bytes=size) for part, size in now.items() if size)
    return (*(buffer for buffer in report.buffers if buffer.part not in _OF_THE_POOL), *given)
