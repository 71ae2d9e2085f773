"""Runs the window: names, look, logging, the collaborators, and a clean end."""

import contextlib
import faulthandler
import importlib
import logging
import os
import signal
import sys
from pathlib import Path

from PySide6.QtCore import QLocale, QTimer, QUrl
from PySide6.QtWidgets import QApplication, QMessageBox

from app.chat.store import ConversationStore
from app.engine.protocol import Loaded, Sampling
from app.errors import EXIT_BAD_USAGE, EXIT_OK, AppError, ErrorCode
from app.library.folders import data_folder, ensure_folder, log_folder, models_folder, user_path
from app.library.handover import Handover, handover_folder, start_request
from app.library.load_memory import remember
from app.ui.background import left_behind
from app.ui.banner import advice_for
from app.ui.controller import Controller
from app.ui.crash_reports import UnexpectedErrors, set_up_logging
from app.ui.engine import Engine
from app.ui.garbage import UiThreadCollector
from app.ui.main_window import APP_NAME, build_window
from app.ui.opening import Opening
from app.ui.program_icon import program_icon
from app.ui.settings import MAX_TOKENS, TEMPERATURE, THEME, Settings
from app.ui.speed_memory import SpeedMemory
from app.ui.theme import Theme
from app.ui.words import locale_of_words

log = logging.getLogger(__name__)

STORE_FILE = "conversations.db"
SETTINGS_FILE = "settings.json"
NO_SCREEN = """expert-lanes: There is no screen for the window: neither DISPLAY nor WAYLAND_DISPLAY is set.
Use a command, such as "expert-lanes chat"; "expert-lanes --help" lists them all.
"""
STORE_BUSY_SECONDS = 0.03
"""Longest that one write may hold the UI thread while another program has the store; answers try again."""


def run(argv: list[str], model: str = "") -> int:
    """Show the window until it is closed; returns the exit status of the process.

    Args:
        argv: Name of the program, and arguments for Qt.
        model: The model file to begin with; empty for the one that was loaded last.
    """
    if _no_screen():
        if sys.stderr is not None:
            sys.stderr.write(NO_SCREEN)
        return EXIT_BAD_USAGE
    path = model_path(model) if model else None
    try:
        handover = Handover(handover_folder())
    except AppError as error:  # EXPERT_LANES_HOME names no user's folder
        _application(argv)
        _tell(error)
        return error.exit_status
    if not handover.hold():
        if _handed_over(handover, path):
            return EXIT_OK
        handover.hold()  # the other may have ended meanwhile: later starts are to find this window, then
    with contextlib.closing(handover):
        return _run(argv, path, handover)


def _no_screen() -> bool:
    """True on a Linux console, where Qt would end the process with a guess about missing libraries."""
    names = ("DISPLAY", "WAYLAND_DISPLAY", "WAYLAND_SOCKET", "QT_QPA_PLATFORM")
    return sys.platform.startswith("linux") and not any(os.environ.get(name) for name in names)


def model_path(word: str) -> Path:
    """The file that a file manager or a user means: a path, or the address of a file."""
    if word.startswith("file:"):
        return Path(QUrl(word).toLocalFile())
    try:
        return user_path(word)
    except AppError:
        return Path(word).absolute()  # "~name.gguf" is the name of a file, then


def _handed_over(handover: Handover, path: Path | None) -> bool:
    try:
        return handover.ask(start_request(path))
    except AppError as error:
        log.warning("the window that runs could not be asked: %s", error.message)
        return False


def _application(argv: list[str]) -> QApplication:
    application = QApplication(argv)
    application.setApplicationName("expert-lanes")
    application.setApplicationDisplayName(APP_NAME)
    application.setDesktopFileName("expert-lanes")
    application.setWindowIcon(program_icon())
    QLocale.setDefault(locale_of_words())
    return application


def _run(argv: list[str], model: Path | None, handover: Handover) -> int:
    application = _application(argv)
    # Ctrl+C in a terminal ends the window at once; what was shown is stored, and the engine ends with us.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        crashes = set_up_logging(ensure_folder(log_folder()))
    except AppError as error:
        _tell(error)
        return error.exit_status
    errors = UnexpectedErrors()
    with crashes:
        try:
            return _run_with_store(application, model, handover)
        finally:
            errors.uninstall()
            faulthandler.disable()


