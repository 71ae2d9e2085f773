"""A drag filmed while an answer streams: python tests/ui/record_drag.py OUT_DIR [--dark] [--scale 2].

Engine, demo model and software Vulkan device are real, as in `expert-lanes chat demo --gpu Vulkan0 --pool 128MiB`; so
are the mouse events. Needs xdotool and a display as large as the window, such as that of
`xvfb-run -s "-screen 0 1280x800x24"`.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace
from PySide6.QtCore import QPoint, Qt, QTimer
from PySide6.QtGui import QPixmap
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QDockWidget
from vulkan_driver import DEVICE, EAGER, MIB, with_memory

from app.chat.store import ConversationStore
from app.engine.protocol import Sampling
from app.library.demo import build_demo
from app.placement.plan import CPU_LANE, Plan
from app.ui.controller import READY, Controller
from app.ui.engine import Engine
from app.ui.lanes.panel import LanesPanel
from app.ui.main_window import MainWindow, build_window
from app.ui.settings import Settings
from app.ui.theme import Theme

PATIENCE_SECONDS, FRAME_MILLISECONDS, SIZE = 200.0, 100, (1280, 800)
FAST_QUALITY = 90
"""Of the PNG files, which are without loss at any: hardly compressed."""
POOL_BYTES, MOST_TOKENS = 128 * MIB, 400
QUESTION = "Tell me a long story about a lighthouse."
DOCK_SHARE = 0.6
"""Of the window's width: the lanes stand side by side."""
BAND_LAYERS = (6, 11)
"""The rubber band goes over a cell of these layers, both included, and of those between."""
STEPS, STEP_SECONDS, PAUSE_MILLISECONDS = 24, "0.05", 1000


class Film:
    """Pictures of the screen where the window is, ten a second; written at the end, for that is slow."""

    def __init__(self, window: MainWindow) -> None:
        self._window = window
        self._frames: list[QPixmap] = []
        self._began = time.monotonic()
        self._timer = QTimer(window, timerType=Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self._take)
        self._timer.start(FRAME_MILLISECONDS)

    def _take(self) -> None:
        # The screen's, not the window's own: what is dragged hangs over the window.
        self._frames.append(self._window.screen().grabWindow(0, *self._window.geometry().getRect()))

    def mark(self, words: str) -> None:
        """Say which frame comes next, and why."""
        print(f"frame {len(self._frames):03d} · {time.monotonic() - self._began:.1f} s · {words}", flush=True)

    def write(self, out: Path) -> None:
        """End it."""
        self._timer.stop()
        for number, frame in enumerate(self._frames):
            frame.save(str(out / f"frame-{number:03d}.png"), None, FAST_QUALITY)


