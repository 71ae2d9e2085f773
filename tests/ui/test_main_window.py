"""The window around wizard and chat: pages, menus, the line of truth."""

from pathlib import Path

import msgspec
import pytest
from PySide6.QtCore import Qt, QUrl
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QDialog, QDockWidget, QFileDialog, QMenu, QMessageBox
from window_driver import ask, chat_with_docks

from app.engine.protocol import LogLine
from app.errors import AppError, ErrorCode
from app.library.folders import log_folder
from app.ui.controller import EMPTY, READY
from app.ui.main_window import NARROW_WIDTH, about_text
from app.ui.truth_words import memory_in_words

# ---- pages and menus -------------------------------------------------------------------------------


def test_the_window_opens_with_the_wizard_and_goes_on_to_the_chat(loaded_controller, make_window, qtbot):
    window = make_window(loaded_controller(), docks=2)
    assert window.page is window.wizard
    assert not any(dock.isVisible() for dock in window.findChildren(QDockWidget))
    window.wizard.finished.emit()
    assert window.page is window.chat
    qtbot.waitUntil(lambda: all(dock.isVisible() for dock in window.findChildren(QDockWidget)), timeout=10000)


def test_going_back_before_the_docks_came_keeps_them_for_the_next_time(loaded_controller, make_window, qtbot):
    window = make_window(loaded_controller(), docks=2)
    window.show_chat()
    window.show_wizard()
    qtbot.waitUntil(lambda: not any(dock.isVisible() for dock in window.findChildren(QDockWidget)))
    chat_with_docks(qtbot, window, visible=[True, True])


def test_another_model_can_be_chosen_or_not(loaded_controller, make_window, qtbot, make_facts):
    controller = loaded_controller()
    window = make_window(controller)
    window.show_chat()
    plan = controller.loaded_plan
    window.choose_action.trigger()
    assert window.page is window.wizard
    controller._read_facts = lambda _path: make_facts(layers=2, name="Other")
    with qtbot.waitSignal(controller.model_changed, timeout=10000):
        controller.choose_model(Path("other.gguf"))
    window.back_action.trigger()
    assert window.page is window.chat
    assert controller.plan is plan
    assert controller.state == READY


def test_a_failure_told_by_the_wizard_is_not_told_again_by_the_chat(loaded_controller, make_window):
    controller = loaded_controller()
    window = make_window(controller)
    controller.failed.emit(AppError(ErrorCode.NOT_GGUF, "It is a picture."))
    window.show_chat()
    assert window.chat.banner.isHidden()
    controller.failed.emit(AppError(ErrorCode.CONTEXT_FULL, "The context is full."))
    assert not window.chat.banner.isHidden()


def test_ctrl_n_begins_a_new_conversation(loaded_controller, make_window, qtbot):
    controller = loaded_controller()
    window = make_window(controller)
    window.show_chat()
    ask(qtbot, window, controller)
    assert controller.conversation.id is not None
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)
    qtbot.keyClick(window, Qt.Key.Key_N, Qt.KeyboardModifier.ControlModifier)
    assert controller.conversation.id is None


def test_actions_are_offered_only_where_they_work(make_controller, make_window):
    controller = make_controller()
    window = make_window(controller)
    assert not window.new_action.isEnabled()
    assert not window.export_action.isEnabled()
    window.show_chat()
    assert controller.state == EMPTY
    assert window.new_action.isEnabled()
    assert not window.back_action.isEnabled()
    assert not window.reload_action.isEnabled()
    assert not window.export_action.isEnabled(), "there is no conversation yet"


def test_a_lost_model_can_be_loaded_again_from_the_menu(loaded_controller, make_window, qtbot, tmp_path):
    controller = loaded_controller("--crash-after", 2, "--crash-once", tmp_path / "crashed")
    window = make_window(controller)
    window.show_chat()
    with qtbot.waitSignal(controller.failed, timeout=10000):
        window.chat.ask("Hello?")
    window.chat.banner.clear()
    assert window.reload_action.isEnabled()
    with qtbot.waitSignal(controller.loaded, timeout=10000):
        window.reload_action.trigger()
    assert not window.reload_action.isEnabled()


