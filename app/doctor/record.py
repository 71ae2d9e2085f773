"""Records of a model that was watched: the engine's own events, samples and other answers, one JSON object a line.

The first line names the machine by its snapshot. What `doctor --load` sees live goes through `observed` as these same
lines, so that a record that is read again is judged exactly as it was.
"""

import datetime
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePath, PureWindowsPath
from typing import Any

import msgspec

from app.doctor.observation import SILENT_MODEL, AnswerFigures, Observation, SilentFile
from app.engine.protocol import CacheFacts, Finished, Loaded
from app.errors import AppError, ErrorCode, writing_error
from app.hardware.engine_files import EngineFiles
from app.hardware.facts import Disk, Machine
from app.hardware.json_file import read_json
from app.hardware.ram_programs import RamProgram
from app.hardware.samples import Sample
from app.hardware.scrub import HIDDEN
from app.hardware.snapshot import COMPOSED, RECORDED, Snapshot, is_snapshot, other_version, read_snapshot
from app.model.facts import ModelFacts
from app.placement.plan import KV_TYPES, POLICIES, RESIDENCIES, Plan
from app.placement.speed.calibration import Calibration

RECORD_VERSION = 1
_MOST_FILE_BYTES = 32 * 1024**2
_MOST_FIGURE = 2**63


class Line(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", forbid_unknown_fields=True):
    """What is told beside the engine's events; tagged alike."""


class Head(Line, frozen=True, kw_only=True, tag="doctor_record"):
    """The first line.

    Attributes:
        origin: "recorded" on a real machine, or "composed" from the formats of the other lines.
        about: The situation in words.
        made_at: ISO 8601, UTC.
        snapshot: The machine, or the name of the file beside this one that holds it.
    """

    version: int = RECORD_VERSION
    origin: str
    about: str = ""
    made_at: str = ""
    snapshot: Snapshot | str


class ModelLine(Line, frozen=True, kw_only=True, tag="model"):
    """The model, and how it is loaded, or would be."""

    facts: ModelFacts
    plan: Plan


class DiskLine(Line, frozen=True, kw_only=True, tag="disk"):
    """The disk of the model's files, or of the models folder, with the speed that was measured before."""

    disk: Disk


class CalibrationLine(Line, frozen=True, kw_only=True, tag="machine_speed"):
    """What the machine was measured to do before."""

    calibration: Calibration


class FilesLine(Line, frozen=True, kw_only=True, tag="engine_files"):
    """What became of the engine's files."""

    files: EngineFiles


class SilentLine(Line, frozen=True, kw_only=True, tag="silent_file"):
    """The model's file, which did not answer in time."""

    file: SilentFile


class SampleLine(Line, frozen=True, kw_only=True, tag="sample"):
    """Engine and machine at one moment; `decoding` while an answer was being decoded."""

    sample: Sample
    decoding: bool


class ProgramsLine(Line, frozen=True, kw_only=True, tag="programs"):
    """Other programs that hold main memory."""

    programs: tuple[RamProgram, ...]


AnyLine = (
    Head
    | ModelLine
    | DiskLine
    | CalibrationLine
    | FilesLine
    | SilentLine
    | SampleLine
    | ProgramsLine
    | Loaded
    | CacheFacts
    | Finished
)

_decoder = msgspec.json.Decoder(AnyLine)


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """A record that was read.

    Attributes:
        head: Its first line.
        machine: The machine, played back.
        lines: The others, in order.
    """

    head: Head
    machine: Machine
    lines: tuple[AnyLine, ...]

    def observation(self) -> Observation:
        """What the doctor judges by."""
        return observed(Observation(machine=self.machine), self.lines)


def observed(seen: Observation, lines: Iterable[AnyLine]) -> Observation:
    """`seen` and what the lines add to it, in their order; a load begins anew, and so does each answer."""
    caches: list[CacheFacts] = []
    answers: list[Finished] = []
    decoding: list[Sample] = []
    ended = False
    for line in lines:
        if isinstance(line, Loaded):
            caches, answers, decoding, ended = [], [], [], False
            seen = msgspec.structs.replace(seen, loaded=line, latest=None)
        elif isinstance(line, SampleLine):
            if line.decoding and ended:  # another answer
                caches, decoding, ended = caches[-1:], [], False
            decoding += [line.sample] if line.decoding else []
            seen = msgspec.structs.replace(seen, latest=line.sample)
        elif isinstance(line, CacheFacts):
            caches.append(line)
        elif isinstance(line, Finished):
            answers.append(line)
            ended = True
        else:
            seen = _with(seen, line)
    longest = max((its.prompt_tokens + its.completion_tokens for its in answers), default=0)
    experts = next((its.layers for its in reversed(caches) if its.layers), {})
    return msgspec.structs.replace(
        seen,
        cache=msgspec.structs.replace(caches[-1], layers=experts) if caches else None,
        earlier=tuple(caches[:-1]),
        answers=AnswerFigures(answers=len(answers), longest_tokens=longest) if answers else None,
        decoding=tuple(decoding),
    )


def _with(seen: Observation, line: AnyLine) -> Observation:
    changes: dict[str, Any] = {}
    if isinstance(line, ModelLine):
        changes = {"facts": line.facts, "plan": line.plan}
    elif isinstance(line, DiskLine):
        changes = {"model_disk": line.disk}
    elif isinstance(line, CalibrationLine):
        changes = {"calibration": line.calibration}
    elif isinstance(line, FilesLine):
        changes = {"engine_files": line.files}
    elif isinstance(line, SilentLine):
        changes = {"silent_file": line.file, "no_plan": SILENT_MODEL if seen.plan is None else seen.no_plan}
    elif isinstance(line, ProgramsLine):
        changes = {"programs": line.programs}
    return msgspec.structs.replace(seen, **changes)


# ---- writing -----------------------------------------------------------------------------------


def write_record(path: Path, snapshot: Snapshot, lines: Sequence[AnyLine], private: Iterable[PurePath] = ()) -> None:
    """Write what was seen here.

    Args:
        path: The file.
        snapshot: The machine, without what is private.
        lines: What was seen, in order.
        private: Folders whose paths are taken out: the home folder, those of models.

    Raises:
        AppError: folder_not_writable or disk_full.
    """
    made_at = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    head = Head(origin=RECORDED, made_at=made_at, snapshot=snapshot)
    folders = sorted(
        {folder for folder in private if len(folder.parts) > 1}, key=lambda its: len(str(its)), reverse=True
    )
    patterns = [
        re.compile(re.escape(str(folder)), re.IGNORECASE if isinstance(folder, PureWindowsPath) else 0)
        for folder in folders
    ]
    hidden = (_without(msgspec.to_builtins(line), patterns) for line in lines)
    try:
        path.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in (head, *hidden)))
    except OSError as error:
        raise writing_error(error, path) from error


