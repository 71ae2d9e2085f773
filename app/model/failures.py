"""The two sentences that every refusal of a model file is made of."""

from pathlib import Path

from app.errors import AppError, ErrorCode


def damaged(path: Path, what: str) -> AppError:
    """The error that says `what` is wrong with the bytes of the file at `path`."""
    return AppError(ErrorCode.MODEL_DAMAGED, f"{path.name} is damaged: {what}.")


def unsupported(path: Path, why: str) -> AppError:
    """The error that says why the file at `path` cannot be used, although it may be whole."""
    return AppError(ErrorCode.MODEL_UNSUPPORTED, f"{path.name} cannot be used: {why}.")
