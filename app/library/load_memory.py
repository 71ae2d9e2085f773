"""What loads showed of the memory that nobody reports, kept between runs: read for plans, added to by loads.

Imports `placement` besides what the rest of the package may: the record is that package's.
"""

import logging
from collections.abc import Sequence

import msgspec

from app.errors import AppError
from app.hardware.facts import Machine
from app.hardware.fingerprint import fingerprint
from app.library import folders
from app.library.record_file import RecordFile
from app.placement import memory_learning
from app.placement.memory_learning import MemoryRecord
from app.placement.report import BufferReport, ObservedMemory

log = logging.getLogger(__name__)

_FILE_NAME = "memory.json"
_NOT_USED = "What loads showed of drivers' memory is not used: "


def with_learnt(machine: Machine) -> Machine:
    """`machine` with what loads on it showed; a record that cannot be read is told in a note."""
    try:
        record = _file().read()
    except AppError as error:
        return msgspec.structs.replace(machine, notes=(*machine.notes, f"{_NOT_USED}{error.message}"))
    return memory_learning.with_learnt(machine, fingerprint(machine), record)


def notes_of(machine: Machine) -> tuple[str, ...]:
    """Of a machine from `with_learnt`, why nothing that loads showed is used; empty where it is."""
    return tuple(note for note in machine.notes if note.startswith(_NOT_USED))


def remember(machine: Machine, buffers: Sequence[BufferReport], observed: Sequence[ObservedMemory]) -> None:
    """Learn from a load; what cannot be kept is logged, for the load is none the worse.

    Args:
        machine: The machine, as it was probed.
        buffers: What the engine reports to have allocated.
        observed: What system and driver show of it.
    """
    key = fingerprint(machine)
    try:
        _file().change(lambda record: memory_learning.learn(record, machine, key, buffers, observed))
    except AppError as error:
        log.warning("what a load showed is not kept: %s", error.message)


def _file() -> RecordFile[MemoryRecord]:
    path = folders.data_folder() / "machine" / _FILE_NAME
    return RecordFile(path, MemoryRecord, memory_learning.RECORD_VERSION)
