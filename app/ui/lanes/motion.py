"""How long something that moved is seen moving, and whether the user wants to see it."""

from PySide6.QtWidgets import QStyle, QWidget

MILLISECONDS = 350
"""How long an expert flies to its new lane, or flashes there."""
FRAME_MILLISECONDS = 16


def motion_wanted(widget: QWidget) -> bool:
    """False where the desktop asks programs to hold still: the style then animates nothing either."""
    style = widget.style()
    return style is not None and style.styleHint(QStyle.StyleHint.SH_Widget_Animation_Duration, None, widget) > 0


def eased(fraction: float) -> float:
    """A fraction of the time, 0 to 1, as a fraction of the way: quick first, then slowing to a stop."""
    left = 1.0 - min(max(fraction, 0.0), 1.0)
    return 1.0 - left * left * left
