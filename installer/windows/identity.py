"""What Windows shows of the two programs: their icon and their version; build.spec puts both into them."""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Mapping
from pathlib import Path

SIZES = (16, 20, 24, 32, 40, 48, 64, 128, 256)
"""Edges of the icon's pictures in pixels: those that Windows shows at scales from 100 to 250 percent."""
_PACKED_FROM = 256  # the size whose picture Windows expects as PNG
ICON = "expert-lanes.ico"
DESCRIPTIONS = {"expert-lanes": "Expert Lanes for terminals", "expert-lanes-window": "Expert Lanes"}


def lay(folder: Path, drawing: Path, version: str) -> None:
    """Write into `folder` the icon, and for each program a file named like it with its version.

    Args:
        folder: Where build.spec looks for them.
        drawing: The icon as SVG.
        version: The app's, such as 0.1.0.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ICON).write_bytes(icon(_pictures(drawing)))
    for program, description in DESCRIPTIONS.items():
        (folder / f"{program}.version.txt").write_text(version_resource(program, description, version), "utf-8")


def numbers(version: str) -> tuple[int, int, int, int]:
    """The four numbers that Windows orders versions by.

    Raises:
        SystemExit: it does not begin with numbers.
    """
    found = re.match(r"(\d+)(?:\.(\d+))?(?:\.(\d+))?", version)
    if found is None:
        raise SystemExit(f"windows: not a version: {version}")
    major, minor, patch = (int(part or 0) for part in found.groups())
    return major, minor, patch, 0


def version_resource(program: str, description: str, version: str) -> str:
    """A program's version as PyInstaller reads it."""
    texts = {
        "CompanyName": "Expert Lanes contributors",
        "FileDescription": description,
        "FileVersion": version,
        "InternalName": program,
        "OriginalFilename": f"{program}.exe",
        "ProductName": "Expert Lanes",
        "ProductVersion": version,
    }
    strings = ", ".join(f"StringStruct({name!r}, {value!r})" for name, value in texts.items())
    four = numbers(version)
    # Language and character set: American English in Unicode. 0x40004: 32-bit Windows and later; 1: a program.
    return (
        f"VSVersionInfo(ffi=FixedFileInfo(filevers={four}, prodvers={four}, mask=0x3F, flags=0, OS=0x40004, fileType=1,"
        " subtype=0, date=(0, 0)),"
        f" kids=[StringFileInfo([StringTable('040904B0', [{strings}])]),"
        " VarFileInfo([VarStruct('Translation', [0x409, 1200])])])\n"
    )


def icon(pictures: Mapping[int, tuple[bytes, bytes]]) -> bytes:
    """The .ico file of some pictures.

    Args:
        pictures: Edges in pixels, each with the rows from the top, four bytes a pixel (blue, green, red, opacity), and
            the same picture as PNG.
    """
    table, images, place = [], [], 6 + 16 * len(pictures)
    for size, (pixels, png) in sorted(pictures.items()):
        image = png if size >= _PACKED_FROM else _bitmap(size, pixels)
        table.append(struct.pack("<BBBBHHII", size % 256, size % 256, 0, 0, 1, 32, len(image), place))
        images.append(image)
        place += len(image)
    return b"".join([struct.pack("<HHH", 0, 1, len(pictures)), *table, *images])


def _bitmap(size: int, pixels: bytes) -> bytes:
    """A picture as icons hold it: twice as high as it is, for a mask of one bit a pixel lies below, rows from below."""
    row = 4 * size
    rows = [pixels[start : start + row] for start in range(0, row * size, row)]
    mask_row = (size + 31) // 32 * 4  # rows end at four bytes; opacity says it all, so no pixel is masked
    header = struct.pack("<IiiHHIIiiII", 40, size, 2 * size, 1, 32, 0, row * size + mask_row * size, 0, 0, 0, 0)
    return header + b"".join(reversed(rows)) + bytes(mask_row * size)


def _pictures(drawing: Path) -> dict[int, tuple[bytes, bytes]]:
    """The drawing in every size."""
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    from PySide6.QtCore import QBuffer, QIODevice, Qt  # noqa: PLC0415 - needed by this alone
    from PySide6.QtGui import QImage, QPainter  # noqa: PLC0415
    from PySide6.QtSvg import QSvgRenderer  # noqa: PLC0415

    renderer = QSvgRenderer(str(drawing))
    if not renderer.isValid():
        raise SystemExit(f"windows: {drawing} cannot be drawn")
    drawn = {}
    for size in SIZES:
        image = QImage(size, size, QImage.Format.Format_ARGB32)
        image.fill(Qt.GlobalColor.transparent)
        painter = QPainter(image)
        renderer.render(painter)
        painter.end()
        packed = QBuffer()
        packed.open(QIODevice.OpenModeFlag.WriteOnly)
        image.save(packed, "PNG")
        drawn[size] = (bytes(image.constBits()), bytes(packed.data()))
    return drawn
