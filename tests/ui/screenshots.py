"""Pictures of the window, drawn without a display: python tests/ui/screenshots.py OUT_DIR [--dark].

The scripted engine stands in for the real one, so its rates and memory are not those of a model.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
from PySide6.QtWidgets import QApplication, QDockWidget, QWidget
from ui_factories import make_facts, make_machine

from app.chat.store import ConversationStore
from app.placement.plan import CPU_LANE
from app.placement.planner import with_lanes
from app.ui.controller import FAILED, READY, Controller
from app.ui.engine import Engine
from app.ui.main_window import MainWindow, build_window
from app.ui.settings import Settings
from app.ui.settings_dialog import SettingsDialog
from app.ui.theme import Theme

HERE = Path(__file__).resolve().parent
PATIENCE_SECONDS = 30.0
SIZE, NARROW = (1360, 860), (820, 860)
EXPERTS = 32
POOL_BYTES = 640 * 1024**2
QUESTION = "How does a mixture of experts decide what to compute? Show me the idea in code."
ANSWER = """A **mixture-of-experts** model holds many small networks in every layer and computes only a few \
of them for each token. A `router` scores the experts, and the best ones do the work:

1. Every expert gets a score from the router.
2. The *top-k* experts are computed, the others are skipped.
3. Their outputs are added up, weighted by the scores.

```python
def route(scores, top_k=2):
    best = sorted(range(len(scores)), key=scores.__getitem__)[-top_k:]
    total = sum(scores[expert] for expert in best)
    return {expert: scores[expert] / total for expert in best}
```

Where an expert lives decides how fast it is:

| Lane | Read from | Typical bandwidth |
|:-----|:----------|------------------:|
| GPU  | video memory | 300–900 GB/s |
| CPU  | main memory | 40–80 GB/s |
| Disk | the model file | 2–6 GB/s |

