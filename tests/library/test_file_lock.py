"""The lock that keeps two processes from writing one file."""

import subprocess
import sys
from pathlib import Path

import pytest

from app.errors import AppError, ErrorCode
from app.library.file_lock import FileLock

ROOT = Path(__file__).resolve().parents[2]
HOLDER = Path(__file__).with_name("lock_holder.py")


class GivenUpError(Exception):
    pass


def give_up():
    raise GivenUpError


@pytest.fixture
def holder(tmp_path):
    child = subprocess.Popen(
        [sys.executable, str(HOLDER), str(tmp_path / "file")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": str(ROOT)},
    )
    assert child.stdout.readline() == "held\n"
    with child:  # closes its streams and waits for it
        yield child
        child.kill()


def test_a_lock_that_is_free_is_taken_without_waiting_again_and_again(tmp_path):
    for _ in range(2):
        with FileLock(tmp_path / "file", on_wait=give_up):
            pass


@pytest.mark.usefixtures("holder")
def test_a_lock_that_another_process_holds_is_waited_for_and_can_be_given_up(tmp_path):
    with pytest.raises(GivenUpError), FileLock(tmp_path / "file", on_wait=give_up):
        pass


@pytest.mark.usefixtures("holder")
def test_the_lock_of_another_file_is_free(tmp_path):
    with FileLock(tmp_path / "other", on_wait=give_up):
        pass


def test_the_lock_of_a_killed_process_is_free(tmp_path, holder):
    holder.kill()
    holder.wait()
    with FileLock(tmp_path / "file", on_wait=give_up):
        pass


def test_a_lock_that_is_waited_for_is_had_as_soon_as_its_holder_lets_go(tmp_path, holder):
    waited = []

    def on_wait():
        waited.append(True)
        if len(waited) == 1:
            holder.stdin.close()
            holder.wait()

    with FileLock(tmp_path / "file", on_wait=on_wait):
        assert waited == [True]


def test_a_lock_in_a_folder_that_is_not_there_is_a_typed_error(tmp_path):
    with pytest.raises(AppError) as refused, FileLock(tmp_path / "nowhere" / "file", on_wait=give_up):
        pass
    assert refused.value.code is ErrorCode.FOLDER_NOT_WRITABLE
