"""Paints one lane into an image: the cells in the colours of their heat, what is drawn into them, the layers' names.

Cells smaller than a pin's shape are painted by numpy alone (`lane_pixels`); larger ones get shapes and words from
`lane_stamps`, and only where they are on screen.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QRectF, QSizeF
from PySide6.QtGui import QColor, QFont, QFontMetrics, QImage, QPainter, QPixmap

from app.ui.lanes.lane_cards import DRAWN, Inks, Inscriber
from app.ui.lanes.lane_contents import LaneContents
from app.ui.lanes.lane_layout import LaneLayout
from app.ui.lanes.lane_pixels import (
    COPYING,
    FLAT,
    FLAT_FADED,
    GROUND,
    HEAT_STEPS,
    SHADES,
    Canvas,
    Grid,
    Pixels,
    Window,
    mixed,
    square,
    triangle,
)
from app.ui.lanes.lane_stamps import Stamps
from app.ui.lanes.words import translate
from app.ui.theme import Theme, mix
from app.ui.words import number

TINY = 6.0
"""Logical pixels: in smaller cells a pin is a dot, and selected ones stand out by the others' fading too."""
HEADER_PADDING = 6
_FADED = 0.6
_PALE = 0.18
"""Luminance, 0 to 1, above which dark words can be read better than light ones: there both have the same contrast."""
_GAMMA = 2.2
_NEAR_PIXELS = 131_072
"""Painted at a time: half a mebibyte, which most processors' second cache has room for."""


@dataclass(frozen=True, eq=False)
class Tint:
    """A colour over some places of the lane, for as long as a flash lasts; `fraction` 0 to 1 of it shows."""

    lines: NDArray[np.intp]
    columns: NDArray[np.intp]
    color: int
    fraction: float


@dataclass(frozen=True, eq=False)
class _Picture:
    """What is on screen, as long as it is neither another board nor another place of it."""

    contents: LaneContents
    layout: LaneLayout
    window: Window
    canvas: Canvas


