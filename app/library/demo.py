"""The demo model: a real chat MoE made from a small dense model by copying its FFN n times.

All experts of a layer are equal and llama.cpp's `llama` architecture normalises the weights of the
chosen ones to sum 1 (softmax gating), so its text is the dense model's, whatever the routing;
`demo_router` says how rounding is kept out of it.
"""

import contextlib
import logging
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from app.errors import AppError, ErrorCode, writing_error
from app.library.demo_source import DEMO_NAME, find_source, sha256_of, verify_source
from app.library.file_lock import FileLock
from app.library.folders import ensure_folder, models_folder, user_path
from app.model.gguf_table import read_table

log = logging.getLogger(__name__)

MAX_EXPERTS = 64


@dataclass(frozen=True)
class DemoModel:
    """A demo model that was built.

    Attributes:
        path: Absolute path.
        bytes: Size of the file.
        sha256: Hex digest of the file; the same for the same `experts` and `used`.
        experts: Experts in each layer.
        used: Experts that each token is routed to (top-k).
    """

    path: Path
    bytes: int
    sha256: str
    experts: int
    used: int


def demo_model_path() -> Path:
    """Where the demo model is kept; the file may not exist yet."""
    return models_folder() / "expert-lanes-demo.gguf"


def build_demo(
    out: Path, experts: int = 8, used: int = 2, on_progress: Callable[[float], None] | None = None
) -> DemoModel:
    """Build the demo model at `out`, atomically: a reader sees the old file or the whole new one.

    Another process that builds the same file is waited for. A file that already holds the very same
    bytes is left alone, so it may be in use.

    Args:
        out: The file to write; its folder is created where missing.
        experts: Copies of the FFN in each layer, 1 to MAX_EXPERTS.
        used: Experts for each token, 1 to `experts`.
        on_progress: Called with the fraction done, 0 to 1; may raise to cancel, which leaves `out` as it was.

    Raises:
        AppError: bad_usage, file_missing (source not installed), model_damaged (source is another
            file), folder_not_writable or disk_full.
    """
    # Imported here: gguf and NumPy take longer to import than a window that only lists models may take.
    from app.library.demo_writer import write_demo  # noqa: PLC0415

    if not 1 <= used <= experts <= MAX_EXPERTS:
        raise AppError(
            ErrorCode.BAD_USAGE,
            f"A demo needs 1 <= used <= experts <= {MAX_EXPERTS}, not {used} used of {experts}.",
        )
    out = user_path(out)
    _check_target(out)
    report = on_progress or (lambda _fraction: None)
    source = find_source()
    ensure_folder(out.parent)
    with FileLock(out, on_wait=lambda: report(0.0)):
        verify_source(source)
        part = out.with_name(f".{out.name}.expert-lanes.part")
        try:
            part.unlink(missing_ok=True)  # of a build that was killed: it would count as used space
            write_demo(part, source, experts, used, report)
            digest = sha256_of(part)
            _publish(part, out, digest)
        except OSError as error:
            raise writing_error(error, out) from error
        finally:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)
    report(1.0)
    size = out.stat().st_size
    log.info("demo model with %d experts at %s, %d bytes, sha256 %s", experts, out, size, digest)
    return DemoModel(path=out, bytes=size, sha256=digest, experts=experts, used=used)


def _check_target(out: Path) -> None:
    """Refuse to replace anything but an earlier demo; what stands in the demo's own place is one, even damaged.

    Raises:
        AppError: bad_usage, or why the place cannot be looked at.
    """
    try:
        kind = out.lstat().st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise writing_error(error, out) from error
    if stat.S_ISDIR(kind):
        raise AppError(ErrorCode.BAD_USAGE, f"{out} is a folder: name the file to write.")
    try:
        is_demo = stat.S_ISREG(kind) and str(read_table(out).metadata.get("general.name", "")).startswith(DEMO_NAME)
    except AppError:
        is_demo = out == demo_model_path()
    if not is_demo:
        raise AppError(ErrorCode.BAD_USAGE, f"{out} exists and is no demo model: name another file.")


def _publish(part: Path, out: Path, digest: str) -> None:
    """Put `part` in the place of `out`, unless the same bytes are there already.

    The exception matters on Windows, where a file that a loaded model maps cannot be replaced.
    """
    if out.is_file() and out.stat().st_size == part.stat().st_size and sha256_of(out) == digest:
        return
    part.replace(out)
