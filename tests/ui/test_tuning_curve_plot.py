"""The curve's picture: a scale only where there is something on it."""

from app.placement.speed.curve import SpeedCurve, SpeedPoint
from app.placement.speed.types import Range
from app.ui.tuning.curve_plot import CurvePlot, Picture

MIB = 1024**2


def scales(plot):
    return [plot.getAxis(side).isVisible() for side in ("left", "bottom")]


def test_scales_are_there_only_while_a_curve_is(qtbot, theme):
    plot = CurvePlot(theme)
    qtbot.addWidget(plot)
    plot.show()
    assert scales(plot) == [False, False]
    rate = Range(low=1.0, likely=2.0, high=3.0)
    points = tuple(SpeedPoint(pool_bytes=size * MIB, decode=rate, hit_rate=0.5, whole_layers=None) for size in (0, 64))
    curve = SpeedCurve(points=points, cycle_bytes=0, break_even_bytes=None)
    plot.show_picture(Picture(curve, (), 64 * MIB, MIB))
    assert scales(plot) == [True, True]
    plot.show_picture(None)
    assert scales(plot) == [False, False]
