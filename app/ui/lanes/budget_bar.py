"""The fill bar of a lane with a budget, the expert pool's or main memory's, with a handle that changes it."""

from PySide6.QtCore import QPointF, QRectF, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QKeyEvent, QMouseEvent, QPainter, QPainterPath, QPaintEvent, QPen, QWheelEvent
from PySide6.QtWidgets import QSizePolicy, QSlider, QWidget

from app.ui.theme import Theme
from app.ui.widgets import Segment

MIB = 1024**2
BAR_HEIGHT, HEIGHT = 8, 22
HANDLE_WIDTH = 12
PACE_MILLISECONDS = 120
"""A dragged handle asks for sizes this often: every size is another allocation on the device."""
STILL_MILLISECONDS = 600
"""Keys pressed within this time are one gesture, and one step of the history."""
FINE_STEP, COARSE_STEP, COARSE_FROM = 16, 64, 2048
"""MiB of one key press, and the most MiB from which steps are coarse."""
PAGE = 8
"""Steps of Page Up and Page Down."""


class BudgetBar(QSlider):
    """What is on the device, the pool last, with the handle at the pool's end; its value is the pool's size in MiB.

    A drag and keys pressed one after the other are one gesture each. While one lasts, what the engine says does not
    move the handle.

    Signals:
        size_wanted: Make the pool this large (bytes, the gesture's object).
    """

    size_wanted = Signal(object, object)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(Qt.Orientation.Horizontal, parent)
        self._theme = theme
        self._segments: tuple[Segment, ...] = ()
        self._whole = 0
        self._fixed = 0
        self._pool: Segment | None = None
        self._filled: Segment | None = None
        self._most = 0
        self._gesture: object = None
        self._dragging = False
        self._grip = 0.0
        self._sent: int | None = None
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setFixedHeight(HEIGHT)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._pace = QTimer(self)
        self._pace.setSingleShot(True)
        self._pace.setInterval(PACE_MILLISECONDS)
        self._pace.timeout.connect(self._send)
        self._still = QTimer(self)
        self._still.setSingleShot(True)
        self._still.setInterval(STILL_MILLISECONDS)
        self._still.timeout.connect(self._end)
        self.valueChanged.connect(self._moved)
        theme.changed.connect(self.update)

    @property
    def pool_bytes(self) -> int:
        """The size that the handle stands for."""
        return self.value() * MIB

    @property
    def busy(self) -> bool:
        """True while a gesture lasts."""
        return self._gesture is not None

    def show_fill(
        self,
        fixed: tuple[Segment, ...],
        pool: Segment,
        whole: int,
        most: int,
        *,
        words: str,
        filled: Segment | None = None,
    ) -> None:
        """Show what fills the device.

        Args:
            fixed: What the pool's size does not change.
            pool: The pool.
            whole: Bytes that are free for all of it.
            most: Most bytes that the pool may have; 0 where it can have none.
            words: The same for who cannot see it.
            filled: What of the pool is full, from its start; None where that is not shown.
        """
        self._segments, self._pool, self._whole, self._filled = fixed, pool, whole, filled
        self._fixed = sum(segment.bytes for segment in fixed)
        self.setToolTip(words)
        self.setAccessibleDescription(words)
        self.setEnabled(most > 0 or pool.bytes > 0)
        self._most = most
        if not self.busy:
            self._follow()
        self.update()

    def _follow(self) -> None:
        """Put the handle where the pool is."""
        size = self._pool.bytes if self._pool else 0
        self.blockSignals(True)  # what the engine says is no wish of the user's
        self.setRange(0, max(self._most, size) // MIB)
        self.setSingleStep(COARSE_STEP if self._most // MIB >= COARSE_FROM else FINE_STEP)
        self.setPageStep(PAGE * self.singleStep())
        self.setValue(round(size / MIB))
        self.blockSignals(False)
        self._sent = self.value()
        self.update()

    # ---- what the user does -------------------------------------------------------------------

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Take the handle, or bring it here."""
        if event.button() is not Qt.MouseButton.LeftButton:
            event.ignore()
            return
        event.accept()
        self._end()
        self._gesture = object()
        self._dragging = True
        place = event.position().x()
        offset = self._handle() - place
        self._grip = offset if abs(offset) <= HANDLE_WIDTH else 0.0
        self._to(place + self._grip)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Follow the pointer."""
        if self._dragging:
            self._to(event.position().x() + self._grip)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """The size is chosen."""
        if self._dragging and event.button() is Qt.MouseButton.LeftButton:
            self._end()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Arrows, Page Up and Down, Home and End change the size; keys close to each other are one gesture."""
        began = self._gesture is None
        if began:
            self._gesture = object()
        before = self.value()
        super().keyPressEvent(event)
        if self.value() != before:
            self._still.start()
        elif began:
            self._gesture = None

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Scrolling past changes nothing."""
        event.ignore()

    def _to(self, place: float) -> None:
        self.setValue(round((place / self._scale() - self._fixed) / MIB))

    def _moved(self) -> None:
        self.update()
        if self._gesture is None:  # a screen reader's own command
            self._gesture = object()
            self._still.start()
        if not self._pace.isActive():
            self._pace.start()

    def _send(self) -> None:
        self._pace.stop()
        if self._gesture is not None and self.value() != self._sent:
            self._sent = self.value()
            self.size_wanted.emit(self.pool_bytes, self._gesture)

    def give_up(self) -> None:
        """Another model is shown: a size that is being chosen is for the one before."""
        self._pace.stop()
        self._sent = self.value()
        self._end()

    def _end(self) -> None:
        """The gesture is over."""
        self._send()
        self._still.stop()
        self._gesture = None
        self._dragging = False
        self._follow()  # a wish that was refused is none any more

    # ---- looks --------------------------------------------------------------------------------

    def sizeHint(self) -> QSize:
        """Wide as given."""
        return QSize(120, HEIGHT)

    def _scale(self) -> float:
        """Pixels of a byte."""
        return max(self.width() - HANDLE_WIDTH, 1) / max(self._whole, self._fixed + self.maximum() * MIB, 1)

    def _handle(self) -> float:
        """Where the middle of the handle is, from the left."""
        return (self._fixed + self.pool_bytes) * self._scale()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint bar and handle."""
        colors, scale = self._theme.colors, self._scale()
        top = (self.height() - BAR_HEIGHT) / 2
        frame = QRectF(0, top, self.width(), BAR_HEIGHT)
        shape = QPainterPath()
        shape.addRoundedRect(frame, BAR_HEIGHT / 3, BAR_HEIGHT / 3)
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.save()
        painter.setClipPath(shape)
        painter.fillRect(frame, colors.raised)
        left = 0.0
        shown = (*self._segments, *([Segment(self._pool.color, self.pool_bytes)] if self._pool else ()))
        for segment in shown:
            width = segment.bytes * scale
            painter.fillRect(QRectF(left, top, max(width - 1, 0.5), BAR_HEIGHT), segment.color(colors))
            left += width
        if self._filled is not None:
            width = min(self._filled.bytes, self.pool_bytes) * scale
            place = QRectF(self._fixed * scale, top, max(width - 1, 0.5), BAR_HEIGHT)
            painter.fillRect(place, self._filled.color(colors))
        painter.restore()
        if self.isEnabled() and self.maximum():
            end = (self._fixed + self.maximum() * MIB) * scale
            painter.fillRect(QRectF(min(end, self.width() - 1) - 1, top - 2, 2, BAR_HEIGHT + 4), colors.muted_text)
            knob = QRectF(0, 0, HANDLE_WIDTH, self.height() - 4)
            knob.moveCenter(
                QPointF(min(max(self._handle(), HANDLE_WIDTH / 2), self.width() - HANDLE_WIDTH / 2), self.height() / 2)
            )
            painter.setBrush(colors.surface)
            painter.setPen(QPen(colors.accent if self.hasFocus() else colors.text, 2 if self.hasFocus() else 1.2))
            painter.drawRoundedRect(knob.adjusted(1, 1, -1, -1), 4, 4)
            middle = knob.center()
            painter.drawLine(QPointF(middle.x() - 1.5, middle.y() - 3), QPointF(middle.x() - 1.5, middle.y() + 3))
            painter.drawLine(QPointF(middle.x() + 1.5, middle.y() - 3), QPointF(middle.x() + 1.5, middle.y() + 3))
        painter.end()
