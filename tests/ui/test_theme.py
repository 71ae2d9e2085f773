"""The two looks are readable, follow what is asked, and dress an application without complaints."""

import dataclasses
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtGui import QColor, QFont, QFontInfo, QFontMetrics
from PySide6.QtWidgets import QApplication, QLabel, QMessageBox, QPushButton, QStyle, QStyleOptionButton

from app.ui.stylesheet import style_sheet
from app.ui.theme import DARK, LIGHT, Theme, mix, monospace_font, set_kind, set_role, text_points

LOOKS = [pytest.param(LIGHT, id="light"), pytest.param(DARK, id="dark")]
READABLE = 4.5
"""WCAG 2 contrast of normal text, level AA."""
VISIBLE = 3.0
"""WCAG 2 contrast of graphics."""


@pytest.fixture
def dressed(qapp):
    """The application, to be dressed; it is as it was afterwards."""
    style, sheet, palette, font = qapp.style().objectName(), qapp.styleSheet(), qapp.palette(), qapp.font()
    yield qapp
    qapp.setStyleSheet("")  # see `Theme._dress`
    qapp.setStyleSheet(sheet)
    qapp.setStyle(style)
    qapp.setPalette(palette)
    qapp.setFont(font)


def luminance(color):
    def linear(channel):
        return channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4

    return 0.2126 * linear(color.redF()) + 0.7152 * linear(color.greenF()) + 0.0722 * linear(color.blueF())


