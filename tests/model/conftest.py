"""Fixtures that write models for the tests of this folder."""

from collections.abc import Callable
from pathlib import Path

import gguf_files
import pytest

from app.model import ModelFacts, read_facts


@pytest.fixture
def facts_of(tmp_path: Path) -> Callable[[gguf_files.Model], ModelFacts]:
    """Writes a model as a shape file and reads its facts."""

    def write_and_read(model: gguf_files.Model) -> ModelFacts:
        return read_facts(gguf_files.write_model(tmp_path / "model.gguf", model))

    return write_and_read
