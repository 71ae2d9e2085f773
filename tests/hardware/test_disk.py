"""The disk under the models' folder."""

import os

import pytest
from hardware_trees import write

from app.hardware.disk import nearest_folder, read_medium, read_space


def block_number(folder):
    number = folder.stat().st_dev
    return f"{os.major(number)}:{os.minor(number)}"


def test_a_folder_that_does_not_exist_yet_is_judged_by_its_nearest_parent(tmp_path):
    assert nearest_folder(tmp_path / "模型 models" / "new") == tmp_path
    space = read_space(tmp_path / "not" / "there")
    assert space.folder == tmp_path
    assert 0 <= space.free_bytes <= space.total_bytes


def test_a_file_in_the_way_is_no_folder(tmp_path):
    write(tmp_path, "models", "a file")
    assert nearest_folder(tmp_path / "models") == tmp_path


@pytest.mark.parametrize(("queue", "rotational"), [("1", True), ("0", False)])
def test_a_partition_spins_as_its_disk_does(tmp_path, queue, rotational):
    disk = tmp_path / "sys/devices/pci0000:00/ata1/block/sda"
    write(disk, "queue/rotational", queue)
    write(disk, "sda2/partition", 2)
    links = tmp_path / "sys/dev/block"
    links.mkdir(parents=True)
    (links / block_number(tmp_path)).symlink_to(disk / "sda2")
    assert read_medium(tmp_path, tmp_path).rotational is rotational


def test_a_virtual_disk_does_not_say_whether_it_spins(tmp_path):
    disk = tmp_path / "sys/devices/pci0000:00/virtio1/block/vda"
    write(disk, "queue/rotational", 1)
    links = tmp_path / "sys/dev/block"
    links.mkdir(parents=True)
    (links / block_number(tmp_path)).symlink_to(disk)
    assert read_medium(tmp_path, tmp_path).rotational is None


def test_a_file_system_without_a_disk_is_neither(tmp_path):
    medium = read_medium(tmp_path, tmp_path)
    assert medium.rotational is None
    assert medium.filesystem


def test_a_linked_folder_is_judged_by_where_it_leads(tmp_path):
    (tmp_path / "link").symlink_to("/proc")
    assert read_medium(tmp_path / "link", tmp_path).filesystem == "proc"
