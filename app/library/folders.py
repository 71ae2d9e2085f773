"""Where the application keeps its files.

`EXPERT_LANES_HOME` puts everything below one folder (portable use, tests).
"""

import os
from pathlib import Path

import platformdirs

from app.errors import AppError, ErrorCode, writing_error

HOME_VARIABLE = "EXPERT_LANES_HOME"
_APP_NAME = "expert-lanes"


def _portable_home() -> Path | None:
    home = os.environ.get(HOME_VARIABLE, "")
    return user_path(home) if home else None


def user_path(text: str | Path) -> Path:
    """The absolute path a user means; `~` is the home folder.

    Raises:
        AppError: bad_usage, `~name` names no user.
    """
    try:
        return Path(text).expanduser().absolute()
    except RuntimeError as error:
        raise AppError(ErrorCode.BAD_USAGE, f"{text}: there is no such user.", str(error)) from error


def data_folder() -> Path:
    """Conversations and settings: what a user would miss. The folder may not exist yet."""
    home = _portable_home()
    return home / "data" if home else platformdirs.user_data_path(_APP_NAME, appauthor=False)


def models_folder() -> Path:
    """Model files. The folder may not exist yet."""
    home = _portable_home()
    return home / "models" if home else data_folder() / "models"


def components_folder() -> Path:
    """Backends of the engine that are installed apart, such as CUDA. The folder may not exist."""
    return data_folder() / "components"


def cache_folder() -> Path:
    """What can be made again at any time. The folder may not exist yet."""
    home = _portable_home()
    return home / "cache" if home else platformdirs.user_cache_path(_APP_NAME, appauthor=False)


def log_folder() -> Path:
    """Rotating logs. The folder may not exist yet."""
    home = _portable_home()
    return home / "logs" if home else platformdirs.user_log_path(_APP_NAME, appauthor=False)


def ensure_folder(folder: Path) -> Path:
    """Create `folder` with its parents where missing, and return it.

    Raises:
        AppError: folder_not_writable or disk_full.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise writing_error(error, folder) from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise AppError(ErrorCode.FOLDER_NOT_WRITABLE, f"The folder {folder} cannot be written to.")
    return folder
