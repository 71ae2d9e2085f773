"""The main window: wizard or chat in the middle, lanes, tuning and graphs beside, menus, the line of truth below."""

import base64
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QByteArray, QPoint, QSize, Qt, QUrl, Signal, qVersion
from PySide6.QtGui import QAction, QCloseEvent, QDesktopServices, QKeySequence, QResizeEvent
from PySide6.QtWidgets import QDockWidget, QFileDialog, QMainWindow, QMessageBox, QSizePolicy, QStackedWidget, QWidget

from app.engine.protocol import LogLine
from app.errors import AppError, ErrorCode, writing_error
from app.library.folders import ensure_folder, log_folder
from app.ui.controller import ANSWERING, EMPTY, FAILED, LENT, LOADING, Controller
from app.ui.dock_area import DockArea
from app.ui.hint_button import HintsButton
from app.ui.orders import Orders
from app.ui.settings import GEOMETRY, LAST_MODEL, LAYOUT, Settings
from app.ui.theme import Theme, text_points
from app.ui.truth_line import TruthLine
from app.ui.updates import Updates

if TYPE_CHECKING:
    from app.ui.chat.page import ChatPage

log = logging.getLogger(__name__)

APP_NAME = "Expert Lanes"
NOTE_MILLISECONDS = 10_000


def build_window(controller: Controller, theme: Theme, settings: Settings, model: str = "") -> "MainWindow":
    """The window with everything in it: the one place that knows all parts of the UI.

    `model` is the file to begin with, in place of the one that was loaded last.
    """
    from app.ui.graphs.dock import GraphsDock  # noqa: PLC0415 - keeps the parts apart for tests
    from app.ui.lanes.dock import LanesDock  # noqa: PLC0415
    from app.ui.tuning.dock import TuningDock  # noqa: PLC0415
    from app.ui.wizard import Wizard  # noqa: PLC0415

    orders = Orders(controller)
    wizard = Wizard(controller, theme, last_model=model or settings.get(LAST_MODEL))
    docks = (
        LanesDock(controller, theme, orders),
        TuningDock(controller, theme, orders),
        GraphsDock(controller, theme, settings=settings),
    )
    return MainWindow(controller, theme, settings, wizard, docks, orders, Updates(settings))


