"""The graphs dock: memory by part, reads, speed and where a token's time goes; measured live, kept for an hour.

Imports the controller, hardware sampling, the engine protocol, the placement's data types and the lanes' memory room.
May be imported by the main window.
"""

from app.ui.graphs.dock import GraphsDock

__all__ = ["GraphsDock"]
