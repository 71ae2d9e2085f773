"""What can be done with a conversation of the list: its menu, its keys, renaming in the list, deleting after a yes."""

from PySide6.QtCore import QModelIndex, QObject, QPersistentModelIndex, QPoint, Qt, Signal
from PySide6.QtGui import QAction, QContextMenuEvent, QKeyEvent, QKeySequence
from PySide6.QtWidgets import (
    QApplication,
    QListView,
    QMenu,
    QMessageBox,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QWidget,
)

from app.ui.conversation import Conversation
from app.ui.theme import set_kind, text_points
from app.ui.words import number

NAME_WIDTH = 380
"""Widest title in the question, in pixels at the usual text size."""


class ConversationView(QListView):
    """A list that asks for its menu by mouse and by keyboard, whatever the window system makes of the keys.

    Signals:
        menu_wanted: Where on the screen the menu is wanted (QPoint), and whether the mouse asked.
        editing_ended: The editor of a title was closed, with or without a change.
    """

    menu_wanted = Signal(QPoint, bool)
    editing_ended = Signal()

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        """The menu of the row under the mouse, or of the current one."""
        if event.reason() is QContextMenuEvent.Reason.Keyboard:
            self.ask_menu()
        elif self.indexAt(event.pos()).isValid():
            self.menu_wanted.emit(event.globalPos(), True)
        event.accept()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """The menu key and Shift+F10 open the menu; the rest is the list's."""
        shift = event.modifiers() == Qt.KeyboardModifier.ShiftModifier
        if event.key() == Qt.Key.Key_Menu or (shift and event.key() == Qt.Key.Key_F10):
            self.ask_menu()
            event.accept()
        else:
            super().keyPressEvent(event)

    def ask_menu(self) -> None:
        """Ask for the menu of the current row, under it."""
        if self.currentIndex().isValid():
            self.scrollTo(self.currentIndex())
            row = self.visualRect(self.currentIndex())
            self.menu_wanted.emit(self.viewport().mapToGlobal(row.bottomLeft()), False)

    def reset(self) -> None:
        """Take another list; the keyboard stays here where it was in the editor of a title that goes."""
        editing = self.state() is QListView.State.EditingState and self.isAncestorOf(QApplication.focusWidget())
        super().reset()
        if editing:
            self.setFocus()

    def closeEditor(self, editor: QWidget, hint: QStyledItemDelegate.EndEditHint) -> None:
        """Tell that renaming ended."""
        super().closeEditor(editor, hint)
        self.editing_ended.emit()


