"""The look in one object: two palettes, one accent colour, and what every widget asks for its colours.

Widgets mark themselves for the style sheet with two dynamic properties:
`kind` on buttons ("primary", "quiet", "danger") and `role` on labels and frames
("title", "heading", "muted", "figure", "card", "banner"); `set_role` and `set_kind` set them.
"""

from dataclasses import dataclass

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QColor, QFont, QFontDatabase, QGuiApplication, QPalette
from PySide6.QtWidgets import QApplication, QPushButton, QToolButton, QWidget

from app.ui.stylesheet import style_sheet

GRID = 8
"""Every margin and gap is a multiple of this many pixels."""

READABLE_WIDTH = 760
"""Widest column of running text, in pixels: about 90 characters."""


@dataclass(frozen=True)
class Colors:
    """The colours of one look.

    Attributes:
        window: Behind everything. surface: cards, inputs, docks. raised: hover, code, chips.
        on_accent: Text on `accent`.
        gpu, cpu, disk: The three lanes.
        heat: Stops from never routed to hottest, evenly spaced.
        graph: Lines of a graph, in the order they are handed out.
    """

    window: QColor
    surface: QColor
    raised: QColor
    text: QColor
    muted_text: QColor
    accent: QColor
    on_accent: QColor
    gpu: QColor
    cpu: QColor
    disk: QColor
    heat: tuple[QColor, ...]
    warning: QColor
    error: QColor
    success: QColor
    border: QColor
    graph: tuple[QColor, ...]


def _colors(*names: str) -> tuple[QColor, ...]:
    return tuple(QColor(name) for name in names)


LIGHT = Colors(
    window=QColor("#f4f5f8"),
    surface=QColor("#ffffff"),
    raised=QColor("#e9ecf2"),
    text=QColor("#1a1e27"),
    muted_text=QColor("#586172"),
    accent=QColor("#3d56d6"),
    on_accent=QColor("#ffffff"),
    gpu=QColor("#0a7c70"),
    cpu=QColor("#7150c0"),
    disk=QColor("#637083"),
    heat=_colors("#e6e9f0", "#f7d08a", "#ee8a47", "#c62f43"),
    warning=QColor("#a15c07"),
    error=QColor("#bb2d2d"),
    success=QColor("#197a4b"),
    border=QColor("#d9dee7"),
    graph=_colors("#3d56d6", "#0a7c70", "#c4621a", "#7150c0", "#b0306f", "#637083"),
)

DARK = Colors(
    window=QColor("#13151a"),
    surface=QColor("#1b1e25"),
    raised=QColor("#282d37"),
    text=QColor("#e6e9f0"),
    muted_text=QColor("#9ca6b6"),
    accent=QColor("#8ea2ff"),
    on_accent=QColor("#10131c"),
    gpu=QColor("#41c8b3"),
    cpu=QColor("#b69cf5"),
    disk=QColor("#8b97aa"),
    heat=_colors("#272c36", "#6b4a2a", "#d9803a", "#ff6464"),
    warning=QColor("#edb458"),
    error=QColor("#ff8078"),
    success=QColor("#63cf97"),
    border=QColor("#303642"),
    graph=_colors("#8ea2ff", "#41c8b3", "#f0a35e", "#b69cf5", "#ee7fb2", "#8b97aa"),
)


def mix(first: QColor, second: QColor, fraction: float) -> QColor:
    """The colour `fraction` of the way from `first` to `second` (both opaque)."""
    fraction = min(1.0, max(0.0, fraction))
    return QColor.fromRgbF(
        first.redF() + (second.redF() - first.redF()) * fraction,
        first.greenF() + (second.greenF() - first.greenF()) * fraction,
        first.blueF() + (second.blueF() - first.blueF()) * fraction,
    )


_USUAL_POINTS = 10.0