So it pays to keep the **hot** experts on the GPU and the rarely used ones in main memory.
"""


class Session:
    """One window over one scripted engine, and what is photographed of it."""

    def __init__(self, application: QApplication, theme: Theme, out: Path, suffix: str) -> None:
        self._application = application
        self._theme = theme
        self._out = out
        self._suffix = suffix

    def open(self, home: Path, *arguments: str) -> tuple[MainWindow, Controller]:
        """A window of the usual size on the wizard."""
        script = [str(HERE / "scripted_engine.py"), "--experts", str(EXPERTS), "--expert-mib", "3.2"]
        command = [sys.executable, *script, *arguments]
        facts = make_facts(layers=30, experts=EXPERTS, expert_mib=3.2, name="Scripted MoE 32×135M")
        machine = make_machine("--no-gpu" not in arguments)
        self.store = ConversationStore(home / "conversations.db")
        controller = Controller(
            Engine(command),
            self.store,
            home,
            read_facts=lambda _path: facts,
            probe=lambda _folder, _gpus, _build: machine,
        )
        window = build_window(controller, self._theme, Settings(home / "settings.json"))
        window.resize(*SIZE)
        window.show()
        return window, controller

    def until(self, condition: Callable[[], bool]) -> None:
        """Run the event loop until `condition` holds."""
        end = time.monotonic() + PATIENCE_SECONDS
        while not condition():
            if time.monotonic() > end:
                raise TimeoutError("the window did not get where the picture is taken")
            self._application.processEvents()
            time.sleep(0.002)

    def rest(self, seconds: float = 0.3) -> None:
        """Let layouts, timers and fades settle."""
        end = time.monotonic() + seconds
        self.until(lambda: time.monotonic() > end)

    def shoot(self, widget: QWidget, name: str) -> None:
        """Save a picture of `widget`."""
        self.rest()
        path = self._out / f"{name}{self._suffix}.png"
        widget.grab().save(str(path))
        print(path)

    def load(self, controller: Controller, window: MainWindow) -> None:
        """Choose, plan and load, past the wizard."""
        controller.probe()
        controller.choose_model(Path("/models/scripted.gguf"))
        self.until(lambda: controller.machine is not None and controller.facts is not None)
        plan = msgspec.structs.replace(controller.propose_plan(), pool_bytes=POOL_BYTES)
        # Two lanes in use, so that both show what they hold, and a pool that holds some of the CPU's experts.
        controller.set_plan(with_lanes(plan, controller.facts, controller.machine, range(10, 30), CPU_LANE))
        controller.load()
        self.until(lambda: controller.state == READY)
        window.show_chat()

    def close(self, window: MainWindow) -> None:
        """End the window and what it started."""
        window.close()
        self.store.close()
        window.deleteLater()
        self.rest(0.05)


def chat_pictures(session: Session, home: Path) -> None:
    """Wizard, empty chat, an answer while it comes and when it is there, docks, settings."""
    text = home / "answer.md"
    text.write_text(ANSWER, "utf-8")
    window, controller = session.open(home, "--text-file", str(text), "--token-ms", "8", "--prompt-ms", "300",
                                      "--best-threads", "4", "--measure-ms", "40")  # fmt: skip
    session.shoot(window, "wizard")
    session.load(controller, window)
    docks = window.findChildren(QDockWidget)
    for dock in docks:
        dock.hide()
    session.shoot(window, "chat-empty")
    window.chat.ask(QUESTION)
    session.until(lambda: len(window.chat.transcript.messages[-1].text) > 500)
    session.shoot(window, "chat-answering")
    session.until(lambda: controller.state == READY)
    session.shoot(window, "chat-answer")
    for dock in docks:
        dock.show()
    window.chat.ask("And what does that mean for my laptop?")
    session.until(lambda: controller.state == READY)
    session.rest(1.5)
    session.shoot(window, "docks")
    tuning_pictures(session, window, controller)
    experts_pictures(session, window, controller)
    dialog = SettingsDialog(Settings(home / "other.json"), window)
    dialog.show()
    session.shoot(dialog, "settings")
    dialog.close()
    session.close(window)


def tuning_pictures(session: Session, window: MainWindow, controller: Controller) -> None:
    """Each page of the tuning dock, a search while it runs and what it came to."""
    lanes, dock = window.findChild(QDockWidget, "lanes"), window.findChild(QDockWidget, "tuning")
    dock.raise_()
    tabs = dock.content.tabs
    for place, name in enumerate(("curve", "knobs", "auto-tune")):
        tabs.setCurrentIndex(place)
        session.rest(1.0)
        session.shoot(window, f"tuning-{name}")
    page = dock.content.page(2)
    page.tuning.start(1, page.tune_card.held, page._evidence.evidence)
    session.until(lambda: page.tuning.trial is not None and page.tuning.trial.number == 9)
    session.shoot(window, "tuning-search")
    session.until(lambda: not page.tuning.running and controller.state == READY)
    session.shoot(window, "tuning-result")
    lanes.raise_()
    session.rest(0.5)


def experts_pictures(session: Session, window: MainWindow, controller: Controller) -> None:
    """The experts of a layer with orders given, the lanes alone over the whole window, and a narrow window."""
    lanes, graphs = window.findChild(QDockWidget, "lanes"), window.findChild(QDockWidget, "graphs")
    panel = lanes.widget()
    panel.orders.pin({12: (3, 5)}, "gpu")
    panel.orders.pin({12: (7, 8, 9)}, "cpu")
    session.until(lambda: controller.cache.facts.layers[12].pins[9] == "c")
    panel.open_experts(12)
    panel.experts_page.table.selectRow(2)
    session.shoot(window, "experts")
    panel.experts_page.leave()
    graphs.hide()
    lanes.setFloating(True)
    lanes.resize(1100, 760)
    panel.search("layer 12 expert 5")
    session.shoot(lanes, "lanes-wide")
    panel.orders.pin({12: range(EXPERTS)}, "gpu")
    session.shoot(lanes, "lanes-refused")
    panel.lanes.set_zoom(60.0)
    session.shoot(lanes, "lanes-cards")
    panel.lanes.set_zoom(0.0)
    panel.notice.clear()
    lanes.setFloating(False)
    window.chat.sidebar.hide()
    window.resize(*NARROW)
    lanes.raise_()
    session.shoot(window, "lanes-narrow")
    panel.open_experts(12)
    session.shoot(window, "experts-narrow")
    panel.experts_page.leave()
    graphs.show()
    window.chat.sidebar.show()
    window.resize(*SIZE)


def crash_picture(session: Session, home: Path) -> None:
    """An engine that died in the middle of an answer."""
    window, controller = session.open(home, "--text", ANSWER[:400], "--crash-after", "40", "--token-ms", "5")
    session.load(controller, window)
    for dock in window.findChildren(QDockWidget):
        dock.hide()
    window.chat.ask(QUESTION)
    session.until(lambda: controller.state == FAILED)
    session.shoot(window, "chat-engine-died")
    assert CPU_LANE in controller.smaller_plan().expert_lanes.values()
    session.close(window)


def main() -> int:
    """Take every picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--dark", action="store_true")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    application = QApplication([])
    theme = Theme(forced="dark" if options.dark else "light")
    theme.apply(application)
    session = Session(application, theme, options.out, "-dark" if options.dark else "")
    for take in (chat_pictures, crash_picture):
        with tempfile.TemporaryDirectory() as home:
            os.environ["EXPERT_LANES_HOME"] = home
            take(session, Path(home))
    return 0


if __name__ == "__main__":
    sys.exit(main())
