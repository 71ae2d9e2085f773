"""Reading slices from the models' disk: what is read, and what is said where nothing can be."""

import os

import pytest

from app.engine import disk_reads

MIB = 1 << 20


@pytest.fixture
def model(tmp_path):
    """A model file that is large enough to be read, in a folder of its own."""
    path = tmp_path / "models" / "large.gguf"
    path.parent.mkdir()
    path.write_bytes(os.urandom(MIB) * 64)
    os.sync()
    return path


def never() -> None:
    """Nobody stops the measurement."""


def test_a_model_file_is_read_and_stays_as_it_is(model):
    def kept() -> tuple[int, int]:
        """What a change of the file would move; its time of access is no change."""
        return model.stat().st_mtime_ns, model.stat().st_size

    before, content = kept(), model.read_bytes()
    rates = disk_reads.measure(model.parent, 0.1, never)
    assert [rate.path for rate in rates] == [str(model.parent)] * 4
    assert kept() == before
    assert model.read_bytes() == content
    assert list(model.parent.iterdir()) == [model]


def test_a_file_with_holes_is_not_read_for_holes_cost_nothing(tmp_path):
    with (tmp_path / "holes.gguf").open("wb") as file:
        file.truncate(100 * MIB)
    assert disk_reads._largest_model(tmp_path) is None


def test_the_largest_model_is_read(model):
    (model.parent / "small.gguf").write_bytes(bytes(10))
    assert disk_reads._largest_model(model.parent) == model


def test_a_stop_ends_it_between_two_reads(model):
    calls = []

    def stop() -> None:
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        disk_reads.measure(model.parent, 0.1, stop)
    assert len(calls) == 3


def test_a_folder_that_is_not_there_is_told(tmp_path):
    with pytest.raises(disk_reads.NotReadError, match="was not measured"):
        disk_reads.measure(tmp_path / "nowhere", 0.1, never)


def test_a_disk_without_room_is_told_and_not_filled(tmp_path, monkeypatch):
    monkeypatch.setattr(disk_reads, "_OWN_FILE", 1 << 60)
    with pytest.raises(disk_reads.NotReadError, match="too little room"):
        disk_reads.measure(tmp_path, 0.1, never)
    assert not list(tmp_path.iterdir())


def test_other_systems_are_told_that_it_is_not_measured_there(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.platform", "win32")
    with pytest.raises(disk_reads.NotReadError, match="on this system"):
        disk_reads.measure(tmp_path, 0.1, never)