class TitleDelegate(QStyledItemDelegate):
    """Edits a title in its row, over its whole width."""

    def createEditor(
        self, parent: QWidget, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> QWidget:
        """The editor, with a name for screen readers."""
        editor = super().createEditor(parent, option, index)
        editor.setAccessibleName(self.tr("Title of the conversation"))
        editor.setToolTip(self.tr("Enter keeps it, Escape leaves it as it was. Empty: the first question again."))
        return editor

    def updateEditorGeometry(
        self, editor: QWidget, option: QStyleOptionViewItem, _index: QModelIndex | QPersistentModelIndex
    ) -> None:
        """The row's whole rectangle: the style would leave the editor the height of bare letters."""
        editor.setGeometry(option.rect)


class ConversationOrders(QObject):
    """Renames and deletes conversations of a list; its model gives their ids.

    Attributes:
        rename_action, delete_action: Act on the current row; the keys F2 and Delete while the list has the focus.
        menu: Both, for the row that it was opened for.
        question: The question whether to delete, while it is asked.

    Signals:
        left: The menu, the question or the editor that the mouse had opened was left.
    """

    left = Signal()

    def __init__(self, conversation: Conversation, view: ConversationView) -> None:
        super().__init__(view)
        self._conversation = conversation
        self._view = view
        self._by_mouse = False
        self.question: QMessageBox | None = None
        self.menu = QMenu(view)
        self.rename_action = self._action(self.tr("&Rename…"), Qt.Key.Key_F2, self._rename)
        self.delete_action = self._action(self.tr("&Delete…"), Qt.Key.Key_Delete, self._ask_delete)
        self.menu.addActions([self.rename_action, self.delete_action])
        self.menu.aboutToHide.connect(self._menu_hides, Qt.ConnectionType.QueuedConnection)
        view.setItemDelegate(TitleDelegate(view))
        view.setEditTriggers(QListView.EditTrigger.NoEditTriggers)  # the action has the key, and no click edits
        view.menu_wanted.connect(self.open_menu)
        view.editing_ended.connect(self._leave)

    def open_menu(self, place: QPoint, by_mouse: bool = False) -> None:
        """Open the menu of the current row.

        Args:
            place: Where on the screen.
            by_mouse: The row became the current one only for the menu.
        """
        if self._view.currentIndex().isValid() and not self.menu.isVisible():
            self._by_mouse = by_mouse
            self.menu.popup(place)

    def _action(self, text: str, key: Qt.Key, do: object) -> QAction:
        action = QAction(text, self)
        action.setShortcut(QKeySequence(key))
        action.setShortcutContext(Qt.ShortcutContext.WidgetShortcut)  # not in the editor of a title
        action.setShortcutVisibleInContextMenu(True)
        action.setAutoRepeat(False)
        action.triggered.connect(do)
        self._view.addAction(action)
        return action

    def _rename(self) -> None:
        index = self._view.currentIndex()
        if index.isValid():
            self._view.setFocus()
            self._view.edit(index)

    def _ask_delete(self) -> None:
        index = self._view.currentIndex()
        if not index.isValid() or self.question is not None:
            return
        conversation_id = index.data(Qt.ItemDataRole.UserRole)
        count = self._conversation.count(conversation_id)
        if count is None:
            return
        box = self._question(index.data(), self._consequences(conversation_id, count))
        delete = box.addButton(self.tr("&Delete"), QMessageBox.ButtonRole.DestructiveRole)
        set_kind(delete, "danger")
        cancel = box.addButton(QMessageBox.StandardButton.Cancel)
        box.setDefaultButton(cancel)
        box.setEscapeButton(cancel)
        box.finished.connect(lambda _result: self._answered(conversation_id, box.clickedButton() is delete))
        self.question = box
        box.open()

    def _question(self, title: str, consequences: str) -> QMessageBox:
        box = QMessageBox(self._view)
        box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        box.setIcon(QMessageBox.Icon.Warning)
        box.setWindowTitle(self.tr("Delete a conversation"))
        box.setTextFormat(Qt.TextFormat.PlainText)
        name = box.fontMetrics().elidedText(title, Qt.TextElideMode.ElideRight, round(text_points(NAME_WIDTH)))
        box.setText(self.tr("Delete “{title}”?").format(title=name))
        box.setInformativeText(consequences)
        return box

    def _consequences(self, conversation_id: int, count: int) -> str:
        words = {
            0: self.tr("There is no message in it."),
            1: self.tr("Its only message is deleted with it."),
        }.get(count, self.tr("Its {count} messages are deleted with it.").format(count=number(count)))
        if self._conversation.answers_in(conversation_id):
            words += " " + self.tr("The answer that is being written there is stopped.")
        return words + " " + self.tr("This cannot be undone.")

    def _answered(self, conversation_id: int, agreed: bool) -> None:
        self.question = None
        if agreed:
            self._conversation.delete(conversation_id)
        self._leave()

    def _menu_hides(self) -> None:
        """Queued: what was chosen has begun by now."""
        if self.question is None and self._view.state() is not QListView.State.EditingState:
            self._leave()

    def _leave(self) -> None:
        by_mouse, self._by_mouse = self._by_mouse, False
        if by_mouse:
            self.left.emit()
