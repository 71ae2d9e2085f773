"""Where releases are published, and whose signature they bear: what a release build knows and this source does not.

`installer/release/bake.py` writes the module `app.updates.baked` into the tree that is frozen; without it the app knows
no address and asks nobody.
"""

import importlib
from dataclasses import dataclass

from app.errors import AppError, ErrorCode

_BAKED = "app.updates.baked"


@dataclass(frozen=True)
class Source:
    """A releases feed.

    Attributes:
        feed_url: Its HTTPS address.
        keys: Public keys of who may sign it, each the base64 of 32 bytes.
    """

    feed_url: str
    keys: tuple[str, ...]


def known_source() -> Source | None:
    """What this build knows; None where it was made without."""
    try:
        baked = importlib.import_module(_BAKED)
    except ModuleNotFoundError as error:
        if error.name != _BAKED:
            raise
        return None
    return Source(feed_url=str(baked.FEED_URL), keys=tuple(str(key) for key in baked.KEYS))


def unknown_source() -> AppError:
    """The error for a build that knows none."""
    return AppError(ErrorCode.UPDATES_UNKNOWN, "This build does not know where releases are published.")
