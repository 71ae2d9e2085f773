"""Rules about files: the engine's own, the model's, and the disk that it lies on."""

from app.doctor.hints import NOTE, PROBLEM, SLOWER, Hint, UnjudgedError
from app.doctor.observation import Observation, SilentFile
from app.hardware.facts import Disk
from app.placement.plan import DISK_LANE
from app.units import format_bytes

ENGINE_FILES, SILENT_DISK = "engine-files", "silent-disk"
NETWORK_DISK, SLOW_DISK = "network-disk", "slow-disk"

SLOW_BYTES = 400e6
"""Bytes a second: solid-state disks on SATA read about 550 MB/s, hard disks and memory cards far below 300."""
_SLOW_BUSES = {"USB": "a USB disk", "MMC": "a memory card"}


def engine_files(seen: Observation) -> Hint | None:
    """Files of the engine that are gone or changed, as after a virus scanner's quarantine."""
    files = seen.engine_files
    if files is None or not files.checked:
        raise UnjudgedError(
            files.why_not if files is not None and files.why_not else "The engine's files were not looked at."
        )
    wrong = [f"{name} is missing" for name in files.missing] + [f"{name} was changed" for name in files.changed]
    if not wrong:
        return None
    more = f" and {len(wrong) - 4} more" if len(wrong) > 4 else ""
    return Hint(
        rule=ENGINE_FILES,
        title="Files of the engine are missing or changed",
        evidence=f"Of {files.checked} files of the engine {len(files.missing)} are missing and {len(files.changed)} "
        f"are not as they were installed: {', '.join(wrong[:4])}{more}.",
        action="Look for them in the virus scanner's quarantine, allow them there, and install the app again.",
        severity=PROBLEM,
    )


def silent_disk(seen: Observation) -> Hint | None:
    """A model's file that does not answer: a disk that dies or was pulled out, a network share that is gone."""
    silent = seen.silent_file
    if silent is None:
        if seen.facts is None:
            raise UnjudgedError(seen.no_plan)
        return None
    disk = _disk(seen)
    kind = f" ({disk.filesystem})" if disk.filesystem else ""
    where = f" It is on another machine{kind}." if disk.network else ""
    title = "The model's disk does not answer"
    action = "Make the disk answer before the model is used again: reconnect its cable or its network share."
    if silent.step != "tables":  # a graphics driver may hang as well
        title = "The engine waits for what does not come"
        action = "Copy the model's file somewhere else: if that stops too, it is the disk that is waited for."
    return Hint(
        rule=SILENT_DISK,
        title=title,
        evidence=f"{_waited(silent)}{where}",
        action=action,
        severity=PROBLEM,
        about=silent.path,
    )


def _waited(silent: SilentFile) -> str:
    vain = f"for {silent.seconds:.0f} seconds"
    if silent.step == "tables":
        return f"{silent.path} was asked for its tables and gave nothing {vain}."
    what = "was loaded" if silent.step == "load" else "answered"
    return f"While {silent.path} {what}, the engine said nothing and got nothing done {vain}."


def network_disk(seen: Observation) -> Hint | None:
    """A model on another machine's disk."""
    disk = _disk(seen)
    if disk.network is None:
        raise seen.why_unseen("disk.network", "Nothing tells whether the models' disk is another machine's.")
    if not disk.network:
        return None
    kind = f" ({disk.filesystem})" if disk.filesystem else ""
    return Hint(
        rule=NETWORK_DISK,
        title="The model is on a network disk",
        evidence=f"{disk.path} is on another machine{kind}.{_measured(disk)}{_size(seen)}",
        action="Copy the model to a disk of this machine.",
        severity=_severity(seen),
        about=disk.path,
    )


def slow_disk(seen: Observation) -> Hint | None:
    """A model on a hard disk, a USB disk or a memory card, or on one that was measured to be slow."""
    disk = _disk(seen)
    rate = disk.read_bytes_per_second
    if disk.network:
        return None
    kind = _SLOW_BUSES.get(disk.bus or "", "")
    if disk.rotational:
        kind = "a hard disk" + (f" ({disk.bus})" if disk.bus else "")
    if rate is None and not kind and disk.rotational is None and disk.bus in (None, "virtual"):
        raise seen.why_unseen(
            "disk.rotational", f"Nothing tells what kind of disk {disk.path} is on, and it was not measured."
        )
    slow = bool(kind) if rate is None else rate < SLOW_BYTES  # what was measured counts first
    if not slow:
        return None
    return Hint(
        rule=SLOW_DISK,
        title="The model is on a slow disk",
        evidence=f"{disk.path} is on {kind or 'a slow disk'}.{_measured(disk)}{_size(seen)}",
        action="Move the model to a solid-state disk inside this machine.",
        severity=_severity(seen),
        about=disk.path,
    )


def _disk(seen: Observation) -> Disk:
    return seen.model_disk or seen.machine.disk


def _measured(disk: Disk) -> str:
    rate = disk.read_bytes_per_second
    return f" It was measured to read {rate / 1e6:,.0f} MB/s." if rate is not None else ""


def _size(seen: Observation) -> str:
    return f" The model has {format_bytes(seen.facts.file_bytes)}." if seen.facts is not None else ""


def _severity(seen: Observation) -> str:
    """Slower answers where experts are read while answering; else only the load waits for it."""
    if seen.plan is None or seen.facts is None:
        return NOTE
    reads = DISK_LANE in seen.plan.expert_lanes.values() or seen.facts.file_bytes > seen.machine.ram.total_bytes
    return SLOWER if reads else NOTE
