"""The last hour as a table (CSV), and the graphs as a picture (PNG): whole files, or none and why."""

import csv
import io
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PySide6.QtCore import QBuffer, QIODevice, QRect, Qt
from PySide6.QtGui import QImage, QPainter, QPixmap

from app.errors import AppError, ErrorCode, writing_error
from app.ui.graphs.graph_spec import GraphSpec
from app.ui.graphs.history import History
from app.ui.theme import GRID, Colors

_DIGITS = 7  # of a figure; measured ones have no more


@dataclass(frozen=True)
class Table:
    """A copy of the history that another thread may read.

    Attributes:
        head: What each column is, with its unit.
        columns: Seconds since the first row, then the figures; NaN in gaps.
        started: Wall clock of the first row, seconds since the epoch.
    """

    head: tuple[str, ...]
    columns: tuple[np.ndarray, ...]
    started: float


def table_of(history: History, specs: Sequence[GraphSpec], clock_offset: float) -> Table:
    """Every figure of `specs` that was ever measured, shown or not.

    Args:
        history: The rows.
        specs: Every graph there is.
        clock_offset: Wall clock less the history's clock.
    """
    times = history.times
    first = float(times[0]) if len(history) else 0.0
    head, columns = ["time (s)"], [times - first]
    for spec in specs:
        for line in (*spec.bands, *spec.lines):
            if line.key in history.keys:
                name = f"{spec.title}: {line.name}" if line.name else spec.title
                head.append(f"{name} ({spec.unit})")
                columns.append(history.column(line.key).copy())
    return Table(tuple(head), tuple(columns), first + clock_offset)


def csv_text(table: Table) -> str:
    """The table as text: commas and points in every language, a column with the time of the day, gaps empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([table.head[0], "clock", *table.head[1:]])
    for row in zip(*(column.tolist() for column in table.columns), strict=True):
        seconds, *figures = row
        clock = table.started + seconds
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(clock)) + f".{int(clock % 1 * 10)}"
        values = ["" if value != value else f"{value:.{_DIGITS}g}" for value in figures]  # noqa: PLR0124 - NaN
        writer.writerow([f"{seconds:.2f}", stamp, *values])
    return out.getvalue()


def titled_picture(graphs: QPixmap, title: str, subtitle: str, colors: Colors) -> QImage:
    """The graphs with a title above, on the window's ground."""
    ratio = graphs.devicePixelRatio()
    width, height = round(graphs.width() / ratio), round(graphs.height() / ratio)
    top = 7 * GRID
    image = QImage(round((width + 2 * GRID) * ratio), round((height + top + GRID) * ratio), QImage.Format.Format_RGB32)
    image.setDevicePixelRatio(ratio)
    image.fill(colors.window)
    painter = QPainter(image)
    font = painter.font()
    font.setPointSizeF(font.pointSizeF() * 1.2)
    font.setBold(True)
    painter.setFont(font)
    painter.setPen(colors.text)
    painter.drawText(QRect(GRID, GRID, width, 3 * GRID), Qt.AlignmentFlag.AlignVCenter, title)
    font.setPointSizeF(font.pointSizeF() / 1.3)
    font.setBold(False)
    painter.setFont(font)
    painter.setPen(colors.muted_text)
    painter.drawText(QRect(GRID, 4 * GRID, width, 2 * GRID), Qt.AlignmentFlag.AlignVCenter, subtitle)
    painter.drawPixmap(GRID, top, graphs)
    painter.end()
    return image


def png_bytes(image: QImage) -> bytes:
    """The image as a file.

    Raises:
        AppError: out_of_memory, it cannot be made.
    """
    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    if not image.save(buffer, "PNG"):
        raise AppError(ErrorCode.OUT_OF_MEMORY, "The picture could not be made.")
    return bytes(buffer.data().data())


def write_whole(path: Path, data: bytes) -> Path:
    """Write a file so that it is there as a whole or, where that fails, as it was before.

    Raises:
        AppError: disk_full or folder_not_writable, as the system says.
    """
    fresh = path.with_name(f".expert-lanes-{os.getpid()}.new")
    try:
        try:
            with fresh.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(path)
        finally:
            fresh.unlink(missing_ok=True)
    except OSError as error:
        raise writing_error(error, path) from error
    return path
