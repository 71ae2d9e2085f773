"""What engine tests share: a GPU, a home of their own, the demo model."""

import os
import subprocess
import sys

import pytest
from engine_driver import plan_for

from app.engine import protocol
from app.engine.client import EngineClient


@pytest.fixture(scope="session")
def any_gpu() -> str:
    """Engine name of a GPU: of the card that EXPERT_LANES_TEST_GPU names, else the software Vulkan device.

    Skips where the driver or the backend is missing.
    """
    if card := os.environ.get("EXPERT_LANES_TEST_GPU"):
        return card
    program = "from app.engine.ggml import Ggml\ng = Ggml(); g.load_backends()\nprint([d.device for d in g.gpus()])"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True, text=True, check=False, env=dict(os.environ, GGML_VK_VISIBLE_DEVICES="0"),
    )  # fmt: skip
    if "Vulkan0" not in done.stdout:
        pytest.skip("no software Vulkan device: the driver or the engine's Vulkan backend is missing")
    return "Vulkan0"


@pytest.fixture(scope="session")
def demo_model(tmp_path_factory):
    """The demo model with its defaults."""
    from app.library.demo import build_demo

    path = tmp_path_factory.mktemp("demo") / "demo.gguf"
    build_demo(path)
    return path


@pytest.fixture(scope="session", autouse=True)
def own_home(tmp_path_factory):
    """Logs and data of these tests go to a folder of their own, also those of the children."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EXPERT_LANES_HOME", str(tmp_path_factory.mktemp("home")))
        yield


@pytest.fixture(scope="session")
def dense_model():
    """The dense model that the demo is made of."""
    from app.library import demo_source

    return demo_source.find_source()


@pytest.fixture(scope="module")
def loaded(demo_model):
    """A child with the demo model loaded on the CPU."""
    with EngineClient() as client:
        client.request(protocol.Load, protocol.Loaded, plan=plan_for(demo_model))
        yield client
