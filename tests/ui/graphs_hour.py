"""An hour of made-up figures for pictures and frame times of the graphs; never shown by the application.

Run `python tests/ui/graphs_hour.py OUT_DIR [--dark] [--wide] [--spill]` for pictures.
"""

import argparse
import math
import os
import random
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from PySide6.QtWidgets import QApplication
from ui_factories import GIB, make_machine

from app.chat.store import ConversationStore
from app.ui.controller import Controller
from app.ui.engine import Engine
from app.ui.graphs.panel import GraphsPanel
from app.ui.graphs.recorder import CAPACITY, INTERVAL_MILLISECONDS, Recorder
from app.ui.theme import Theme

DEVICE = "Vulkan0"
MADE_UP = "These figures are made up."


class FilledRecorder(Recorder):
    """A recorder whose hour is made up and whose clock stands still until `tick`."""

    def __init__(self, controller: Controller, *, spill: bool = False) -> None:
        self.time = CAPACITY * INTERVAL_MILLISECONDS / 1000
        super().__init__(controller, clock=lambda: self.time)
        self._spill = spill
        self._chance = random.Random(1)
        for place in range(CAPACITY):
            self.history.append(place * INTERVAL_MILLISECONDS / 1000, self.row(place))

    def row(self, place: int) -> dict[str, float | None]:
        """Figures like those of a laptop that answers for half of the time."""
        seconds = place * INTERVAL_MILLISECONDS / 1000
        wave = math.sin(seconds / 97) + 0.2 * self._chance.random()
        answering = seconds % 120 < 70
        prompting = 70 <= seconds % 120 < 76
        loaded = seconds > 300
        gpu = {
            "weights": 1.31,
            "kv": 0.62,
            "compute": 0.35,
            "pool": 2.4 if seconds < 2400 else 3.1,
            "staging": 0.3,
            "driver": 0.21,
            "budget": 5.6,
        }
        figures = {f"gpu.{DEVICE}.{part}": size if loaded else None for part, size in gpu.items()}
        figures[f"gpu.{DEVICE}.others"] = 1.1 + 0.2 * wave + (0.9 if 1500 < seconds < 1800 else 0)
        if self._spill:
            figures[f"gpu.{DEVICE}.spill"] = 1.2 if 1600 < seconds < 2100 else 0.05
        return figures | {
            "ram.engine": 9.1 + 0.4 * wave if loaded else 0.2,
            "ram.peak": 9.8 if loaded else 0.2,
            "ram.available": 5.2 - 0.4 * wave,
            "file": min(100.0, seconds / 9),
            "faults": max(0.0, self._chance.gauss(40, 60)) if answering else 0.0,
            "disk": max(0.0, self._chance.gauss(120, 200)) if answering else 0.0,
            "decode": 21 + 3 * wave if answering and loaded else None,
            "prompt": 340 + 60 * wave if prompting and loaded else None,
            "hits": 71 + 8 * wave if answering and loaded else None,
            "copied": max(0.0, self._chance.gauss(60, 90)) if answering and loaded else None,
            "split.cpu": 26 - 3 * wave if answering and loaded else None,
            "split.gpu": 11 + wave if answering and loaded else None,
            "split.wait": 3 + wave if answering and loaded else None,
            "split.all": 34 - 2 * wave if answering and loaded else None,
        }

    def tick(self) -> None:
        """One row more."""
        self.time += INTERVAL_MILLISECONDS / 1000
        self.history.append(self.time, self.row(round(self.time * 1000) // INTERVAL_MILLISECONDS))


def filled_panel(theme: Theme, home: Path, *, spill: bool = False) -> tuple[GraphsPanel, FilledRecorder, Callable]:
    """A panel over a made-up hour, and what ends it."""
    store = ConversationStore(home / "conversations.db")
    engine = Engine([sys.executable, str(Path(__file__).with_name("scripted_engine.py"))])
    controller = Controller(engine, store, home, probe=lambda *_: make_machine())
    controller._machine = make_machine()
    recorder = FilledRecorder(controller, spill=spill)
    recorder.totals = {DEVICE: 8 * GIB}
    panel = GraphsPanel(controller, theme, recorder=recorder)

    def end() -> None:
        panel.shutdown()
        panel.deleteLater()
        controller.shutdown()
        store.close()

    return panel, recorder, end


def main() -> int:
    """Pictures of the full hour, of a minute, and with the pointer in it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--dark", action="store_true")
    parser.add_argument("--wide", action="store_true")
    parser.add_argument("--spill", action="store_true")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    application = QApplication([])
    theme = Theme(forced="dark" if options.dark else "light")
    theme.apply(application)
    suffix = ("-dark" if options.dark else "") + ("-wide" if options.wide else "") + ("-spill" if options.spill else "")
    with tempfile.TemporaryDirectory() as home:
        os.environ["EXPERT_LANES_HOME"] = home
        panel, recorder, end = filled_panel(theme, Path(home), spill=options.spill)
        panel.setWindowTitle(MADE_UP)
        panel.resize(1240, 760) if options.wide else panel.resize(420, 860)
        panel.show()
        for name, span, cursor in (("hour", 3600, None), ("minute", 60, None), ("pointer", 600, 340.0)):
            panel.time_window.set_span(span)
            panel.time_window.point_at(cursor)
            panel.redraw(everything=True)
            for _ in range(3):
                application.processEvents()  # words that take another line move what is below
            panel.grab().save(str(options.out / f"graphs-{name}{suffix}.png"))
        panel.time_window.point_at(None)
        panel.time_window.hold(recorder.now - 900)
        application.processEvents()
        panel.grab().save(str(options.out / f"graphs-held{suffix}.png"))
        end()
    return 0


if __name__ == "__main__":
    sys.exit(main())
