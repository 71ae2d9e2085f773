"""Keys of what is kept between runs: short names that stand for everything a thing was made from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path


def digest(*parts: str, files: Iterable[Path] = ()) -> str:
    """Twelve hexadecimal digits that stand for all of `parts` and for the names and contents of `files`."""
    found = hashlib.sha256(json.dumps(parts).encode())
    for file in sorted(files):
        found.update(f"{file.name}\0{hashlib.sha256(file.read_bytes()).hexdigest()}\0".encode())
    return found.hexdigest()[:12]
