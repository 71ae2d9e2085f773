"""Fetches one file of a release: goes on where it stopped, and gives it out only when size and SHA-256 are right."""

import hashlib
import logging
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

from app.errors import AppError, ErrorCode, writing_error
from app.library.file_lock import FileLock
from app.library.folders import cache_folder, ensure_folder
from app.units import format_bytes
from app.updates.feed import Release, ReleaseFile, version_key
from app.updates.installation import APPIMAGE
from app.updates.transport import RangeRefusedError, Reply, Transport

log = logging.getLogger(__name__)

_CHUNK = 1 << 18
_VERSION = re.compile(r"\d{1,6}(\.\d{1,6}){1,3}")

Progress = Callable[[int, int], None]
"""Called with the bytes that are there and those of the whole."""


def updates_folder() -> Path:
    """Where downloads lie, a folder for each version; nothing else is in it."""
    return cache_folder() / "updates"


def folder_of(release: Release) -> Path:
    """Where the files of `release` are kept."""
    return updates_folder() / release.version


def download(
    file: ReleaseFile,
    url: str,
    folder: Path,
    transport: Transport,
    on_progress: Progress,
    stopped: Callable[[], bool],
) -> Path:
    """Fetch `file`, or the rest of it, into `folder`; returns where it lies, whole and genuine.

    What was fetched stays beside it, under another name, when this is stopped or the connection ends.

    Raises:
        AppError: cancelled, `stopped` said so; no_network; disk_full; folder_not_writable; bad_usage, another window
            fetches it; update_untrusted, what came is not the file that the feed names, and was deleted.
    """
    target = ensure_folder(folder) / file.name
    with FileLock(target, on_wait=_refuse):
        if target.is_file():
            if sha256_of(target, stopped) == file.sha256:
                return target
            _remove(target)
        part = target.with_name(f"{file.name}.{file.sha256[:12]}.part")
        try:
            _fetch(file, url, part, transport, on_progress, stopped)
        except RangeRefusedError:
            _remove(part)  # of another file, then
            _fetch(file, url, part, transport, on_progress, stopped)
        try:
            if file.kind == APPIMAGE:
                part.chmod(0o755)
            part.replace(target)
        except OSError as error:
            raise writing_error(error, target) from error
    log.info("fetched %s, %d bytes", target, file.bytes)
    return target


def verify(file: ReleaseFile, path: Path, stopped: Callable[[], bool] = lambda: False) -> None:
    """Look once more whether `path` is what the feed names, right before it is opened.

    Raises:
        AppError: update_untrusted, it was changed, and was deleted; file_missing; file_unreadable; cancelled;
            folder_not_writable, it was changed, and cannot be deleted.
    """
    try:
        same = path.stat().st_size == file.bytes and sha256_of(path, stopped) == file.sha256
    except OSError as error:
        raise AppError(ErrorCode.FILE_MISSING, f"{path} is not there any more: fetch it again.", str(error)) from error
    if not same:
        _remove(path)
        raise AppError(ErrorCode.UPDATE_UNTRUSTED, f"{path} was changed after it came, and is deleted.")


def sha256_of(path: Path, stopped: Callable[[], bool] = lambda: False) -> str:
    """The SHA-256 of a file, as in the feed.

    Raises:
        AppError: cancelled; file_unreadable.
    """
    return _digest(path, stopped).hexdigest()


def drop_older(installed: str) -> None:
    """Delete the downloads of versions before the `installed` one, whose own file stays: it is the way back to it."""
    folder = updates_folder()
    try:
        for kept in sorted(folder.iterdir()) if folder.is_dir() else ():
            if _VERSION.fullmatch(kept.name) and version_key(kept.name) < version_key(installed) and kept.is_dir():
                log.info("downloads of version %s are deleted", kept.name)
                shutil.rmtree(kept, ignore_errors=True)
    except OSError as error:  # tidying up is no reason to learn of no newer version
        log.warning("older downloads stay: %s", error)


def _fetch(
    file: ReleaseFile,
    url: str,
    part: Path,
    transport: Transport,
    on_progress: Progress,
    stopped: Callable[[], bool],
) -> None:
    """Make `part` the whole of `file`; only what is genuine stays."""
    have = part.stat().st_size if part.is_file() else 0
    if have > file.bytes:
        _remove(part)
        have = 0
    digest = _digest(part, stopped) if have else hashlib.sha256()
    if have < file.bytes:
        free = _free(part.parent)
        if free < file.bytes - have:
            lacking = format_bytes(file.bytes - have - free)
            raise AppError(ErrorCode.DISK_FULL, f"The disk of {part.parent} lacks {lacking} for {file.name}.")
        with transport.open(url, have) as reply:
            if reply.total_bytes not in (None, file.bytes):
                raise AppError(
                    ErrorCode.UPDATE_UNTRUSTED,
                    f"{url} has {reply.total_bytes} bytes; the releases feed says {file.bytes}.",
                )
            if reply.start != have:
                have, digest = 0, hashlib.sha256()
            have = _write(file, url, part, reply, have, digest.update, on_progress, stopped)
        if have < file.bytes:
            raise AppError(
                ErrorCode.NO_NETWORK,
                f"{file.name} ended after {format_bytes(have)} of {format_bytes(file.bytes)}; "
                "the next try goes on there.",
            )
    if digest.hexdigest() != file.sha256:
        _remove(part)
        raise AppError(
            ErrorCode.UPDATE_UNTRUSTED, f"{file.name} is not the file that the releases feed names, and was deleted."
        )


def _free(folder: Path) -> int:
    """Bytes free on the disk of `folder`."""
    try:
        return shutil.disk_usage(folder).free
    except OSError as error:
        raise writing_error(error, folder) from error


def _write(
    file: ReleaseFile,
    url: str,
    part: Path,
    reply: Reply,
    have: int,
    feed_digest: Callable[[bytes], None],
    on_progress: Progress,
    stopped: Callable[[], bool],
) -> int:
    """Write what comes from byte `have` on; returns how many are there then."""
    try:
        with part.open("r+b" if have else "wb") as out:
            out.seek(have)
            on_progress(have, file.bytes)
            while piece := reply.read(_CHUNK):
                if stopped():
                    raise AppError(ErrorCode.CANCELLED, f"{file.name} was not fetched to its end.")
                if have + len(piece) > file.bytes:
                    raise AppError(ErrorCode.UPDATE_UNTRUSTED, f"{url} goes on after its {file.bytes} bytes.")
                out.write(piece)
                feed_digest(piece)
                have += len(piece)
                on_progress(have, file.bytes)
            out.flush()
            os.fsync(out.fileno())
    except OSError as error:
        raise writing_error(error, part) from error
    return have


def _digest(path: Path, stopped: Callable[[], bool]) -> "hashlib._Hash":
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while piece := file.read(1 << 20):
                if stopped():
                    raise AppError(ErrorCode.CANCELLED, f"{path.name} was not read to its end.")
                digest.update(piece)
    except OSError as error:
        raise AppError(ErrorCode.FILE_UNREADABLE, f"{path} cannot be read.", str(error)) from error
    return digest


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise writing_error(error, path) from error


def _refuse() -> None:
    raise AppError(ErrorCode.BAD_USAGE, "Another window of this app is fetching this file.")
