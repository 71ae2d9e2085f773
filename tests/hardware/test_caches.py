"""The processor's caches, from /sys."""

import pytest

from app.hardware.caches import last_level_cache_bytes, read_caches
from app.hardware.facts import Cache
from app.hardware.sources import NotSeenError


def test_the_largest_cache_of_a_core_is_read(tmp_path):
    for index, size in enumerate(("32K", "1024K", "32768K")):
        folder = tmp_path / f"sys/devices/system/cpu/cpu0/cache/index{index}"
        folder.mkdir(parents=True)
        (folder / "size").write_text(f"{size}\n")
    assert last_level_cache_bytes(tmp_path) == 32 << 20


def test_a_system_that_does_not_tell_has_none(tmp_path):
    assert last_level_cache_bytes(tmp_path) is None


def write_cache(root, cpu, index, level, kind, size, shared):
    folder = root / f"sys/devices/system/cpu/cpu{cpu}/cache/index{index}"
    folder.mkdir(parents=True)
    for name, text in {"level": level, "type": kind, "size": size, "shared_cpu_list": shared}.items():
        (folder / name).write_text(f"{text}\n")


def test_a_cache_that_cores_share_counts_once_and_sizes_may_differ(tmp_path):
    (tmp_path / "sys/devices/system/cpu").mkdir(parents=True)
    (tmp_path / "sys/devices/system/cpu/online").write_text("0-2\n")
    for cpu, size in enumerate(("48K", "48K", "32K")):
        write_cache(tmp_path, cpu, 0, 1, "Data", size, cpu)
        write_cache(tmp_path, cpu, 1, 3, "Unified", "4096K", "0-2")
    assert read_caches(tmp_path) == (
        Cache(level=1, kind="data", size_bytes=48 << 10, total_bytes=128 << 10),
        Cache(level=3, kind="unified", size_bytes=4 << 20, total_bytes=4 << 20),
    )


def test_a_system_that_lists_no_caches_is_not_seen(tmp_path):
    with pytest.raises(NotSeenError):
        read_caches(tmp_path)
