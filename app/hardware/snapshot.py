"""Machine snapshots: exactly what every source of the probe returned, in one file, and the machine computed from it."""

import datetime
from pathlib import Path

import msgspec

from app.errors import AppError, ErrorCode, writing_error
from app.hardware.answers import Answer, PlayedAnswers, RecordingAnswers
from app.hardware.facts import EngineBuild, Gpu, Machine
from app.hardware.json_file import read_json
from app.hardware.probe import Sources, probe
from app.hardware.profile_file import doubts
from app.hardware.scrub import scrubbed
from app.hardware.tree import PlayedTree, RecordingTree, TreePath, TreeRecord

SNAPSHOT_VERSION = 1
RECORDED, COMPOSED = "recorded", "composed"
_MOST_FILE_BYTES = 32 * 1024**2
"""A snapshot of a server with hundreds of threads takes a few MiB."""


class Hex(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Contents that are no text, in hexadecimal digits."""

    hex: str


class Version(msgspec.Struct, frozen=True):
    """The one field that files of every version have."""

    version: int


def other_version(data: bytes, known: int) -> str:
    """That a file, or a line of one, is of another version than `known`, in words; empty where it does not say so.

    Later versions may have fields that this one refuses, so that this is looked at where the rest cannot be read.
    """
    try:
        version = msgspec.json.decode(data, type=Version).version
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ""
    return f"it is of version {version}, and this app reads {known}" if version != known else ""


class Snapshot(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the sources returned on one machine.

    Attributes:
        origin: "recorded" on a real machine, or "composed" from the sources' documented formats.
        about: The machine in words, and where a composed one's values come from.
        made_at: ISO 8601, UTC.
        system: As in `sys.platform`.
        models_folder: The folder whose disk was looked at.
        gpus, engine: The engine's answer: its devices and its build; None where it could not be asked.
        files: Path below the root to contents; None for a file that was seen and not read.
        refusals: Path to the system's words for a file or folder that may not be read.
        folders: Path to the names in it; what a file or link lies in need not be named.
        links: Path of a symbolic link to where it leads, both below the root.
        answers: Name of a call to what it gave.
        scrubbed: What was taken out before the file was written, one sentence each.
    """

    version: int = SNAPSHOT_VERSION
    origin: str
    about: str = ""
    made_at: str = ""
    system: str
    models_folder: str
    gpus: tuple[Gpu, ...] = ()
    engine: EngineBuild | None = None
    files: dict[str, str | Hex | None] = {}
    refusals: dict[str, str] = {}
    folders: dict[str, list[str]] = {}
    links: dict[str, str] = {}
    answers: dict[str, Answer] = {}
    scrubbed: tuple[str, ...] = ()

    def sources(self) -> Sources:
        """What plays the sources back; nothing of the machine it runs on is read."""
        record = TreeRecord(
            files={path: _bytes(content) for path, content in self.files.items()},
            refusals=self.refusals,
            folders=self.folders,
            links=self.links,
        )
        return Sources(
            root=TreePath(PlayedTree(record)),
            answers=PlayedAnswers(self.answers),
            system=self.system,
        )

    def machine(self) -> Machine:
        """The machine, as `probe` computes it from these answers.

        Raises:
            AppError: engine_failed, not even main memory is told; bad_usage, no machine has such values.
        """
        machine = probe(Path(self.models_folder), self.gpus, self.engine, self.sources())
        for doubt in doubts(machine):
            raise AppError(ErrorCode.BAD_USAGE, f"The snapshot is of no machine: {doubt}.")
        return machine


def record(
    models_folder: Path, gpus: tuple[Gpu, ...], engine: EngineBuild | None, root: Path = Path("/")
) -> tuple[Snapshot, Machine]:
    """Probe this machine and keep what every source returned, without what is private.

    Returns:
        The snapshot, and the machine as it is, with nothing taken out.

    Raises:
        AppError: as `probe`.
    """
    tree, answers = RecordingTree(root), RecordingAnswers()
    sources = Sources(root=TreePath(tree), answers=answers)
    machine = probe(models_folder, gpus, engine, sources)
    seen = tree.record
    snapshot = Snapshot(
        origin=RECORDED,
        made_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        system=sources.system,
        models_folder=str(models_folder),
        gpus=gpus,
        engine=engine,
        # A source that hangs may go on: what it reads from now on is not part of the record.
        files={path: None if data is None else _content(data) for path, data in sorted(dict(seen.files).items())},
        refusals=dict(seen.refusals),
        folders=dict(seen.folders),
        links=dict(seen.links),
        answers=answers.record(),
    )
    return scrubbed(snapshot), machine


def write_snapshot(path: Path, snapshot: Snapshot) -> None:
    """Write it as a file that people can read.

    Raises:
        AppError: folder_not_writable or disk_full.
    """
    text = msgspec.json.format(msgspec.json.encode(snapshot), indent=1)
    try:
        path.write_bytes(text + b"\n")
    except OSError as error:
        raise writing_error(error, path) from error


def is_snapshot(data: bytes) -> bool:
    """Whether a file's contents are a snapshot of this version."""
    try:
        return msgspec.json.decode(data, type=Snapshot).version == SNAPSHOT_VERSION
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return False


def read_snapshot(path: Path) -> Snapshot:
    """A snapshot from a file.

    Raises:
        AppError: file_missing, file_unreadable; bad_usage, the file is no snapshot.
    """
    data = read_json(path, _MOST_FILE_BYTES, _no_snapshot)
    try:
        snapshot = msgspec.json.decode(data, type=Snapshot)
        for content in snapshot.files.values():
            _bytes(content)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        if data.lstrip().startswith(b'{"type":"doctor_record"'):
            raise _no_snapshot(path, "it is one of `doctor --record`, which `doctor --replay` reads") from error
        raise _no_snapshot(path, other_version(data, SNAPSHOT_VERSION) or str(error)) from error
    if snapshot.version != SNAPSHOT_VERSION:
        raise _no_snapshot(path, f"it is of version {snapshot.version}, and this app reads {SNAPSHOT_VERSION}")
    return snapshot


def _content(data: bytes) -> str | Hex:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return Hex(data.hex())
    return Hex(data.hex()) if "\0" in text else text


def _bytes(content: str | Hex | None) -> bytes | None:
    if isinstance(content, Hex):
        return bytes.fromhex(content.hex)
    return None if content is None else content.encode()


def _no_snapshot(path: Path, why: str) -> AppError:
    return AppError(ErrorCode.BAD_USAGE, f"{path} is no snapshot as `expert-lanes probe --record` writes one: {why}.")
