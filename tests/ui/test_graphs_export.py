"""Exports: every figure with its unit, gaps empty, and whole files or none."""

import csv
import errno
import io
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtGui import QImage, QPixmap

from app.errors import AppError, ErrorCode
from app.ui.graphs.export import csv_text, png_bytes, table_of, titled_picture, write_whole
from app.ui.graphs.history import History
from app.ui.graphs.recorder import CAPACITY
from app.ui.graphs.specs import GraphSpec, Line

CLOCK = 1_700_000_000.0


def spec(*keys, title="Speed", unit="tokens/s"):
    return GraphSpec(
        "g", "g", title, unit, tuple(Line(key, key if len(keys) > 1 else "", lambda c: c.text) for key in keys)
    )


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "exports"
    made.mkdir()
    return made


def read(text):
    head, *rows = csv.reader(io.StringIO(text))
    return head, rows


def test_every_row_and_figure_is_there_with_seconds_clock_and_unit():
    history = History(10)
    history.append(100.0, {"decode": 21.5, "a": 1.0})
    history.append(100.2, {"decode": None, "b": 0.25})
    table = table_of(history, [spec("decode"), spec("a", "b", title="Main memory", unit="GiB")], CLOCK - 100)
    head, rows = read(csv_text(table))
    assert head == ["time (s)", "clock", "Speed (tokens/s)", "Main memory: a (GiB)", "Main memory: b (GiB)"]
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(CLOCK))
    assert rows == [["0.00", f"{stamp}.0", "21.5", "1", ""], ["0.20", f"{stamp}.2", "", "", "0.25"]]


def test_figures_that_were_never_measured_have_no_column():
    history = History(10)
    history.append(0.0, {"decode": 1.0})
    assert table_of(history, [spec("decode"), spec("hits")], 0.0).head == ("time (s)", "Speed (tokens/s)")


def test_an_empty_history_is_a_table_of_its_head():
    head, rows = read(csv_text(table_of(History(10), [spec("decode")], CLOCK)))
    assert head == ["time (s)", "clock"]
    assert rows == []


@given(st.lists(st.one_of(st.none(), st.floats(0, 1e6, width=32)), min_size=1, max_size=40))
def test_every_figure_can_be_read_back(values):
    history = History(100)
    for place, value in enumerate(values):
        history.append(place / 5, {"decode": value})
    _, rows = read(csv_text(table_of(history, [spec("decode")], CLOCK)))
    assert len(rows) == len(values)
    for row, value in zip(rows, values, strict=True):
        if value is None:
            assert row[2:] in ([""], [])
        else:
            assert float(row[2]) == pytest.approx(value, rel=1e-6, abs=1e-30)


def test_a_table_is_a_copy_that_later_rows_do_not_change():
    history = History(3)
    for place in range(3):
        history.append(place, {"decode": float(place)})
    table = table_of(history, [spec("decode")], 0.0)
    before = csv_text(table)
    for place in range(3, 9):
        history.append(place, {"decode": 99.0})
    assert csv_text(table) == before


def test_a_whole_hour_has_eighteen_thousand_rows():
    history = History(CAPACITY)
    for place in range(CAPACITY + 5):
        history.append(place / 5, {"decode": place % 9})
    _, rows = read(csv_text(table_of(history, [spec("decode")], CLOCK)))
    assert len(rows) == CAPACITY == 18_000
    assert float(rows[-1][0]) == pytest.approx(3600 - 0.2)


def test_a_picture_has_its_title_above_the_graphs_and_its_resolution(qapp, theme):
    graphs = QPixmap(400, 200)
    graphs.setDevicePixelRatio(2)
    graphs.fill(theme.colors.error)
    image = titled_picture(graphs, "Live graphs · Scripted MoE", "2026-11-30 10:00:00", theme.colors)
    assert image.devicePixelRatio() == 2
    assert (image.width(), image.height()) == (400 + 32, 200 + 128)
    assert image.pixelColor(432 // 2, 100 + 128) == theme.colors.error
    words = {image.pixel(x, y) for x in range(image.width()) for y in range(100)}
    assert len(words) > 2
    again = QImage.fromData(png_bytes(image))
    assert (again.width(), again.height()) == (image.width(), image.height())


def test_a_picture_that_cannot_be_made_is_an_error(qapp):
    with pytest.raises(AppError) as raised:
        png_bytes(QImage())
    assert raised.value.code is ErrorCode.OUT_OF_MEMORY


def test_a_file_is_written_as_a_whole(folder):
    path = folder / "graphs.csv"
    path.write_bytes(b"old")
    assert write_whole(path, b"new") == path
    assert path.read_bytes() == b"new"
    assert list(folder.iterdir()) == [path]


@pytest.mark.parametrize(
    ("number", "code"), [(errno.ENOSPC, ErrorCode.DISK_FULL), (errno.EACCES, ErrorCode.FOLDER_NOT_WRITABLE)]
)
def test_a_full_disk_or_a_missing_right_leaves_the_file_as_it_was(folder, monkeypatch, number, code):
    path = folder / "graphs.csv"
    path.write_bytes(b"old")

    class Refusing(io.BytesIO):
        def write(self, _data):
            raise OSError(number, "the system says no")

    monkeypatch.setattr(Path, "open", lambda self, *_: Refusing())
    with pytest.raises(AppError) as raised:
        write_whole(path, b"new")
    monkeypatch.undo()
    assert raised.value.code is code
    assert str(path) in raised.value.message
    assert path.read_bytes() == b"old"
    assert list(folder.iterdir()) == [path]


def test_a_folder_that_is_gone_is_an_error_and_not_made(folder):
    with pytest.raises(AppError) as raised:
        write_whole(folder / "gone" / "graphs.csv", b"new")
    assert raised.value.code is ErrorCode.FOLDER_NOT_WRITABLE
    assert not (folder / "gone").exists()
