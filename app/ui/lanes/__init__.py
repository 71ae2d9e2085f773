"""The lanes dock: in which lane every expert is computed, how hot it is, and moving it by hand.

Imports the controller, the orders, placement, model and hardware facts, and the engine protocol.
May be imported by the main window and the tuning dock; the orders take words and the pool's room from here.
"""

from app.ui.lanes.dock import LanesDock

__all__ = ["LanesDock"]
