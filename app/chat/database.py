"""Opens the conversation database: settings, schema, damaged files kept aside, typed errors."""

import logging
import shutil
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from app.errors import AppError, ErrorCode

log = logging.getLogger(__name__)

BUSY_SECONDS = 10.0
"""How long a write waits for another program that is writing, unless a store is told otherwise."""
_RETRY_SECONDS = 0.02
_PRIMARY_CODE = 0xFF
_DAMAGE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_NOT_WRITABLE = {
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_AUTH,
}
# Files that SQLite keeps beside the database. The log goes first: one that were left behind would be
# taken for the log of the fresh database.
_COMPANIONS = ("-wal", "-shm")
_INDEX_BYTES = 32768
"""What the smallest index of a write-ahead log (-shm) takes, by SQLite's file format."""


class StoreBusyError(AppError):
    """Another program is writing to the store; nothing was changed, and the same may work in a moment."""

    def __init__(self, path: Path, detail: str) -> None:
        super().__init__(ErrorCode.STORE_UNREADABLE, f"Another program is writing to {path} and keeps it.", detail)


# Each step leads from the version that is its index to the next one; `user_version` says how many
# were taken. A step that was released is never changed.
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE conversations (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            title TEXT NOT NULL,
            created REAL NOT NULL,
            updated REAL NOT NULL,
            model TEXT NOT NULL,
            leaf INTEGER REFERENCES messages(id) ON DELETE SET NULL
        )""",
        """CREATE TABLE messages (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            conversation_id INTEGER NOT NULL REFERENCES conversations(id) ON DELETE CASCADE,
            parent_id INTEGER REFERENCES messages(id) ON DELETE CASCADE,
            role TEXT NOT NULL,
            content TEXT NOT NULL,
            state TEXT NOT NULL,
            created REAL NOT NULL,
            figures TEXT,
            writer_pid INTEGER,
            writer_started REAL
        )""",
        "CREATE INDEX messages_by_conversation ON messages(conversation_id)",
        "CREATE INDEX messages_by_parent ON messages(parent_id)",
        "CREATE INDEX conversations_by_leaf ON conversations(leaf)",
        "CREATE INDEX messages_streaming ON messages(state) WHERE state = 'streaming'",
    ),
)


def open_database(path: Path) -> tuple[sqlite3.Connection, Path | None]:
    """Open the database at `path`, creating it and its folder where missing.

    A damaged file is renamed, never deleted, and a fresh one takes its place.

    Returns:
        The connection, and the name that a damaged file was given (None where it was sound).

    Raises:
        AppError: folder_not_writable, disk_full, or store_unreadable (written by a newer version, or
            held by another process).
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise AppError(
            ErrorCode.FOLDER_NOT_WRITABLE, f"The folder {path.parent} cannot be created.", str(error)
        ) from error
    with typed_errors(path):
        opened = _identity(path)
        try:
            return _open(path), None
        except sqlite3.DatabaseError as error:
            if _primary_code(error) not in _DAMAGE:
                raise
            log.error("%s is damaged: %s", path, error)
        # Another process may have met the damage too, and been quicker: then its fresh file stays.
        aside = _keep_aside(path) if _identity(path) == opened else None
        return _open(path), aside


@contextmanager
def typed_errors(path: Path) -> Iterator[None]:
    """Turn what SQLite reports inside the block into an `AppError`; misuse of the module passes."""
    try:
        yield
    except sqlite3.Error as error:
        code = _primary_code(error)
        if code is None:
            raise
        raise _typed(code, error, path) from error


@contextmanager
def writing(connection: sqlite3.Connection) -> Iterator[None]:
    """One transaction that writes: all of the block, or nothing of it.

    It takes the right to write at its beginning, so two processes wait for each other instead of
    refusing each other halfway. Inside another one it is a part of that one.
    """
    if connection.in_transaction:
        yield
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def set_patience(connection: sqlite3.Connection, seconds: float) -> None:
    """How long a write waits from now on for another program that is writing."""
    connection.execute(f"PRAGMA busy_timeout = {round(seconds * 1000)}")


