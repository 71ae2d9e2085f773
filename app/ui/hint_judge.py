"""Judges an observation beside the UI thread, with the rest of what is judged by: what has to be read from files."""

import os
from functools import partial
from pathlib import Path

import msgspec

from app.doctor.diagnosis import Diagnosis, examine
from app.doctor.observation import Observation
from app.doctor.reading import THRASHING
from app.hardware.disk import read_medium
from app.hardware.engine_files import EngineFiles, read_engine_files
from app.hardware.facts import Disk, Machine
from app.hardware.ram_programs import read_ram_programs
from app.hardware.sources import Source
from app.library.disk_speed import with_disk_speed
from app.library.speed_evidence import calibration_of
from app.model.facts import ModelFacts

DISK_SECONDS = 1.0
"""Longest that is waited for a disk to say what it is: one of another machine may hang."""


class Judge:
    """Judges; keeps what need not be read each time. Used by one thread at a time."""

    def __init__(self) -> None:
        self._files: EngineFiles | None = None
        self._disk: Disk | None = None

    def judge(self, seen: Observation, *, engine_failed: bool) -> Diagnosis:
        """What the rules say of `seen`; after `engine_failed` the engine's files are looked at again."""
        if self._files is None or engine_failed:
            self._files = read_engine_files(contents=False)
        machine = with_disk_speed(seen.machine)
        whole = msgspec.structs.replace(
            seen,
            machine=machine,
            model_disk=self._model_disk(machine, seen.facts),
            calibration=calibration_of(machine),
            engine_files=self._files,
        )
        diagnosis = examine(whole)
        if any(hint.rule == THRASHING for hint in diagnosis.hints):
            # Only then is it worth asking who else holds main memory.
            programs = read_ram_programs(but=frozenset((os.getpid(), seen.engine_pid)))
            diagnosis = examine(msgspec.structs.replace(whole, programs=programs))
        return diagnosis

    def _model_disk(self, machine: Machine, facts: ModelFacts | None) -> Disk:
        """The disk of the model's files: that of the models folder where they are in it."""
        if facts is None:
            return machine.disk
        folder = Path(facts.files[0]).parent
        if folder.is_relative_to(machine.disk.path):
            return machine.disk
        if self._disk is None or self._disk.path != str(folder):
            self._disk = _read_disk(folder)
        return self._disk


def _read_disk(folder: Path) -> Disk:
    source = Source("The model's disk", partial(read_medium, folder, Path("/")))
    medium, _ = source.answer(DISK_SECONDS)
    source.close()
    if medium is None:
        return Disk(path=str(folder), total_bytes=None, free_bytes=None)
    return Disk(
        path=str(folder),
        total_bytes=None,
        free_bytes=None,
        filesystem=medium.filesystem,
        rotational=medium.rotational,
        bus=medium.bus,
        network=medium.network,
    )
