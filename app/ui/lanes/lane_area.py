"""The cells of one lane on screen: which they are, where they lie, zoom, scrolling and painting; no input yet."""

import math

import numpy as np
from PySide6.QtCore import QEvent, QPoint, QRect, QRectF, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QAbstractScrollArea, QFrame, QStyle, QWidget

from app.ui.lanes import lane_words
from app.ui.lanes.board import Change
from app.ui.lanes.board_state import BoardState
from app.ui.lanes.lane_contents import LaneContents
from app.ui.lanes.lane_flash import LaneFlash
from app.ui.lanes.lane_info import LaneInfo
from app.ui.lanes.lane_layout import LARGEST, LaneLayout
from app.ui.lanes.lane_pane_paint import PanesPainter
from app.ui.lanes.lane_panes import LanePanes, lane_panes
from app.ui.lanes.lane_pixels import Window
from app.ui.lanes.packing import Packing
from app.ui.theme import Theme

SMALLEST_HEIGHT = 64
WHEEL_FACTOR = 1.2
"""How much larger cells become by one notch of the wheel."""
_NAMES_MILLISECONDS = 150
_MARGIN = 6
"""Logical pixels above the first layer and below the last, so that their names are whole."""
_FOLD_STEPS = 16
"""Lines are folded as if they had up to a sixteenth more cells than they do."""

Place = tuple[int, int]
"""A cell of the board: row and expert."""


