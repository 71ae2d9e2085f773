"""Figures in words, the same in every part of the window: bytes, rates, times."""

from PySide6.QtCore import QCoreApplication, QLocale

from app.units import format_bytes


def locale_of_words() -> QLocale:
    """How numbers are written: as in the sentences around them, which are English whatever the system speaks.

    Some of those come from the engine and the planner with their numbers in them; "8.192" beside "8,192" would be read
    as another number. Days and times are the system's.
    """
    return QLocale(QLocale.Language.English, QLocale.Country.UnitedStates)


def number(value: float, decimals: int = 0) -> str:
    """A number as the words around it write it, its thousands apart: as the boxes for numbers do everywhere."""
    return locale_of_words().toString(float(value), "f", decimals)


def in_bytes(count: int) -> str:
    """Bytes with a binary unit: "3.1 GiB", "1,002.2 MiB"."""
    value, _, unit = format_bytes(count).partition(" ")
    return f"{number(float(value), len(value.partition('.')[2]))} {unit}"


def in_seconds(seconds: float) -> str:
    """A time: "0.42 s", "12 s", "3 min 20 s"."""
    # The rounded value decides, so that 59.7 s is "1 min 0 s" and not "60 s".
    if round(seconds, 2) < 10:
        return f"{number(round(seconds, 2), 2)} s"
    whole = round(seconds)
    if whole < 60:
        return f"{number(whole)} s"
    minutes, rest = divmod(whole, 60)
    return f"{number(minutes)} min {rest} s"


def in_tokens_per_second(rate: float) -> str:
    """A rate: "24.1 tokens/s"; two digits where less would say nothing."""
    # As with times the rounded value decides: never "1.00" beside "1.0", nor "100.0" beside "100".
    decimals = 2 if round(rate, 2) < 1 else 1 if round(rate, 1) < 100 else 0
    return QCoreApplication.translate("words", "%1 tokens/s").replace("%1", number(rate, decimals))


def in_percent(share: float) -> str:
    """A share of a whole, 0 to 1: "71 %", and neither "0 %" nor "100 %" for what is not."""
    percent = round(share * 100)
    if percent == 0 and share > 0:
        return f"< {number(1)} %"
    if percent == 100 and share < 1:
        return f"> {number(99)} %"
    return f"{number(percent)} %"


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
        "staging": translate("words", "room for experts that pass"),
        "repacked": translate("words", "other weights in the processor's faster layout"),
        "margin": translate("words", "safety margin"),
    }.get(part, part)
