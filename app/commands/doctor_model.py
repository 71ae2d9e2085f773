"""The model that `doctor` is asked about: read within a bounded time, for its disk may be what is wrong."""

from dataclasses import dataclass
from pathlib import Path

from app.commands.common import facts_of
from app.doctor.observation import SilentFile
from app.hardware.sources import LateError, in_time
from app.library import folders, models
from app.library.demo import demo_model_path
from app.model import ModelFacts

TABLES_SECONDS = 15.0
"""A hard disk that sleeps needs up to ten seconds to start, and a network share that is mounted on demand as long."""
NOT_LOADED = "The model was not loaded: its file did not answer."


@dataclass(frozen=True)
class NamedModel:
    """What could be read of a model; all None where none was named.

    Attributes:
        facts: What it is; None where its file did not answer.
        folder: Where its first file lies.
        silent: The file that did not answer.
    """

    facts: ModelFacts | None = None
    folder: Path | None = None
    silent: SilentFile | None = None


def named_model(word: str) -> NamedModel:
    """The model that the user named, as far as its disk tells it within `TABLES_SECONDS`.

    Raises:
        AppError: there is none, or it cannot be read.
    """

    def read() -> NamedModel:
        facts = facts_of(word)
        return NamedModel(facts=facts, folder=Path(facts.files[0]).resolve().parent)

    try:
        return in_time("the model's file", read, TABLES_SECONDS)
    except LateError:
        path = demo_model_path() if word == models.DEMO_WORD else folders.user_path(word)
        silent = SilentFile(path=str(path), seconds=TABLES_SECONDS, step="tables")
        return NamedModel(folder=path.parent, silent=silent)
