"""What one graph is: its bands and lines, their unit and their colours."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from PySide6.QtCore import QCoreApplication
from PySide6.QtGui import QColor

from app.ui.theme import Colors

ColorOf = Callable[[Colors], QColor]


@dataclass(frozen=True)
class Line:
    """One line of a graph.

    Attributes:
        key: Its figure in the history.
        name: What it shows; empty where the title says it.
        color: Its colour in the look in force.
        dashed: For a line that is a limit or a prediction rather than a use.
    """

    key: str
    name: str
    color: ColorOf
    dashed: bool = False


@dataclass(frozen=True)
class GraphSpec:
    """One graph.

    Attributes:
        group: One of GROUPS.
        key: Its own name: the group's, and the device's for one of several.
        title: What it shows.
        unit: Of every figure in it.
        bands: Stretches that are stacked, from the bottom; each as a `Line`.
        lines: Lines over them.
        decimals: Of the figures in text.
        smallest_top: The least that the scale reaches.
        limit: What there is in all, where that is the same for everyone; the scale's top.
        about: One sentence more, for who points at the title.
    """

    group: str
    key: str
    title: str
    unit: str
    lines: tuple[Line, ...] = ()
    bands: tuple[Line, ...] = ()
    decimals: int = 2
    smallest_top: float = 1.0
    limit: float | None = None
    about: str = ""

    @property
    def keys(self) -> tuple[str, ...]:
        """Every figure it shows."""
        return tuple(line.key for line in (*self.bands, *self.lines))


def tr(text: str) -> str:
    """A text of the graphs in the user's language."""
    return QCoreApplication.translate("graphs", text)


def _graph_color(place: int, colors: Colors) -> QColor:
    return colors.graph[place % len(colors.graph)]


def color(place: int) -> ColorOf:
    """One of the theme's colours for lines, counted around."""
    return partial(_graph_color, place)
