"""From rows of the history to what a canvas draws: stacked bands and lines, thinned to its width with peaks kept."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.ui.graphs.graph_spec import ColorOf, GraphSpec
from app.ui.graphs.history import History, Times, Values, peaks, tops


@dataclass(frozen=True)
class Shape:
    """A line, or a band between two lines.

    Attributes:
        times: Seconds before the right edge, below 0.
        upper: The line, or the band's upper edge; NaN in gaps.
        lower: The band's lower edge; None for a line.
    """

    times: Times
    upper: Values
    lower: Values | None
    color: ColorOf
    dashed: bool = False

    @property
    def highest(self) -> float | None:
        """The greatest value; None where all are gaps."""
        found = np.fmax.reduce(self.upper) if self.upper.size else np.nan
        return None if np.isnan(found) else float(found)


def shapes_of(spec: GraphSpec, history: History, end: float, span: float, pixels: int) -> list[Shape]:
    """What `spec` shows of the `span` seconds before `end`, bands from the bottom first.

    Args:
        spec: The graph.
        history: The rows.
        end: The time of the right edge.
        span: Seconds shown.
        pixels: Its width; no more stretches than that are told apart.
    """
    rows = history.between(end - span, end)
    times = history.times[rows]
    if not times.size:
        return []
    starts = history.stretches(rows, span / max(pixels, 1)) if times.size > 2 * pixels else None
    ago = times - end
    return [*_bands(spec, history, rows, ago, starts), *_lines(spec, history, rows, ago, starts)]


def _bands(spec: GraphSpec, history: History, rows: slice, ago: Times, starts: NDArray[np.intp] | None) -> list[Shape]:
    known = [band for band in spec.bands if band.key in history.keys]
    if not known:
        return []
    columns = [history.column(band.key)[rows] for band in known]
    measured = np.isfinite(columns).any(axis=0)
    below = np.where(measured, np.float32(0), np.float32(np.nan))
    edges = [below]
    for column in columns:
        below = below + np.nan_to_num(column)
        edges.append(below)
    if starts is not None:
        edges, ago = [tops(edge, starts) for edge in edges], ago[starts]
    return [
        Shape(ago, upper, lower, band.color)
        for band, lower, upper in zip(known, edges[:-1], edges[1:], strict=True)
        if np.fmax.reduce(upper - lower) > 0
    ]


def _lines(spec: GraphSpec, history: History, rows: slice, ago: Times, starts: NDArray[np.intp] | None) -> list[Shape]:
    times = ago if starts is None else np.repeat(ago[starts], 2)
    shapes = []
    for line in spec.lines:
        if line.key in history.keys:
            values = history.column(line.key)[rows]
            shown = values if starts is None else peaks(values, starts)
            shapes.append(Shape(times, shown, None, line.color, line.dashed))
    return shapes
