"""The prediction of what is loaded: made anew for another plan, and not lost to a plan that only says it otherwise."""

import threading

import msgspec
import pytest
from controller_driver import until

from app.placement.speed.types import SpeedPrediction
from app.ui import loaded_speed
from app.ui.loaded_speed import LoadedSpeed


@pytest.fixture
def held(monkeypatch):
    """Predictions wait for `held.set()`."""
    go_on, real = threading.Event(), loaded_speed._predicted

    def predicted(*given):
        assert go_on.wait(10)
        return real(*given)

    monkeypatch.setattr(loaded_speed, "_predicted", predicted)
    yield go_on
    go_on.set()


def test_a_plan_that_loads_the_same_does_not_lose_the_prediction_under_way(loaded_controller, held, qtbot):
    controller = loaded_controller()
    speed = LoadedSpeed(controller)
    speed._look()
    controller.set_live_plan(msgspec.structs.replace(controller.loaded_plan, tuned="in other words"))
    controller.cache.changed.emit()
    held.set()
    until(qtbot, lambda: isinstance(speed.speed, SpeedPrediction))


def test_a_prediction_of_a_plan_that_is_loaded_no_more_is_dropped(loaded_controller, held, qtbot):
    controller = loaded_controller()
    speed = LoadedSpeed(controller)
    speed._look()
    controller.end_engine()
    until(qtbot, lambda: controller.loaded_plan is None)
    controller.cache.changed.emit()
    held.set()
    until(qtbot, lambda: not controller.background.busy)
    assert speed.speed is None
