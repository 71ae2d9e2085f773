"""The processor's caches."""

from pathlib import Path

from app.hardware.files import read_text


def last_level_cache_bytes(root: Path) -> int | None:
    """The largest cache that one core reads through; None where the system does not tell (only Linux does)."""
    sizes = []
    for index in sorted((root / "sys/devices/system/cpu/cpu0/cache").glob("index*")):
        words = (read_text(index / "size") or "").strip()
        if words.endswith("K") and words[:-1].isdigit():
            sizes.append(int(words[:-1]) * 1024)
    return max(sizes, default=None)
