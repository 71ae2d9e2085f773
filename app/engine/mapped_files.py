"""Whether a loaded model's files are still those that were mapped: seen from their entries in the file system."""

import os
from collections.abc import Iterable
from pathlib import Path

from app.errors import AppError, ErrorCode


class MappedFiles:
    """The files of a model as they were when it was loaded; make it before they are opened.

    A mapping is of the file that had the name then. Another file that took its name changes no answer; bytes that were
    written into it do.

    Raises:
        AppError: file_missing or file_unreadable, one of them cannot be looked at.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        self._seen: dict[Path, os.stat_result] = {}
        self._told: set[Path] = set()
        for path in map(Path, paths):
            try:
                self._seen[path] = path.stat()
            except FileNotFoundError as error:
                raise AppError(ErrorCode.FILE_MISSING, f"The model file is missing: {path}", str(error)) from error
            except OSError as error:
                raise AppError(
                    ErrorCode.FILE_UNREADABLE, f"The model file cannot be looked at: {path}", str(error)
                ) from error

    def check(self) -> list[str]:
        """Look again; one sentence for each file that has lost its name since, told once.

        Raises:
            AppError: model_damaged, a file was written to: what is computed now is not what was loaded.
        """
        sentences = []
        for path, before in self._seen.items():
            now = _stat(path)
            if now is not None and _is_same(now, before):
                if (now.st_size, now.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
                    raise AppError(
                        ErrorCode.MODEL_DAMAGED,
                        f"The model file was changed while the model was loaded: {path.name}. Load the model again.",
                        f"{before.st_size:,} bytes then, {now.st_size:,} bytes now",
                    )
            elif path not in self._told:
                self._told.add(path)
                what = "is gone from its place" if now is None else "was replaced by another one"
                sentences.append(
                    f"The model file {path.name} {what} since the model was loaded: answers still come from the file "
                    "as it was, until the model is loaded again."
                )
        return sentences


def _stat(path: Path) -> os.stat_result | None:
    """None where it is not there, or where its drive does not tell: reading it will show."""
    try:
        return path.stat()
    except OSError:
        return None


def _is_same(one: os.stat_result, other: os.stat_result) -> bool:
    return (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