class Theme(QObject):
    """Which look is on now; follows the system unless a look is forced.

    Signals:
        changed: The look changed: ask for colours again and repaint.
    """

    changed = Signal()

    def __init__(self, parent: QObject | None = None, forced: str | None = None) -> None:
        super().__init__(parent)
        self._forced = forced
        self._dark = self._wanted_dark()
        self._heat_tables: dict[tuple[bool, int], tuple[int, ...]] = {}
        QGuiApplication.styleHints().colorSchemeChanged.connect(self._system_changed)

    @property
    def dark(self) -> bool:
        """True while the dark look is on."""
        return self._dark

    @property
    def colors(self) -> Colors:
        """The colours of the look that is on."""
        return DARK if self._dark else LIGHT

    def force(self, look: str | None) -> None:
        """Choose "light" or "dark", or None to follow the system."""
        self._forced = look
        self._update()

    def heat_color(self, fraction: float) -> QColor:
        """The colour of an expert with `fraction` (0 to 1) of the hottest one's routings."""
        stops = self.colors.heat
        place = min(1.0, max(0.0, fraction)) * (len(stops) - 1)
        index = min(int(place), len(stops) - 2)
        return mix(stops[index], stops[index + 1], place - index)

    def heat_table(self, steps: int) -> tuple[int, ...]:
        """The heat colours of so many fractions from 0 to 1 as 0xAARRGGBB; worked out once for each look."""
        key = (self._dark, steps)
        if key not in self._heat_tables:
            self._heat_tables[key] = tuple(self.heat_color(step / (steps - 1)).rgba() for step in range(steps))
        return self._heat_tables[key]

    def apply(self, application: QApplication) -> None:
        """Dress `application` and keep it dressed when the look changes."""
        application.setStyle("Fusion")
        application.setFont(_interface_font())
        self.changed.connect(lambda: self._dress(application))
        self._dress(application)

    def _dress(self, application: QApplication) -> None:
        # One sheet straight in place of another is three times as dear: Qt matches also widgets that were never
        # shown, and hands fonts and palettes down again from each. 900 widgets: 410 ms so, 130 ms with the sheet
        # taken off before (offscreen, two cores, November 2026). It also visits every object that the old sheet's
        # cache knows, and Qt 6.11 leaves a destroyed table's header there: that crashed.
        application.setStyleSheet("")
        application.setPalette(palette(self.colors))
        application.setStyleSheet(style_sheet(self.colors, mix, application.font().pointSizeF()))

    def _system_changed(self, _scheme: Qt.ColorScheme) -> None:
        self._update()

    def _wanted_dark(self) -> bool:
        if self._forced is not None:
            return self._forced == "dark"
        return QGuiApplication.styleHints().colorScheme() is Qt.ColorScheme.Dark

    def _update(self) -> None:
        dark = self._wanted_dark()
        if dark != self._dark:
            self._dark = dark
            self.changed.emit()


def palette(colors: Colors) -> QPalette:
    """The palette for everything that the style sheet leaves to the style."""
    made = QPalette()
    role = QPalette.ColorRole
    for group in (QPalette.ColorGroup.Active, QPalette.ColorGroup.Inactive, QPalette.ColorGroup.Disabled):
        disabled = group is QPalette.ColorGroup.Disabled
        text = mix(colors.muted_text, colors.window, 0.4) if disabled else colors.text
        for name, color in (
            (role.Window, colors.window),
            (role.Base, colors.surface),
            (role.AlternateBase, mix(colors.surface, colors.raised, 0.5)),
            (role.Button, colors.surface),
            (role.ToolTipBase, colors.raised),
            (role.ToolTipText, colors.text),
            (role.WindowText, text),
            (role.Text, text),
            (role.ButtonText, text),
            (role.PlaceholderText, colors.muted_text),
            (role.Highlight, colors.raised if disabled else colors.accent),
            (role.HighlightedText, text if disabled else colors.on_accent),
            (role.Accent, colors.accent),
            (role.Link, colors.accent),
            (role.LinkVisited, colors.accent),
            (role.Light, colors.surface),
            (role.Midlight, colors.raised),
            (role.Mid, colors.border),
            (role.Dark, mix(colors.border, colors.text, 0.2)),
            (role.Shadow, mix(colors.border, colors.text, 0.4)),
        ):
            made.setColor(group, name, color)
    return made


def text_points(points: float) -> float:
    """Points of a text that has `points` beside the usual interface font, where the system's own is larger."""
    return points * max(1.0, QApplication.font().pointSizeF() / _USUAL_POINTS)


def monospace_font(points: float = 10.0) -> QFont:
    """The system's fixed-width font for code and figures in columns; `points` beside the usual interface font."""
    font = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)
    # A system font counts as nothing chosen, and a widget would go back to the interface font.
    font.setFamilies(font.families())
    font.setStyleHint(QFont.StyleHint.Monospace)
    font.setPointSizeF(text_points(points))
    return font


def set_role(widget: QWidget, role: str) -> None:
    """Mark a label or frame for the style sheet and restyle it."""
    _mark(widget, "role", role)


def set_kind(button: QPushButton | QToolButton, kind: str) -> None:
    """Mark a button for the style sheet and restyle it."""
    _mark(button, "kind", kind)


def _mark(widget: QWidget, name: str, value: str) -> None:
    if widget.property(name) == value:
        return
    widget.setProperty(name, value)
    if widget.testAttribute(Qt.WidgetAttribute.WA_WState_Polished):  # else it is styled when it is first needed
        widget.style().unpolish(widget)
        widget.style().polish(widget)


def _interface_font() -> QFont:
    """The system's own font, never smaller than is comfortable to read for long."""
    font = QFontDatabase.systemFont(QFontDatabase.SystemFont.GeneralFont)
    font.setPointSizeF(max(_USUAL_POINTS, font.pointSizeF()))
    return font
