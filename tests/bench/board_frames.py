"""How long the board's lanes take to paint a frame, and what they cost while an answer streams; started by hand.

    python tests/bench/board_frames.py [--layers N] [--experts N] [--seconds S] [--scale F] [--json]

Three lanes of a model of 48 layers with 512 experts (24,576 cells) stand side by side in a window without a screen.
Twenty times a second the engine's facts of every expert change, read by the same code as in the app: new routings
everywhere, and a swap in the pool of every fourth layer, so that experts fly all the time; each eighth time of every
layer, so that they flash. At each zoom the window is painted 60
times a second while it is scrolled, the worst case: every lane paints all of its cells for every frame. Told are, of
the time from the event to the painted frame, median, 99th percentile and most; of the time that the thread computed
meanwhile, which other programs on the machine do not stretch, median and 99th percentile; and the share of one core
that the process took, painting included. `idle` is the same with updates alone: a window that nobody touches.

The routings are made up, but for their skew; the paths measured are the app's own.
"""

import argparse
import json
import os
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "ui"))
FRAME_SECONDS, UPDATE_SECONDS = 1 / 60, 1 / 20
SIZE = (1360, 760)
SLOTS_PART = 0.2
STEPS = 64
TARGET_MEDIAN_MS, TARGET_P99_MS = 8.0, 16.0


@dataclass(frozen=True)
class Result:
    """One zoom. Times in milliseconds, `core` as a share of one core."""

    name: str
    pitch: float
    cells: int
    frames: int
    median_ms: float
    p99_ms: float
    most_ms: float
    cpu_median_ms: float
    cpu_p99_ms: float
    update_median_ms: float
    core: float

    @property
    def met(self) -> bool:
        """Whether it keeps to 60 frames a second."""
        return self.median_ms < TARGET_MEDIAN_MS and self.p99_ms < TARGET_P99_MS


class Stage:
    """Three lanes in a window, and an engine whose facts change when told to."""

    def __init__(self, layers: int, experts: int) -> None:
        from PySide6.QtWidgets import QApplication, QHBoxLayout, QWidget
        from told_board import ToldController, next_token, routed_model, told_state

        from app.ui.lanes.flights import Flights
        from app.ui.lanes.lane_view import LaneView
        from app.ui.theme import Theme

        self.layers, self.experts = layers, experts
        slots = max(int(experts * SLOTS_PART), 1)
        self.controller = ToldController(layers, experts)
        # Made beforehand: what the engine says is not what is measured.
        self.told = [routed_model(layers, experts, slots=slots)]
        for step in range(1, STEPS):
            self.told.append(next_token(self.told[-1], swapped=layers if step % 8 == 0 else layers // 4, seed=step))
        self.controller.tell(self.told[0])
        self.state = told_state(self.controller)
        theme = Theme(forced="dark")
        theme.apply(QApplication.instance())
        self.window = QWidget()
        row = QHBoxLayout(self.window)
        self.views = [LaneView(self.state, lane, theme, self.window) for lane in self.state.lanes]
        for view, stretch in zip(self.views, (2, 3, 1), strict=True):
            row.addWidget(view, stretch)
        self.flights = Flights(self.window, theme)
        self.state.changed.connect(lambda change: self.flights.fly(change, self.views))
        self.window.resize(*SIZE)
        self.window.show()
        self._step = 0

    def update(self) -> None:
        """Tell the board the next facts."""
        self._step += 1
        self.controller.tell(self.told[self._step % len(self.told)])
        self.state.refresh()

    def scroll(self, frame: int) -> None:
        """Move every lane a little, back and forth."""
        for view in self.views:
            for bar in (view.horizontalScrollBar(), view.verticalScrollBar()):
                reach = bar.maximum() - bar.minimum()
                if reach:
                    bar.setValue(bar.minimum() + abs((frame * 7) % (2 * reach) - reach))
            view.repaint_cells()


def measure(stage: Stage, name: str, zoom: float, seconds: float, *, moving: bool) -> Result:
    """Run one zoom for so many seconds."""
    from PySide6.QtWidgets import QApplication

    for view in stage.views:
        view.set_zoom(zoom)
    QApplication.processEvents()
    frames, computed, updates = [], [], []
    began, cpu = time.perf_counter(), time.process_time()
    due, frame = began, 0
    while (now := time.perf_counter()) < began + seconds:
        thread = time.thread_time()
        if now >= due:
            due += UPDATE_SECONDS
            stage.update()
            updates.append(time.perf_counter() - now)
        if moving:
            stage.scroll(frame)
        QApplication.processEvents()  # paints what is due, and steps what flies
        frames.append(time.perf_counter() - now)
        computed.append(time.thread_time() - thread)
        frame += 1
        time.sleep(max(now + FRAME_SECONDS - time.perf_counter(), 0))
    core = (time.process_time() - cpu) / (time.perf_counter() - began)
    spent, busy = np.array(frames) * 1000, np.array(computed) * 1000
    return Result(
        name=name,
        pitch=round(stage.views[1].pitch, 2),
        cells=sum(view.packing.cells for view in stage.views),
        frames=len(frames),
        median_ms=round(float(np.median(spent)), 2),
        p99_ms=round(float(np.percentile(spent, 99)), 2),
        most_ms=round(float(spent.max()), 2),
        cpu_median_ms=round(float(np.median(busy)), 2),
        cpu_p99_ms=round(float(np.percentile(busy, 99)), 2),
        update_median_ms=round(float(np.median(updates)) * 1000, 2) if updates else 0.0,
        core=round(core, 3),
    )


def main() -> int:
    """Measure every zoom and tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=48)
    parser.add_argument("--experts", type=int, default=512)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--scale", type=float, default=1.0, help="device pixels per logical one")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    os.environ["QT_SCALE_FACTOR"] = str(options.scale)
    from PySide6.QtWidgets import QApplication

    from app.ui.garbage import UiThreadCollector

    application = QApplication([])
    UiThreadCollector(application)  # as in the app
    stage = Stage(options.layers, options.experts)
    zooms = (("overview", 0.0, True), ("middle", 20.0, True), ("cards", 72.0, True), ("idle", 0.0, False))
    results = [measure(stage, name, zoom, options.seconds, moving=moving) for name, zoom, moving in zooms]
    if options.json:
        print(json.dumps({"scale": options.scale, "size": SIZE, "results": [asdict(its) for its in results]}))
    else:
        print(f"{results[0].cells} cells, {SIZE[0]} x {SIZE[1]} at {options.scale:g}, times in ms")
        for its in results:
            print(
                f"{its.name:9} cell {its.pitch:5} px  {its.frames:4} frames  median {its.median_ms:6}  "
                f"p99 {its.p99_ms:6}  most {its.most_ms:6}  "
                f"computing {its.cpu_median_ms:6} / {its.cpu_p99_ms:6}  update {its.update_median_ms:5}  "
                f"{its.core:6.1%} of a core  {'met' if its.met else 'MISSED'}"
            )
    application.shutdown()
    return 0 if all(its.met for its in results) else 1


if __name__ == "__main__":
    sys.exit(main())
