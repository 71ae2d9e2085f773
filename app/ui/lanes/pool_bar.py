"""The pool's size under the user's hand: a box in MiB, "Release", and what the engine made of it in words."""

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QSizePolicy, QSpinBox, QVBoxLayout, QWidget

from app.placement.cache.facts import CacheReport, PoolFacts
from app.ui.lanes.cache_words import last_answer_text, pool_note, pool_text, pool_warning, staging_text
from app.ui.lanes.pool import PoolRoom
from app.ui.theme import GRID, set_kind, set_role
from app.ui.widgets import ElidedLabel
from app.ui.words import in_bytes

MIB = 1024**2
STILL_MILLISECONDS = 400
"""Steps of the box are sent when it has been still for so long: every size is another allocation."""
FINE_STEP, COARSE_STEP, COARSE_FROM = 16, 64, 2048
"""MiB of one step, and the most MiB from which steps are coarse."""


class PoolBar(QWidget):
    """Shows and changes the pool; the box shows what the engine was asked for, the words what it gave.

    Signals:
        size_wanted: Make the pool this large, in bytes; 0 releases it.
    """

    size_wanted = Signal(object)  # an int here would be one of 32 bits

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._requested = 0
        self._resizing = False
        self._title = ElidedLabel("", self)
        self._title.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Preferred)
        self._title.setMinimumWidth(10 * GRID)
        set_role(self._title, "strong")
        self.box = _Box(self)
        self.box.setKeyboardTracking(False)
        self.box.setSuffix(self.tr(" MiB"))
        self.box.setSpecialValueText(self.tr("none"))
        self.box.setGroupSeparatorShown(True)
        self._title.setBuddy(self.box)
        self.release_button = QPushButton(self.tr("Release"), self)
        set_kind(self.release_button, "quiet")
        self.release_button.setToolTip(self.tr("Give the pool's memory back at once; the CPU computes every expert."))
        self._words = QLabel(self)
        set_role(self._words, "small")
        self._warning = QLabel(self)
        set_role(self._warning, "warning")
        for label in (self._words, self._warning):
            label.setWordWrap(True)
            label.setTextFormat(Qt.TextFormat.PlainText)
        self._still = QTimer(self)
        self._still.setSingleShot(True)
        self._still.setInterval(STILL_MILLISECONDS)
        self._still.timeout.connect(self._send)
        self.box.valueChanged.connect(self._changed)
        self.box.editingFinished.connect(self._finished)
        self.release_button.clicked.connect(self._release)
        row = QHBoxLayout()
        row.setSpacing(GRID)
        row.addWidget(self._title)
        row.addWidget(self.box)
        row.addWidget(self.release_button)
        row.addStretch()
        column = QVBoxLayout(self)
        column.setContentsMargins(GRID // 2, 0, GRID // 2, 0)
        column.setSpacing(GRID // 2)
        column.addLayout(row)
        column.addWidget(self._words)
        column.addWidget(self._warning)
        self.show_pool(PoolRoom(), None, None, resizing=False)

    @property
    def text(self) -> str:
        """Everything it says now."""
        labels = (self._title, self._words, self._warning)
        return "\n".join(label.text() for label in labels if not label.isHidden() and label.text())

    def show_pool(self, room: PoolRoom, pool: PoolFacts | None, last: CacheReport | None, *, resizing: bool) -> None:
        """Show the pool.

        Args:
            room: What it may be.
            pool: What it is, as the engine reports; None where it reports none.
            last: What it did for the last answer.
            resizing: True while the engine changes its size.
        """
        self._resizing = resizing
        self._requested = pool.requested_bytes if pool else 0
        device = room.device
        self._title.setText(
            self.tr("Expert pool on {device}").format(device=device) if device else self.tr("Expert pool")
        )
        possible = not room.why_not
        self._title.setToolTip(self._title.text())
        self.box.setEnabled(possible)
        # What is there can be given back even where nothing can be added.
        self.release_button.setEnabled(bool(self._requested))
        self.release_button.setVisible(possible or bool(self._requested))
        self.box.setVisible(possible)
        if possible:
            self._show_size(room)
        self._show_words(room, pool, last, resizing=resizing)

    def _show_size(self, room: PoolRoom) -> None:
        most = room.most_bytes // MIB
        if not self._edited():
            self.box.blockSignals(True)  # what the engine says is no wish of the user's
            self.box.setRange(0, max(most, round(self._requested / MIB)))
            self.box.setSingleStep(COARSE_STEP if most >= COARSE_FROM else FINE_STEP)
            self.box.setValue(round(self._requested / MIB))
            self.box.blockSignals(False)
        words = self.tr(
            "Up to {most}: what the plan leaves free on {device}, and no more than the experts need. One token is "
            "routed to {cycle} of experts; a smaller pool hardly helps. Takes effect at once, without a reload."
        ).format(most=in_bytes(room.most_bytes), device=room.device, cycle=in_bytes(room.cycle_bytes))
        self.box.setToolTip(words)
        self.box.setAccessibleName(self._title.text())
        self.box.setAccessibleDescription(words)

    def _show_words(self, room: PoolRoom, pool: PoolFacts | None, last: CacheReport | None, *, resizing: bool) -> None:
        words = room.why_not
        if not room.why_not or self._requested:
            words = " · ".join(part for part in (pool_text(pool), last_answer_text(last)) if part) + "."
            if self._requested:
                words += " " + pool_note(pool, room.cycle_bytes)
        if resizing:
            words = self.tr("The engine changes the pool's size…")
        self._words.setText(words.rstrip())
        self._words.setToolTip(staging_text(pool))
        self._words.setAccessibleDescription(staging_text(pool))
        warning = "" if resizing else pool_warning(pool, room.cycle_bytes)
        self._warning.setText(warning)
        self._warning.setVisible(bool(warning))
        self.setAccessibleName(self.text)

    # ---- what the user does -------------------------------------------------------------------

    def _edited(self) -> bool:
        """True while the box holds a wish that the engine has not answered: it must not be overwritten."""
        return self._resizing or self._still.isActive() or (self.box.hasFocus() and self.box.lineEdit().isModified())

    def _changed(self) -> None:
        self._still.start()

    def _finished(self) -> None:
        """Enter, or the box loses the keyboard: no need to wait for more."""
        if self._still.isActive():
            self._send()

    def _release(self) -> None:
        self.box.blockSignals(True)
        self.box.setValue(0)
        self.box.blockSignals(False)
        self._still.stop()
        self.size_wanted.emit(0)

    def _send(self) -> None:
        self._still.stop()
        self.box.lineEdit().setModified(False)
        wanted = self.box.value()
        if self._resizing or wanted != round(self._requested / MIB):
            self.size_wanted.emit(wanted * MIB)


class _Box(QSpinBox):
    """A box that scrolling past does not change."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)

    def wheelEvent(self, event: QWheelEvent) -> None:
        """The wheel is for who has chosen the box."""
        if self.hasFocus():
            super().wheelEvent(event)
        else:
            event.ignore()
