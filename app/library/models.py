"""The models on this machine, and what a word on the command line means."""

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from app.errors import AppError, ErrorCode
from app.library.demo import demo_model_path
from app.library.folders import models_folder, user_path
from app.model.shards import model_name

log = logging.getLogger(__name__)

DEMO_WORD = "demo"


class LocalModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model in the models folder.

    Attributes:
        path: What to load: the file, or the first part of a model that was split.
        name: The file's name without its ending and the number of the part.
        bytes: Size on disk of all its parts.
    """

    path: Path
    name: str
    bytes: int


def local_models() -> tuple[LocalModel, ...]:
    """Every model below the models folder, by name; a model in several parts counts once.

    What cannot be read, or is removed meanwhile, is passed over with a line in the log.
    """
    sets: dict[tuple[Path, str, str], list[tuple[Path, int]]] = {}
    for path in sorted(_gguf_files(models_folder())):
        try:
            size = path.stat().st_size
        except OSError as error:
            _pass_over(error)
            continue
        name = model_name(path)
        # "a.gguf" and "a-00001-of-00002.gguf" are two models although both are named "a".
        count = "" if name == path.stem else path.stem.rpartition("-")[2]
        sets.setdefault((path.parent, name, count), []).append((path, size))
    models = (
        LocalModel(path=parts[0][0], name=name, bytes=sum(size for _, size in parts))
        for (_, name, _), parts in sets.items()
    )
    return tuple(sorted(models, key=lambda model: (model.name.casefold(), model.path)))


def _gguf_files(folder: Path) -> Iterator[Path]:
    if not folder.is_dir():
        return
    for parent, _, names in os.walk(folder, onerror=_pass_over):
        yield from (Path(parent, name) for name in names if name.lower().endswith(".gguf"))


def _pass_over(error: OSError) -> None:
    log.warning("left out of the list of models: %s", error)


def resolve(word: str) -> Path:
    """The model file that `word` means: "demo", or a path (`~` is the home folder).

    Only the demo model is looked for; whether another path is a model is found out by reading it.

    Raises:
        AppError: file_missing, the demo model was not built yet.
    """
    if word != DEMO_WORD:
        return user_path(word)
    path = demo_model_path()
    try:
        built = path.is_file()
    except OSError as error:
        raise AppError(ErrorCode.FILE_UNREADABLE, f"{path} cannot be looked at.", str(error)) from error
    if not built:
        raise AppError(ErrorCode.FILE_MISSING, "The demo model is not built yet: run `expert-lanes demo`.", str(path))
    return path
