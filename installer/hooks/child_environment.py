"""Runs before the frozen app: what it starts (a browser, the file manager) gets the system's libraries, not ours.

The start program puts our folder in front of the search for libraries. That has happened for this process when Python
runs; in the environment it would only be handed on. Our own engine child is to set it up anew.
"""

import os
import sys

if sys.platform.startswith("linux"):
    before = os.environ.pop("LD_LIBRARY_PATH_ORIG", None)
    if before is None:
        os.environ.pop("LD_LIBRARY_PATH", None)
    else:
        os.environ["LD_LIBRARY_PATH"] = before
    os.environ["PYINSTALLER_RESET_ENVIRONMENT"] = "1"
