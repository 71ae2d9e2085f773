"""How long a frame of the live graphs takes with a full hour of figures and every graph in sight; started by hand.

    python tests/bench/graph_frames.py [--frames N] [--scale F] [--json]

Ten graphs lie in a window without a screen, side by side and one over the other. Every frame adds a row to an hour of
made-up figures (eighteen thousand rows, 23 figures, gaps among them) and does what the application does then five
times a second: thin the figures, say the values, paint. Told are, of the time from the new row to the painted frame,
median and 95th percentile; of the time that the thread computed meanwhile, which other programs on the machine do not
stretch, the same; and the share of one core at five frames a second. Last what a hidden dock costs: its samples.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "ui"))
SHAPES = {"side by side": (1240, 900), "one over the other": (420, 1900)}
SPANS_SECONDS = (60, 3600)
FRAMES_PER_SECOND = 5
TARGET_MEDIAN_MS = 12.0


def percentile(values: list[float], share: float) -> float:
    """The value that `share` of them do not exceed."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def main() -> int:
    """Measure and print; fails where an hour's median is above the target."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=100)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    os.environ["QT_QPA_PLATFORM"] = "offscreen"
    os.environ["QT_SCALE_FACTOR"] = str(options.scale)
    from graphs_hour import filled_panel
    from PySide6.QtWidgets import QApplication

    from app.ui.theme import Theme

    application = QApplication([])
    theme = Theme(forced="light")
    theme.apply(application)
    found = []
    with tempfile.TemporaryDirectory() as home:
        os.environ["EXPERT_LANES_HOME"] = home
        panel, recorder, end = filled_panel(theme, Path(home), spill=True)
        for name, size in SHAPES.items():
            panel.resize(*size)
            panel.show()
            for span in SPANS_SECONDS:
                panel.time_window.set_span(span)
                for _ in range(5):
                    application.processEvents()
                clock, cpu = [], []
                for _ in range(options.frames):
                    recorder.tick()
                    began, computed = time.perf_counter(), time.thread_time()
                    recorder.recorded.emit()
                    application.processEvents()
                    clock.append(1000 * (time.perf_counter() - began))
                    cpu.append(1000 * (time.thread_time() - computed))
                in_sight = sum(not plot.visibleRegion().isEmpty() for plot in panel.plots)
                found.append(
                    {
                        "arranged": name,
                        "span_seconds": span,
                        "graphs": in_sight,
                        "median_ms": statistics.median(clock),
                        "p95_ms": percentile(clock, 0.95),
                        "cpu_median_ms": statistics.median(cpu),
                        "cpu_p95_ms": percentile(cpu, 0.95),
                        "core": statistics.mean(cpu) / 1000 * FRAMES_PER_SECOND,
                    }
                )
        panel.hide()
        panel.set_active(False)
        hidden = len(recorder.history), recorder.running
        end()
    if options.json:
        print(json.dumps(found))
    else:
        print(f"scale {options.scale:g}; {len(recorder.history):,} rows, {len(recorder.history.keys)} figures")
        for one in found:
            print(
                "{arranged:>18}, {span_seconds:4} s, {graphs} graphs: frame {median_ms:5.2f} ms (95 %: {p95_ms:5.2f}), "
                "computing {cpu_median_ms:5.2f} ms (95 %: {cpu_p95_ms:5.2f}), {core:.1%} of a core".format(**one)
            )
        print(f"hidden: {'measuring' if hidden[1] else 'nothing is measured'}")
    slow = [one for one in found if one["cpu_median_ms"] > TARGET_MEDIAN_MS]
    return 1 if slow or hidden[1] else 0


if __name__ == "__main__":
    sys.exit(main())
