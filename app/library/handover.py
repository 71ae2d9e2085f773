"""One window for a user: a second start hands its model file to the window that runs, and ends.

The window that runs holds a lock; requests are small files in a folder that it watches. So nothing listens on a
network, nobody but the user can ask, and a window that died leaves no trace: the system drops its lock. A window that
hangs takes nothing, and the second start then opens one of its own.
"""

import contextlib
import logging
import os
import platform
import re
import sys
import time
import zlib
from pathlib import Path

import msgspec

from app.errors import AppError, writing_error
from app.library.appimage import appimage_file
from app.library.file_lock import FileLock
from app.library.folders import cache_folder, ensure_folder

log = logging.getLogger(__name__)

PATIENCE_SECONDS = 4.0
"""How long a second start waits to be heard: a first one that is just starting needs about two."""

_POLL_SECONDS = 0.02
_REQUEST_BYTES = 1 << 16
_SUFFIX = ".request"


def handover_folder() -> Path:
    """Where windows of this user meet: those of one program on this machine and, on Linux, of this screen.

    A home folder may serve several machines, a user may sit at one screen while a window runs on another, and a version
    that was just installed must not end because the one before still runs.
    """
    # An AppImage lies somewhere else at every start.
    program = appimage_file(Path(sys.executable), os.environ) or str(Path(sys.executable).parent)
    screen = os.environ.get("WAYLAND_DISPLAY") or os.environ.get("DISPLAY") or "" if sys.platform != "win32" else ""
    name = re.sub(r"[^A-Za-z0-9.-]+", "_", f"{platform.node()}-{screen}").strip("-.")
    return cache_folder() / "window" / f"{name}-{zlib.crc32(os.fsencode(program)):08x}"


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What a second start wants.

    Attributes:
        path: The model file as the system writes paths, empty for none: only the window is wanted.
        activation: What the desktop gave the second start to show that the user asked for it; empty where it gave none.
    """

    path: bytes = b""
    activation: str = ""


class Handover:
    """Both sides, in `folder`: hold or ask first, then take.

    Args:
        folder: For requests and the lock; made where missing.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._held = contextlib.ExitStack()

    def hold(self) -> bool:
        """Become the window that runs; False where another one does.

        Where that cannot be found out, such as in a folder that cannot be written, this is one more window.
        """
        try:
            ensure_folder(self.folder)
            self._held.enter_context(FileLock(self.folder / "window", on_wait=_give_up))
        except _HeldError:
            return False
        except AppError as error:
            log.warning("whether a window runs cannot be found out: %s", error.message)
        return True

    def ask(self, request: Request, patience_seconds: float = PATIENCE_SECONDS) -> bool:
        """Hand `request` to the window that runs; False where it does not take it in time.

        Raises:
            AppError: folder_not_writable or disk_full.
        """
        file = self.folder / f"{os.urandom(8).hex()}{_SUFFIX}"
        draft = file.with_suffix(".new")
        _let_come_forward()  # before it can be taken, for the window comes to the front then
        try:
            draft.write_bytes(msgspec.json.encode(request))
            draft.replace(file)
        except OSError as error:
            with contextlib.suppress(OSError):
                draft.unlink()
            raise writing_error(error, file) from error
        end = time.monotonic() + patience_seconds
        while file.exists():
            if time.monotonic() > end:
                return not _withdrawn(file)
            time.sleep(_POLL_SECONDS)
        return True

    def take(self) -> tuple[Request, ...]:
        """What was asked for since, the oldest first; each is given out once, and what cannot be read is dropped."""
        taken: list[Request] = []
        for file in sorted(self.folder.glob(f"*{_SUFFIX}"), key=_age):
            try:
                with file.open("rb") as opened:
                    data = opened.read(_REQUEST_BYTES)
                file.unlink()
                taken.append(msgspec.json.decode(data, type=Request))
            except FileNotFoundError:
                continue  # its start gave up waiting
            except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                log.warning("%s is no request: %s", file, error)
        return tuple(taken)

    def close(self) -> None:
        """Let another window be the one that runs."""
        self._held.close()


class _HeldError(Exception):
    pass


def _give_up() -> None:
    raise _HeldError


def _age(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except OSError:
        return 0.0


def _withdrawn(file: Path) -> bool:
    """Take a request back; False where it is being taken at this moment."""
    try:
        file.unlink()
    except OSError:
        return False
    return True


def _let_come_forward() -> None:
    """Windows lets only the program that the user just started bring a window to the front, or whom it allows to."""
    if sys.platform == "win32":
        import ctypes  # noqa: PLC0415

        any_process = -1
        ctypes.windll.user32.AllowSetForegroundWindow(any_process)


def start_request(path: Path | None) -> Request:
    """What this start wants, with what the desktop gave it."""
    activation = os.environ.get("XDG_ACTIVATION_TOKEN") or os.environ.get("DESKTOP_STARTUP_ID") or ""
    try:
        activation.encode()
    except UnicodeEncodeError:
        activation = ""  # it is text, or none that a desktop gave
    return Request(path=os.fsencode(path) if path else b"", activation=activation)
