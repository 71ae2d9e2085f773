"""`--self-test`: the real window, the real engine child and one answer of a small demo model, checked and timed.

For an installation, above all a frozen one: it needs no screen and leaves nothing behind.
"""

import contextlib
import importlib.metadata
import json
import logging
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
from PySide6.QtCore import QEventLoop, QTimer, SignalInstance
from PySide6.QtWidgets import QApplication

from app.chat.store import ConversationStore
from app.engine import protocol
from app.errors import EXIT_ENGINE, EXIT_OK, AppError, ErrorCode
from app.library import demo, folders
from app.placement.planner import Wishes
from app.ui.application import warm_up
from app.ui.background import left_behind
from app.ui.controller import Controller
from app.ui.engine import Engine
from app.ui.garbage import UiThreadCollector
from app.ui.main_window import MainWindow, build_window
from app.ui.settings import Settings
from app.ui.theme import Theme

LIMIT_SECONDS = 240.0
LAST_SECONDS = 20.0
"""What the end of a test that came too late may take, before the process is ended as it stands."""
QUESTION = "What is the capital of France? Answer in one sentence."
MAX_TOKENS = 24
N_CTX = 512
EXPERTS, USED = 4, 2
Facts = dict[str, Any]


def run(arguments: list[str]) -> int:
    """Test this installation; print one line of JSON, or one sentence on standard error.

    Args:
        arguments: The file to keep a picture of the window in (PNG), or nothing.

    Returns:
        The exit status: 0, or 5 for any failure.
    """
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    if sys.platform == "win32":  # without a screen Qt does not ask Windows for fonts, but looks into a folder
        os.environ.setdefault("QT_QPA_FONTDIR", str(Path(os.environ.get("SYSTEMROOT", "C:\\Windows"), "Fonts")))
    watch = threading.Timer(LIMIT_SECONDS + LAST_SECONDS, _give_up)
    watch.daemon = True
    watch.start()
    # What is logged belongs into no installer's output: standard error is for the one sentence.
    logging.getLogger().addHandler(logging.NullHandler())
    status = EXIT_ENGINE
    try:
        with tempfile.TemporaryDirectory(prefix="expert-lanes-", ignore_cleanup_errors=True) as home:
            os.environ[folders.HOME_VARIABLE] = home
            facts = _test(Path(arguments[0]).absolute() if arguments else None)
    except AppError as error:
        _tell(error.message)
    except Exception as error:  # whatever it is, it is this test's result
        _tell(f"{type(error).__name__}: {error}")
    else:
        print(json.dumps(facts))
        status = EXIT_OK
    watch.cancel()
    if left_behind():
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        os._exit(status)
    return status


def _tell(reason: str) -> None:
    print(f"expert-lanes: the self-test failed: {' '.join(reason.split())}", file=sys.stderr)


def _give_up() -> None:
    """The process hangs where no event loop can end it, such as in a driver."""
    _tell(f"it was not over after {LIMIT_SECONDS + LAST_SECONDS:.0f} s.")
    if sys.stderr is not None:
        sys.stderr.flush()
    os._exit(EXIT_ENGINE)


def _test(picture: Path | None) -> Facts:
    """Everything, in the folders of `EXPERT_LANES_HOME`.

    Raises:
        AppError: what did not go as it must.
    """
    application = QApplication.instance() or QApplication(sys.argv[:1])
    theme = Theme()
    theme.apply(application)
    data = folders.ensure_folder(folders.data_folder())
    folders.ensure_folder(folders.models_folder())
    with _unexpected_errors() as unexpected, ConversationStore(data / "conversations.db") as store:
        sampling = protocol.Sampling(temperature=0.0)
        controller = Controller(Engine(), store, folders.models_folder(), sampling=lambda: (sampling, MAX_TOKENS))
        collector = UiThreadCollector(application)
        window = build_window(controller, theme, Settings(data / "settings.json"))
        try:
            window.show()
            application.processEvents()
            if not window.isVisible():
                raise _failure("The window is not shown.")
            seconds = {"window": time.time() - psutil.Process().create_time()}
            facts = _chat(window, controller, seconds, unexpected)
            warm_up()  # all that is imported only where it is first seen: a package may lack a part of it
            application.processEvents()
            if picture is not None and not window.grab().save(str(picture)):
                raise _failure(f"The window's picture could not be written to {picture}.")
        finally:
            window.close()
            window.deleteLater()
            collector.stop()
        if unexpected:
            raise _failure(_words(unexpected[0]))
    return facts


