"""Whether a loaded model's files are still those that were mapped: seen from their entries and from bytes of theirs."""

import contextlib
import hashlib
import logging
import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from app.engine.write_watch import WriteWatch
from app.errors import AppError, ErrorCode

log = logging.getLogger(__name__)

# Read whole: metadata, vocabulary and the table of tensors lie there.
_HEAD_BYTES = 16 << 20
# Of the rest: a page here and there. What is written to a file over more bytes than lie between two of them is found.
_SAMPLE_BYTES = 4096
_LEAST_APART_BYTES = 256 << 10
_MOST_SAMPLES = 1024  # of all files: a tenth of a second on a solid-state disk that has none of them in memory


class _Seen(NamedTuple):
    """A file as it was."""

    entry: os.stat_result
    digest: bytes


class MappedFiles:
    """The files of a model as they were when it was loaded; make it before they are opened.

    A mapping is of the file that had the name then. Another file that took its name changes no answer; bytes that were
    written into it do: the system tells of writing, or the file's size, its head or samples of the rest show it. A new
    time alone (`touch`, a program that makes copies) does not.

    Raises:
        AppError: file_missing or file_unreadable, one of them cannot be looked at.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        self._seen: dict[Path, _Seen] = {}
        self._told: set[Path] = set()
        files = [Path(path) for path in paths]
        self._watch = WriteWatch(files)
        self._samples = _MOST_SAMPLES // max(len(files), 1)
        for path in files:
            try:
                self._seen[path] = _Seen(path.stat(), self._digest(path))
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
            if now is not None and _is_same(now, before.entry):
                self._compare(path, now)
            elif path in self._watch.written():
                raise _changed(path, "it has lost its name, and the system tells that it was written to")
            elif path not in self._told:
                self._told.add(path)
                what = "is gone from its place" if now is None else "was replaced by another one"
                sentences.append(
                    f"The model file {path.name} {what} since the model was loaded: answers still come from the file "
                    "as it was, until the model is loaded again."
                )
        return sentences

    def _compare(self, path: Path, now: os.stat_result) -> None:
        """Refuse a file whose bytes are others.

        Raises:
            AppError: model_damaged, they are, or cannot be read.
        """
        before = self._seen[path]
        detail = f"{before.entry.st_size:,} bytes then, {now.st_size:,} bytes now"
        if path in self._watch.written():
            detail += "; the system tells that it was written to"
        elif now.st_size == before.entry.st_size:
            if now.st_mtime_ns == before.entry.st_mtime_ns:
                return
            try:
                if self._digest(path) == before.digest:
                    log.info("%s has another time and the same bytes, as far as they were compared", path.name)
                    self._seen[path] = before._replace(entry=now)
                    return
                detail = "other bytes of the same number"
            except OSError as error:
                detail = str(error)
        raise _changed(path, detail)

    def _digest(self, path: Path) -> bytes:
        """Of the file's head, and of pages evenly spread over the rest up to its end.

        Raises:
            OSError: it cannot be read.
        """
        digest = hashlib.blake2b(digest_size=16)
        with path.open("rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            head = min(size, _HEAD_BYTES)
            while file.tell() < head and (piece := file.read(min(head - file.tell(), 1 << 20))):
                digest.update(piece)
            if hasattr(os, "posix_fadvise"):  # only what is asked for is read
                with contextlib.suppress(OSError):
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
            count = min(self._samples, -(-(size - head) // _LEAST_APART_BYTES))
            for index in range(1, count + 1):
                file.seek(max(head, head + (size - head) * index // count - _SAMPLE_BYTES))
                digest.update(file.read(_SAMPLE_BYTES))
        return digest.digest()


def _changed(path: Path, detail: str) -> AppError:
    return AppError(
        ErrorCode.MODEL_DAMAGED,
        f"The model file was changed while the model was loaded: {path.name}. Load the model again.",
        detail,
    )


def _stat(path: Path) -> os.stat_result | None:
    """None where it is not there, or where its drive does not tell: reading it will show."""
    try:
        return path.stat()
    except OSError:
        return None


def _is_same(one: os.stat_result, other: os.stat_result) -> bool:
    return (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
