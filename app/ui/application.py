"""Runs the window: names, look, logging, the collaborators, and a clean end."""

import contextlib
import faulthandler
import logging
import signal
from pathlib import Path

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication, QMessageBox

from app.chat.store import ConversationStore
from app.engine.protocol import Sampling
from app.errors import AppError, ErrorCode
from app.library.folders import data_folder, ensure_folder, log_folder, models_folder
from app.ui.banner import advice_for
from app.ui.chat import markdown
from app.ui.controller import Controller
from app.ui.crash_reports import UnexpectedErrors, set_up_logging
from app.ui.engine import Engine
from app.ui.garbage import UiThreadCollector
from app.ui.main_window import APP_NAME, build_window
from app.ui.settings import MAX_TOKENS, TEMPERATURE, THEME, Settings
from app.ui.theme import Theme

log = logging.getLogger(__name__)

STORE_FILE = "conversations.db"
SETTINGS_FILE = "settings.json"


def run(argv: list[str]) -> int:
    """Show the window until it is closed; returns the exit status of the process."""
    application = QApplication(argv)
    application.setApplicationName("expert-lanes")
    application.setApplicationDisplayName(APP_NAME)
    application.setDesktopFileName("expert-lanes")
    # Ctrl+C in a terminal ends the window at once; what was shown is stored, and the engine ends with us.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    settings = Settings(data_folder() / SETTINGS_FILE)
    theme = Theme(forced=_forced_look(settings))
    theme.apply(application)
    try:
        crashes = set_up_logging(ensure_folder(log_folder()))
        store = ConversationStore(ensure_folder(data_folder()) / STORE_FILE)
    except AppError as error:
        _tell(error)
        return error.exit_status
    errors = UnexpectedErrors()
    with crashes, contextlib.closing(store):
        try:
            return _run_window(application, theme, settings, store)
        finally:
            errors.uninstall()
            faulthandler.disable()


def _run_window(application: QApplication, theme: Theme, settings: Settings, store: ConversationStore) -> int:
    def sampling() -> tuple[Sampling, int]:
        return Sampling(temperature=settings.get(TEMPERATURE)), settings.get(MAX_TOKENS)

    def setting_changed(key: str) -> None:
        if key == THEME.key:
            theme.force(_forced_look(settings))

    settings.changed.connect(setting_changed)
    collector = UiThreadCollector(application)
    engine = Engine()
    controller = Controller(engine, store, models_folder(), sampling=sampling)
    window = build_window(controller, theme, settings)
    window.show()
    QTimer.singleShot(0, lambda: controller.background.run(markdown.warm_up))
    if store.recovered_from is not None:
        _tell(_recovered(store.recovered_from))
    try:
        return application.exec()
    finally:
        controller.shutdown()
        window.deleteLater()
        collector.stop()
        log.info("window closed")


def _forced_look(settings: Settings) -> str | None:
    look = settings.get(THEME)
    return None if look == "system" else look


def _recovered(aside: Path) -> AppError:
    return AppError(ErrorCode.STORE_UNREADABLE, f"The saved conversations were damaged; the file is kept as {aside}.")


def _tell(error: AppError) -> None:
    box = QMessageBox(QMessageBox.Icon.Warning, APP_NAME, error.message)
    box.setInformativeText(advice_for(error))
    box.setDetailedText(error.detail)
    box.exec()