def _chat(
    window: MainWindow, controller: Controller, seconds: dict[str, float], unexpected: list[BaseException]
) -> Facts:
    """Make, load and ask the demo model as a user does; `seconds` gets what each step took."""
    engine = controller.engine
    steps = _Steps(controller, seconds, unexpected)
    # The window has the machine probed when it is first shown.
    machine = controller.machine or steps.wait("devices", controller.machine_changed)
    if machine.engine is None:
        raise _failure("The engine could not be started, or did not list its devices.")
    path = folders.models_folder() / "demo.gguf"
    with steps.timed("demo"):
        demo.build_demo(path, experts=EXPERTS, used=USED)
    model = steps.wait("facts", controller.model_changed, lambda: controller.choose_model(path))
    controller.set_plan(controller.propose_plan(Wishes(gpu=None, n_ctx=N_CTX, tuned=False)))
    loaded = steps.wait("load", controller.loaded, controller.load)
    window.show_chat()
    answer = steps.wait("answer", controller.finished, lambda: window.chat.ask(QUESTION))
    routing = steps.wait(
        "routing",
        engine.event,
        lambda: engine.send(protocol.ReadRouting),
        lambda event: isinstance(event, protocol.Routing),
    )
    routed = {layer: sum(counts) for layer, counts in routing.decode.items()}
    _check(answer, loaded)
    if not all(routed.get(layer) for layer in model.moe_layers):
        raise _failure("The expert device did not compute every layer with experts.")
    return {
        "version": importlib.metadata.version("expert-lanes"),
        "frozen": bool(getattr(sys, "frozen", False)),
        "platform": QApplication.platformName(),
        "seconds": {name: round(value, 3) for name, value in seconds.items()},
        "answer": answer.text,
        "tokens": answer.completion_tokens,
        "ttft_seconds": round(answer.ttft_seconds, 3),
        "tokens_per_second": round(answer.tokens_per_second, 2),
        "prompt_tokens_per_second": round(answer.prompt_tokens_per_second, 2),
        "backends": list(machine.engine.backends),
        "cpu_features": list(machine.engine.cpu_features),
        "experts_routed": sum(routed.values()),
    }


def _check(answer: protocol.Finished, loaded: protocol.Loaded) -> None:
    """What an answer must show.

    Raises:
        AppError: what it does not show.
    """
    if not loaded.expert_device:
        raise _failure(f"The expert device took no part: {loaded.reason}")
    if loaded.differences:
        raise _failure(f"What was loaded is not what the plan says: {' '.join(loaded.differences)}")
    if not answer.text.strip():
        raise _failure("The model answered nothing.")
    if answer.completion_tokens < 2 or answer.tokens_per_second <= 0 or answer.ttft_seconds <= 0:
        raise _failure("The answer came without its figures.")


class _Steps:
    """One step after the other, each until its signal comes; all within LIMIT_SECONDS."""

    def __init__(self, controller: Controller, seconds: dict[str, float], unexpected: list[BaseException]) -> None:
        self._controller = controller
        self._seconds = seconds
        self._unexpected = unexpected
        self._end = time.monotonic() + LIMIT_SECONDS

    @contextlib.contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Measure what happens within."""
        started = time.monotonic()
        yield
        self._seconds[name] = time.monotonic() - started

    def wait(
        self,
        name: str,
        signal: SignalInstance,
        begin: Callable[[], Any] = lambda: None,
        wanted: Callable[[Any], bool] = lambda _value: True,
    ) -> Any:
        """Begin a step and return what its signal brings, the first that is `wanted`.

        Raises:
            AppError: the controller told a failure, or the time was over.
        """
        loop = QEventLoop()
        late = QTimer(loop)
        late.setSingleShot(True)
        late.timeout.connect(loop.quit)
        came: list[Any] = []
        failures: list[AppError] = []

        def take(value: Any) -> None:
            if wanted(value):
                came.append(value)
                loop.quit()

        def fail(error: AppError) -> None:
            failures.append(error)
            loop.quit()

        signal.connect(take)
        self._controller.failed.connect(fail)
        try:
            with self.timed(name):
                begin()
                if not came and not failures:
                    late.start(max(1, int(1000 * (self._end - time.monotonic()))))
                    loop.exec()
        finally:
            signal.disconnect(take)
            self._controller.failed.disconnect(fail)
        if self._unexpected:
            raise _failure(_words(self._unexpected[0]))
        if failures:
            raise failures[0]
        if not came:
            raise _failure(f"The step '{name}' was not over after {LIMIT_SECONDS:.0f} s.")
        return came[0]


@contextlib.contextmanager
def _unexpected_errors() -> Iterator[list[BaseException]]:
    """Exceptions that Qt's slots raise meanwhile: Qt goes on after them, the test must not."""
    seen: list[BaseException] = []
    before = sys.excepthook
    sys.excepthook = lambda _kind, error, _where: seen.append(error)
    try:
        yield seen
    finally:
        sys.excepthook = before


def _words(error: BaseException) -> str:
    return f"Something unexpected happened: {type(error).__name__}: {error}"


def _failure(message: str) -> AppError:
    return AppError(ErrorCode.ENGINE_FAILED, message)
