"""Where files are kept, and what happens where they cannot be."""

import errno

import pytest

from app.errors import AppError, ErrorCode, writing_error
from app.library import folders


def test_one_variable_puts_everything_below_one_folder(home):
    assert folders.data_folder() == home / "data"
    assert folders.models_folder() == home / "models"
    assert folders.cache_folder() == home / "cache"
    assert folders.log_folder() == home / "logs"


def test_the_variable_may_begin_with_the_home_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.setenv("EXPERT_LANES_HOME", "~/portable")
    assert folders.data_folder() == tmp_path / "portable" / "data"


@pytest.mark.parametrize("value", ["", None])
def test_without_the_variable_the_systems_own_folders_are_used(monkeypatch, value):
    if value is None:
        monkeypatch.delenv("EXPERT_LANES_HOME")
    else:
        monkeypatch.setenv("EXPERT_LANES_HOME", value)
    found = [folders.data_folder(), folders.models_folder(), folders.cache_folder(), folders.log_folder()]
    assert len(set(found)) == 4
    assert all(folder.is_absolute() and "expert-lanes" in folder.parts for folder in found)
    assert folders.models_folder().parent == folders.data_folder()


def test_a_folder_is_made_with_its_parents_and_may_exist(home):
    made = folders.ensure_folder(home / "a" / "b")
    assert made.is_dir()
    assert folders.ensure_folder(made) == made


def test_a_folder_below_a_file_cannot_be_made(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(AppError) as refused:
        folders.ensure_folder(tmp_path / "file" / "folder")
    assert refused.value.code is ErrorCode.FOLDER_NOT_WRITABLE


def test_a_folder_without_permission_to_write_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(folders.os, "access", lambda path, mode: False)
    with pytest.raises(AppError) as refused:
        folders.ensure_folder(tmp_path)
    assert refused.value.code is ErrorCode.FOLDER_NOT_WRITABLE


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.ENOSPC, ErrorCode.DISK_FULL),
        (errno.EDQUOT, ErrorCode.DISK_FULL),
        (errno.EACCES, ErrorCode.FOLDER_NOT_WRITABLE),
        (errno.EROFS, ErrorCode.FOLDER_NOT_WRITABLE),
    ],
)
def test_an_error_of_writing_is_typed_by_its_reason(tmp_path, number, code):
    error = writing_error(OSError(number, "why"), tmp_path)
    assert error.code is code
    assert str(tmp_path) in error.message
    assert "why" in error.detail
