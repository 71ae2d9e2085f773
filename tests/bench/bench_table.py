"""The benchmark's report as text for a terminal."""

from collections.abc import Iterator
from typing import Any

_HEAD = ("part", "type", "variant", "phase", "batch", "tokens/s", "ratio (min–max)", "against", "more µs/layer", "hits")


def lines(report: dict[str, Any]) -> Iterator[str]:
    """Machine and settings, one table of all rows, time by part, and what was skipped or failed."""
    machine, settings = report["machine"], report["settings"]
    yield f"{machine['cpu']}, {settings['threads']} threads; GPU: {settings['gpu'] or 'none'}; {machine['os']}"
    yield (
        f"llama-cpp-python {report['engine']['llama_cpp_python']}, ggml {report['engine']['ggml']}, "
        f"{settings['rounds']} rounds, median over rounds"
    )
    for model in report["models"]:
        trace = model["routing"]
        yield (
            f"{model['quantisation']}: {model['layers']} layers of {model['experts']} experts, top-{model['used']}, "
            f"{model['file_bytes'] / 2**20:,.0f} MiB; {trace['effective_experts']} effective experts, "
            f"top 30 % get {trace['top_30_percent_share']:.0%}"
        )
    yield ""
    yield from _aligned([_HEAD, *(cells for row in report["results"] for cells in _cells(row))])
    by_part = [row for row in report["results"] if row["device_us_per_layer"]]
    if by_part:
        yield ""
        yield "µs a layer by part, as the device's clocks say"
        parts = tuple(by_part[0]["device_us_per_layer"])
        table = [("type", "variant", "phase", "batch", *parts)]
        for row in by_part:
            times = (f"{row['device_us_per_layer'][part]:.1f}" for part in parts)
            table.append((row["quantisation"], row["variant"], row["phase"], str(row["batch"]), *times))
        yield from _aligned(table)
    yield ""
    for note in dict.fromkeys(row["note"] for row in report["results"] if row["note"]):
        yield f"note: {note}"
    yield from dict.fromkeys(_warnings(report["results"]))
    for skipped in report["skipped"]:
        yield f"skipped {skipped['part']}: {skipped['reason']}"
    for failed in report["failed"]:
        yield f"FAILED {failed['part']} {failed['quantisation']}: {failed['reason']}"


def _warnings(results: list[dict[str, Any]]) -> Iterator[str]:
    """Why a pool was not or not fully in use, and whose routing went astray; once for each row."""
    for row in results:
        if row["pool"] and row["pool"]["reason"]:
            yield f"{row['variant']}: {row['pool']['reason']}"
        if row["routing_as_intended"] is False:
            yield f"{row['variant']}: routing was NOT as the trace intends; its hit rates mean nothing"


def _cells(row: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """One line for each baseline; one without ratio for a baseline itself."""
    first = (row["part"], row["quantisation"], row["variant"], row["phase"], str(row["batch"]))
    rate = f"{row['tokens_per_second']['median']:.1f}"
    hits = "" if row["hit_rate"] is None or row["pool_percent"] is None else f"{row['hit_rate']:.0%}"
    more = "" if row["more_us_per_layer"] is None else f"{row['more_us_per_layer']['median']:+.1f}"
    if not row["ratios"]:
        yield (*first, rate, "", "", more, hits)
    for baseline, ratio in row["ratios"].items():
        mark = "" if ratio["met"] is None else f" {'≥' if ratio['met'] else '<'} {ratio['target']}"
        yield (
            *first, rate, f"{ratio['median']:.3f} ({ratio['min']:.3f}–{ratio['max']:.3f}){mark}", baseline, more, hits
        )  # fmt: skip
        more = hits = ""


def _aligned(table: list[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    for row in table:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
