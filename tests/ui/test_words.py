"""Numbers are written in one way, in words and in boxes, whatever the system speaks."""

import pytest
from PySide6.QtCore import QLocale
from PySide6.QtWidgets import QSpinBox

from app.ui.words import in_bytes, in_seconds, in_tokens, locale_of_words, number


@pytest.fixture
def default_locale():
    before = QLocale()
    yield QLocale.setDefault
    QLocale.setDefault(before)


def test_a_box_of_the_window_writes_numbers_as_the_words_beside_it(qtbot, default_locale):
    default_locale(locale_of_words())
    box = QSpinBox()
    qtbot.addWidget(box)
    box.setGroupSeparatorShown(True)
    box.setRange(0, 10**8)
    for value in (7, 8192, 1048576):
        box.setValue(value)
        assert box.text() == number(value)
        assert in_tokens(value).startswith(box.text())


@pytest.mark.parametrize("system", ["C", "de_DE", "en_US"])
def test_numbers_are_those_of_sentences_that_come_with_theirs_whatever_the_system_speaks(qapp, default_locale, system):
    default_locale(QLocale(system))
    assert number(8192) == f"{8192:,}"
    assert number(1234.5, 1) == f"{1234.5:,.1f}"
    assert in_bytes(3 * 2**30 // 2) == "1.5 GiB"
    assert in_bytes(1020 * 2**20) == "1,020.0 MiB"
    assert in_bytes(-640) == "-640 B"
    assert in_seconds(200) == "3 min 20 s"
