"""The share of a file in memory is the kernel's own answer, and asking changes nothing."""

import ctypes
import mmap
import os
import resource
import time
from pathlib import Path

import pytest

from app.hardware import page_cache
from app.hardware.page_cache import EXACT_PAGES, PLACES, FileCache
from app.hardware.sources import NotSeenError

PAGE = mmap.PAGESIZE


def drop(path):
    """Have the kernel forget the file's pages; False where its file system keeps them anyway."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return share(path) == 0.0


def share(*paths):
    cache = FileCache([str(path) for path in paths])
    try:
        return cache.share()
    finally:
        cache.close()


@pytest.fixture
def make_file(tmp_path):
    def make(pages, name="model.gguf"):
        path = tmp_path / name
        with path.open("wb") as file:
            for _ in range(pages):
                file.write(bytes(PAGE))
        return path

    return make


def test_a_file_just_written_is_in_memory_and_one_that_was_dropped_is_not(make_file):
    path = make_file(64)
    assert share(path) == 1.0
    if not drop(path):
        pytest.skip("this file system keeps its pages")
    assert share(path) == 0.0


def test_asking_brings_no_page_in(make_file):
    path = make_file(64)
    if not drop(path):
        pytest.skip("this file system keeps its pages")
    before = resource.getrusage(resource.RUSAGE_THREAD)
    cache = FileCache([str(path)])
    assert [cache.share() for _ in range(5)] == [0.0] * 5
    cache.close()
    after = resource.getrusage(resource.RUSAGE_THREAD)
    assert after.ru_majflt == before.ru_majflt
    assert after.ru_inblock == before.ru_inblock


def test_a_part_that_was_read_is_counted(make_file):
    path = make_file(1000)
    if not drop(path):
        pytest.skip("this file system keeps its pages")
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)  # no reading ahead
        os.pread(file.fileno(), 250 * PAGE, 0)
    assert share(path) == pytest.approx(0.25, abs=0.02)


def test_a_large_file_is_sampled_evenly_and_almost_right(make_file, monkeypatch):
    path = make_file(3 * PLACES)
    monkeypatch.setattr(page_cache, "EXACT_PAGES", PLACES)
    if not drop(path):
        pytest.skip("this file system keeps its pages")
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        os.pread(file.fileno(), 2 * PLACES * PAGE, 0)
    cache = FileCache([str(path)])
    found = [cache.share() for _ in range(4)]
    cache.close()
    assert all(value == pytest.approx(2 / 3, abs=0.03) for value in found)


def test_the_shares_of_several_files_count_by_their_pages(make_file):
    small, large = make_file(100, "a.gguf"), make_file(300, "b.gguf")
    if not drop(large):
        pytest.skip("this file system keeps its pages")
    assert share(small, large) == 0.25


def test_a_sparse_file_of_forty_gigabytes_is_asked_quickly(tmp_path):
    path = tmp_path / "large.gguf"
    with path.open("wb") as file:
        file.truncate(40 * 1024**3)
    cache = FileCache([str(path)])
    times = []
    for _ in range(5):
        begin = time.thread_time()
        assert cache.share() == 0.0
        times.append(time.thread_time() - begin)
    cache.close()
    # Once a second: a hundredth of a core is 10 ms; the best of some is the cost.
    assert min(times) < 0.01


@pytest.mark.parametrize("name", ["gone.gguf", ""])
def test_a_file_that_cannot_be_opened_is_a_reason(tmp_path, name):
    with pytest.raises(NotSeenError, match=r"cannot be looked at|plain files"):
        FileCache([str(tmp_path / name)])


def test_an_empty_file_has_no_share(tmp_path):
    path = tmp_path / "empty.gguf"
    path.touch()
    cache = FileCache([str(path)])
    with pytest.raises(NotSeenError, match="empty"):
        cache.share()
    cache.close()


def test_a_file_of_someone_else_is_not_believed(make_file, monkeypatch):
    path = make_file(1)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(NotSeenError, match="owner"):
        FileCache([str(path)])


def test_another_system_says_that_it_is_not_measured(make_file):
    with pytest.raises(NotSeenError, match="not measured on darwin"):
        FileCache([str(make_file(1))], system="darwin")


def test_mappings_are_given_back(make_file):
    path = make_file(8)

    def mapped():
        with Path("/proc/self/maps").open(encoding="utf-8") as maps:
            return str(path) in maps.read()

    cache = FileCache([str(path)])
    assert mapped()
    cache.close()
    assert not mapped()
    with pytest.raises(NotSeenError):
        FileCache([str(path), str(path) + ".gone"])
    assert not mapped()


def test_the_mapping_may_not_even_be_read(make_file):
    path = make_file(8)
    cache = FileCache([str(path)])
    with Path("/proc/self/maps").open(encoding="utf-8") as maps:
        (line,) = [line for line in maps if str(path) in line]
    assert line.split()[1] == "---s"
    cache.close()
    assert ctypes.sizeof(ctypes.c_void_p) == 8
    assert EXACT_PAGES * PAGE <= 64 * 1024**2
