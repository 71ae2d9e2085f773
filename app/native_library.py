"""Where the compiled libraries of this package lie, beside the package that uses them; why a library does not load.

Imports `errors` only; may be imported by engine and placement.
"""

import sys
from pathlib import Path

import app
from app.errors import AppError, ErrorCode


def find(package: str, name: str, words: str) -> Path:
    """The library `name` (as CMake's target is called) beside the package `app.{package}`.

    An editable installation has two folders of a package, the source tree's and the installed one with what
    was built.

    Args:
        package: Name of the package below `app`.
        name: The library's, without the system's prefix and ending.
        words: What it is, for people.

    Raises:
        AppError: engine_missing, it is in neither.
    """
    names = (f"{name}.dll", f"lib{name}.dll") if sys.platform == "win32" else (f"lib{name}.so",)
    for folder in app.__path__:
        for file in names:
            path = Path(folder) / package / file
            if path.exists():
                return path
    raise AppError(ErrorCode.ENGINE_MISSING, f"{words} ({names[0]}) is not installed.")


def why_not_loaded(error: Exception) -> str:
    """What the system says of a library that did not load, without a full stop at its end.

    In a frozen app an error of ctypes only guesses, that the file is missing; the system's own lies below it.
    """
    told = error.__cause__ if isinstance(error.__cause__, OSError) else error
    return str(told).rstrip(". ")
