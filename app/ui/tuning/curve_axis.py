"""What is written in the picture of the curve: the numbers of its scales, and the words of its marks."""

import math
from collections.abc import Sequence

import pyqtgraph as pg
from PySide6.QtCore import Qt
from PySide6.QtGui import QFontMetricsF

from app.ui.words import number

_MARK_STEP = 0.075
"""Of the picture's height: from the words of one mark to those of the next, at least."""
_WORDS_MARGIN = 4


class NumberAxis(pg.AxisItem):
    """A scale with numbers like all others of the window, and as many decimals as tell its values apart."""

    def tickStrings(self, values: Sequence[float], scale: float, spacing: float) -> list[str]:
        """The words of some places, `spacing` from one to the next."""
        decimals = max(0, math.ceil(-math.log10(spacing * scale) - 1e-9))
        return [number(value * scale, decimals) for value in values]


def fit_words(box: pg.ViewBox, marks: Sequence[tuple[str, pg.TextItem]]) -> float:
    """End the words of marks where the picture does, so that they stand below one another in it.

    Args:
        box: The picture.
        marks: The words of each, and what shows them.

    Returns:
        What one line takes of the picture's height.
    """
    height = 0.0
    for whole, text in marks:
        around = text.boundingRect().width() - text.textItem.boundingRect().width() + 2 * _WORDS_MARGIN
        room = max(round(box.width() - around), 1)
        words = QFontMetricsF(text.textItem.font()).elidedText(whole, Qt.TextElideMode.ElideRight, room)
        text.setToolTip(whole if words != whole else "")
        if text.toPlainText() != words:
            text.setPlainText(words)
        height = max(height, text.boundingRect().height())
    return max(_MARK_STEP, height / max(box.height(), 1.0))
