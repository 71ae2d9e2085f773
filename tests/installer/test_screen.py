"""The screen of memory: pixels and pictures are read from the file that Xvfb keeps."""

import struct

import pytest
from PySide6.QtGui import QImage
from screen import Screen, _layout


@pytest.fixture
def shown(tmp_path):
    """A screen of 4 × 3 pixels, black but for a red row at the bottom."""
    fields = [0] * 25
    fields[0], fields[4], fields[5], fields[11], fields[12], fields[19] = 108, 4, 3, 32, 16, 2
    rows = bytes(16) * 2 + bytes((0, 0, 255, 0)) * 4
    memory = tmp_path / "Xvfb_screen0"
    memory.write_bytes(struct.pack(">25I", *fields) + b"screen\0\0" + bytes(24) + rows)
    return Screen(":1", memory)


def test_rows_are_found_behind_the_name_and_the_colours(shown):
    assert not any(shown.row(0))
    assert shown.row(1) == bytes((0, 0, 255, 0)) * 4


def test_a_part_has_only_the_pixels_in_its_box_as_far_as_the_screen_goes(shown):
    assert shown.part((1, 1, 3, 3)) == bytes(8) + bytes((0, 0, 255, 0)) * 2
    assert shown.part((2, 2, 100, 100)) == bytes((0, 0, 255, 0)) * 2
    assert shown.part((-5, -5, 1, 2)) == bytes(8)


def test_a_picture_has_the_screens_size_and_colours(shown, tmp_path):
    uneven = shown.save(tmp_path / "screen.png")
    image = QImage(str(tmp_path / "screen.png"))
    assert (image.width(), image.height(), uneven) == (4, 3, 0)
    assert image.pixelColor(0, 0).name() == "#000000"
    assert image.pixelColor(3, 2).name() == "#ff0000"


def test_rows_of_several_colours_are_counted(shown, tmp_path):
    content = bytearray(shown.memory.read_bytes())
    content[-1 - 3] = 200
    shown.memory.write_bytes(content)
    assert shown.save(tmp_path / "screen.png") == 1


def test_a_screen_of_few_colours_is_refused():
    with pytest.raises(ValueError, match="8 bits"):
        _layout(struct.pack(">25I", *([0] * 11), 8, *([0] * 13)))
