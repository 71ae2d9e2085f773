"""The graphs of experts that lie in a mapped file: how many are in memory, and what reading the others costs."""

from app.ui.graphs.cache_rates import COLD, RESIDENT, RESIDENT_BUDGET, STALL
from app.ui.graphs.graph_spec import GraphSpec, Line, color, tr


def memory_specs() -> tuple[GraphSpec, ...]:
    """The graphs of experts that lie in a mapped file."""
    return (
        GraphSpec(
            RESIDENT,
            RESIDENT,
            tr("Experts in main memory"),
            "%",
            (
                Line(RESIDENT, tr("in memory or being read"), color(3)),
                Line(RESIDENT_BUDGET, tr("budget"), color(2), dashed=True),
            ),
            decimals=0,
            limit=100.0,
            about=tr("Of the bytes of all experts in the mapped file, as the engine tells it."),
        ),
        GraphSpec(
            COLD,
            COLD,
            tr("Reads from disk a token"),
            tr("reads"),
            (Line(COLD, "", color(5)),),
            decimals=1,
            about=tr("Ranges of the file that were asked for because experts of the token were not in memory."),
        ),
        GraphSpec(
            STALL,
            STALL,
            tr("Waiting for the disk"),
            "%",
            (Line(STALL, "", color(4)),),
            decimals=0,
            limit=100.0,
            about=tr("Of the time in expert layers while decoding: spent with nothing else to compute."),
        ),
    )
