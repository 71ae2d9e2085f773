"""The engine's working set tells the least share of the model file in memory, and says when it cannot tell."""

import contextlib
import dataclasses
import os
import sys

import pytest
from hardware_trees import MIB, sampler
from hypothesis import given
from hypothesis import strategies as st

from app.hardware.page_cache import EXACT_PAGES, PLACES
from app.hardware.sampling import Sampler
from app.hardware.sources import NotSeenError
from app.hardware.working_set import LEAVES_OUT, EngineMemory, Mapping, WorkingSetShare

PAGE = 4096
MODEL = r"\device\harddiskvolume3\models\model.gguf"
OTHER = r"\device\harddiskvolume3\windows\other.dll"
# Bits above the lowest say how a page is shared and protected; they are there for pages of the working set only.
IN, OUT = 0x8000_0041, 0x8000


@dataclasses.dataclass
class PlayedMemory:
    """A process: files mapped at addresses, and which pages of them are in its working set."""

    mapped: dict[int, tuple[str, int]]
    inside: set[int]
    names: dict[str, str]
    refuses: bool = False
    asked: int = 0
    closed: bool = False

    def mappings(self):
        return (Mapping(address, size) for address, (_, size) in self.mapped.items())

    def name_at(self, address):
        return self.mapped.get(address, ("", 0))[0]

    def name_of(self, path):
        if path not in self.names:
            raise NotSeenError("Windows does not tell which files are mapped into memory.")
        return self.names[path]

    def attributes(self, addresses):
        self.asked += 1
        if self.refuses:
            raise NotSeenError("Windows does not tell which pages of the model file the engine has.")
        return [IN if address // PAGE in self.inside else OUT for address in addresses]

    def close(self):
        self.closed = True


@pytest.fixture
def make_model(tmp_path):
    def make(pages, name="model.gguf"):
        path = tmp_path / name
        with path.open("wb") as file:
            file.truncate(pages * PAGE)
        return str(path)

    return make


def played(path, pages, inside, **fields):
    """The model mapped at 1 MiB, after something else."""
    first = MIB // PAGE
    mapped = {0x1000: (OTHER, 16 * PAGE), MIB: (MODEL, pages * PAGE)}
    return PlayedMemory(mapped, {first + page for page in inside}, {path: MODEL}, **fields)


def share_of(path, memory):
    return WorkingSetShare(7, [path], lambda pid: memory)


def test_pages_in_the_engines_working_set_are_the_share_and_it_is_said_to_be_the_least(make_model):
    path = make_model(100)
    share = share_of(path, played(path, 100, range(25)))
    assert share.share() == 0.25
    assert "At least" in share.leaves_out


def test_the_process_that_is_asked_is_the_engine(make_model):
    path, asked = make_model(4), []

    def open_memory(pid):
        asked.append(pid)
        return played(path, 4, range(4))

    assert WorkingSetShare(4321, [path], open_memory).share() == 1.0
    assert asked == [4321]


def test_a_part_of_the_last_page_is_a_page(make_model, tmp_path):
    path = make_model(2)
    with (tmp_path / "model.gguf").open("ab") as file:
        file.write(b"x")
    assert share_of(path, played(path, 3, range(3))).share() == 1.0


def test_a_large_file_is_asked_in_one_call_of_some_pages(make_model):
    pages = 10 * EXACT_PAGES
    path = make_model(pages)
    memory = played(path, pages, range(pages // 2))
    share = share_of(path, memory)
    assert share.share() == pytest.approx(0.5, abs=2 / PLACES)
    before = memory.asked
    assert share.share() == pytest.approx(0.5, abs=2 / PLACES)
    assert memory.asked == before + 1


def test_shards_count_by_their_pages(make_model):
    small, large = make_model(100, "a.gguf"), make_model(300, "b.gguf")
    memory = PlayedMemory(
        {MIB: ("a", 100 * PAGE), 64 * MIB: ("b", 300 * PAGE)},
        {MIB // PAGE + page for page in range(100)},
        {small: "a", large: "b"},
    )
    assert WorkingSetShare(7, [small, large], lambda pid: memory).share() == 0.25


def test_a_file_mapped_twice_counts_once(make_model):
    path = make_model(10)
    memory = played(path, 10, range(4))
    memory.mapped[64 * MIB] = (MODEL, 10 * PAGE)
    memory.inside |= {64 * MIB // PAGE + page for page in range(9)}
    assert share_of(path, memory).share() == 0.9


def test_a_model_that_the_engine_has_read_instead_of_mapped_is_not_zero_but_missing(make_model):
    path = make_model(10)
    memory = played(path, 10, ())
    del memory.mapped[MIB]
    with pytest.raises(NotSeenError, match="has not mapped"):
        share_of(path, memory).share()


def test_a_mapping_that_moved_is_looked_for_again_and_one_that_is_gone_is_missing(make_model):
    path = make_model(10)
    memory = played(path, 10, range(10))
    share = share_of(path, memory)
    assert share.share() == 1.0
    memory.mapped = {MIB: (OTHER, 10 * PAGE), 32 * MIB: (MODEL, 10 * PAGE)}
    memory.inside = {32 * MIB // PAGE}
    assert share.share() == 0.1, "pages of what lies there now are not the model's"
    memory.mapped = {}
    with pytest.raises(NotSeenError, match="has not mapped"):
        share.share()


def test_a_windows_that_refuses_is_a_reason(make_model):
    path = make_model(10)
    with pytest.raises(NotSeenError, match="does not tell which pages"):
        share_of(path, played(path, 10, (), refuses=True)).share()


def test_files_that_cannot_be_looked_at_are_reasons_and_the_process_is_given_back(make_model, tmp_path):
    path = make_model(1)
    memory = PlayedMemory({}, set(), {})
    with pytest.raises(NotSeenError, match="which files"):
        share_of(path, memory)
    assert memory.closed
    with pytest.raises(NotSeenError, match="cannot be looked at"):
        share_of(str(tmp_path / "gone.gguf"), memory)
    with pytest.raises(NotSeenError, match="empty"):
        share_of(make_model(0, "empty.gguf"), memory)


@given(st.sets(st.integers(0, 63)), st.integers(1, 64))
def test_the_share_is_exact_where_every_page_is_asked(tmp_path_factory, inside, pages):
    path = tmp_path_factory.mktemp("share") / "model.gguf"
    path.write_bytes(bytes(pages * PAGE))
    share = share_of(str(path), played(str(path), pages, inside))
    assert share.share() == len({page for page in inside if page < pages}) / pages


@pytest.mark.skipif(sys.platform == "win32", reason="there it is Windows")
def test_elsewhere_the_calls_say_that_this_is_not_windows(tmp_path, make_model):
    with pytest.raises(NotSeenError, match="not Windows"):
        EngineMemory(os.getpid())
    with sampler(tmp_path) as made:
        assert made.sample().model_share is None
    with contextlib.closing(Sampler(os.getpid(), (), [make_model(1)], system="win32")) as made:
        sample = made.sample()
    assert sample.model_share is None
    assert sample.reasons["model_share"] == "This is not Windows."


def test_a_sample_on_windows_says_what_the_share_leaves_out(make_model, monkeypatch):
    path = make_model(10)
    monkeypatch.setattr("app.hardware.working_set.EngineMemory", lambda pid: played(path, 10, range(5)))
    with contextlib.closing(Sampler(os.getpid(), (), [path], system="win32")) as made:
        sample = made.sample()
    assert sample.model_share == 0.5
    assert sample.reasons["model_share"] == LEAVES_OUT
