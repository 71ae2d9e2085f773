"""The probe's order in the window: the engine's devices first, and what is measured where they are not told."""

import pytest
from scripted_engine import BUILD
from ui_factories import make_machine

from app.engine import protocol
from app.ui.background import Background
from app.ui.chooser import Chooser

PATIENCE = 10000


class SilentEngine:
    """Takes requests and answers none by itself."""

    def __init__(self):
        self.sent = 0

    def send(self, _request, **_fields):
        self.sent += 1
        return self.sent


@pytest.fixture
def probed(qtbot):
    """A chooser that told of the engine's devices once, and what it measured the machine with."""
    asked = []
    background = Background()
    machine = make_machine()

    def measure(gpus, build):
        asked.append((gpus, build))
        return machine

    chooser = Chooser(SilentEngine(), background, measure, lambda: False)
    chooser.probe()
    with qtbot.waitSignal(chooser.machine_found, timeout=PATIENCE):
        chooser.take(protocol.Devices(id=1, gpus=machine.gpus, build=BUILD))
    yield chooser, asked
    chooser.deleteLater()


def test_an_engine_that_was_busy_has_its_whole_time_once_it_is_free(qapp):
    busy, told = [True], []
    chooser = Chooser(SilentEngine(), Background(), lambda *_: make_machine(), lambda: busy[0])
    chooser.engine_hangs.connect(told.append)
    chooser.probe()
    chooser._devices_late()
    busy[0] = False
    chooser._devices_late()
    assert told == []
    assert chooser._patience.isActive()
    chooser._devices_late()
    assert [error.message for error in told] == ["The engine did not list its devices in time."]
    chooser.deleteLater()


def test_the_machine_is_measured_with_what_the_engine_told(probed):
    _, asked = probed
    ((gpus, build),) = asked
    assert gpus == make_machine().gpus
    assert build == BUILD


def test_an_engine_that_is_lost_or_fails_is_not_said_to_offer_no_device(probed, qtbot):
    """With an earlier answer's build and without its devices every card would look unused."""
    chooser, asked = probed
    chooser.probe()
    with qtbot.waitSignal(chooser.machine_found, timeout=PATIENCE):
        chooser.engine_lost()
    chooser.probe()
    with qtbot.waitSignal(chooser.machine_found, timeout=PATIENCE):
        chooser.take(protocol.Failed(id=3, code="engine_failed", message="The driver is gone."))
    assert asked[1:] == [((), None), ((), None)]
