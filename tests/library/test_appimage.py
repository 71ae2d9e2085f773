"""Whether the program runs from an AppImage, or only inherited the names of one."""

from app.library.appimage import appimage_file

FILE = "/home/user/expert-lanes.AppImage"


def test_a_program_inside_was_started_by_the_appimage(tmp_path):
    program = tmp_path / "usr" / "lib" / "expert-lanes-window"
    assert appimage_file(program, {"APPIMAGE": FILE, "APPDIR": str(tmp_path)}) == FILE


def test_a_folder_named_by_a_link_is_the_same_one(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    program = tmp_path / "real" / "expert-lanes-window"
    assert appimage_file(program, {"APPIMAGE": FILE, "APPDIR": str(tmp_path / "link")}) == FILE


def test_names_inherited_from_another_program_are_not_ours(tmp_path):
    program = tmp_path / "expert-lanes-window"
    assert appimage_file(program, {"APPIMAGE": FILE, "APPDIR": str(tmp_path / "other")}) == ""
    assert appimage_file(program, {"APPIMAGE": FILE}) == ""
    assert appimage_file(program, {"APPDIR": str(tmp_path)}) == ""
    assert appimage_file(program, {}) == ""
