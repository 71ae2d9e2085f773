"""A screen of memory: an X server without a display, and pictures of what it shows."""

from __future__ import annotations

import contextlib
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SOCKETS = Path("/tmp/.X11-unix")
"""Where X servers have their sockets, one for each display."""
SIZE = (1600, 1000)
"""Width and height in pixels."""
_HEADER = struct.Struct(">25I")
"""XWDFileHeader of X11/XWDFile.h, in which Xvfb keeps its screen."""
_COLOUR_BYTES = 12


@dataclass(frozen=True)
class Screen:
    """An X server's screen.

    Attributes:
        display: What programs find it by, such as ":99".
        memory: The file that holds what it shows.
    """

    display: str
    memory: Path

    def row(self, place: float) -> bytes:
        """The pixels of one row, four bytes each.

        Args:
            place: 0 for the first row, 1 for the last.
        """
        with self.memory.open("rb") as file:
            start, _width, height, stride = _layout(file.read(_HEADER.size))
            file.seek(start + stride * round(place * (height - 1)))
            return file.read(stride)

    def part(self, box: tuple[int, int, int, int]) -> bytes:
        """The pixels of a part, four bytes each: of what lies from left and upper up to right and lower edge."""
        content = self.memory.read_bytes()
        start, width, height, stride = _layout(content)
        left, right = (4 * min(max(edge, 0), width) for edge in (box[0], box[2]))
        upper, lower = (min(max(edge, 0), height) for edge in (box[1], box[3]))
        begins = (start + stride * row for row in range(upper, lower))
        return b"".join(content[begin + left : begin + right] for begin in begins)

    def save(self, picture: Path) -> int:
        """Keep what is shown as PNG; returns how many rows are not of one colour."""
        from PySide6.QtGui import QImage  # noqa: PLC0415 - rows can be looked at without Qt

        content = self.memory.read_bytes()
        start, width, height, stride = _layout(content)
        pixels = content[start : start + stride * height]
        image = QImage(pixels, width, height, stride, QImage.Format.Format_RGB32)
        if not image.save(str(picture)):
            raise SystemExit(f"package: the picture {picture} could not be written")
        rows = (pixels[place * stride : (place + 1) * stride] for place in range(height))
        return sum(1 for row in rows if row != row[:4] * (len(row) // 4))


def _layout(content: bytes) -> tuple[int, int, int, int]:
    """Where the pixels begin, then width, height and bytes of a row.

    Raises:
        ValueError: they are not of 32 bits.
    """
    fields = _HEADER.unpack_from(content)
    header_bytes, width, height, bits, stride, colours = (fields[index] for index in (0, 4, 5, 11, 12, 19))
    if bits != 32:
        raise ValueError(f"The screen has {bits} bits a pixel.")
    return header_bytes + _COLOUR_BYTES * colours, width, height, stride


@contextlib.contextmanager
def screen() -> Iterator[Screen]:
    """Start Xvfb on a free display for as long as the block runs.

    Raises:
        SystemExit: it did not start.
    """
    with tempfile.TemporaryDirectory() as folder:
        size = f"{SIZE[0]}x{SIZE[1]}x24"
        command = ["Xvfb", "-displayfd", "1", "-screen", "0", size, "-fbdir", folder, "-nolisten", "tcp", "-noreset"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
            try:
                number = server.stdout.readline().strip() if server.stdout else ""
                if not number:
                    raise SystemExit("package: Xvfb did not start")
                yield Screen(f":{number}", Path(folder) / "Xvfb_screen0")
            finally:
                server.terminate()
