"""The graphs dock: GPU memory, main memory and tokens per second, measured live.

Imports the controller, hardware sampling and the engine protocol.
May be imported by the main window.
"""

from app.ui.graphs.dock import GraphsDock

__all__ = ["GraphsDock"]
