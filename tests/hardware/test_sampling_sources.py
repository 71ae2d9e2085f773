"""A sample reads what is wanted and nothing else; what Windows and the page cache add to it."""

import contextlib
import os
import time

import pytest
from hardware_trees import (
    GEFORCE,
    GIB,
    MIB,
    PID,
    RADEON,
    PlayedNvml,
    amd_card,
    first_answer,
    sampler,
    write_process,
)

from app.hardware.dxgi import Adapter
from app.hardware.samples import GPU_MEMORY, PROCESS
from app.hardware.sampling import GpuSample, Sampler
from app.hardware.sources import NotSeenError
from app.hardware.windows_gpu import CARD_DEDICATED, CARD_SHARED, PROGRAM_DEDICATED, PROGRAM_SHARED, GpuCounters


def test_only_what_is_wanted_is_read(tmp_path):
    write_process(tmp_path)
    amd_card(tmp_path)

    def not_wanted():
        raise AssertionError("main memory was not asked for")

    with sampler(tmp_path, (RADEON,), machine_memory=not_wanted) as made:
        engine = made.sample({PROCESS})
        cards = made.sample({GPU_MEMORY})
        nothing = made.sample(set())
    assert engine.engine_rss_bytes
    assert engine.gpus == ()
    assert cards.engine_rss_bytes is None
    assert cards.gpus[0].used_bytes == 3 * GIB
    assert nothing.engine_rss_bytes is nothing.ram_available_bytes is None
    assert engine.missing == cards.missing == nothing.missing == ()


def test_a_driver_is_not_asked_for_a_sample_without_gpus(tmp_path):
    write_process(tmp_path)
    played = PlayedNvml()
    with sampler(tmp_path, (GEFORCE,), nvml=lambda: played) as made:
        made.sample({PROCESS})
        assert not played.entered.is_set()
        first_answer(made)
        assert played.entered.is_set()


@pytest.mark.parametrize(
    ("gone", "figure"), [("status", "engine_peak_bytes"), ("io", "engine_read_bytes")], ids=["peak", "reads"]
)
def test_a_file_of_the_process_that_may_not_be_read_leaves_the_other_figures(tmp_path, gone, figure):
    write_process(tmp_path)
    (tmp_path / f"proc/{PID}/{gone}").unlink()
    with sampler(tmp_path) as made:
        sample = made.sample()
    assert getattr(sample, figure) is None
    assert sample.reasons[figure]
    assert sample.engine_rss_bytes
    assert len(sample.missing) == 1


def test_what_other_programs_use_is_what_the_engine_does_not():
    card = GpuSample(device="CUDA0", used_bytes=5 * GIB, process_bytes=2 * GIB, source="a test")
    assert card.others_bytes == 3 * GIB
    assert GpuSample(device="CUDA0", used_bytes=5 * GIB, source="a test").others_bytes is None
    lying = GpuSample(device="CUDA0", used_bytes=1 * GIB, process_bytes=2 * GIB, source="a test")
    assert lying.others_bytes == 0


def test_the_share_of_the_model_file_in_memory_is_sampled_at_most_once_a_second(tmp_path):
    model = tmp_path / "model.gguf"
    model.write_bytes(bytes(MIB))
    with contextlib.closing(Sampler(os.getpid(), (), [str(model)])) as made:
        assert made.sample().model_share == 1.0
        model.write_bytes(b"")  # who looks again at the mapping finds no page of it
        assert made.sample().model_share == 1.0
        assert made.sample({PROCESS}).model_share is None


def test_a_model_file_that_is_not_there_is_none_with_a_reason(tmp_path):
    with contextlib.closing(Sampler(os.getpid(), (), [str(tmp_path / "gone.gguf")])) as made:
        sample = made.sample()
    assert sample.model_share is None
    assert "gone.gguf" in sample.reasons["model_share"]


def test_without_a_model_nothing_is_said_of_its_file():
    with contextlib.closing(Sampler(os.getpid(), ())) as made:
        sample = made.sample()
    assert sample.model_share is None
    assert "model_share" not in sample.reasons


# ---- Windows, as far as it can be played -------------------------------------------------------------


def windows_counters(shared=700 * MIB):
    """Counters as Windows names them: the engine (PID) and a browser on one card."""
    card, engine, browser = (f"{pid}luid_0x00000000_0x0000D2A1_phys_0" for pid in ("", f"pid_{PID}_", "pid_77_"))
    return GpuCounters(
        adapters=(Adapter(GEFORCE.name, 0xD2A1, 0x10DE, 12 * GIB, 16 * GIB, False),),
        read=lambda: {
            CARD_DEDICATED: {card: 7 * GIB},
            CARD_SHARED: {card: 900 * MIB},
            PROGRAM_DEDICATED: {engine: 4 * GIB, browser: 1 * GIB},
            PROGRAM_SHARED: {engine: shared, browser: 200 * MIB},
        },
        close=lambda: None,
    )


def test_on_windows_the_counters_complete_what_the_driver_says(tmp_path):
    played = PlayedNvml(told_process=NotSeenError("Not by program."))
    fields = {"nvml": lambda: played, "counters": windows_counters, "system": "win32"}
    with sampler(tmp_path, (GEFORCE,), **fields) as made:
        end = time.monotonic() + 10
        while (sample := first_answer(made)).shared_bytes is None and time.monotonic() < end:
            pass
    assert sample.used_bytes == 2 * GIB, "the driver's own figure is not replaced"
    assert (sample.process_bytes, sample.shared_bytes) == (4 * GIB, 700 * MIB)
    assert sample.missing == ""


def test_windows_without_counters_leaves_what_the_driver_says(tmp_path):
    def missing():
        raise NotSeenError("This Windows has no performance counters of GPUs.")

    with sampler(tmp_path, (GEFORCE,), nvml=PlayedNvml, counters=missing, system="win32") as made:
        sample = first_answer(made)
    assert sample.process_bytes == 1 * GIB
    assert sample.shared_bytes is None


def test_on_windows_other_makers_cards_are_read_from_the_counters_or_say_why_not(tmp_path):
    def missing():
        raise NotSeenError("This Windows has no performance counters of GPUs.")

    with sampler(tmp_path, (RADEON,), counters=missing, system="win32") as made:
        sample = first_answer(made)
    assert sample.used_bytes is None
    assert "performance counters" in sample.missing
