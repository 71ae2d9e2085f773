"""Programs that hold memory of a card, from the kernel's account of their open files."""

import sys

import pytest
from hardware_trees import MIB, write

from app.hardware.gpu_programs import program_name, read_kernel_programs

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="such files are of Linux")
CARD, OTHER = "0000:03:00.0", "0000:04:00.0"


def open_card(root, pid, **sizes):
    """A program with `CARD` open."""
    (root / f"proc/{pid}/fd").mkdir(parents=True)
    (root / f"proc/{pid}/fd/5").symlink_to("/dev/dri/renderD128")
    lines = [f"drm-pdev:\t{CARD}", "drm-client-id:\t7"]
    lines += [f"drm-resident-{heap}:\t{mib * 1024} KiB" for heap, mib in sizes.items()]
    write(root, f"proc/{pid}/fdinfo/5", "\n".join(lines))


def held(root):
    return [
        (use.pid, use.pci_id, use.own_bytes, use.shared_bytes)
        for use in read_kernel_programs(root / "proc", (CARD, OTHER))
    ]


def test_programs_are_listed_by_what_they_hold_whatever_their_driver_calls_it(tmp_path):
    open_card(tmp_path, 41, vram=100, gtt=5)
    open_card(tmp_path, 42, vram0=300)
    open_card(tmp_path, 43, system0=200)
    assert held(tmp_path) == [
        (42, CARD, 300 * MIB, 0),
        (43, CARD, 0, 200 * MIB),
        (41, CARD, 100 * MIB, 5 * MIB),
    ]


def test_programs_without_a_card_or_without_memory_on_it_are_left_out(tmp_path):
    open_card(tmp_path, 41, vram=0)
    (tmp_path / "proc/42/fd").mkdir(parents=True)
    (tmp_path / "proc/42/fd/0").symlink_to("/dev/null")
    (tmp_path / "proc/43").mkdir()
    assert held(tmp_path) == []


def test_a_program_that_is_gone_is_named_by_its_number():
    assert program_name(2**31 - 1) == f"process {2**31 - 1}"
