"""The engine's source: fetched once, and nothing in its archive is run unless the checksum is right."""

import hashlib
import shlex
import sys
import tarfile
from pathlib import Path
from types import SimpleNamespace

import engine_wheel
import pytest

NAME = f"llama_cpp_python-{engine_wheel.LLAMA_CPP_PYTHON}"
PROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
"""
# Says that it was run, and where.
BACKEND = """
from pathlib import Path


def prepare_metadata_for_build_wheel(folder, config_settings=None):
    Path({ran!r}).touch()
    made = Path(folder, {name!r} + ".dist-info")
    made.mkdir()
    (made / "METADATA").write_text("Metadata-Version: 2.1\\nName: llama-cpp-python\\nVersion: {version}\\n")
    return made.name
"""


@pytest.fixture
def archive(tmp_path, monkeypatch):
    """A source archive of the pinned release, in the only place where pip looks."""
    source = tmp_path / "source"
    source.mkdir()
    (source / "pyproject.toml").write_text(PROJECT)
    told = {"ran": str(tmp_path / "ran"), "name": NAME, "version": engine_wheel.LLAMA_CPP_PYTHON}
    (source / "backend.py").write_text(BACKEND.format(**told))
    (source / "PKG-INFO").write_text(
        f"Metadata-Version: 2.1\nName: llama-cpp-python\nVersion: {engine_wheel.LLAMA_CPP_PYTHON}\n"
    )
    index = tmp_path / "index"
    index.mkdir()
    with tarfile.open(index / f"{NAME}.tar.gz", "w:gz") as tar:
        tar.add(source, NAME)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return index / f"{NAME}.tar.gz"


@pytest.fixture
def cache(tmp_path):
    (tmp_path / "cache").mkdir()
    return tmp_path / "cache"


def test_an_archive_with_another_checksum_is_refused_before_anything_in_it_runs(archive, cache, tmp_path):
    with pytest.raises(SystemExit, match="with checksum"):
        engine_wheel.unpacked_source(cache, sys.executable)
    assert not (tmp_path / "ran").exists()
    assert list(cache.iterdir()) == []


def test_the_archive_with_the_right_checksum_is_unpacked(archive, cache, tmp_path, monkeypatch):
    monkeypatch.setattr(engine_wheel, "SDIST_SHA256", hashlib.sha256(archive.read_bytes()).hexdigest())
    folder = engine_wheel.unpacked_source(cache, sys.executable)
    assert folder == cache / NAME
    assert (folder / "pyproject.toml").read_text() == PROJECT
    assert (tmp_path / "ran").exists(), "pip asks the archive itself: the checksum has to be compared before"
    assert list(cache.iterdir()) == [folder]


def test_a_source_that_lies_there_already_is_taken_without_pip(cache, tmp_path):
    (cache / NAME).mkdir()
    (cache / NAME / "pyproject.toml").touch()
    assert engine_wheel.unpacked_source(cache, tmp_path / "no-python-at-all") == cache / NAME


def test_folders_with_blanks_are_told_whole_to_what_builds_the_engine(tmp_path, monkeypatch):
    options = ["-DGGML_VULKAN=ON", f"-DVulkan_INCLUDE_DIR={tmp_path / 'Ein Ordner'}/it's"]
    told = {}

    def played(command, env, **_keywords):
        told.update(env)
        scratch = command[command.index("-w") + 1]
        Path(scratch, "engine.whl").touch()
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(engine_wheel.subprocess, "run", played)
    engine_wheel._build(sys.executable, tmp_path, options, tmp_path / "made", "")
    assert shlex.split(told["CMAKE_ARGS"]) == options
    assert (tmp_path / "made" / "engine.whl").is_file()
