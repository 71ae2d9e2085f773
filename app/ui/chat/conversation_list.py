"""The list of stored conversations beside the chat."""

import logging
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QAbstractListModel, QModelIndex, QObject, QPersistentModelIndex, QSize, Qt, Signal
from PySide6.QtWidgets import QFrame, QLabel, QListView, QPushButton, QSizePolicy, QVBoxLayout, QWidget

from app.errors import AppError
from app.ui.conversation import Conversation
from app.ui.theme import GRID, set_kind, set_role

if TYPE_CHECKING:
    from app.chat.store import StoredConversation

log = logging.getLogger(__name__)

WIDTH = 232


class ConversationListModel(QAbstractListModel):
    """The store's conversations, newest first, by title."""

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
        if rows != self._rows:
            self.beginResetModel()
            self._rows = rows
            self.endResetModel()

    def rowCount(self, parent: QModelIndex | QPersistentModelIndex = QModelIndex()) -> int:  # noqa: B008
        """One row a conversation."""
        return 0 if parent.isValid() else len(self._rows)

    def data(self, index: QModelIndex | QPersistentModelIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """The title to show and to read out."""
        if not index.isValid() or index.row() >= len(self._rows):
            return None
        if role in (
            Qt.ItemDataRole.DisplayRole,
            Qt.ItemDataRole.ToolTipRole,
            Qt.ItemDataRole.AccessibleTextRole,
        ):
            return self._rows[index.row()].title or self.tr("Untitled")
        return None

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
        self._model = ConversationListModel(conversation, self)
        self._view = QListView(self)
        self._view.setAccessibleName(self.tr("Conversations"))
        self._view.setModel(self._model)
        self._view.setTextElideMode(Qt.TextElideMode.ElideRight)
        self._view.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._view.setUniformItemSizes(True)
        self._view.setFrameShape(QFrame.Shape.NoFrame)
        set_role(self._view, "bare")
        self._view.clicked.connect(self._open)
        self._view.activated.connect(self._open)
        column = QVBoxLayout(self)
        column.setContentsMargins(GRID + 4, 2 * GRID, GRID + 4, GRID)
        column.setSpacing(GRID)
        column.addWidget(new)
        column.addSpacing(GRID)
        column.addWidget(heading)
        column.addWidget(self._view, 1)
        set_kind(new, "")
        self._model.modelReset.connect(self._select_shown)
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
        self._conversation.show(self._model.conversation_at(index.row()))

    def _select_shown(self) -> None:
        row = self._model.row_of(self._conversation.id)
        if row < 0:
            self._view.clearSelection()
            self._view.setCurrentIndex(QModelIndex())
        else:
            self._view.setCurrentIndex(self._model.index(row))
