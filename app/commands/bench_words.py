"""The benchmark's results as tables of text."""

from collections.abc import Iterable, Sequence

from app.placement.scenarios.figure import Figure
from app.placement.scenarios.results import RULE, CaseResult, Ratio
from app.units import format_bytes, format_share

_NOTHING = "–"


def tables(results: Sequence[CaseResult], ratios: Sequence[Ratio]) -> str:
    """All results: speeds, ratios to stock, memory by part."""
    parts = [_table(_SPEEDS, [_speed_row(its) for its in results])]
    if ratios:
        parts += ["Ours by stock, neighbours of the same round divided:", _table(_RATIOS, map(_ratio_row, ratios))]
    parts += ["Memory:", _table(_MEMORY, [_memory_row(its) for its in results])]
    counts = sorted({its.prompt.samples for its in results if its.prompt})
    rounds = " to ".join(map(str, dict.fromkeys((counts[0], counts[-1])))) if counts else "0"
    parts.append(
        f"Medians of {rounds} round{'s' if rounds != '1' else ''}, least and most in brackets; tokens a second, over "
        f"all sequences. {RULE} Peak of RAM: the engine's process, pages of the mapped model file included."
    )
    return "\n".join(parts)


_SPEEDS = ("", "", "prompt", "transient", "steady", "pool hits")
_RATIOS = ("", "prompt", "transient", "steady", "same text")
_MEMORY = ("", "", "peak RAM", "VRAM", "steady per GiB of RAM", "of VRAM", "by part")


def _speed_row(its: CaseResult) -> tuple[str, ...]:
    hits = format_share(its.hit_rate.median) if its.hit_rate else _NOTHING
    return (its.case, its.variant, _spread(its.prompt), _spread(its.transient), _spread(its.steady), hits)


def _ratio_row(its: Ratio) -> tuple[str, ...]:
    ratios = (_spread(figure, "{:.2f}") for figure in (its.prompt, its.transient, its.steady))
    return (its.case, *ratios, "yes" if its.same_text else "no")


def _memory_row(its: CaseResult) -> tuple[str, ...]:
    parts = ", ".join(f"{its.device} {its.part} {format_bytes(its.bytes)}" for its in its.buffers)
    vram = format_bytes(its.vram_bytes) if its.vram_bytes else _NOTHING
    per_ram, per_vram = (_number(value) for value in (its.steady_per_gib_ram, its.steady_per_gib_vram))
    return (its.case, its.variant, format_bytes(its.peak_ram_bytes), vram, per_ram, per_vram, parts)


def _spread(figure: Figure | None, form: str = "{:.1f}") -> str:
    if figure is None:
        return _NOTHING
    median, least, most = (form.format(value) for value in (figure.median, figure.least, figure.most))
    return f"{median} ({least}–{most})"


def _number(value: float | None) -> str:
    return _NOTHING if value is None else f"{value:.1f}"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [tuple(heads), *map(tuple, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )
