"""Collection of cyclic garbage on the UI thread."""

import gc
import threading

import pytest

from app.ui.garbage import UiThreadCollector


class Knot:
    """Garbage only the cycle collector can free; notes the thread that frees it."""

    def __init__(self, freed: list[threading.Thread]) -> None:
        self.me = self
        self._freed = freed

    def __del__(self) -> None:
        self._freed.append(threading.current_thread())


@pytest.fixture
def collector(qapp):
    made = UiThreadCollector()
    yield made
    made.stop()


def test_cycles_made_on_another_thread_are_freed_on_the_ui_thread(qtbot, collector):
    freed: list[threading.Thread] = []

    def litter() -> None:
        for _ in range(3000):
            Knot(freed)

    thread = threading.Thread(target=litter)
    thread.start()
    thread.join()
    assert freed == [], "nothing may be collected off the UI thread"
    qtbot.waitUntil(lambda: len(freed) == 3000, timeout=5000)
    assert set(freed) == {threading.main_thread()}


def test_python_collects_again_after_the_end(collector):
    assert not gc.isenabled()
    collector.stop()
    assert gc.isenabled()
