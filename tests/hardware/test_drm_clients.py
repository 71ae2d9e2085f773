"""What the engine holds on a card, from the kernel's words about its open files."""

import os
from pathlib import Path

import pytest
from hardware_trees import GIB, MIB, PID, RADEON, amd_card, gpu, sampler, write, write_process

from app.hardware.drm_clients import LISTED_SECONDS, DrmClients
from app.hardware.facts import GpuKind
from app.hardware.sources import NotSeenError

CARD = "0000:03:00.0"
# As Linux 6.8 writes it for amdgpu, other lines aside.
AMDGPU = """pos:\t0
flags:\t02100002
drm-driver:\tamdgpu
drm-client-id:\t{client}
drm-pdev:\t{card}
drm-memory-vram:\t{vram} KiB
drm-memory-gtt: \t{gtt} KiB
drm-memory-cpu: \t0 KiB
drm-engine-compute:\t0 ns"""


def open_file(root, number, target, text=""):
    folder = root / f"proc/{PID}/fd"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / str(number)).symlink_to(target)
    write(root, f"proc/{PID}/fdinfo/{number}", text)


def open_card(root, number, client=7, card=CARD, vram=2 * MIB, gtt=MIB):
    words = AMDGPU.format(client=client, card=card, vram=vram, gtt=gtt)
    open_file(root, number, "/dev/dri/renderD128", words)


def test_a_client_counts_once_however_often_its_file_is_open_and_other_files_do_not_count(tmp_path):
    open_card(tmp_path, 3)
    open_card(tmp_path, 4)
    open_card(tmp_path, 5, client=8, vram=1024)
    open_card(tmp_path, 6, client=9, card="0000:09:00.0")
    open_file(tmp_path, 7, "/dev/null", AMDGPU.format(client=10, card=CARD, vram=5, gtt=5))
    clients = DrmClients(tmp_path, PID)
    assert clients.bytes_on(CARD, ("vram",)) == 2 * GIB + MIB
    assert clients.bytes_on(CARD, ("vram", "gtt")) == 2 * GIB + GIB + MIB + GIB


def test_what_is_resident_counts_before_what_was_asked_for(tmp_path):
    words = f"drm-pdev: {CARD}\ndrm-client-id: 1\ndrm-total-vram: 9 GiB\ndrm-resident-vram: 3 GiB"
    open_file(tmp_path, 3, "/dev/dri/card1", words)
    assert DrmClients(tmp_path, PID).bytes_on(CARD, ("vram",)) == 3 * GIB


@pytest.mark.parametrize("words", ["", f"drm-pdev: {CARD}", f"drm-pdev: {CARD}\ndrm-resident-vram: much KiB"])
def test_words_without_sizes_are_not_zero(tmp_path, words):
    open_file(tmp_path, 3, "/dev/dri/renderD128", words)
    with pytest.raises(NotSeenError):
        DrmClients(tmp_path, PID).bytes_on(CARD, ("vram",))


def test_a_process_that_may_not_be_looked_at_is_not_zero(tmp_path):
    with pytest.raises(NotSeenError):
        DrmClients(tmp_path, PID).bytes_on(CARD, ("vram",))
    open_card(tmp_path, 3)
    with pytest.raises(NotSeenError):
        DrmClients(tmp_path, PID).bytes_on(None, ("vram",))


def test_a_sample_of_an_amd_card_has_the_engines_share(tmp_path):
    amd_card(tmp_path)
    write_process(tmp_path)
    open_card(tmp_path, 3)
    with sampler(tmp_path, (RADEON,)) as made:
        (sample,) = made.sample().gpus
    assert (sample.used_bytes, sample.process_bytes, sample.others_bytes) == (3 * GIB, 2 * GIB, 1 * GIB)
    assert sample.missing == ""


def test_main_memory_counts_for_a_gpu_in_the_processor(tmp_path):
    amd_card(tmp_path)
    open_card(tmp_path, 3, vram=MIB, gtt=20 * 1024)
    with sampler(tmp_path, (gpu("AMD Radeon 780M", kind=GpuKind.INTEGRATED),)) as made:
        (sample,) = made.sample().gpus
    assert sample.process_bytes == 1 * GIB + 20 * MIB


def test_rocm_allocates_beside_these_files_and_is_not_believed(tmp_path):
    amd_card(tmp_path)
    open_card(tmp_path, 3)
    with sampler(tmp_path, (gpu(RADEON.name, "ROCm0"),)) as made:
        (sample,) = made.sample().gpus
    assert sample.process_bytes is None
    assert sample.missing


def test_this_process_has_no_card_open():
    with pytest.raises(NotSeenError):
        DrmClients(Path("/"), os.getpid()).bytes_on(CARD, ("vram",))


def test_open_files_are_looked_through_at_times_and_what_is_held_each_time(tmp_path):
    now = [0.0]
    open_card(tmp_path, 3)
    clients = DrmClients(tmp_path, PID, lambda: now[0])
    assert clients.bytes_on(CARD, ("vram",)) == 2 * GIB
    write(tmp_path, f"proc/{PID}/fdinfo/3", AMDGPU.format(client=7, card=CARD, vram=MIB, gtt=0))
    open_card(tmp_path, 4, client=8)
    assert clients.bytes_on(CARD, ("vram",)) == 1 * GIB
    now[0] = LISTED_SECONDS
    assert clients.bytes_on(CARD, ("vram",)) == 3 * GIB
    write(tmp_path, f"proc/{PID}/fdinfo/4", "pos: 0")  # the number is another file's now
    assert clients.bytes_on(CARD, ("vram",)) == 1 * GIB
