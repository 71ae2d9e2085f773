"""The processor's caches, from /sys."""

from app.hardware.caches import last_level_cache_bytes


def test_the_largest_cache_of_a_core_is_read(tmp_path):
    for index, size in enumerate(("32K", "1024K", "32768K")):
        folder = tmp_path / f"sys/devices/system/cpu/cpu0/cache/index{index}"
        folder.mkdir(parents=True)
        (folder / "size").write_text(f"{size}\n")
    assert last_level_cache_bytes(tmp_path) == 32 << 20


def test_a_system_that_does_not_tell_has_none(tmp_path):
    assert last_level_cache_bytes(tmp_path) is None
