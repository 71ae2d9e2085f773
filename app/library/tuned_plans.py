"""Plans that tuning found faster, kept by model, machine and engine: with another of them they prove nothing."""

import datetime
import hashlib
from pathlib import Path

import msgspec

from app.errors import AppError, ErrorCode
from app.hardware.facts import Machine
from app.hardware.fingerprint import engine_name, fingerprint
from app.library import folders
from app.library.record_file import RecordFile
from app.model.facts import ModelFacts
from app.placement.exchange.check_plan import checked
from app.placement.tuner.types import TUNED_VERSION, TunedPlan, TuneResult
from app.placement.wishes import Wishes


def tuned_plan(facts: ModelFacts, machine: Machine) -> TunedPlan | None:
    """What tuning kept for this model on this machine with this engine; its plan names the model's present files.

    Raises:
        AppError: file_unreadable, also for a plan that this model on this machine cannot have.
    """
    file = _file(facts, machine)
    record = file.read()
    if record is None:
        return None
    plan = msgspec.structs.replace(record.plan, model_files=facts.files)
    try:
        checked(plan, facts, machine)
    except AppError as error:
        raise AppError(
            ErrorCode.FILE_UNREADABLE,
            f"{file.path} is damaged; once it is moved away, a new one is made.",
            error.message,
        ) from error
    return msgspec.structs.replace(record, plan=plan)


def check_tuned(facts: ModelFacts, machine: Machine) -> None:
    """Find out, before hours are spent, what would keep a tuned plan from being kept.

    Raises:
        AppError: file_unreadable or folder_not_writable.
    """
    _file(facts, machine).check()


def keep_tuned(record: TunedPlan, facts: ModelFacts, machine: Machine) -> Path:
    """Keep a plan in place of the one before; returns its file.

    Raises:
        AppError: file_unreadable, folder_not_writable or disk_full.
    """
    file = _file(facts, machine)
    file.change(lambda _before: record)
    return file.path


def record_of(result: TuneResult, facts: ModelFacts, machine: Machine, wished: Wishes) -> TunedPlan:
    """The best plan of a search as it is kept.

    Args:
        result: What the search came to; its plan is faster beyond noise.
        facts: The model.
        machine: Where it was measured.
        wished: What both plans were made to keep to.
    """
    model, computer, engine = key(facts, machine)
    return TunedPlan(
        model=model,
        machine=computer,
        engine=engine,
        plan=result.best,
        words=result.words,
        before=result.before,
        after=result.after,
        tuned_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        wishes=wished,
    )


def key(facts: ModelFacts, machine: Machine) -> tuple[str, str, str]:
    """Model, machine and engine, as records name them."""
    return facts.fingerprint, fingerprint(machine), engine_name(machine.engine) if machine.engine else ""


def _file(facts: ModelFacts, machine: Machine) -> RecordFile[TunedPlan]:
    name = hashlib.sha256("\n".join(key(facts, machine)).encode()).hexdigest()[:32]
    return RecordFile(folders.data_folder() / "machine" / "tuned" / f"{name}.json", TunedPlan, TUNED_VERSION)