def folders_of(lines: Iterable[AnyLine]) -> Iterator[Path]:
    """Folders of a model's files as lines name them, which may lead through links to where they really are."""
    for line in lines:
        if isinstance(line, ModelLine):
            yield from (Path(file).parent for file in (*line.facts.files, *line.plan.model_files))
        elif isinstance(line, SilentLine):
            yield Path(line.file.path).parent


def _without(data: Any, folders: Sequence[re.Pattern[str]]) -> Any:
    if isinstance(data, str):
        for folder in folders:
            data = folder.sub(HIDDEN, data)
        return data
    if isinstance(data, dict):
        return {key: _without(value, folders) for key, value in data.items()}
    return [_without(value, folders) for value in data] if isinstance(data, (list, tuple)) else data


# ---- reading -----------------------------------------------------------------------------------


def read_record(path: Path) -> Record:
    """A record from a file.

    Raises:
        AppError: file_missing, file_unreadable; bad_usage, the file is no record, or has figures that nothing has.
    """
    data = read_json(path, _MOST_FILE_BYTES, _no_record)
    if not data.strip():
        raise _no_record(path, "it is empty, as of a file that was cut off")
    if not data.endswith(b"\n"):
        raise _no_record(path, "its last line has no end, as of a file that was cut off")
    lines = _lines(path, data)
    head, rest = lines[0], lines[1:]
    if not isinstance(head, Head) or any(isinstance(line, Head) for line in rest):
        raise _no_record(path, "the first line, and no other, names the machine")
    if head.version != RECORD_VERSION:
        raise _no_record(path, f"it is of version {head.version}, and this app reads {RECORD_VERSION}")
    if head.origin not in (RECORDED, COMPOSED):
        raise _no_record(path, f"its origin is '{head.origin}', not '{RECORDED}' or '{COMPOSED}'")
    for doubt in _doubted_lines(rest):
        raise _no_record(path, doubt)
    return Record(head=head, machine=_machine(path, head), lines=tuple(rest))


