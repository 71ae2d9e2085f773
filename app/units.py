"""Sizes and shares in words, and sizes back: the one place that formats and reads amounts of bytes.

Imports `errors` only; may be imported by everything.
"""

import re

from app.errors import AppError, ErrorCode

_STEPS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_LARGEST = 2**63 - 1
# llama.cpp and most tools mean powers of 1024 by a bare letter; only an explicit "B" after it (MB, GB)
# means the decimal unit that disk makers use.
_FACTORS = {"": 1, "b": 1}
for _power, _letter in enumerate("kmgtpe", start=1):
    _FACTORS |= {_letter: 1024**_power, f"{_letter}ib": 1024**_power, f"{_letter}b": 1000**_power}
_SIZE = re.compile(r"(\d{1,20}(?:\.\d{1,20})?)\s*([a-z]*)", re.ASCII)


def format_bytes(count: int) -> str:
    """`count` bytes in the largest binary unit that leaves at least one: "3.1 GiB", "640 B"."""
    if abs(count) < 1024:
        return f"{count} B"
    value, step = float(count), 0
    # 1023.95 would be shown as 1024.0: the next unit's turn.
    while abs(value) >= 1023.95 and step < len(_STEPS) - 1:
        value /= 1024
        step += 1
    return f"{value:.1f} {_STEPS[step]}"


def format_share(share: float, *, decimals: int = 0, signed: bool = False) -> str:
    """A share of a whole (1 is all of it) in percent, written as everywhere in the window: "53 %", "+20.0 %".

    Without figures after the point a part is neither "0 %" nor "100 %": "< 1 %", "> 99 %". Nothing has no sign.

    Args:
        share: The share; below 0 for a loss.
        decimals: Figures after the point.
        signed: Whether a gain gets its sign too.
    """
    percent = round(100 * share, decimals)
    if not decimals and not signed and 0 < share < 1 and percent in (0, 100):
        return "> 99 %" if percent else "< 1 %"
    sign = "+" if signed and percent else ""
    return f"{percent or 0:{sign}.{decimals}f} %".replace("-", "−")


def parse_size(text: str) -> int:
    """Bytes that a size such as "64MiB", "6G", "1.5 GiB" or "2000" means.

    K, M, G, T, P and E alone or with "iB" are powers of 1024; with "B" (MB, GB) powers of 1000. Case
    does not matter, a fraction of a byte is dropped.

    Raises:
        AppError: bad_usage, the text is no size or is larger than any memory.
    """
    match = _SIZE.fullmatch(text.strip().lower())
    factor = _FACTORS.get(match[2]) if match else None
    if match is None or factor is None:
        raise AppError(ErrorCode.BAD_USAGE, f"{text!r} is not a size; write it like 64MiB, 6G or 512M.")
    from fractions import Fraction  # noqa: PLC0415 - only a size that was written needs it

    size = int(Fraction(match[1]) * factor)
    if size > _LARGEST:
        raise AppError(ErrorCode.BAD_USAGE, f"{text!r} is larger than any memory.")
    return size
