"""What the docks cost the window's start."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_importing_the_docks_brings_neither_numpy_nor_pyqtgraph():
    code = (
        "import sys; from app.ui.lanes.dock import LanesDock; from app.ui.graphs.dock import GraphsDock; "
        "print(sorted({'numpy', 'pyqtgraph'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[]", done.stderr
