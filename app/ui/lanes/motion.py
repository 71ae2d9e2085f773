"""How long something that moved is seen moving, and whether the user wants to see it."""

import numpy as np
from numpy.typing import NDArray
from PySide6.QtWidgets import QStyle, QWidget

MILLISECONDS = 350
"""How long an expert flies to its new lane, or flashes there."""
FRAME_MILLISECONDS = 16


def motion_wanted(widget: QWidget) -> bool:
    """False where the desktop asks programs to hold still: the style then animates nothing either."""
    style = widget.style()
    return style is not None and style.styleHint(QStyle.StyleHint.SH_Widget_Animation_Duration, None, widget) > 0


def eased(fractions: NDArray[np.float64]) -> NDArray[np.float64]:
    """Fractions of the time, 0 to 1, as fractions of the way: quick first, then slowing to a stop."""
    left = 1.0 - np.clip(fractions, 0.0, 1.0)
    return 1.0 - left * left * left
