"""The lanes dock: which layer's experts live where, how hot each expert is, and moving them.

Imports the controller, placement, model and hardware facts, and the engine protocol.
May be imported by the main window and by graphs (the words for a machine without a GPU).
"""

from app.ui.lanes.dock import LanesDock

__all__ = ["LanesDock"]
