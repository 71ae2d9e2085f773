"""How fast the models' disk reads, from this machine's calibration."""

import logging
from pathlib import Path

import msgspec

from app.errors import AppError
from app.hardware.facts import Machine
from app.hardware.fingerprint import engine_name, fingerprint
from app.library import calibrations

log = logging.getLogger(__name__)


def with_disk_speed(machine: Machine) -> Machine:
    """`machine` with the best rate that `calibrate` measured below its models' folder; as it is where it did not."""
    if machine.engine is None:
        return machine
    try:
        stored = calibrations.find(fingerprint(machine), engine_name(machine.engine))
    except AppError as error:
        log.warning("the disk's measured speed is not shown: %s", error.message)
        return machine
    if stored is None:
        return machine
    folder = Path(machine.disk.path)
    rates = [
        rate.bytes_per_second
        for rate in stored.calibration.disk
        if Path(rate.path).is_relative_to(folder) or folder.is_relative_to(rate.path)
    ]
    if not rates:
        return machine
    disk = msgspec.structs.replace(machine.disk, read_bytes_per_second=max(rates))
    return msgspec.structs.replace(machine, disk=disk)