def test_a_conversation_is_exported_as_markdown(loaded_controller, make_window, qtbot, monkeypatch, tmp_path):
    controller = loaded_controller("--text", "An **answer**")
    window = make_window(controller)
    window.show_chat()
    ask(qtbot, window, controller, 'What / is "it"?')
    target = tmp_path / "对话 one.md"
    offered = []
    monkeypatch.setattr(
        QFileDialog,
        "getSaveFileName",
        lambda _parent, _title, path, _kind: (offered.append(path), (str(target), ""))[1],
    )
    window.export_action.trigger()
    qtbot.waitUntil(lambda: "Saved as" in window.statusBar().currentMessage(), timeout=10000)
    assert Path(offered[0]).name == "What is it.md"
    text = target.read_text("utf-8")
    assert 'What / is "it"?' in text
    assert "An **answer**" in text


def test_an_export_that_cannot_be_written_is_told(loaded_controller, make_window, qtbot, monkeypatch, tmp_path):
    controller = loaded_controller()
    window = make_window(controller)
    window.show_chat()
    ask(qtbot, window, controller)
    nowhere = tmp_path / "missing" / "x.md"
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_arguments: (str(nowhere), ""))
    window.export_action.trigger()
    qtbot.waitUntil(lambda: not window.chat.banner.isHidden(), timeout=10000)
    assert str(nowhere) in window.chat.banner.text


def test_the_log_folder_is_opened_even_before_anything_was_logged(make_controller, make_window, monkeypatch):
    opened = []
    monkeypatch.setattr(QDesktopServices, "openUrl", opened.append)
    window = make_window(make_controller())
    window.logs_action.trigger()
    assert opened == [QUrl.fromLocalFile(str(log_folder()))]
    assert log_folder().is_dir()


def test_warnings_of_the_engine_are_shown_for_a_while(make_controller, make_window):
    controller = make_controller()
    window = make_window(controller)
    controller.engine.log_line.emit(LogLine(level="warning", text="the context is small"))
    assert window.statusBar().currentMessage() == "the context is small"


def test_a_passing_message_can_be_seen_and_the_line_of_truth_comes_back(make_controller, make_window, qtbot):
    window = make_window(make_controller())
    before = window.statusBar().grab().toImage()
    window.statusBar().showMessage("the context is small")
    qtbot.waitUntil(lambda: window.statusBar().grab().toImage() != before, timeout=2000)
    assert not window.truth_line.isVisible()
    window.statusBar().clearMessage()
    qtbot.waitUntil(window.truth_line.isVisible)
    assert window.statusBar().grab().toImage() == before


def test_a_conversation_deleted_elsewhere_is_told_when_it_is_exported(loaded_controller, make_window, qtbot, store):
    controller = loaded_controller()
    window = make_window(controller)
    window.show_chat()
    ask(qtbot, window, controller)
    store.delete(controller.conversation.id)
    window.export_action.trigger()
    assert "deleted" in window.chat.banner.text


@pytest.mark.parametrize("action", ["settings_action", "about_action"])
def test_a_dialog_is_gone_once_it_was_closed(make_controller, make_window, qtbot, monkeypatch, action):
    window = make_window(make_controller())
    monkeypatch.setattr("importlib.metadata.version", lambda _name: "1.2.3")
    monkeypatch.setattr(QDialog, "exec", lambda _dialog: 0)
    monkeypatch.setattr(QMessageBox, "exec", lambda _box: 0)
    getattr(window, action).trigger()
    qtbot.waitUntil(lambda: window.findChildren(QDialog) == [], timeout=2000)


