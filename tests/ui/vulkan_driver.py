"""The real engine with the demo model on a software Vulkan device, for tests of the window; skips without one."""

import os
import subprocess
import sys

import msgspec
import pytest

from app.errors import AppError, ErrorCode
from app.library.demo import build_demo
from app.library.demo_source import find_source
from app.placement.memory import predict
from app.placement.plan import CachePolicy

MIB = 1024**2
PATIENCE = 120_000
"""Milliseconds without a sign of life: a software GPU and its shaders take long."""
MOST_RUNS = 3
DEVICE = "Vulkan0"
EAGER = CachePolicy(window=0, insert_cap=8, stream="off")


class DriverDiedError(Exception):
    """The software driver ended the engine; Mesa 22.3 does so seldom, which says nothing of the dock."""


@pytest.fixture(scope="module")
def software_gpu():
    """Skip where there is no software Vulkan device."""
    program = "from app.engine.ggml import Ggml\ng = Ggml(); g.load_backends()\nprint([d.device for d in g.gpus()])"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True, text=True, check=False, env=dict(os.environ, GGML_VK_VISIBLE_DEVICES="0"),
    )  # fmt: skip
    if DEVICE not in done.stdout:
        pytest.skip("no software Vulkan device: the driver or the engine's Vulkan backend is missing")


@pytest.fixture(scope="module")
def demo_model(software_gpu, tmp_path_factory):
    """The demo model: 30 layers of 8 experts."""
    try:
        find_source()
    except AppError as error:
        pytest.skip(error.message)
    path = tmp_path_factory.mktemp("demo") / "demo.gguf"
    build_demo(path)
    return path


def with_memory(plan, controller):
    """The plan with its memory predicted, as plans of the planner have it."""
    return msgspec.structs.replace(plan, memory=predict(controller.facts, controller.machine, plan))


def until(qtbot, controller):
    """`wait(condition)` that gives up at once when the engine is lost.

    How long an answer takes says nothing on a busy machine: as long as tokens come, it waits on.
    """
    lost, lives = [], []
    controller.failed.connect(lost.append)
    for sign in (controller.load_progress, controller.prompt_progress, controller.token, controller.cache.changed):
        sign.connect(lambda *_told: lives.append(None))

    def wait(condition):
        before = -1
        while len(lives) > before:
            before = len(lives)
            try:
                qtbot.waitUntil(lambda: bool(lost) or bool(condition()), timeout=PATIENCE)
                break
            except qtbot.TimeoutError:
                if len(lives) == before:
                    raise
        if lost:
            if lost[0].code is ErrorCode.ENGINE_CRASHED:
                raise DriverDiedError(lost[0].message)
            raise AssertionError(f"{lost[0].message} {lost[0].detail}")

    return wait


def with_a_driver_that_lives(steps):
    """Run `steps`, again where the driver died."""
    for left in reversed(range(MOST_RUNS)):
        try:
            steps()
        except DriverDiedError:
            if not left:
                raise
        else:
            return
