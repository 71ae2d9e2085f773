"""The icon of the app's windows on Windows: the one that the program's own file carries."""

import ctypes
import logging
import sys

from PySide6.QtGui import QIcon, QImage, QPixmap

log = logging.getLogger(__name__)

_SIZES = (16, 20, 24, 32, 40, 48, 64, 256)
"""Edges in pixels that title bars, the taskbar and the list of windows show, at scales from 100 to 250 percent."""


def program_icon() -> QIcon:
    """The frozen program's icon on Windows, else an empty one: other desktops know the app by its entry's name.

    Qt itself looks in the program for an icon with a name, and PyInstaller gives it a number.
    """
    if sys.platform != "win32" or not getattr(sys, "frozen", False):
        return QIcon()
    return icon_of(sys.executable)


def icon_of(program: str) -> QIcon:
    """The icon that a Windows program's file carries; an empty one where it carries none."""
    icon = QIcon()
    user = ctypes.WinDLL("user32")
    for size in _SIZES:
        handle = ctypes.c_void_p()
        user.PrivateExtractIconsW(ctypes.c_wchar_p(program), 0, size, size, ctypes.byref(handle), None, 1, 0)
        if handle.value:
            icon.addPixmap(QPixmap.fromImage(QImage.fromHICON(handle.value)))
            user.DestroyIcon(handle)
    if icon.isNull():
        log.warning("%s carries no icon", program)
    return icon