def test_a_load_that_failed_before_the_chat_was_seen_is_told_in_the_chat(make_controller, make_window, qtbot):
    controller = make_controller("--fail-load", "out_of_memory")
    window = make_window(controller)
    with qtbot.waitSignals([controller.machine_changed, controller.model_changed], timeout=10000):
        controller.probe()
        controller.choose_model(Path("model.gguf"))
    controller.set_plan(controller.propose_plan())
    with qtbot.waitSignal(controller.failed, timeout=10000):
        controller.load()
    window.show_chat()
    assert "Close other programs" in window.chat.banner.text
    assert not window.chat.banner.isHidden()


def test_about_names_every_version_that_is_known(loaded_controller, make_controller, monkeypatch):
    monkeypatch.setattr("importlib.metadata.version", lambda _name: "1.2.3")
    text = about_text(loaded_controller())
    assert "Expert Lanes 1.2.3" in text
    assert "ggml 0.25.3" in text
    assert "ggml" not in about_text(make_controller()), "a version that is not known is not named"


def test_no_two_menu_entries_share_a_shortcut(make_controller, make_window):
    window = make_window(make_controller(), docks=2)
    actions = [action for menu in window.menuBar().findChildren(QMenu) for action in menu.actions()]
    shortcuts = [action.shortcut().toString() for action in actions if not action.shortcut().isEmpty()]
    assert len(shortcuts) == len(set(shortcuts)) >= 7


def test_the_edit_menu_takes_back_what_was_done_by_hand(loaded_controller, make_window, qtbot):
    controller = loaded_controller()
    window = make_window(controller)
    window.show_chat()
    assert not window.undo_action.isEnabled()
    plan = controller.plan
    window._orders.edit_plan(msgspec.structs.replace(plan, threads=1), "one thread")
    assert window.undo_action.isEnabled()
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)
    window.setFocus()
    qtbot.keyClick(window, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    assert controller.plan == plan
    window.redo_action.trigger()
    assert controller.plan.threads == 1


def test_a_narrow_window_leaves_its_room_to_chat_and_docks_until_the_list_is_asked_for(loaded_controller, make_window):
    window = make_window(loaded_controller())
    window.show_chat()
    window.resize(NARROW_WIDTH + 100, 600)
    assert window.chat.sidebar.isVisible()
    window.resize(NARROW_WIDTH - 100, 600)
    assert not window.chat.sidebar.isVisible()
    window.sidebar_action.trigger()
    assert window.chat.sidebar.isVisible()
    window.resize(NARROW_WIDTH - 120, 600)
    assert window.chat.sidebar.isVisible(), "it was asked for"
    window.sidebar_action.trigger()
    window.resize(NARROW_WIDTH + 100, 600)
    assert window.chat.sidebar.isVisible()


def test_while_plans_are_measured_no_model_can_be_chosen_and_the_chat_says_why(loaded_controller, make_window):
    controller = loaded_controller()
    window = make_window(controller)
    window.show_chat()
    controller.lend_engine()
    assert not window.choose_action.isEnabled()
    assert "Auto-tune is measuring" in window.chat.composer.hint
    controller.return_engine()


# ---- the line of truth -----------------------------------------------------------------------------


def test_the_line_of_truth_says_what_is_loaded_and_what_was_predicted(loaded_controller, make_window):
    controller = loaded_controller("--difference", "Layer 3: planned on Vulkan0, loaded on CPU.")
    window = make_window(controller)
    text = window.truth_line.text
    assert controller.facts.name in text
    assert memory_in_words(controller.loaded_plan, controller.loaded_report) in text
    assert "1 difference from the plan" in text
    assert window.truth_line.difference.toolTip() == "Layer 3: planned on Vulkan0, loaded on CPU."
    assert window.windowTitle().startswith(controller.facts.name)


def test_the_line_of_truth_forgets_a_model_that_is_gone(loaded_controller, make_window, qtbot):
    controller = loaded_controller("--crash-after", 2)
    window = make_window(controller)
    window.show_chat()
    with qtbot.waitSignal(controller.failed, timeout=10000):
        window.chat.ask("Hello?")
    assert controller.facts.name not in window.truth_line.text
    assert "No model is loaded" in window.truth_line.text
    assert window.windowTitle() == "Expert Lanes"
