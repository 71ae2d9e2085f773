"""What this machine was measured to do, kept between runs: every calibration by machine and engine."""

from datetime import UTC, datetime
from pathlib import Path

import msgspec

from app.library import folders
from app.library.record_file import RecordFile
from app.placement.speed.calibration import Calibration
from app.placement.speed.calibration_words import busy_note

RECORD_VERSION = 1
KEPT = 16
"""Of one machine, over all engines."""
AGED_DAYS = 90
"""After so long, drivers and systems have changed: it is still used, and said to be old."""


class CalibrationRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Calibrations of one machine, oldest first, at most KEPT."""

    version: int = RECORD_VERSION
    machine: str
    calibrations: tuple[Calibration, ...] = ()


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """A calibration that fits machine and engine, with its age in whole days."""

    calibration: Calibration
    age_days: int

    @property
    def aged(self) -> bool:
        """Whether it is so old that measuring again is advised."""
        return self.age_days > AGED_DAYS

    @property
    def sentence(self) -> str:
        """How old it is, in words; of one that misleads, that it is not used."""
        if self.calibration.misleads:
            return busy_note(self.calibration)
        days = {0: "today", 1: "yesterday"}.get(self.age_days, f"{self.age_days} days ago")
        if self.aged:
            return f"This machine was measured {days}; that is long ago: measure it again."
        return f"This machine was measured {days}."


def check(machine: str) -> None:
    """Find out, before it is measured, what would keep a calibration of this machine from being kept.

    Raises:
        AppError: file_unreadable or folder_not_writable.
    """
    _file(machine).check()


def keep(calibration: Calibration) -> None:
    """Add a calibration and forget the machine's oldest beyond KEPT.

    Raises:
        AppError: file_unreadable, folder_not_writable or disk_full.
    """

    def added(record: CalibrationRecord | None) -> CalibrationRecord:
        before = record.calibrations if record else ()
        return CalibrationRecord(machine=calibration.machine, calibrations=(*before, calibration)[-KEPT:])

    _file(calibration.machine).change(added)


def find(
    machine: str, engine: str, types: frozenset[str] = frozenset(), *, now: datetime | None = None
) -> Stored | None:
    """The newest calibration of this machine with this engine; another machine's or engine's is never used.

    One that was made while other programs were busy is found only where there is no other.

    Args:
        machine: `hardware.fingerprint.fingerprint`.
        engine: `hardware.fingerprint.engine_name`.
        types: ggml's names of weight types; the newest that measured them all is taken before a newer one that
            did not.
        now: For tests.

    Raises:
        AppError: file_unreadable.
    """
    record = _file(machine).read()
    fitting = [found for found in (record.calibrations if record else ()) if found.engine == engine]
    if not fitting:
        return None
    fitting = [found for found in fitting if not found.misleads] or fitting
    having = [found for found in fitting if types <= {rate.type for rate in found.compute}]
    newest = max(having or fitting, key=_time)
    age = ((now or datetime.now(UTC)) - _time(newest)).days
    return Stored(calibration=newest, age_days=max(age, 0))


def _time(calibration: Calibration) -> datetime:
    """When it was measured; the beginning of time for a text that is none."""
    try:
        found = datetime.fromisoformat(calibration.measured_at)
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _file(machine: str) -> RecordFile[CalibrationRecord]:
    return RecordFile(_path(machine), CalibrationRecord, RECORD_VERSION)


def _path(machine: str) -> Path:
    return folders.data_folder() / "machine" / f"calibration-{machine}.json"
