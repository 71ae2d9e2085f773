"""The keyboard and the mouse of a screen of memory, and what a user waits for: another picture that stays."""

from __future__ import annotations

import hashlib
import os
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from screen import Screen

PROGRAM = "xdotool"
_KEY_SECONDS = 20
_LOOK_SECONDS = 0.1
_TYPE_MILLISECONDS = 25
_Found = TypeVar("_Found")
Box = tuple[int, int, int, int]
"""Left, upper, right and lower edge in pixels of the screen."""


def until(look: Callable[[], _Found | None], awaited: str, seconds: float, *, pause: float = _LOOK_SECONDS) -> _Found:
    """What `look()` finds, as soon as that is something.

    Args:
        look: Looks once; what is empty, false or None is not it yet.
        awaited: What is awaited, in words for the failure.
        seconds: How long at most.
        pause: Seconds between two looks.

    Raises:
        SystemExit: it was not found in time.
    """
    found = until_or_not(look, seconds, pause=pause)
    if not found:
        raise SystemExit(f"windows: after {seconds:.0f} s still not: {awaited}")
    return found


def until_or_not(look: Callable[[], _Found | None], seconds: float, *, pause: float = _LOOK_SECONDS) -> _Found | None:
    """As `until`, but what was not found in time is only told by what `look` gave last."""
    end, clock = time.monotonic() + seconds, threading.Event()
    while True:
        found = look()
        if found or time.monotonic() > end:
            return found
        clock.wait(pause)


class Hands:
    """Keys and clicks for what is in front on a screen.

    Args:
        screen: Where.
    """

    def __init__(self, screen: Screen) -> None:
        self.screen = screen
        self._settings = {"DISPLAY": screen.display, "PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8"}

    def press(self, *keys: str) -> None:
        """Press keys one after another, each as X names it: "Return", "alt+F4"."""
        for key in keys:
            self.do("key", key)

    def write(self, text: str) -> None:
        """Type a text that every keyboard has the characters of."""
        self.do("type", "--delay", str(_TYPE_MILLISECONDS), text)

    def click(self, x: int, y: int) -> None:
        """Press the mouse's first button on a place, in pixels from the left and from above."""
        self.do("mousemove", str(x), str(y), "click", "1")

    def do(self, *command: str) -> str:
        """Run a command of xdotool; what it told."""
        done = subprocess.run(
            [PROGRAM, *command],
            env=self._settings,
            capture_output=True,
            text=True,
            timeout=_KEY_SECONDS + len(" ".join(command)) * _TYPE_MILLISECONDS / 1000,
            check=False,
        )
        return done.stdout

    def seen(self, box: Box | None = None) -> bytes:
        """A digest of what the screen, or a part of it, shows."""
        shown = self.screen.memory.read_bytes() if box is None else self.screen.part(box)
        return hashlib.sha256(shown).digest()

    def stillness(
        self, *, other_than: bytes = b"", still: float = 1.0, box: Box | None = None
    ) -> Callable[[], bytes | None]:
        """A look for `until`: the digest of a picture that has stayed as it is.

        Args:
            other_than: The digest of the picture that it must not be.
            still: Seconds that it must have stayed.
            box: The part of the screen that is looked at; all of it, if None.
        """
        since, last = time.monotonic(), self.seen(box)

        def stays() -> bytes | None:
            nonlocal since, last
            now = self.seen(box)
            if now != last or now == other_than:
                since, last = time.monotonic(), now
            return now if time.monotonic() - since >= still else None

        return stays

    def keep(self, picture: Path) -> None:
        """Keep what the screen shows as a PNG file."""
        picture.parent.mkdir(parents=True, exist_ok=True)
        self.screen.save(picture)