def migrate(connection: sqlite3.Connection, ladder: Sequence[Sequence[str]]) -> None:
    """Take the steps of `ladder` that the database has not taken yet, each whole or not at all.

    Raises:
        AppError: store_unreadable, the database is of a newer version than the ladder.
        sqlite3.Error: a step failed; the steps before it stay.
    """
    if _version(connection) == len(ladder):
        return
    while True:
        with writing(connection):
            # Read inside the transaction: another process may just have taken the step.
            version = _version(connection)
            if version > len(ladder):
                raise AppError(
                    ErrorCode.STORE_UNREADABLE,
                    f"The conversations were written by a newer version of this app (schema {version}, "
                    f"this one knows {len(ladder)}); the file was left as it is.",
                )
            if version == len(ladder):
                return
            for statement in ladder[version]:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {version + 1}")


def _open(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
    try:
        _use_write_ahead_log(connection, path)
        # With a write-ahead log this level loses nothing that was committed when the process dies,
        # and never the database itself; FULL would wait for the disk many times in every answer.
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA foreign_keys = ON")
        _check(connection)
        migrate(connection, MIGRATIONS)
    except BaseException:
        connection.close()
        raise
    return connection


def _use_write_ahead_log(connection: sqlite3.Connection, path: Path) -> None:
    """Switch the mode on; SQLite does not wait by itself for a process that is doing the same."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            break
        except sqlite3.OperationalError as error:
            if _primary_code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(_RETRY_SECONDS)
    if mode != "wal":
        log.warning("%s: the file system allows no write-ahead log, mode is %s", path, mode)
        connection.execute("PRAGMA synchronous = FULL")


def _check(connection: sqlite3.Connection) -> None:
    """Look for damage in the whole file.

    Raises:
        sqlite3.DatabaseError: with the code of a damaged file.
    """
    (finding,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if finding != "ok":
        damage = sqlite3.DatabaseError(finding)
        damage.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise damage


def _identity(path: Path) -> tuple[int, int] | None:
    """What tells this file from another one of the same name; None where there is none."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _keep_aside(path: Path) -> Path:
    """Rename the database with its companions; returns the new name.

    Raises:
        AppError: folder_not_writable.
    """
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    aside = path.with_name(f"{path.stem}.damaged-{stamp}{path.suffix}")
    number = 2
    while aside.exists():
        aside = path.with_name(f"{path.stem}.damaged-{stamp}-{number}{path.suffix}")
        number += 1
    try:
        for suffix in _COMPANIONS:
            companion = path.with_name(path.name + suffix)
            if companion.exists():
                companion.rename(aside.with_name(aside.name + suffix))
        path.rename(aside)
    except OSError as error:
        raise AppError(
            ErrorCode.FOLDER_NOT_WRITABLE,
            f"The damaged file {path} could not be kept aside.",
            str(error),
        ) from error
    log.error("the damaged file was kept aside as %s", aside)
    return aside


def _version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def _primary_code(error: sqlite3.Error) -> int | None:
    """SQLite's code without its refinement, or None for an error of the Python module itself."""
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & _PRIMARY_CODE


def _typed(code: int, error: sqlite3.Error, path: Path) -> AppError:
    # At the start of a full disk SQLite tells only that it could not make its index of the log.
    if code == sqlite3.SQLITE_FULL or (code == sqlite3.SQLITE_IOERR and _disk_is_full(path)):
        return AppError(ErrorCode.DISK_FULL, f"The disk is full: {path} could not be written.", str(error))
    if code in _NOT_WRITABLE:
        return AppError(ErrorCode.FOLDER_NOT_WRITABLE, f"{path} cannot be written.", str(error))
    if code == sqlite3.SQLITE_BUSY:
        return StoreBusyError(path, str(error))
    return AppError(ErrorCode.STORE_UNREADABLE, f"{path} could not be read or written.", str(error))


def _disk_is_full(path: Path) -> bool:
    try:
        return shutil.disk_usage(path.parent).free < _INDEX_BYTES
    except OSError:
        return False