class _PageStack(QStackedWidget):
    """Pages of which only the one shown needs room: the docks beside it get theirs."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)

    def minimumSizeHint(self) -> QSize:
        """What the page shown needs."""
        page = self.currentWidget()
        return page.minimumSizeHint() if page is not None else super().minimumSizeHint()


USUAL_SIZE = (1360, 860)
MINIMUM_SIZE = (720, 520)
FRAME_HEIGHT = 40  # room for a title bar, which is not part of the window's own size
NARROW_WIDTH = 940
"""Pixels, with the usual size of text: with less the conversations leave their room, until they are asked for."""


class MainWindow(QMainWindow):
    """Owns the widgets; ends the engine when it closes.

    Signals:
        closing: The window is about to go, which may take seconds: from now on it takes nothing new.
    """

    closing = Signal()

    def __init__(
        self,
        controller: Controller,
        theme: Theme,
        settings: Settings,
        wizard: QWidget,
        docks: Sequence[QDockWidget] = (),
        orders: Orders | None = None,
        updates: Updates | None = None,
    ) -> None:
        """`wizard` has a `finished` signal; `orders` is the history that the docks share."""
        super().__init__()
        self._controller = controller
        self._theme = theme
        self._settings = settings
        self._chat: ChatPage | None = None
        self._orders = orders or Orders(controller)
        self._orders.setParent(self)
        self._updates = updates
        if updates is not None:
            updates.setParent(self)
            updates.newer_found.connect(self._tell_newer)
        self.wizard = wizard
        self._stack = _PageStack(self)
        self._stack.addWidget(wizard)
        self.setCentralWidget(self._stack)
        self.setWindowTitle(APP_NAME)
        self.resize(*USUAL_SIZE)
        self._docks = DockArea(self, docks)
        self._narrow, self._sidebar_before = False, True
        self.truth_line = TruthLine(controller, self)
        # Not as a permanent widget: with a stretch that would leave no room for passing messages.
        self.statusBar().addWidget(self.truth_line, 1)
        self.hints = HintsButton(controller, self._orders, settings, self)
        self.statusBar().addPermanentWidget(self.hints)
        self.statusBar().setSizeGripEnabled(False)
        self._make_actions()
        self._make_menus()
        self._restore()
        wizard.finished.connect(self.show_chat)
        controller.loaded.connect(self._loaded)
        controller.state_changed.connect(self._state_changed)
        controller.conversation.changed.connect(self._update_actions)
        controller.engine.log_line.connect(self._note)
        self._update_actions()

    # ---- pages --------------------------------------------------------------------------------

    @property
    def chat(self) -> "ChatPage":
        """The chat page, made when it is first needed: the start shows the wizard."""
        if self._chat is None:
            from app.ui.chat.page import ChatPage  # noqa: PLC0415 - as said

            self._chat = ChatPage(self._controller, self._theme, self)
            self._chat.sidebar.setVisible(self.sidebar_action.isChecked())
            self.sidebar_action.toggled.connect(self._chat.sidebar.setVisible)
            self._chat.model_wanted.connect(self.show_wizard)
            self._stack.addWidget(self._chat)
        return self._chat

    @property
    def page(self) -> QWidget:
        """The page shown: the wizard or the chat."""
        return self._stack.currentWidget()

    def show_chat(self) -> None:
        """Show the chat; the docks come with it unless the user closed them."""
        self._stack.setCurrentWidget(self.chat)
        self._docks.show(True)
        self.chat.composer.setFocus()
        self._update_actions()

    def show_wizard(self) -> None:
        """Show the wizard, to choose another model; what is loaded stays loaded meanwhile."""
        self._keep_layout()
        self._docks.show(False)
        self._stack.setCurrentWidget(self.wizard)
        self.wizard.setFocus()
        self._update_actions()

    def back_to_chat(self) -> None:
        """Leave the wizard without loading anything."""
        self._controller.return_to_loaded()
        self.show_chat()

    # ---- menus --------------------------------------------------------------------------------

    def _action(self, text: str, slot: object, shortcut: QKeySequence | QKeySequence.StandardKey | str = "") -> QAction:
        action = QAction(text, self)
        if shortcut:
            action.setShortcut(QKeySequence(shortcut))
        action.triggered.connect(slot)
        return action

    def _make_actions(self) -> None:
        self.new_action = self._action(self.tr("&New conversation"), self._new_conversation, "Ctrl+N")
        self.choose_action = self._action(self.tr("Choose another &model…"), self.show_wizard, "Ctrl+O")
        self.back_action = self._action(self.tr("&Back to the chat"), self.back_to_chat, "Alt+Left")
        self.reload_action = self._action(self.tr("&Load the model again"), self._reload, "Ctrl+R")
        self.export_action = self._action(self.tr("&Export conversation as Markdown…"), self._export, "Ctrl+Shift+E")
        self.settings_action = self._action(self.tr("&Settings…"), self._open_settings, "Ctrl+,")
        self.quit_action = self._action(self.tr("&Quit"), self.close, "Ctrl+Q")
        self.quit_action.setMenuRole(QAction.MenuRole.QuitRole)
        self.sidebar_action = QAction(self.tr("&Conversations"), self)
        self.sidebar_action.setCheckable(True)
        self.sidebar_action.setChecked(True)
        self.sidebar_action.setShortcut(QKeySequence("Ctrl+B"))
        self.undo_action = self._orders.stack.createUndoAction(self, self.tr("&Undo"))
        self.undo_action.setShortcut(QKeySequence.StandardKey.Undo)
        self.redo_action = self._orders.stack.createRedoAction(self, self.tr("&Redo"))
        self.redo_action.setShortcuts([QKeySequence("Ctrl+Shift+Z"), QKeySequence("Ctrl+Y")])
        self.logs_action = self._action(self.tr("Open &log folder"), self._open_logs)
        self.about_action = self._action(self.tr("&About {app}").format(app=APP_NAME), self._about)

    def _make_menus(self) -> None:
        file_menu = self.menuBar().addMenu(self.tr("&File"))
        file_menu.addActions([self.new_action, self.choose_action, self.reload_action, self.back_action])
        file_menu.addSeparator()
        file_menu.addActions([self.export_action, self.settings_action])
        file_menu.addSeparator()
        file_menu.addAction(self.quit_action)
        edit_menu = self.menuBar().addMenu(self.tr("&Edit"))
        edit_menu.addActions([self.undo_action, self.redo_action])
        view_menu = self.menuBar().addMenu(self.tr("&View"))
        view_menu.addAction(self.sidebar_action)
        for dock in self._docks.docks:
            view_menu.addAction(dock.toggleViewAction())
        help_menu = self.menuBar().addMenu(self.tr("&Help"))
        help_menu.addActions([self.logs_action, self.about_action])

    def _state_changed(self, state: str) -> None:
        if state != EMPTY:
            # A model is coming and the chat after it: it listens from here on, so that it can tell a failure.
            self.chat  # noqa: B018
        self._update_actions()

    def _update_actions(self) -> None:
        in_chat = self.page is not self.wizard
        loading = self._controller.state == LOADING
        self.new_action.setEnabled(in_chat)
        self.choose_action.setEnabled(in_chat and self._controller.state not in (LOADING, ANSWERING, LENT))
        self.reload_action.setEnabled(in_chat and self._controller.state == FAILED)
        self.back_action.setEnabled(not in_chat and not loading)
        self.export_action.setEnabled(in_chat and self._controller.conversation.id is not None)
        self.sidebar_action.setEnabled(in_chat)
        for dock in self._docks.docks:
            dock.toggleViewAction().setEnabled(in_chat)
        facts = self._controller.loaded_facts
        self.setWindowTitle(f"{facts.name} — {APP_NAME}" if facts else APP_NAME)

    # ---- actions ------------------------------------------------------------------------------

    def _new_conversation(self) -> None:
        self.chat.new_conversation()

    def _reload(self) -> None:
        try:
            self._controller.load_again()
        except AppError as error:
            self.chat.banner.tell(error)

    def _export(self) -> None:
        from app.chat.export import conversation_markdown  # noqa: PLC0415 - no start needs it

        conversation = self._controller.conversation
        try:
            stored = next((item for item in conversation.store.conversations() if item.id == conversation.id), None)
            if stored is None:
                raise AppError(ErrorCode.BAD_USAGE, "This conversation was deleted by another window.")
            text = conversation_markdown(stored, conversation.messages())
        except AppError as error:
            self.chat.banner.tell(error)
            return
        name, _ = QFileDialog.getSaveFileName(
            self,
            self.tr("Export conversation"),
            str(Path.home() / f"{_file_name(stored.title)}.md"),
            self.tr("Markdown (*.md)"),
        )
        if name:
            job = self._controller.background.run(lambda: _write(Path(name), text))
            job.success(self._exported).failure(self.chat.banner.tell)

    def _exported(self, path: Path) -> None:
        self.statusBar().showMessage(self.tr("Saved as {path}").format(path=path), NOTE_MILLISECONDS)

    def _open_settings(self) -> None:
        from app.ui.settings_dialog import SettingsDialog  # noqa: PLC0415 - no start needs it

        dialog = SettingsDialog(self._settings, self, self._updates)
        dialog.exec()
        dialog.deleteLater()

    def _tell_newer(self, version: str) -> None:
        words = self.tr("Version {version} is published: see the settings (Ctrl+,).").format(version=version)
        self.statusBar().showMessage(words, NOTE_MILLISECONDS)

    def _open_logs(self) -> None:
        try:
            folder = ensure_folder(log_folder())
        except AppError as error:
            self.chat.banner.tell(error)
            return
        QDesktopServices.openUrl(QUrl.fromLocalFile(str(folder)))

    def _about(self) -> None:
        box = QMessageBox(self)
        box.setWindowTitle(self.about_action.text().replace("&", ""))
        box.setTextFormat(Qt.TextFormat.PlainText)
        box.setText(APP_NAME)
        box.setInformativeText(about_text(self._controller))
        box.exec()
        box.deleteLater()

    def _note(self, line: LogLine) -> None:
        self.statusBar().showMessage(line.text, NOTE_MILLISECONDS)

    def _loaded(self, _report: object) -> None:
        facts = self._controller.loaded_facts
        if facts is not None:
            self._settings.set(LAST_MODEL, facts.files[0])
        self._update_actions()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Hide the list of conversations when the window becomes narrow, and bring it back when it is wide again."""
        super().resizeEvent(event)
        narrow = self.width() < text_points(NARROW_WIDTH)
        if narrow != self._narrow:
            self._narrow = narrow
            if narrow:
                self._sidebar_before = self.sidebar_action.isChecked()
            self.sidebar_action.setChecked(not narrow and self._sidebar_before)

    # ---- begin and end ------------------------------------------------------------------------

    def _fit_to_screen(self, *, is_put_back: bool) -> None:
        """Keep the whole window, its frame included, on the screen: a laptop's is smaller than the usual size."""
        screen = self.screen()
        if screen is None:
            return
        room = screen.availableGeometry()
        width, height = room.width(), room.height() - FRAME_HEIGHT
        self.setMinimumSize(min(MINIMUM_SIZE[0], width), min(MINIMUM_SIZE[1], height))
        self.resize(min(self.width(), width), min(self.height(), height))
        before = self.pos()
        corner = QPoint(
            max(room.left(), min(before.x(), room.left() + width - self.width())),
            max(room.top(), min(before.y(), room.top() + height - self.height())),
        )
        # Not to where it was put back: that is the place without the frame, which a move counts in, and the window
        # would be lower by a title bar at every start.
        if corner != before or not is_put_back:
            self.move(corner)

    def _restore(self) -> None:
        geometry = _decoded(self._settings.get(GEOMETRY))
        self._fit_to_screen(is_put_back=bool(geometry) and self.restoreGeometry(geometry))
        # The window opens with the wizard; the docks wait for the chat.
        self._docks.restore(_decoded(self._settings.get(LAYOUT)))

    def _keep_layout(self) -> None:
        layout = self._docks.kept()
        if layout is not None:
            self._settings.set(LAYOUT, _encoded(layout))

    def closeEvent(self, event: QCloseEvent) -> None:
        """Keep the layout, then end the engine and everything that runs."""
        self.closing.emit()
        self._settings.set(GEOMETRY, _encoded(self.saveGeometry()))
        self._keep_layout()
        self.hide()
        self._docks.shutdown()
        self.hints.shutdown()
        if self._updates is not None:
            self._updates.shutdown()
        self._controller.shutdown()
        super().closeEvent(event)


def about_text(controller: Controller) -> str:
    """Versions of the app and of what it stands on, for a bug report."""
    import importlib.metadata  # noqa: PLC0415 - 13 ms that no start of the window needs

    lines = [f"{APP_NAME} {importlib.metadata.version('expert-lanes')}"]
    build = controller.machine.engine if controller.machine else None
    if build is not None:
        lines.append(f"llama-cpp-python {build.llama_cpp_python}, ggml {build.ggml} ({build.build})")
    lines.append(f"Qt {qVersion()}")
    return "\n".join(lines)


def _write(path: Path, text: str) -> Path:
    try:
        path.write_text(text, "utf-8", newline="\n")
    except OSError as error:
        raise writing_error(error, path) from error
    return path


def _file_name(title: str) -> str:
    """`title` without what a file name cannot hold on some system."""
    kept = "".join(character if character.isalnum() or character in " -_" else " " for character in title)
    return " ".join(kept.split())[:60] or "conversation"


def _encoded(state: QByteArray) -> str:
    return base64.b64encode(state.data()).decode("ascii")


def _decoded(text: str) -> QByteArray:
    return QByteArray.fromBase64(text.encode("ascii", "ignore"))
