"""The icon of the app's windows: on Windows the frozen program's own, elsewhere none is set."""

import sys
from types import SimpleNamespace

import pytest
from PySide6.QtGui import QIcon, QImage

from app.ui import program_icon


@pytest.fixture
def play(monkeypatch, qapp):
    """Stand-ins for Windows' calls: the file carries pictures of some sizes, each under its size as handle."""

    def played(*sizes):
        given_back = []

        def extract(_program, _index, width, _height, handle, _identifier, _count, _flags):
            handle._obj.value = width if width in sizes else None

        user = SimpleNamespace(PrivateExtractIconsW=extract, DestroyIcon=lambda handle: given_back.append(handle.value))
        monkeypatch.setattr(program_icon.ctypes, "WinDLL", lambda _name: user, raising=False)
        picture = QImage.Format.Format_ARGB32
        monkeypatch.setattr(QImage, "fromHICON", staticmethod(lambda size: QImage(size, size, picture)), raising=False)
        return given_back

    return played


def test_an_icon_holds_every_size_that_the_program_carries_and_gives_the_handles_back(play):
    given_back = play(16, 32, 256)
    icon = program_icon.icon_of("C:\\app.exe")
    assert sorted(size.width() for size in icon.availableSizes()) == [16, 32, 256]
    assert given_back == [16, 32, 256]


def test_a_program_without_an_icon_gives_an_empty_one_and_a_line_in_the_log(play, caplog):
    play()
    assert program_icon.icon_of("C:\\app.exe").isNull()
    assert "carries no icon" in caplog.text


def test_only_the_frozen_program_on_windows_is_asked(monkeypatch, play):
    play(32)
    asked = []
    monkeypatch.setattr(program_icon, "icon_of", lambda program: asked.append(program) or QIcon())
    for platform, frozen in (("linux", True), ("win32", False), ("win32", True)):
        monkeypatch.setattr(sys, "platform", platform)
        monkeypatch.setattr(sys, "frozen", frozen, raising=False)
        program_icon.program_icon()
    assert asked == [sys.executable]
