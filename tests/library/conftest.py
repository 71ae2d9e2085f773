"""Fixtures of the library tests: a private home, the dense source model, one small demo model."""

import gguf
import numpy as np
import pytest

from app.errors import AppError
from app.library import demo, demo_source
from app.library.demo import build_demo


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    folder = tmp_path / "home"
    monkeypatch.setenv("EXPERT_LANES_HOME", str(folder))
    return folder


@pytest.fixture(scope="session")
def source():
    """The dense model; skips where the distribution that carries it is not installed."""
    try:
        return demo_source.find_source()
    except AppError as error:
        pytest.skip(error.message)


@pytest.fixture
def tiny_source(tmp_path, monkeypatch):
    """A file of a few bytes that is taken for the dense model, where its content does not matter."""
    path = tmp_path / "tiny.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(1)
    for name in ("attn_norm", "ffn_gate", "ffn_up", "ffn_down"):
        writer.add_tensor(f"blk.0.{name}.weight", np.ones((2, 4), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    monkeypatch.setattr(demo, "find_source", lambda: path)
    monkeypatch.setattr(demo_source, "SOURCE_SHA256", demo_source.sha256_of(path))
    return path


@pytest.fixture(scope="session")
def built_demo(source, tmp_path_factory):
    """A demo model of four experts, two used, and the progress that was reported."""
    progress = []
    model = build_demo(
        tmp_path_factory.mktemp("demo") / "模型 with spaces" / "demo.gguf",
        experts=4,
        used=2,
        on_progress=progress.append,
    )
    return model, progress