def until(condition: Callable[[], bool]) -> None:
    """Run the event loop until `condition` holds."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("the window did not get there in time")
        QTest.qWait(5)


def load(controller: Controller, model: Path) -> None:
    """Attention and pool on the GPU, every expert on the CPU lane."""
    controller.probe()
    controller.choose_model(model)
    until(lambda: controller.machine is not None and controller.facts is not None)
    facts = controller.facts
    lanes = dict.fromkeys(facts.moe_layers, CPU_LANE)
    plan = Plan(model_files=facts.files, gpu=DEVICE, expert_lanes=lanes, n_ctx=1024, pool_bytes=POOL_BYTES)
    plan = replace(plan, threads=2, threads_batch=2, policy=EAGER)
    controller.set_plan(with_memory(plan, controller))
    controller.load()
    until(lambda: controller.state == READY)


class Hand:
    """A hand with a mouse: xdotool makes events of the window system, beside this process, which has a drag to run."""

    def __init__(self, window: MainWindow, panel: LanesPanel) -> None:
        self._window = window
        self._panel = panel
        self._board = panel.state.board
        self._at = QPoint(0, 0)

    def place(self, lane: str, point: QPoint) -> QPoint:
        """A point of a lane's view, in pixels of the screen."""
        return self._panel.lanes.box(lane).view.viewport().mapToGlobal(point) * self._window.devicePixelRatioF()

    def cell(self, place: int, layer: int) -> QPoint:
        """The middle of the cell of the CPU lane that is in this place of its layer's line now."""
        view = self._panel.lanes.box(CPU_LANE).view
        expert = int(view.packing.order[self._board.row_of(layer)][place])
        return self.place(CPU_LANE, view.cell_rect(layer, expert).center())

    def selected(self) -> QPoint:
        """The middle of a selected cell of the CPU lane."""
        here = self._board.cells(self._panel.state.selection.mask & self._board.on(CPU_LANE))
        layer, experts = sorted(here.items())[len(here) // 2]
        return self.place(CPU_LANE, self._panel.lanes.box(CPU_LANE).view.cell_rect(layer, experts[0]).center())

    def pull(self, start: Callable[[], QPoint], end: Callable[[], QPoint]) -> None:
        """Press at the start, move to the end, hang there a moment and let go: cells are where they are by then."""
        self._do(*self._glide(start()))
        self._do(*self._glide(start(), steps=1), "mousedown", "1", *self._glide(end()), "sleep", "0.6", "mouseup", "1")

    def _do(self, *words: str) -> None:
        xdotool = subprocess.Popen(["xdotool", *words])
        until(lambda: xdotool.poll() is not None)

    def _glide(self, end: QPoint, steps: int = STEPS) -> list[str]:
        points = [self._at + (end - self._at) * step / steps for step in range(1, steps + 1)]
        self._at = end
        return [word for at in points for word in ("mousemove", str(at.x()), str(at.y()), "sleep", STEP_SECONDS)]


def film_drag(window: MainWindow, controller: Controller, out: Path) -> None:
    """Ask, and move experts while the answer comes."""
    dock = window.findChild(QDockWidget, "lanes")
    panel = dock.content
    window.sidebar_action.setChecked(False)
    QTest.qWait(PAUSE_MILLISECONDS)  # the docks come one by one, with sizes of their own
    window.resizeDocks([dock], [round(DOCK_SHARE * window.width())], Qt.Orientation.Horizontal)
    window.chat.ask(QUESTION)
    until(lambda: window.chat.transcript.messages[-1].text != "")
    film, hand, selection = Film(window), Hand(window, panel), panel.state.selection
    try:
        film.mark("the answer streams")
        QTest.qWait(PAUSE_MILLISECONDS)
        hand.pull(lambda: hand.cell(0, BAND_LAYERS[0]), lambda: hand.cell(0, BAND_LAYERS[1]))
        film.mark(f"{selection.spoken()}; the drag begins")
        wanted = selection.cells()
        hand.pull(hand.selected, lambda: hand.place(DEVICE, panel.lanes.box(DEVICE).view.viewport().rect().center()))
        film.mark("the button was let go")
        until(lambda: pinned(controller) == wanted)
        film.mark(f"the engine keeps them on {DEVICE}; the window is {controller.state}")
        QTest.qWait(3 * PAUSE_MILLISECONDS)
    finally:
        film.write(out)


def pinned(controller: Controller) -> dict[int, tuple[int, ...]]:
    """What the engine says it keeps on the GPU, by layer."""
    facts = controller.cache.facts
    kept = {layer: tuple(at for at, pin in enumerate(its.pins) if pin == "g") for layer, its in facts.layers.items()}
    return {layer: experts for layer, experts in kept.items() if experts}


def main() -> None:
    """Film it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--dark", action="store_true")
    parser.add_argument("--scale", default="1", help="factor of the desktop's scale, such as 2")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    os.environ |= {"QT_QPA_PLATFORM": "xcb", "QT_SCALE_FACTOR": options.scale, "GGML_VK_VISIBLE_DEVICES": "0"}
    application = QApplication([])
    theme = Theme(forced="dark" if options.dark else "light")
    theme.apply(application)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        os.environ["EXPERT_LANES_HOME"] = folder
        model = build_demo(home / "demo.gguf").path
        with ConversationStore(home / "conversations.db") as store:
            controller = Controller(Engine(), store, home, sampling=lambda: (Sampling(temperature=0), MOST_TOKENS))
            controller.failed.connect(lambda error: print(error.message, error.detail, file=sys.stderr))
            window = build_window(controller, theme, Settings(home / "settings.json"))
            window.resize(*SIZE)
            window.show()
            try:
                load(controller, model)
                window.show_chat()
                film_drag(window, controller, options.out)
            finally:
                window.close()


if __name__ == "__main__":
    main()
