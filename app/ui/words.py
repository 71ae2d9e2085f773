"""Figures in words, the same in every part of the window: bytes, rates, times."""

from PySide6.QtCore import QCoreApplication, QLocale

from app.units import format_bytes


def number(value: float, decimals: int = 0) -> str:
    """A number as the user's language writes it."""
    return QLocale().toString(float(value), "f", decimals)


def in_bytes(count: int) -> str:
    """Bytes with a binary unit: "3.1 GiB", "740.0 MiB"."""
    return format_bytes(count).replace(".", QLocale().decimalPoint())


def in_seconds(seconds: float) -> str:
    """A time: "0.42 s", "12 s", "3 min 20 s"."""
    if seconds < 10:
        return f"{number(seconds, 2)} s"
    if seconds < 60:
        return f"{number(seconds)} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"


def in_tokens_per_second(rate: float) -> str:
    """A rate: "24.1 tokens/s"; two digits where less would say nothing."""
    decimals = 2 if rate < 1 else 1 if rate < 100 else 0
    return QCoreApplication.translate("words", "%1 tokens/s").replace("%1", number(rate, decimals))


def in_tokens(count: int) -> str:
    """A count of tokens: "1 token", "312 tokens"."""
    if count == 1:
        return QCoreApplication.translate("words", "1 token")
    return QCoreApplication.translate("words", "%1 tokens").replace("%1", number(count))


def part_in_words(part: str) -> str:
    """A part of a plan's or a report's memory."""
    translate = QCoreApplication.translate
    return {
        "weights": translate("words", "attention and other weights"),
        "experts": translate("words", "experts"),
        "weights and experts": translate("words", "weights and experts"),
        "mapped": translate("words", "mapped model file, in memory only as far as it was read"),
        "kv": translate("words", "KV cache"),
        "compute": translate("words", "compute buffers"),
        "context": translate("words", "driver context"),
        "pool": translate("words", "expert pool"),
        "margin": translate("words", "safety margin"),
    }.get(part, part)
