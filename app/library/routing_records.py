"""The routing of a model's latest answers, as the engine keeps it, read for predictions of hit rates."""

from pathlib import Path

from app.errors import AppError, ErrorCode
from app.library import folders
from app.model.facts import ModelFacts
from app.placement.cache.recorded_hits import RecordedHits


def routing_folder() -> Path:
    """Where the engine keeps one file for each model. The folder may not exist yet."""
    return folders.data_folder() / "machine" / "routing"


def recorded_hits(facts: ModelFacts) -> RecordedHits | None:
    """What the recorded routing of this model says of pools; None where nothing was recorded.

    It takes some tenths of a second.

    Raises:
        AppError: file_unreadable, the record is damaged or of another model; engine_missing, the native simulator is
            not installed.
    """
    # numpy comes with these; what only plans or shows a window starts faster without it.
    from app.placement.cache import simulation, simulator  # noqa: PLC0415
    from app.placement.cache.trace import KEPT_BYTES, kept_name, read_trace  # noqa: PLC0415

    try:
        trace = read_trace(routing_folder() / kept_name(facts.fingerprint), KEPT_BYTES)
    except AppError as error:
        if error.code is ErrorCode.FILE_MISSING:
            return None
        raise
    sizes = simulation.recorded_expert_bytes(trace, facts)
    if not len(trace.entries) or trace.header.experts_used != facts.experts_used:
        return None
    return simulator.recorded_hits(trace, sizes)
