"""One window for a user: what a second start hands over, and what happens when nobody takes it."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import msgspec
import pytest

from app.errors import AppError
from app.library.folders import cache_folder
from app.library.handover import Handover, Request, handover_folder, start_request

ROOT = Path(__file__).resolve().parents[2]
HOLDER = """
import sys
from app.library.handover import Handover, handover_folder
handover = Handover(handover_folder())
assert handover.hold()
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def handover():
    made = Handover(handover_folder())
    yield made
    made.close()


@pytest.fixture
def holder(home):
    """Another process whose window runs."""
    child = subprocess.Popen(
        [sys.executable, "-c", HOLDER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert child.stdout.readline() == "held\n"
    with child:
        yield child
        child.kill()


def test_the_first_window_holds_and_a_second_does_not(handover):
    assert handover.hold()
    assert not Handover(handover_folder()).hold()
    handover.close()
    again = Handover(handover_folder())
    assert again.hold()
    again.close()


def test_a_window_that_was_killed_is_followed_by_the_next(handover, holder):
    assert not handover.hold()
    holder.kill()
    holder.wait()
    assert handover.hold()


def test_a_request_is_taken_once_by_the_window_that_runs(handover):
    handover.hold()
    path = Path("/models/模型 one.gguf")
    taken = []
    asking = threading.Thread(
        target=lambda: taken.append(Handover(handover_folder()).ask(start_request(path), patience_seconds=30))
    )
    asking.start()
    requests = ()
    while not requests:
        requests = handover.take()
    asking.join()
    assert taken == [True]
    assert [os.fsdecode(request.path) for request in requests] == [str(path)]
    assert handover.take() == ()


def test_a_name_that_is_no_unicode_comes_over_as_it_is(handover):
    handover.hold()
    path = Path(os.fsdecode(b"/models/\xff\xfe.gguf"))
    (handover.folder / "one.request").write_bytes(msgspec.json.encode(start_request(path)))
    assert [Path(os.fsdecode(request.path)) for request in handover.take()] == [path]


def test_a_request_that_nobody_takes_is_taken_back(handover, holder):
    assert not handover.ask(Request(), patience_seconds=0.05)
    assert list(handover.folder.glob("*.request")) == []


def test_what_the_desktop_gave_the_second_start_goes_along(monkeypatch):
    monkeypatch.setenv("XDG_ACTIVATION_TOKEN", "token")
    assert start_request(None) == Request(path=b"", activation="token")


def test_what_is_no_text_was_given_by_no_desktop(monkeypatch):
    monkeypatch.setenv("XDG_ACTIVATION_TOKEN", os.fsdecode(b"\xff"))
    assert start_request(None) == Request()


def test_a_request_that_cannot_be_laid_leaves_nothing(handover, monkeypatch):
    handover.hold()

    def refuse(_path, _target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(AppError):
        handover.ask(Request(), patience_seconds=0.0)
    assert [path.name for path in handover.folder.iterdir()] == [".window.lock"]


def test_the_window_may_come_forward_before_it_can_see_the_request(handover, monkeypatch):
    handover.hold()
    seen = []
    monkeypatch.setattr(
        "app.library.handover._let_come_forward", lambda: seen.append(list(handover.folder.glob("*.request")))
    )
    handover.ask(Request(), patience_seconds=0.0)
    assert seen == [[]]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"path": 7}', b"\xff", b'{"deep":' + b"[" * 60_000])
def test_what_is_no_request_is_dropped(handover, content):
    handover.hold()
    (handover.folder / "one.request").write_bytes(content)
    assert handover.take() == ()
    assert handover.take() == ()


def test_several_requests_are_taken_in_the_order_of_their_coming(handover):
    handover.hold()
    for number, name in enumerate(("b", "a", "c")):
        file = handover.folder / f"{name}.request"
        file.write_bytes(b'{"activation": "%d"}' % number)
        os.utime(file, (1000 + number, 1000 + number))
    assert [request.activation for request in handover.take()] == ["0", "1", "2"]


def test_where_no_folder_can_be_made_the_window_opens_all_the_same(home):
    cache_folder().parent.mkdir(parents=True)
    cache_folder().write_text("a file where the folder should be")
    handover = Handover(handover_folder())
    assert handover.hold()
    with pytest.raises(AppError):
        handover.ask(Request(), patience_seconds=0.0)


def test_windows_meet_on_one_machine_and_one_screen(monkeypatch):
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setenv("DISPLAY", ":0")
    one = handover_folder()
    monkeypatch.setenv("DISPLAY", ":1")
    assert handover_folder() != one
    assert handover_folder().parent == one.parent == cache_folder() / "window"


def test_windows_of_two_installations_do_not_meet_and_those_of_one_appimage_do(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/opt/0.1.0/expert-lanes-window")
    old = handover_folder()
    monkeypatch.setattr(sys, "executable", "/opt/0.1.0/expert-lanes")
    assert handover_folder() == old
    monkeypatch.setattr(sys, "executable", "/opt/0.2.0/expert-lanes-window")
    assert handover_folder() != old
    old = handover_folder()
    monkeypatch.setenv("APPIMAGE", "/home/user/expert-lanes.AppImage")
    monkeypatch.setenv("APPDIR", "/tmp/.mount_x")
    assert handover_folder() == old, "started from an AppImage of something else"
    monkeypatch.setattr(sys, "executable", "/tmp/.mount_x/usr/lib/expert-lanes/expert-lanes-window")
    one = handover_folder()
    assert one != old
    monkeypatch.setenv("APPDIR", "/tmp/.mount_y")
    monkeypatch.setattr(sys, "executable", "/tmp/.mount_y/usr/lib/expert-lanes/expert-lanes-window")
    assert handover_folder() == one
