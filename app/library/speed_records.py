"""How fast real answers were, kept by model, machine and engine: what the speed model is refitted from."""

import hashlib
import logging
from pathlib import Path

import msgspec

from app.errors import AppError
from app.hardware.facts import Machine
from app.hardware.fingerprint import engine_name, fingerprint
from app.library import folders
from app.library.record_file import RecordFile
from app.model.facts import ModelFacts
from app.placement.memory import spare_bytes
from app.placement.plan import CPU_LANE, Plan
from app.placement.speed.learning import MOST_OBSERVATIONS, Answer, Observation, observation

log = logging.getLogger(__name__)

RECORD_VERSION = 1
KEPT = 2 * MOST_OBSERVATIONS
"""Answers kept of one model, machine and engine: more than are fitted, for they divide by devices in use."""


class SpeedRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Answers of one model on one machine with one engine, oldest first, at most KEPT.

    Attributes:
        model: `ModelFacts.fingerprint`.
        machine, engine: `fingerprint` and `engine_name` of hardware.fingerprint.
    """

    version: int = RECORD_VERSION
    model: str
    machine: str
    engine: str
    observations: tuple[Observation, ...] = ()


def observations(facts: ModelFacts, machine: Machine) -> tuple[Observation, ...]:
    """Answers of this model on this machine with this engine, oldest first; empty where none were kept.

    Raises:
        AppError: file_unreadable.
    """
    record = _file(*_key(facts, machine)).read()
    return record.observations if record else ()


def keep(facts: ModelFacts, machine: Machine, seen: Observation) -> None:
    """Add an answer and forget the oldest beyond KEPT.

    Raises:
        AppError: file_unreadable, folder_not_writable or disk_full.
    """
    model, computer, engine = _key(facts, machine)

    def added(record: SpeedRecord | None) -> SpeedRecord:
        before = record.observations if record else ()
        kept = (*before, seen)[-KEPT:]
        return SpeedRecord(model=model, machine=computer, engine=engine, observations=kept)

    _file(model, computer, engine).change(added)


def remember(facts: ModelFacts, machine: Machine, plan: Plan, answer: Answer) -> None:
    """Keep what a finished answer tells; what cannot be kept is logged, for the answer is none the worse.

    Args:
        facts: The model.
        machine: As it was probed before the load.
        plan: What is loaded, with its predicted memory.
        answer: Its measured figures.
    """
    seen = observation(plan, answer, spare_bytes(plan, machine, CPU_LANE))
    if seen is None:
        return
    try:
        keep(facts, machine, seen)
    except AppError as error:
        log.warning("the speed of an answer is not kept: %s", error.message)


def _key(facts: ModelFacts, machine: Machine) -> tuple[str, str, str]:
    return facts.fingerprint, fingerprint(machine), engine_name(machine.engine) if machine.engine else ""


def _file(model: str, machine: str, engine: str) -> RecordFile[SpeedRecord]:
    return RecordFile(_path(model, machine, engine), SpeedRecord, RECORD_VERSION)


def _path(model: str, machine: str, engine: str) -> Path:
    name = hashlib.sha256("\n".join((model, machine, engine)).encode()).hexdigest()[:32]
    return folders.data_folder() / "machine" / "speed" / f"{name}.json"
