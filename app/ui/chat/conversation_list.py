"""The list of stored conversations beside the chat."""

import html
import logging
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QAbstractListModel, QModelIndex, QObject, QPersistentModelIndex, QSize, Qt, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QListView, QPushButton, QSizePolicy, QVBoxLayout, QWidget

from app.errors import AppError
from app.ui.chat.conversation_orders import ConversationOrders, ConversationView
from app.ui.conversation import Conversation
from app.ui.theme import GRID, set_kind, set_role

if TYPE_CHECKING:
    from app.chat.store import StoredConversation

log = logging.getLogger(__name__)

WIDTH = 232


class ConversationListModel(QAbstractListModel):
    """The store's conversations, newest first, by title; setting a title renames."""

    def __init__(self, conversation: Conversation, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._conversation = conversation
        self._rows: tuple[StoredConversation, ...] = ()
        conversation.list_changed.connect(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        """Read the list again."""
        try:
            rows = tuple(self._conversation.store.conversations())
        except AppError as error:
            log.error("conversations cannot be listed: %s", error.message)
            self._conversation.failed.emit(error)
            return
        if [row.id for row in rows] != [row.id for row in self._rows]:
            self.beginResetModel()
            self._rows = rows
            self.endResetModel()
        elif rows != self._rows:  # the same ones with other titles: the current row stays
            self._rows = rows
            self.dataChanged.emit(self.index(0), self.index(len(rows) - 1))

    def rowCount(self, parent: QModelIndex | QPersistentModelIndex = QModelIndex()) -> int:  # noqa: B008
        """One row a conversation."""
        return 0 if parent.isValid() else len(self._rows)

    def data(self, index: QModelIndex | QPersistentModelIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """The title to show, to read out and to edit, and the id as the user's role."""
        if not index.isValid() or index.row() >= len(self._rows):
            return None
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.AccessibleTextRole):
            return self._rows[index.row()].title or self.tr("Untitled")
        if role == Qt.ItemDataRole.ToolTipRole:  # marked up, so that it wraps, and markup in a title is shown as it is
            return f"<span>{html.escape(self._rows[index.row()].title or self.tr('Untitled'))}</span>"
        if role == Qt.ItemDataRole.EditRole:
            return self._rows[index.row()].title
        if role == Qt.ItemDataRole.UserRole:
            return self._rows[index.row()].id
        return None

    def flags(self, index: QModelIndex | QPersistentModelIndex) -> Qt.ItemFlag:
        """Every title can be edited."""
        flags = super().flags(index)
        return flags | Qt.ItemFlag.ItemIsEditable if index.isValid() else flags

    def setData(
        self, index: QModelIndex | QPersistentModelIndex, value: Any, role: int = Qt.ItemDataRole.EditRole
    ) -> bool:
        """Rename; an empty title brings back that of the first question."""
        if role != Qt.ItemDataRole.EditRole or not index.isValid() or index.row() >= len(self._rows):
            return False
        stored = self._rows[index.row()]
        return value == stored.title or self._conversation.rename(stored.id, value)

    def conversation_at(self, row: int) -> int:
        """The id of the conversation in `row`."""
        return self._rows[row].id

    def row_of(self, conversation_id: int | None) -> int:
        """The row of a conversation, -1 for none."""
        ids = [row.id for row in self._rows]
        return ids.index(conversation_id) if conversation_id in ids else -1


class ConversationList(QFrame):
    """New conversation on top, then the stored ones; opening one shows it.

    Signals:
        new_wanted: The user asked for a new conversation.
    """

    new_wanted = Signal()

    def __init__(self, conversation: Conversation, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._conversation = conversation
        set_role(self, "sidebar")
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Preferred)
        new = QPushButton(self.tr("New conversation"), self)
        new.setToolTip(self.tr("Start a new conversation (Ctrl+N)"))
        new.clicked.connect(self.new_wanted)
        heading = QLabel(self.tr("Conversations"), self)
        set_role(heading, "small")
        self.menu_button = QPushButton("…", self)
        self.menu_button.setAccessibleName(self.tr("Rename or delete the conversation"))
        self.menu_button.setToolTip(self.tr("Rename (F2) or delete (Delete) the conversation chosen in the list"))
        self.menu_button.clicked.connect(self._open_menu)
        set_kind(self.menu_button, "quiet")
        self._model = ConversationListModel(conversation, self)
        self._view = ConversationView(self)
        self._view.setAccessibleName(self.tr("Conversations"))
        self._view.setAccessibleDescription(self.tr("Enter opens, F2 renames and Delete deletes a conversation."))
        self._view.setModel(self._model)
        self._view.setTextElideMode(Qt.TextElideMode.ElideRight)
        self._view.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._view.setUniformItemSizes(True)
        self._view.setFrameShape(QFrame.Shape.NoFrame)
        set_role(self._view, "bare")
        self._view.clicked.connect(self._open)
        self._view.activated.connect(self._open)
        self.orders = ConversationOrders(conversation, self._view)
        self.orders.left.connect(self._select_shown)
        head = QHBoxLayout()
        head.addWidget(heading, 1)
        head.addWidget(self.menu_button)
        column = QVBoxLayout(self)
        column.setContentsMargins(GRID + 4, 2 * GRID, GRID + 4, GRID)
        column.setSpacing(GRID)
        column.addWidget(new)
        column.addSpacing(GRID)
        column.addLayout(head)
        column.addWidget(self._view, 1)
        set_kind(new, "")
        self._model.modelReset.connect(self._select_shown)
        self._view.selectionModel().currentChanged.connect(self._update_button)
        conversation.changed.connect(self._select_shown)
        self._select_shown()

    @property
    def view(self) -> QListView:
        """The list."""
        return self._view

    def sizeHint(self) -> QSize:
        """The usual width, or more where the button's words need it."""
        return QSize(max(WIDTH, self.minimumSizeHint().width()), super().sizeHint().height())

    def _open(self, index: QModelIndex) -> None:
        self._conversation.open(self._model.conversation_at(index.row()))

    def _open_menu(self) -> None:
        self.orders.open_menu(self.menu_button.mapToGlobal(self.menu_button.rect().bottomLeft()))

    def _update_button(self) -> None:
        self.menu_button.setEnabled(self._view.currentIndex().isValid())

    def _select_shown(self) -> None:
        row = self._model.row_of(self._conversation.id)
        if row < 0:
            self._view.clearSelection()
            self._view.setCurrentIndex(QModelIndex())
        else:
            self._view.setCurrentIndex(self._model.index(row))
        self._update_button()  # after a reset the list tells no change
