"""JSON files that users hand over, whatever program wrote them: profiles, snapshots, records."""

import codecs
from collections.abc import Callable
from pathlib import Path

from app.errors import AppError, ErrorCode
from app.units import format_bytes


def read_json(path: Path, most_bytes: int, refusal: Callable[[Path, str], AppError]) -> bytes:
    """The text of a JSON file as UTF-8 without a mark: PowerShell's `>` writes UTF-16, and editors mark UTF-8.

    Args:
        path: The file.
        most_bytes: A larger file is none of ours.
        refusal: Makes the error for that from the path and the reason.

    Raises:
        AppError: file_missing, file_unreadable, or what `refusal` makes.
    """
    try:
        with path.open("rb") as file:
            data = file.read(most_bytes + 1)
    except FileNotFoundError as error:
        raise AppError(ErrorCode.FILE_MISSING, f"{path} is not there.") from error
    except OSError as error:
        raise AppError(ErrorCode.FILE_UNREADABLE, f"{path} cannot be read.", str(error)) from error
    if len(data) > most_bytes:
        raise refusal(path, f"it is larger than {format_bytes(most_bytes)}")
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", "replace").encode()
    return data.removeprefix(codecs.BOM_UTF8)
