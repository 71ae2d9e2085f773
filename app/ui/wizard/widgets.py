"""The pieces that the wizard's pages are made of: page, card, rows of facts, columns, plain labels."""

from collections.abc import Iterable

from PySide6.QtCore import QEvent, QRectF, Qt, Signal
from PySide6.QtGui import QPainter, QPaintEvent, QPen, QResizeEvent
from PySide6.QtWidgets import (
    QBoxLayout,
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QLayout,
    QScrollArea,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from app.ui.banner import Banner
from app.ui.theme import GRID, Theme, set_role, text_points
from app.ui.wizard.words import Row

PAGE_WIDTH = 1040
"""Widest content of a page, in pixels, with the usual size of text."""
COLUMNS_WIDTH = 820
"""Pixels from which two columns stand side by side, with the usual size of text."""
CARD_RADIUS = 10


def label(
    text: str = "", role: str = "", *, wraps: bool = True, selectable: bool = False, parent: QWidget | None = None
) -> QLabel:
    """A label of plain text, which must not be read as markup: much of it comes from files.

    Args:
        text: What it says.
        role: See `app.ui.theme`.
        wraps: Whether long text goes on in the next line.
        selectable: Whether it can be selected with the mouse; such labels are slow to lay out.
        parent: What it is shown in; a layout would give it one, and have it styled once more.
    """
    made = QLabel(text, parent)
    made.setTextFormat(Qt.TextFormat.PlainText)
    made.setWordWrap(wraps)
    if selectable:
        made.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    if role:
        set_role(made, role)
    return made


class Page(QScrollArea):
    """One view of the wizard: a title, a sentence, a place for problems, and its own content.

    Signals:
        changed: What the footer shows of this page changed.
    """

    changed = Signal()

    def __init__(self, title: str, intro: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        set_role(self, "bare")
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setAccessibleName(title)
        self.title = label(title, "title")
        self.intro = label(intro, "muted")
        self.banner = Banner(self)
        inner = QWidget(self)
        set_role(inner, "page")
        self.column = QVBoxLayout(inner)
        self.column.setContentsMargins(4 * GRID, GRID, 4 * GRID, 3 * GRID)
        self.column.setSpacing(2 * GRID)
        words = QVBoxLayout()
        words.setSpacing(GRID // 2)
        words.addWidget(self.title)
        words.addWidget(self.intro)
        self.column.addLayout(words)
        self.column.addWidget(self.banner)
        outer = QWidget(self)
        set_role(outer, "page")
        _centre(inner, outer)
        self.setWidget(outer)

    def viewportEvent(self, event: QEvent) -> bool:
        """Follow a change of the content at once; by itself the area would paint it squashed first."""
        if event.type() is QEvent.Type.LayoutRequest:
            self.event(event)
        return super().viewportEvent(event)

    def first_focus(self) -> QWidget | None:
        """What takes the keyboard when the page is entered; None for the button that goes on."""
        return None


class Footer(QWidget):
    """What stays at the bottom, under a line, in the width of a page; fill `inner`."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.inner = QWidget(self)
        _centre(self.inner, self)
        theme.changed.connect(self.update)

    def paintEvent(self, event: QPaintEvent) -> None:
        """The line above."""
        painter = QPainter(self)
        painter.fillRect(0, 0, self.width(), 1, self._theme.colors.border)
        painter.end()


class Card(QFrame):
    """A surface with a heading; `selected` frames it in the accent colour."""

    def __init__(self, theme: Theme, heading: str = "", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        set_role(self, "card")
        self._theme = theme
        self._selected = False
        self.column = QVBoxLayout(self)
        self.column.setContentsMargins(2 * GRID + 4, 2 * GRID, 2 * GRID + 4, 2 * GRID)
        self.column.setSpacing(GRID)
        self.heading = label(heading, "heading", parent=self)
        self.column.addWidget(self.heading)
        self.heading.setVisible(bool(heading))  # only now: a widget without a parent would become a window
        self.heading.setContentsMargins(0, 0, 0, GRID // 2)
        theme.changed.connect(self.update)

    @property
    def selected(self) -> bool:
        """Whether this is what is chosen."""
        return self._selected

    @selected.setter
    def selected(self, selected: bool) -> None:
        if selected != self._selected:
            self._selected = selected
            self.update()

    def set_heading(self, text: str) -> None:
        """Change the heading; an empty one takes no room."""
        self.heading.setText(text)
        self.heading.setVisible(bool(text))

    def paintEvent(self, event: QPaintEvent) -> None:
        """The frame of a selected card."""
        super().paintEvent(event)
        if not self._selected:
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(self._theme.colors.accent, 2))
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(1, 1, -1, -1), CARD_RADIUS, CARD_RADIUS)
        painter.end()


class FactRows(QWidget):
    """Labels and what they say, in two columns."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setHorizontalSpacing(2 * GRID)
        self._grid.setVerticalSpacing(GRID)
        self._grid.setColumnStretch(1, 1)
        self._rows: tuple[Row, ...] = ()

    @property
    def text(self) -> str:
        """Everything it says, a line a row."""
        return "\n".join(f"{name}: {words}" for name, words in self._rows)

    def show_rows(self, rows: Iterable[Row]) -> None:
        """Show these rows instead of what is shown."""
        rows = tuple(rows)
        if rows == self._rows:
            return
        self._rows = rows
        clear_layout(self._grid)
        for place, (name, words) in enumerate(rows):
            caption = label(name, "muted", wraps=False)
            value = label(words)
            value.setAccessibleName(f"{name}: {words}")
            self._grid.addWidget(caption, place, 0, Qt.AlignmentFlag.AlignTop)
            self._grid.addWidget(value, place, 1)


class Columns(QWidget):
    """Two columns side by side where there is room, else one above the other."""

    def __init__(self, left: int, right: int, parent: QWidget | None = None) -> None:
        """`left` and `right` are the shares of the width."""
        super().__init__(parent)
        self._box = QBoxLayout(QBoxLayout.Direction.TopToBottom, self)
        self._box.setContentsMargins(0, 0, 0, 0)
        self._box.setSpacing(2 * GRID)
        self.left, self.right = QVBoxLayout(), QVBoxLayout()
        for column, share in ((self.left, left), (self.right, right)):
            column.setSpacing(2 * GRID)
            holder = QWidget(self)
            holder.setLayout(column)
            column.setContentsMargins(0, 0, 0, 0)
            holder.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
            self._box.addWidget(holder, share)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Choose the direction that fits."""
        super().resizeEvent(event)
        beside = event.size().width() >= text_points(COLUMNS_WIDTH)
        self._box.setDirection(QBoxLayout.Direction.LeftToRight if beside else QBoxLayout.Direction.TopToBottom)


def _centre(inner: QWidget, outer: QWidget) -> None:
    """Put `inner` into the middle of `outer`, no wider than a page."""
    inner.setMaximumWidth(round(text_points(PAGE_WIDTH)))
    row = QHBoxLayout(outer)
    row.setContentsMargins(0, 0, 0, 0)
    row.addStretch(1)
    row.addWidget(inner, 1000)
    row.addStretch(1)


def clear_layout(layout: QLayout) -> None:
    """Take every widget out of a layout and end it."""
    while (item := layout.takeAt(0)) is not None:
        if (widget := item.widget()) is not None:
            widget.hide()
            widget.setParent(None)
            widget.deleteLater()
        elif (inner := item.layout()) is not None:
            clear_layout(inner)
