"""A backend that lies beside the engine and could not be loaded is told with its reason."""

import subprocess
import sys

import pytest

from app.engine.ggml import not_loaded


@pytest.mark.parametrize("name", ["libggml-vulkan.so", "ggml-vulkan.dll"])
def test_a_backend_that_the_system_cannot_load_is_told_with_what_the_system_says(tmp_path, name):
    (tmp_path / name).write_bytes(b"no library")
    (told,) = not_loaded(tmp_path, ("CPU",))
    assert told.startswith("The engine's part for Vulkan could not be loaded: ")
    assert name in told
    assert not_loaded(tmp_path, ("CPU", "Vulkan")) == ()


def test_builds_for_processors_and_what_all_share_are_no_backends_of_their_own(tmp_path):
    for name in ("libggml.so", "libggml-base.so", "libggml-cpu-haswell.so", "libggml-cpu.so", "libggml-vulkan.so.0"):
        (tmp_path / name).write_bytes(b"no library")
    assert not_loaded(tmp_path, ()) == ()


def test_of_the_engine_that_is_installed_every_backend_loads():
    ask = (
        "from app.engine.ggml import Ggml, library_folder, not_loaded; "
        "ggml = Ggml(); ggml.load_backends(); print(not_loaded(library_folder(), ggml.backends()))"
    )
    done = subprocess.run([sys.executable, "-c", ask], check=False, capture_output=True, text=True, timeout=240)
    assert done.stdout.strip() == "()", done.stderr
