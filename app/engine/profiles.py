"""Routing profiles: the heat of a model's experts, kept between runs so that the next start is warm.

One JSON file for each model, named by the fingerprint of its tensors. What cannot be read is passed over with
a line in the log: a profile only saves time.
"""

import contextlib
import logging
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

log = logging.getLogger(__name__)

VERSION = 1
SAVE_SECONDS = 30.0
"""Least time between two saves while a model is loaded."""


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """Heat of the experts of one model.

    Attributes:
        fingerprint: `ModelFacts.fingerprint` of the model.
        heat: MoE layer index to the decayed routing count of every expert.
    """

    version: int = VERSION
    fingerprint: str
    heat: dict[int, tuple[float, ...]]


class ProfileStore:
    """The profile of one loaded model in `folder`, which is made at the first save."""

    def __init__(self, folder: Path, fingerprint: str) -> None:
        self._folder = folder
        self._path = folder / f"{fingerprint}.json"
        self._fingerprint = fingerprint
        self._saved_at = time.monotonic()

    def load(self, experts: Mapping[int, int]) -> dict[int, tuple[float, ...]]:
        """The saved heat by layer, of those layers that have as many experts as `experts` says; may be empty."""
        try:
            profile = msgspec.json.decode(self._path.read_bytes(), type=Profile)
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            log.warning("the routing profile %s is passed over: %s", self._path, error)
            return {}
        if profile.version != VERSION or profile.fingerprint != self._fingerprint:
            log.warning("the routing profile %s is passed over: it is of another version or model", self._path)
            return {}
        return {
            layer: heat
            for layer, heat in profile.heat.items()
            if len(heat) == experts.get(layer) and all(value >= 0 for value in heat)
        }

    def is_due(self) -> bool:
        """Whether the last save is long enough ago."""
        return time.monotonic() - self._saved_at >= SAVE_SECONDS

    def save(self, heat: Mapping[int, Sequence[float]]) -> None:
        """Replace the file, whole or not at all; heat of nothing but zeros leaves it as it is."""
        self._saved_at = time.monotonic()
        if not any(value > 0 for layer in heat.values() for value in layer):
            return
        profile = Profile(
            fingerprint=self._fingerprint,
            heat={layer: tuple(round(float(value), 3) for value in its) for layer, its in heat.items()},
        )
        # Another engine may save the same model's at the same moment: each has a draft of its own.
        draft = self._path.with_name(f".{self._path.name}.{os.getpid()}.part")
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            draft.write_bytes(msgspec.json.encode(profile))
            draft.replace(self._path)
        except OSError as error:
            log.warning("the routing profile %s could not be saved: %s", self._path, error)
            with contextlib.suppress(OSError):
                draft.unlink(missing_ok=True)