def contrast(first, second):
    light, dark = sorted((luminance(first), luminance(second)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("colors", LOOKS)
@pytest.mark.parametrize("background", ["window", "surface"])
@pytest.mark.parametrize("text", ["text", "muted_text", "accent", "gpu", "cpu", "warning", "error", "success", "disk"])
def test_text_is_readable_on_every_background(colors, text, background):
    assert contrast(getattr(colors, text), getattr(colors, background)) >= READABLE


@pytest.mark.parametrize("colors", LOOKS)
def test_text_on_raised_and_accented_places_is_readable(colors):
    assert contrast(colors.text, colors.raised) >= READABLE
    assert contrast(colors.muted_text, colors.raised) >= READABLE
    assert contrast(colors.on_accent, colors.accent) >= READABLE
    assert contrast(colors.text, mix(colors.surface, colors.accent, 0.13)) >= READABLE


@pytest.mark.parametrize("colors", LOOKS)
def test_graph_lines_are_visible_and_all_different(colors):
    assert len({color.name() for color in colors.graph}) == len(colors.graph) >= 5
    assert all(contrast(color, colors.surface) >= VISIBLE for color in colors.graph)


@pytest.mark.parametrize("colors", LOOKS)
def test_more_heat_stands_out_more(colors):
    steps = [contrast(color, colors.surface) for color in colors.heat]
    assert all(before < after for before, after in itertools.pairwise(steps))


@given(st.floats(allow_nan=False), st.booleans())
def test_any_heat_has_a_colour_between_the_stops(qapp, fraction, dark):
    theme = Theme(forced="dark" if dark else "light")
    color = theme.heat_color(fraction)
    assert color.isValid()
    if fraction <= 0:
        assert color.name() == theme.colors.heat[0].name()
    if fraction >= 1:
        assert color.name() == theme.colors.heat[-1].name()


def test_the_table_of_heat_is_that_of_the_look(qapp):
    theme = Theme(forced="light")
    for look in ("light", "dark", "light"):
        theme.force(look)
        assert theme.heat_table(5) == tuple(theme.heat_color(step / 4).rgba() for step in range(5))


def test_a_forced_look_wins_and_a_change_is_told_once(qtbot):
    theme = Theme(forced="light")
    assert (theme.dark, theme.colors) == (False, LIGHT)
    with qtbot.waitSignal(theme.changed):
        theme.force("dark")
    assert (theme.dark, theme.colors) == (True, DARK)
    with qtbot.assertNotEmitted(theme.changed):
        theme.force("dark")


def test_the_dressed_application_changes_with_the_look(dressed, qtbot):
    theme = Theme(forced="light")
    theme.apply(dressed)
    assert dressed.palette().window().color().name() == LIGHT.window.name()
    theme.force("dark")
    assert dressed.palette().window().color().name() == DARK.window.name()
    assert DARK.accent.name() in QApplication.instance().styleSheet()
    assert LIGHT.accent.name() not in QApplication.instance().styleSheet()


def test_what_is_hidden_while_the_look_changes_has_the_new_colours_when_it_is_seen_again(dressed, qtbot):
    theme = Theme(forced="light")
    theme.apply(dressed)
    seen, never_seen = QLabel("seen"), QLabel("never seen")
    for label in (seen, never_seen):
        qtbot.addWidget(label)
        set_role(label, "muted")
    seen.show()
    assert seen.palette().windowText().color().name() == LIGHT.muted_text.name()
    seen.hide()
    theme.force("dark")
    for label in (seen, never_seen):
        label.show()
        assert label.palette().windowText().color().name() == DARK.muted_text.name()


def test_a_button_of_a_message_has_no_picture_and_room_for_its_words_also_as_the_default(dressed, qtbot):
    Theme(forced="light").apply(dressed)
    box = QMessageBox(QMessageBox.Icon.Warning, "Problem", "What happened.", QMessageBox.StandardButton.Ok)
    qtbot.addWidget(box)
    box.setDetailedText("The evidence.")
    box.show()
    for button in box.buttons():
        button.setFocus()  # what has the focus is the default, whose words are bold
        for _ in range(2):
            option = QStyleOptionButton()
            button.initStyleOption(option)
            room = button.style().subElementRect(QStyle.SubElement.SE_PushButtonContents, option, button)
            bold = QFont(button.font())
            bold.setWeight(QFont.Weight.DemiBold)
            assert QFontMetrics(bold).horizontalAdvance(button.text().replace("&", "")) <= room.width()
            assert button.icon().isNull()
            if box.buttonRole(button) is QMessageBox.ButtonRole.ActionRole:
                button.click()  # its words change


@pytest.mark.parametrize("colors", LOOKS)
def test_the_style_sheet_is_understood_by_qt(qtbot, qtlog, colors):
    label = QLabel("text")
    qtbot.addWidget(label)
    label.setStyleSheet(style_sheet(colors, mix))
    label.show()
    label.ensurePolished()
    complaints = [record.message for record in qtlog.records if "stylesheet" in record.message.lower()]
    complaints += [record.message for record in qtlog.records if "Unknown property" in record.message]
    assert complaints == []


@pytest.mark.parametrize(("role", "larger"), [("title", True), ("heading", True), ("figure", True), ("small", False)])
def test_roles_keep_their_proportion_to_a_large_system_font(qtbot, role, larger):
    label = QLabel("text")
    qtbot.addWidget(label)
    set_role(label, role)
    label.setStyleSheet(style_sheet(LIGHT, mix, 20.0))
    label.ensurePolished()
    assert (label.font().pointSizeF() > 20.0) is larger
    assert label.font().pointSizeF() >= 18.0


def test_a_role_and_a_kind_change_how_a_widget_looks(qtbot):
    button, label = QPushButton("Load"), QLabel("Title")
    for widget in (button, label):
        qtbot.addWidget(widget)
        widget.setStyleSheet(style_sheet(LIGHT, mix))
        widget.ensurePolished()
    plain = button.grab().toImage()
    set_kind(button, "primary")
    assert button.grab().toImage() != plain
    small = label.sizeHint().height()
    set_role(label, "title")
    assert label.sizeHint().height() > small


def test_text_of_its_own_size_grows_with_a_large_system_font_and_never_shrinks(qapp):
    before = qapp.font()
    try:
        for points, expected in ((8.0, 10.5), (10.0, 10.5), (20.0, 21.0)):
            font = qapp.font()
            font.setPointSizeF(points)
            qapp.setFont(font)
            assert text_points(10.5) == expected
            assert monospace_font().pointSizeF() == text_points(10.0)
    finally:
        qapp.setFont(before)


def test_figures_in_columns_use_a_font_of_one_width(qapp):
    assert QFontInfo(monospace_font()).fixedPitch()


def test_every_colour_of_both_looks_is_valid():
    for colors in (LIGHT, DARK):
        for field in dataclasses.fields(colors):
            value = getattr(colors, field.name)
            for color in value if isinstance(value, tuple) else (value,):
                assert isinstance(color, QColor)
                assert color.isValid(), field.name