def _lines(path: Path, data: bytes) -> list[AnyLine]:
    lines: list[AnyLine] = []
    for number, text in enumerate(data.splitlines(), start=1):
        try:
            line = _decoder.decode(text)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            if number == 1 and is_snapshot(data):
                raise _no_record(path, "it is one of `probe --record`, which `doctor --snapshot` reads") from error
            newer = other_version(text, RECORD_VERSION) if number == 1 else ""
            raise _no_record(path, newer or f"line {number}: {error}") from error
        for doubt in _doubted_figures(msgspec.to_builtins(line), ""):
            raise _no_record(path, f"line {number}: {doubt}")
        lines.append(line)
    return lines


def _machine(path: Path, head: Head) -> Machine:
    if isinstance(head.snapshot, Snapshot):
        return head.snapshot.machine()
    if Path(head.snapshot).name != head.snapshot or "\\" in head.snapshot or not head.snapshot.isprintable():
        raise _no_record(path, "its snapshot is not the name of a file beside it")
    return read_snapshot(path.parent / head.snapshot).machine()


def _doubted_figures(data: Any, place: str) -> Iterator[str]:
    """Figures that nothing of which is told here can have: none is below 0, and none is endless."""
    if isinstance(data, dict):
        for key, value in data.items():
            yield from _doubted_figures(value, f"{place}.{key}" if place else str(key))
    elif isinstance(data, (list, tuple)):
        for index, value in enumerate(data):
            yield from _doubted_figures(value, f"{place}[{index}]")
    elif isinstance(data, (int, float)) and not (math.isfinite(data) and 0 <= data < _MOST_FIGURE):
        yield f"{place} is {data}, and no figure there can be"


def _doubted_lines(lines: Sequence[AnyLine]) -> Iterator[str]:
    """Lines that do not go together."""
    models = [line for line in lines if isinstance(line, ModelLine)]
    if len(models) > 1:
        yield "it speaks of more than one model"
    model = models[0] if models else None
    watched = any(isinstance(line, (Loaded, CacheFacts, Finished)) for line in lines)
    if watched and model is None:
        yield "it tells of a load and of no model"
    if model is None:
        return
    facts, plan = model.facts, model.plan
    if plan.expert_lanes.keys() != facts.expert_bytes.keys() or set(facts.moe_layers) != facts.expert_bytes.keys():
        yield "the plan's expert layers are not the model's"
    if not facts.files or min(plan.n_ctx, plan.n_ubatch, plan.n_batch, plan.threads, plan.n_seq_max) < 1:
        yield "the model has no file, or the plan no context, batch or thread"
    if plan.kv_type not in KV_TYPES or plan.residency not in RESIDENCIES or plan.policy.kind not in POLICIES:
        yield "the plan has a word that no plan has"
    if any(layer.ratio < 1 for layer in facts.kv_layers) or len(facts.layer_bytes) != facts.layers:
        yield "no model has such layers"
    for line in lines:
        if isinstance(line, CacheFacts):
            yield from _doubted_cache(line, facts)


def _doubted_cache(line: CacheFacts, facts: ModelFacts) -> Iterator[str]:
    for index, layer in line.layers.items():
        sizes = {len(layer.routed), len(layer.heat), len(layer.lanes), len(layer.pins)}
        if index not in facts.expert_bytes or sizes != {facts.expert_count}:
            yield f"layer {index} of the expert cache is no layer of the model with {facts.expert_count} experts"
    memory = line.memory
    if memory is not None and not memory.resident_bytes <= memory.total_bytes <= facts.file_bytes:
        yield "more of the experts is in memory than there is"
    if memory is not None and not memory.trusted_bytes <= memory.budget_bytes:
        yield "more of the budget is trusted than there is"


def _no_record(path: Path, why: str) -> AppError:
    return AppError(ErrorCode.BAD_USAGE, f"{path} is no record as `expert-lanes doctor --record` writes one: {why}.")