def _run_with_store(application: QApplication, model: Path | None, handover: Handover) -> int:
    settings = Settings(data_folder() / SETTINGS_FILE)
    theme = Theme(forced=_forced_look(settings))
    theme.apply(application)

    def sampling() -> tuple[Sampling, int]:
        return Sampling(temperature=settings.get(TEMPERATURE)), settings.get(MAX_TOKENS)

    with contextlib.ExitStack() as opened:
        try:
            path = ensure_folder(data_folder()) / STORE_FILE
            store = opened.enter_context(ConversationStore(path, busy_seconds=STORE_BUSY_SECONDS))
            controller = Controller(Engine(), store, models_folder(), sampling=sampling)
        except AppError as error:
            _tell(error)
            return error.exit_status
        status = _run_window(application, theme, settings, controller, model, handover)
        if not left_behind():
            return status
    # Everything is saved by now.
    log.warning("the process ends although work of it still runs")
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # as in a program without a console
            stream.flush()
    os._exit(status)


def _run_window(
    application: QApplication,
    theme: Theme,
    settings: Settings,
    controller: Controller,
    model: Path | None,
    handover: Handover,
) -> int:
    def setting_changed(key: str) -> None:
        if key == THEME.key:
            theme.force(_forced_look(settings))

    def learn(report: Loaded) -> None:
        machine = controller.machine
        if machine is not None:
            controller.background.run(lambda: remember(machine, report.buffers, report.observed))

    settings.changed.connect(setting_changed)
    controller.loaded.connect(learn)
    SpeedMemory(controller)
    collector = UiThreadCollector(application)
    window = build_window(controller, theme, settings, str(model or ""))
    Opening(window, controller, handover)
    window.show()
    QTimer.singleShot(0, lambda: controller.background.run(warm_up))
    recovered_from = controller.conversation.store.recovered_from
    if recovered_from is not None:
        _tell(_recovered(recovered_from), _GOES_ON_EMPTY)
    if settings.kept_aside is not None:
        _tell(_reset(settings.kept_aside), _GOES_ON_ANEW)
    try:
        return application.exec()
    finally:
        controller.shutdown()
        window.deleteLater()
        collector.stop()
        log.info("window closed")


_SEEN_LATER = (
    "app.ui.chat.page",
    "app.ui.lanes.panel",  # which brings numpy
    "app.ui.graphs.panel",
    "app.ui.tuning.panel",
    "app.ui.tuning.curve_page",  # which brings pyqtgraph, 320 ms of computing (two cores, November 2026)
    "app.ui.tuning.knobs_page",
    "app.ui.tuning.autotune_page",
    "app.ui.settings_dialog",
)
"""What is imported where it is first shown, in the order in which that is likely to be."""


def warm_up() -> None:
    """Import off the UI thread what the chat and its docks need when they are first seen; no widget is made."""
    from app.ui.chat import markdown  # noqa: PLC0415 - the first window needs none of it

    markdown.warm_up()
    for name in _SEEN_LATER:
        importlib.import_module(name)


def _forced_look(settings: Settings) -> str | None:
    look = settings.get(THEME)
    return None if look == "system" else look


_GOES_ON_EMPTY = "The app goes on with an empty list. If you have a copy of the file, you can put it back."
_GOES_ON_ANEW = "The app goes on. If you have a copy of the file, you can put it back while the app is closed."


def _recovered(aside: Path) -> AppError:
    return AppError(ErrorCode.STORE_UNREADABLE, f"The saved conversations were damaged; the file is kept as {aside}.")


def _reset(aside: Path) -> AppError:
    words = f"The settings could not be read: those of a first start are used. The file is kept as {aside}."
    return AppError(ErrorCode.STORE_UNREADABLE, words)


def _tell(error: AppError, advice: str = "") -> None:
    box = QMessageBox(QMessageBox.Icon.Warning, APP_NAME, error.message)
    box.setInformativeText(advice or advice_for(error))
    box.setDetailedText(error.detail)
    box.exec()