class LanePainter:
    """Paints lanes in the colours of a theme; one for each view, for it keeps what it drew for the next image."""

    def __init__(self, theme: Theme, font: QFont) -> None:
        self._theme = theme
        self._font = font
        self._take_stamps(Stamps(font, 1.0))
        self._image = QImage()
        self._pixels: Pixels = np.empty((0, 0), np.uint32)
        self._picture: _Picture | None = None
        self._names: tuple[object, QImage] | None = None
        self._labels: dict[tuple[int, int, bool], tuple[QPixmap, QPixmap]] = {}
        self.take_font(font)
        self.take_theme()

    def take_theme(self) -> None:
        """The theme has other colours."""
        theme, colors = self._theme, self._theme.colors
        table = np.zeros(SHADES, np.uint32)
        table[:HEAT_STEPS] = theme.heat_table(HEAT_STEPS)
        table[HEAT_STEPS:GROUND] = mixed(table[:HEAT_STEPS], colors.surface.rgba(), _FADED)
        table[GROUND] = colors.surface.rgba()
        flat = mix(colors.surface, colors.raised, 0.8)
        table[FLAT] = flat.rgba()
        table[FLAT_FADED] = mix(flat, colors.surface, _FADED).rgba()
        table[COPYING] = colors.gpu.rgba()
        self._table = table
        self._names = self._picture = None
        self._labels.clear()
        self._hatching = mix(colors.surface, colors.muted_text, 0.5).rgba()
        self._dark_ink, self._light_ink = QColor("#000000"), QColor("#ffffff")
        red, green, blue = ((((table >> shift) & 0xFF) / 255) ** _GAMMA for shift in (16, 8, 0))
        self._pale = 0.2126 * red + 0.7152 * green + 0.0722 * blue > _PALE

    def take_font(self, font: QFont) -> None:
        """The interface has another font."""
        self._font = font
        metrics = QFontMetrics(font)
        named = metrics.horizontalAdvance(translate("Lanes", "Layer {layer}").format(layer=888))
        self._header_width = max(named, metrics.horizontalAdvance("88  8888")) + 2 * HEADER_PADDING
        self._take_stamps(Stamps(font, self._stamps.ratio))
        self._names = self._picture = None
        self._labels.clear()

    def _take_stamps(self, stamps: Stamps) -> None:
        self._stamps, self._inscriber = stamps, Inscriber(stamps)

    def header_width(self) -> int:
        """Logical pixels of the layers' names beside the cells."""
        return self._header_width

    def prepare(
        self, contents: LaneContents, layout: LaneLayout, window: Window, ratio: float, tints: tuple[Tint, ...] = ()
    ) -> None:
        """Work out what `draw` draws: the part of the lane that is on screen, names of the layers included.

        Args:
            contents: What is in the lane.
            layout: Where its cells are.
            window: What of the cells is seen, in device pixels.
            ratio: Device pixels per logical one.
            tints: Flashes over some of the cells.
        """
        if ratio != self._stamps.ratio:
            self._take_stamps(Stamps(self._font, ratio))
            self._picture = None
            self._labels.clear()
        picture = self._picture
        if picture is None or picture.contents is not contents or (picture.layout, picture.window) != (layout, window):
            # Else only colours are others: a frame of a flash.
            # Parts of an image that is scaled would not begin on whole pixels of the screen.
            rows = max(_NEAR_PIXELS // window.width, 1) if ratio == round(ratio) else window.height
            picture = self._picture = _Picture(contents, layout, window, Canvas(layout, window, rows))
            self._mark(picture.canvas, contents, layout, ratio)
        colors = np.take(self._table, self._shades(picture, ratio))
        _tint(colors, tints)
        picture.canvas.fill(colors, int(self._table[GROUND]))

    def draw(self, painter: QPainter, top: int, bottom: int) -> None:
        """Draw what was prepared, from its row of device pixels `top` to before `bottom`, at the painter's origin."""
        picture, ratio = self._picture, self._stamps.ratio
        if picture is None:
            return
        contents, layout, window = picture.contents, picture.layout, picture.window
        # Drawn pixel by pixel an image is copied; scaled, if only to its own size, each pixel is worked out anew.
        whole = ratio == round(ratio)
        unit = ratio if whole else 1.0
        painter.save()
        painter.scale(1 / unit, 1 / unit)
        if contents.packing.lines:
            self._draw_rows(painter, picture, (top, bottom), unit)
            names = self._header(contents, layout, window, ratio)
            names.setDevicePixelRatio(ratio / unit)
            painter.drawImage(QPointF(0, 0), names)
        else:
            size = QSizeF(window.width, window.height) * (unit / ratio)
            painter.fillRect(QRectF(QPointF(0, 0), size), self._theme.colors.surface)
        painter.restore()

    def _draw_rows(self, painter: QPainter, picture: "_Picture", between: tuple[int, int], unit: float) -> None:
        """The cells, part by part, each with what is drawn into them while it is in the processor's cache."""
        width, ratio, parts = picture.window.width, self._stamps.ratio, picture.canvas.parts
        self._have_room(max(last - first for first, last in parts), width)
        inscriptions = None
        if picture.layout.pitch / ratio >= DRAWN:
            contents, shades = picture.contents, self._shades(picture, ratio)
            inscriptions = self._inscriber.inscriptions(
                contents, picture.layout, picture.window, shades, self.inks, between
            )
        for part, (first, last) in enumerate(parts):
            if last <= between[0] or first >= between[1]:
                continue
            picture.canvas.pixels(part, self._pixels[: last - first])
            if inscriptions is not None:
                self._inscribe(inscriptions.between(first if part else -math.inf, last), picture.window, first)
            self._image.setDevicePixelRatio(ratio / unit)
            place = QPointF(0, first * unit / ratio)
            painter.drawImage(place, self._image, QRectF(0, 0, width, last - first))

    def _inscribe(self, pictures: list[tuple[int, int, QPixmap]], window: Window, first: int) -> None:
        """Draw pictures into the cells of the part of the window that is in the image and begins at a row."""
        if not pictures:
            return
        self._image.setDevicePixelRatio(1.0)
        painter = QPainter(self._image)
        painter.setClipRect(window.header, 0, window.width - window.header, self._image.height())
        draw = painter.drawPixmap
        for left, top, its in pictures:
            draw(left, top - first, its)
        painter.end()

    def _have_room(self, rows: int, width: int) -> None:
        """An image of that size at least, whose pixels are written to as an array."""
        if self._pixels.shape[1] != width or self._pixels.shape[0] < rows:
            self._image = QImage(width, rows, QImage.Format.Format_RGB32)
            self._pixels = np.frombuffer(self._image.bits(), np.uint32).reshape(rows, width)

    def _shades(self, picture: "_Picture", ratio: float) -> NDArray[np.intp]:
        tiny = picture.layout.pitch / ratio < TINY
        return picture.contents.tiny_shades if tiny else picture.contents.shades

    # ---- cells --------------------------------------------------------------------------------

    def _mark(self, canvas: Canvas, contents: LaneContents, layout: LaneLayout, ratio: float) -> None:
        """What numpy draws into the cells: hatching, outlines, small shapes."""
        colors, pitch, thin = self._theme.colors, layout.pitch / ratio, max(round(ratio), 1)
        if contents.hatched and contents.uncounted.any():
            canvas.hatch(contents.uncounted, self._hatching, round(6 * ratio))
        ink, halo = colors.text.rgba(), colors.surface.rgba()
        if pitch < DRAWN:
            self._mark_pins(canvas, contents.on_gpu, contents.on_cpu, layout, ratio)
        if pitch >= TINY and contents.copying.any():
            # Inside of where the frame of a selected cell is.
            inset, thick = (thin, thin) if pitch < DRAWN else (3 * thin, 2 * thin)
            canvas.outline(contents.copying, halo, inset=inset, thick=thick)
            dash = 0 if pitch < DRAWN else layout.cell // 5
            canvas.outline(contents.copying, colors.gpu.rgba(), inset=inset, thick=thick, dash=dash)
        if not contents.chosen.any():
            return
        if pitch < TINY:
            bar = np.ones((max(layout.cell // 3, 1), layout.cell), bool)
            canvas.stamp(contents.chosen, ink, bar, (0, 0))
        elif pitch < DRAWN:
            canvas.outline(contents.chosen, ink, inset=0, thick=thin)
        else:
            canvas.outline(contents.chosen, ink, inset=0, thick=2 * thin)
            canvas.outline(contents.chosen, halo, inset=2 * thin, thick=thin)

    def _mark_pins(self, canvas: Canvas, on_gpu: Grid, on_cpu: Grid, layout: LaneLayout, ratio: float) -> None:
        """Small pins: a dot above or below in tiny cells, else triangle and square."""
        ink, cell = self._theme.colors.text.rgba(), layout.cell
        if layout.pitch / ratio < TINY:
            dot = square(max(cell // 2, 1))
            canvas.stamp(on_gpu, ink, dot, ((cell - dot.shape[1]) // 2, 0))
            canvas.stamp(on_cpu, ink, dot, ((cell - dot.shape[1]) // 2, cell - dot.shape[0]))
            return
        size = max(cell // 2, 3)
        for cells, shape in ((on_gpu, triangle(size | 1)), (on_cpu, square(size - 1))):
            corner = (cell - shape.shape[1]) // 2
            canvas.stamp(cells, ink, shape, (corner, corner))

    def inks(self, shades: NDArray[np.intp]) -> Inks:
        """What can be read on cells of these shades."""
        colors = self._theme.colors
        return Inks(self._pale[shades], self._dark_ink, self._light_ink, colors.text, colors.surface)

    # ---- names of layers ----------------------------------------------------------------------

    def _header(self, contents: LaneContents, layout: LaneLayout, window: Window, ratio: float) -> QImage:
        """The names, drawn again only where they are others: not for each frame of a flash, nor for each new count."""
        chosen = contents.chosen_counts
        seen = (window.top, window.height, window.header)
        key = (layout, seen, ratio, contents.board.layers, contents.packing.rows.tobytes(), chosen.tobytes())
        if self._names is None or self._names[0] != key:
            image = self._names[1] if self._names is not None else QImage()
            if (image.width(), image.height()) != (window.header, window.height):
                image = QImage(window.header, window.height, QImage.Format.Format_RGB32)
            image.setDevicePixelRatio(1.0)
            image.fill(self._theme.colors.surface)
            painter = QPainter(image)  # counts device pixels: words that are drawn as they are cost least
            self._draw_header(painter, contents, layout, window)
            painter.end()
            self._names = (key, image)
        return self._names[1]

    def _draw_header(self, painter: QPainter, contents: LaneContents, layout: LaneLayout, window: Window) -> None:
        board, packing, colors, ratio = contents.board, contents.packing, self._theme.colors, self._stamps.ratio
        line = self._stamps.metrics(self._font.pointSizeF()).height() * ratio
        bar_left, bar_width, thinnest = round(window.header - 4 * ratio), round(3 * ratio), round(ratio)
        free = -math.inf
        for shown in range(*layout.lines_between(window.top, window.top + window.height)):
            row = int(packing.rows[shown])
            top, height = layout.line_top(shown) - window.top, layout.line_height(shown)
            chosen, here = int(contents.chosen_counts[shown]), int(packing.counts[shown])
            if chosen:
                color = colors.accent if chosen >= here else mix(colors.surface, colors.accent, 0.5)
                painter.fillRect(bar_left, top, bar_width, max(height, thinnest), color)
            # Names keep a distance of a line: of low lines not each has one.
            middle = top + height / 2
            if middle - line / 2 < free:
                continue
            free = middle + line / 2
            self._draw_names(painter, (top, height), board.layers[row], here, line)

    def _draw_names(self, painter: QPainter, between: tuple[int, int], layer: int, here: int, line: float) -> None:
        """A layer's name over the count of its experts here, or both on one line; top and height in device pixels."""
        (top, height), ratio = between, self._stamps.ratio
        high = height >= 2.2 * line
        key = (layer, here, high)
        if key not in self._labels:
            self._labels[key] = self._label(layer, here, high=high)
        name, count = self._labels[key]
        left, bottom = round(HEADER_PADDING * ratio), top + height
        if high:
            begin = max(top, 0) if bottom > 2 * line else bottom - 2 * line
            painter.drawPixmap(left, round(begin), name)
            painter.drawPixmap(left, round(begin + line), count)
            return
        right = round((self._header_width - HEADER_PADDING - 2) * ratio) - count.width()
        for its, x in ((name, left), (count, right)):
            painter.drawPixmap(x, round(top + (height - its.height()) / 2), its)

    def _label(self, layer: int, here: int, *, high: bool) -> tuple[QPixmap, QPixmap]:
        """Name and count of a layer: in words where the line is high, else the numbers alone."""
        words, points, colors = self._stamps.words, self._font.pointSizeF(), self._theme.colors
        if high:
            name = translate("Lanes", "Layer {layer}").format(layer=layer)
            count = translate("Lanes", "{count} here").format(count=number(here))
            return words(name, points, colors.text), words(count, points - 1, colors.muted_text)
        return words(str(layer), points, colors.text), words(number(here), points - 1.5, colors.muted_text)


def _tint(colors: Pixels, tints: tuple[Tint, ...]) -> None:
    """Put flashes over the colours of the places of a lane."""
    if not tints:
        return
    lines, columns = (np.concatenate([getattr(tint, name) for tint in tints]) for name in ("lines", "columns"))
    amounts = [len(tint.lines) for tint in tints]
    others = np.repeat(np.array([tint.color for tint in tints], np.uint32), amounts)
    fractions = np.repeat(np.array([tint.fraction for tint in tints]), amounts)
    inside = (lines < colors.shape[0]) & (columns < colors.shape[1])
    # Of a place that flashes twice the later flash is seen.
    places = lines[inside] * colors.shape[1] + columns[inside]
    colors.reshape(-1)[places] = mixed(colors.reshape(-1)[places], others[inside], fractions[inside])
