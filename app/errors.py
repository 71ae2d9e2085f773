"""The one error family of the application: a typed code, a technical message, and its exit status.

Any package may raise `AppError`; only the edges (command line, window) turn a code into advice.
Imports nothing of ours; may be imported by everything.
"""

import enum
import errno
from pathlib import Path


class ErrorCode(enum.StrEnum):
    """What went wrong, as a stable word that travels between processes."""

    BAD_USAGE = "bad_usage"
    FILE_MISSING = "file_missing"
    FILE_UNREADABLE = "file_unreadable"
    NOT_GGUF = "not_gguf"
    MODEL_DAMAGED = "model_damaged"
    SHARD_MISSING = "shard_missing"
    ARCHITECTURE_UNKNOWN = "architecture_unknown"
    MODEL_UNSUPPORTED = "model_unsupported"
    FOLDER_NOT_WRITABLE = "folder_not_writable"
    DISK_FULL = "disk_full"
    OUT_OF_MEMORY = "out_of_memory"
    DEVICE_MISSING = "device_missing"
    CONTEXT_FULL = "context_full"
    ENGINE_MISSING = "engine_missing"
    ENGINE_CRASHED = "engine_crashed"
    ENGINE_PROTOCOL = "engine_protocol"
    ENGINE_FAILED = "engine_failed"
    CANCELLED = "cancelled"
    STORE_UNREADABLE = "store_unreadable"
    NO_NETWORK = "no_network"
    UPDATES_UNKNOWN = "updates_unknown"
    FEED_UNREADABLE = "feed_unreadable"
    UPDATE_UNTRUSTED = "update_untrusted"


EXIT_OK = 0
EXIT_BAD_USAGE = 2
EXIT_MODEL = 3
EXIT_OUT_OF_MEMORY = 4
EXIT_ENGINE = 5

_MODEL_CODES = {
    ErrorCode.FILE_MISSING,
    ErrorCode.FILE_UNREADABLE,
    ErrorCode.NOT_GGUF,
    ErrorCode.MODEL_DAMAGED,
    ErrorCode.SHARD_MISSING,
    ErrorCode.ARCHITECTURE_UNKNOWN,
    ErrorCode.MODEL_UNSUPPORTED,
}

_ENGINE_CODES = {
    ErrorCode.ENGINE_MISSING,
    ErrorCode.ENGINE_CRASHED,
    ErrorCode.ENGINE_PROTOCOL,
    ErrorCode.ENGINE_FAILED,
}


_FULL = {errno.ENOSPC, errno.EDQUOT}


class AppError(Exception):
    """A failure the user can be told about.

    Attributes:
        code: What kind of failure; chooses the advice and the exit status.
        message: One technical sentence in English that names the thing concerned.
        detail: Longer evidence (a log excerpt, an operating system error), or empty.
    """

    def __init__(self, code: ErrorCode, message: str, detail: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.detail = detail

    @property
    def exit_status(self) -> int:
        """The process exit status of the command line for this failure."""
        if self.code in _MODEL_CODES:
            return EXIT_MODEL
        if self.code is ErrorCode.OUT_OF_MEMORY:
            return EXIT_OUT_OF_MEMORY
        if self.code in _ENGINE_CODES:
            return EXIT_ENGINE
        return EXIT_BAD_USAGE


def writing_error(error: OSError, path: Path) -> AppError:
    """The typed error for an operating system error met while writing `path`."""
    if error.errno in _FULL:
        return AppError(ErrorCode.DISK_FULL, f"The disk is full: {path} could not be written.", str(error))
    return AppError(ErrorCode.FOLDER_NOT_WRITABLE, f"{path} could not be written.", str(error))