class LaneArea(QAbstractScrollArea):
    """The layers of one lane as rows, its experts as cells.

    The zoom is the size of a cell: from one to the next in logical pixels, 0 for the overview, in which the whole
    lane is seen. The same zoom makes cells equally large in every lane.

    Attributes:
        state: The board, its selection and what is loaded.
        lane: Which lane this is.
        theme: The colours.
        packing: Which cells are here.
        panes: Where they are on screen.

    Signals:
        zoom_changed: The zoom was changed here.
    """

    zoom_changed = Signal(float)

    def __init__(self, state: BoardState, lane: LaneInfo, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.state = state
        self.lane = lane
        self.theme = theme
        self.packing = Packing(state.board.on(lane.key))
        self.panes = lane_panes((), (1, 1), 0)
        self._zoom = 0.0
        self._current: Place | None = None
        self._taken: Change | None = None
        self._before = (self.packing, self.panes)
        self._prepared = False
        self._contents: LaneContents | None = None
        self._painter = PanesPainter(theme, self.font())
        self._flash = LaneFlash(self)
        self._names = QTimer(self)
        self._names.setSingleShot(True)
        self._names.setInterval(_NAMES_MILLISECONDS)
        self._names.timeout.connect(self._tell_names)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setMinimumHeight(SMALLEST_HEIGHT)
        self.setCornerWidget(QWidget(self))  # the style draws a box between the bars otherwise
        self.viewport().setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        state.changed.connect(self.take)
        state.selection.changed.connect(self._selection_changed)
        theme.changed.connect(self._theme_changed)
        self._tell_names()

    # ---- what others ask of it ----------------------------------------------------------------

    @property
    def grid(self) -> LaneLayout:
        """The cells' lines one below the other, as they are where the lane is not cut into panes."""
        return self.panes.sheet

    @property
    def zoom(self) -> float:
        """Logical pixels from one cell to the next; 0 for the overview."""
        return self._zoom

    @property
    def pitch(self) -> float:
        """Logical pixels from one cell to the next, also in the overview."""
        return self.grid.pitch / self.ratio

    @property
    def ratio(self) -> float:
        """Device pixels per logical one."""
        return self.devicePixelRatioF()

    @property
    def header_width(self) -> int:
        """Logical pixels of the layers' names."""
        return self._painter.header_width()

    @property
    def current(self) -> Place | None:
        """The cell that the keyboard is at, by row and expert; None before the first key."""
        return self._current

    @property
    def moving(self) -> bool:
        """True while something is animated here."""
        return self._flash.active

    def set_info(self, lane: LaneInfo) -> None:
        """Another probe: the same lane, told anew."""
        self.lane = lane
        self._names.start()
        self.viewport().update()

    def set_zoom(self, zoom: float, anchor: QPoint | None = None) -> None:
        """Make cells `zoom` logical pixels large, 0 for the overview; what is at `anchor` of the viewport stays."""
        zoom = 0.0 if zoom <= 0 else min(zoom, LARGEST)
        if zoom == self._zoom:
            return
        anchor = anchor or self.viewport().rect().center()
        before, point = self.panes, self.content_point(anchor)
        self._zoom = zoom
        self._lay_out()
        if zoom and self.grid.pitch == self._laid_out(0.0).pitch and zoom * self.ratio < self.grid.pitch:
            self._zoom = 0.0
        self._keep(before, point, anchor)
        self.zoom_changed.emit(self._zoom)

    def zoom_by(self, notches: float, anchor: QPoint | None = None) -> None:
        """Zoom in by so many notches of a wheel, or out where negative; a whole notch is always seen."""
        now = self._zoom or self.pitch
        wanted = now * WHEEL_FACTOR**notches
        if abs(notches) >= 1 and round(wanted * self.ratio) == self.grid.pitch:
            wanted = (self.grid.pitch + math.copysign(1, notches)) / self.ratio
        fitting = self._laid_out(0.0).pitch / self.ratio
        self.set_zoom(wanted if wanted > fitting else 0.0, anchor)

    def cell_rect(self, layer: int, expert: int) -> QRect | None:
        """Where a cell is in the viewport, also where that is scrolled away; None where it is in another lane."""
        row = self.state.board.find_row(layer)
        place = self.packing.place_of(row, expert) if row is not None else None
        return self._rect(self.panes, place) if place is not None else None

    def moved_rects(self, change: Change, *, before: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Places in a change of its cells in this lane, now or `before` it, their corners and sizes in the viewport."""
        packing, panes = self._before if before else (self.packing, self.panes)
        if packing.shape != self.packing.shape:
            packing = Packing(np.zeros(self.packing.shape, bool))
        lines, columns = packing.places_of(change.rows, change.experts)
        moved = np.flatnonzero(columns >= 0)
        scrolled_left, scrolled_top = self._scrolled()
        places = np.stack(panes.corners(lines[moved], columns[moved]), axis=1)
        exact = (places - (scrolled_left - round(self.header_width * self.ratio), scrolled_top)) / self.ratio
        corners = np.floor(exact)
        return moved, corners, np.ceil(exact + panes.sheet.cell / self.ratio) - corners

    def places_before(self, change: Change) -> tuple[np.ndarray, np.ndarray]:
        """Lines and columns that the moved cells had here before a change, negative where they had none."""
        return self._before[0].places_of(change.rows, change.experts)

    def reveal(self, layer: int, expert: int) -> None:
        """Scroll to a cell of this lane and have the keyboard there."""
        row = self.state.board.find_row(layer)
        if row is not None and self.packing.place_of(row, expert) is not None:
            self.set_current((row, expert))

    def flash(self, change: Change) -> None:
        """Show for a moment what came here and what left; nothing where the desktop asks for stillness."""
        self.take(change)
        self._flash.begin(change)

    def take(self, change: Change) -> None:
        """The board changed: show it. A change that was taken already changes nothing."""
        if change is self._taken:
            return
        self._taken = change
        self._before = (self.packing, self.panes)
        if change.rebuilt:
            self._current = None
            self._flash.end()
        if change.rebuilt or self._concerned(change):
            self.packing = Packing(self.state.board.on(self.lane.key))
            self._lay_out()
            self._keep_current()
        elif not self.packing.lines:
            return  # an empty lane stays empty
        self.renew()
        self._names.start()

    # ---- coordinates --------------------------------------------------------------------------

    def window(self) -> Window:
        """The part of the cells that is on screen, in device pixels."""
        ratio, size = self.ratio, self.viewport().size()
        left, top = self._scrolled()
        header = round(self.header_width * ratio)
        width, height = math.ceil(size.width() * ratio), math.ceil(size.height() * ratio)
        return Window(left - header, top, max(width, 1), max(height, 1), header)

    def in_header(self, point: QPoint) -> bool:
        """Whether a point of the viewport is beside the cells, on the layers' names."""
        return point.x() < self.header_width or self.panes.in_names(self.content_point(point)[0])

    def cell_at(self, point: QPoint) -> Place | None:
        """The cell at a point of the viewport, by row and expert."""
        if self.in_header(point):
            return None
        place = self.panes.place_at(*self.content_point(point))
        return self.packing.cell_at(*place) if place is not None else None

    def row_at(self, point: QPoint) -> int | None:
        """The board's row at the height of a point of the viewport."""
        line = self.panes.line_at(*self.content_point(point))
        return int(self.packing.rows[line]) if line is not None else None

    def set_current(self, place: Place) -> None:
        """Have the keyboard at a cell of this lane, and bring it into view."""
        self._current = place
        self._bring_into_view(place)
        self.setAccessibleDescription(lane_words.cell_tip(self.state.board, place, self.state.loaded_report))
        self.viewport().update()

    def repaint_cells(self) -> None:
        """Paint the cells anew at the next occasion."""
        self._prepared = False
        self.viewport().update()

    def renew(self) -> None:
        """Look at the board and the selection again, and paint them at the next occasion."""
        self._contents = None
        self.repaint_cells()

    def _rect(self, panes: LanePanes, place: tuple[int, int]) -> QRect:
        ratio, cell = self.ratio, panes.sheet.cell / self.ratio
        left, top = panes.corner(*place)
        scrolled_left, scrolled_top = self._scrolled()
        x = (left - scrolled_left + round(self.header_width * ratio)) / ratio
        y = (top - scrolled_top) / ratio
        return QRectF(x, y, cell, cell).toAlignedRect()

    def content_point(self, point: QPoint) -> tuple[int, int]:
        """A point of the viewport in device pixels from the first cell."""
        ratio, (left, top) = self.ratio, self._scrolled()
        x = math.floor(point.x() * ratio) - round(self.header_width * ratio) + left
        return x, math.floor(point.y() * ratio) + top

    def _scrolled(self) -> tuple[int, int]:
        ratio = self.ratio
        top = self.verticalScrollBar().value() - _MARGIN
        return round(self.horizontalScrollBar().value() * ratio), round(top * ratio)

    # ---- layout -------------------------------------------------------------------------------

    def _laid_out(self, zoom: float) -> LanePanes:
        """The layout at a zoom; bars beside the cells never change how lines are folded."""
        ratio, size = self.ratio, self.maximumViewportSize()
        room = (size.width() - self.header_width, size.height() - 2 * _MARGIN)
        counts = self.packing.counts.tolist()
        step = max(self.state.board.experts // _FOLD_STEPS, 1)

        def laid_out(width: int, zoom: float) -> LanePanes:
            inside = (math.floor(width * ratio), math.floor(room[1] * ratio))
            return lane_panes(counts, inside, round(self.header_width * ratio), ratio, zoom, step)

        if laid_out(room[0], 0.0).height > room[1] * ratio:
            bar = self.style().pixelMetric(QStyle.PixelMetric.PM_ScrollBarExtent, None, self)
            return laid_out(room[0] - bar, zoom)
        return laid_out(room[0], zoom)

    def _lay_out(self) -> None:
        panes = self._laid_out(self._zoom)
        if panes != self.panes:  # equal ones stay, with all that was worked out for them
            self.panes = panes
        ratio, size = self.ratio, self.viewport().size()
        page_x, page_y = max(size.width() - self.header_width, 1), max(size.height(), 1)
        for bar, length, page in (
            (self.horizontalScrollBar(), math.ceil(self.panes.width / ratio), page_x),
            (self.verticalScrollBar(), math.ceil(self.panes.height / ratio) + 2 * _MARGIN, page_y),
        ):
            bar.setPageStep(page)
            bar.setSingleStep(max(round(self.pitch), 16))
            bar.setRange(0, max(length - page, 0))
        self._prepared = False

    def _keep(self, before: LanePanes, point: tuple[int, int], anchor: QPoint) -> None:
        """Scroll so that what was at `point` of the cells is at `anchor` of the viewport again."""
        ratio = self.ratio
        x, y = before.point_in(self.panes, point)
        self.horizontalScrollBar().setValue(round(x / ratio - (anchor.x() - self.header_width)))
        self.verticalScrollBar().setValue(round(y / ratio - anchor.y()) + _MARGIN)
        self.repaint_cells()

    def _keep_current(self) -> None:
        """A current cell that left the lane gives its place to the one that lies there now."""
        if self._current is None or self.packing.place_of(*self._current) is not None:
            return
        packing = self._before[0]
        place = packing.place_of(*self._current) if packing.shape == self.packing.shape else None
        self._current = None
        if place is not None and self.packing.lines:
            line = min(place[0], self.packing.lines - 1)
            column = min(place[1], int(self.packing.counts[line]) - 1)
            self._current = self.packing.cell_at(line, column)

    def _bring_into_view(self, place: Place) -> None:
        where = self.packing.place_of(*place)
        if where is None:
            return
        ratio = self.ratio
        left, top = (length / ratio for length in self.panes.corner(*where))
        size = self.grid.pitch / ratio
        for bar, start in ((self.horizontalScrollBar(), left), (self.verticalScrollBar(), top + _MARGIN)):
            low, high = bar.value(), bar.value() + bar.pageStep()
            if start < low:
                bar.setValue(math.floor(start))
            elif start + size > high:
                bar.setValue(math.ceil(start + size - bar.pageStep()))

    # ---- painting -----------------------------------------------------------------------------

    def paintEvent(self, event: QPaintEvent) -> None:
        """The cells, and what lies over them."""
        if not self._prepared:
            if self._contents is None:
                self._contents = LaneContents(
                    board=self.state.board,
                    packing=self.packing,
                    selected=self.state.selection.mask,
                    hatched=self.state.loaded_report is not None,
                )
            tints = self._flash.tints()
            self._painter.prepare(self._contents, self.panes, self.window(), self.ratio, tints)
            self._prepared = True
        painter = QPainter(self.viewport())
        seen = event.rect()
        self._painter.draw(painter, math.floor(seen.top() * self.ratio), math.ceil((seen.bottom() + 1) * self.ratio))
        self.paint_over(painter)
        painter.end()

    def paint_over(self, painter: QPainter) -> None:
        """Paint what lies over the cells."""

    def sizeHint(self) -> QSize:
        """Little: lanes without layers leave their room to those with many."""
        return QSize(super().sizeHint().width(), SMALLEST_HEIGHT)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Another room: the overview fits again."""
        super().resizeEvent(event)
        self._lay_out()

    def scrollContentsBy(self, dx: int, dy: int) -> None:
        """Other cells are seen."""
        self.repaint_cells()

    def changeEvent(self, event: QEvent) -> None:
        """Another font."""
        super().changeEvent(event)
        if event.type() in (QEvent.Type.FontChange, QEvent.Type.StyleChange):
            self._painter.take_font(self.font())
            self._lay_out()

    def event(self, event: QEvent) -> bool:
        """Follow the window to another screen."""
        if event.type() is QEvent.Type.DevicePixelRatioChange:
            self._lay_out()
        return super().event(event)

    # ---- inside -------------------------------------------------------------------------------

    def _concerned(self, change: Change) -> bool:
        """Whether a cell came here or left."""
        lanes = self.state.board.lanes
        return self.lane.key in lanes and change.concerns(lanes.index(self.lane.key))

    def _selection_changed(self) -> None:
        self.renew()
        self._names.start()

    def _theme_changed(self) -> None:
        self._painter.take_theme()
        self.repaint_cells()

    def _tell_names(self) -> None:
        name = lane_words.view_name(self.lane, self.state.board, self.packing, self.state.selection)
        if name != self.accessibleName():
            self.setAccessibleName(name)
