"""Plans for the curve page's tests, and a hand on its handle."""

import msgspec
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from app.placement.memory import predict
from app.placement.plan import CPU_LANE

MIB = 1024**2


def pooled(controller, pool):
    """A plan with a pool of so many bytes and every expert off the GPU."""
    facts, machine = controller.facts, controller.machine
    lanes = dict.fromkeys(facts.moe_layers, CPU_LANE)
    plan = msgspec.structs.replace(controller.propose_plan(), gpu="Vulkan0", expert_lanes=lanes, pool_bytes=pool)
    return msgspec.structs.replace(plan, memory=predict(facts, machine, plan))


def pool_of(page):
    """The pool's bytes in the plan being edited."""
    return page._controller.plan.pool_bytes


def drag(page, first, last, *, release=True):
    """Press the mouse at a size of the curve, move it to another one, and let go."""
    port = page.plot.viewport()
    begin, end = (page.plot.place_of(size).toPoint() for size in (first, last))
    QTest.mousePress(port, Qt.MouseButton.LeftButton, pos=begin)
    QTest.mouseMove(port, (begin + end) / 2)
    QTest.mouseMove(port, end)
    if release:
        QTest.mouseRelease(port, Qt.MouseButton.LeftButton, pos=end)


def near(size, wanted, page):
    """Within what some pixels of the picture are."""
    whole = page.curve.points[-1].pool_bytes
    return abs(size - wanted) < whole / 50
