"""Whatever single file or call never returns, the probe and the samples go on in time and say what did not answer."""

import contextlib
import dataclasses
import os
import threading
import time
from pathlib import Path

import pytest
from hardware_trees import GIB, MIB, RADEON, amd_card, sampler, taken_by, write_process

from app.hardware import kernel_now, page_cache, probe, sampling
from app.hardware.facts import Ram
from app.hardware.samples import GPU_LOAD, GPU_MEMORY
from app.hardware.sampling import Sampler
from app.hardware.snapshot import read_snapshot
from app.hardware.sources import NotSeenError
from app.hardware.tree import TreePath

FOLDER = Path(__file__).parents[1] / "snapshots"
LINUX, WINDOWS = "desktop_radeon_amdgpu", "laptop_windows_nvidia_battery"
LATE = "in time"
MOST_SECONDS = 1.5


@pytest.fixture(autouse=True)
def patience():
    """The real limits: what hangs is what these tests are about."""


@pytest.fixture
def released():
    """Lets everything that hangs go when the test ends."""
    event = threading.Event()
    yield event
    event.set()


@dataclasses.dataclass
class HangingTree:
    """A tree in which whatever lies below some places is listed, and never read."""

    tree: object
    below: tuple[str, ...]
    released: threading.Event
    waited: bool = False

    def link(self, path):
        return self.tree.link(path)

    def kind(self, path):
        return self.tree.kind(path)

    def names(self, path):
        return self.tree.names(path)

    def read(self, path):
        if path.startswith(self.below):
            self.waited = True
            self.released.wait()
        return self.tree.read(path)


@dataclasses.dataclass
class HangingAnswers:
    """Answers of which some never come."""

    answers: object
    hanging: frozenset[str]
    released: threading.Event

    def ask(self, question, live, kind):
        if question in self.hanging:
            self.released.wait()
        if question == "memory pages":  # the last resort, which composed snapshots do not need
            return Ram(total_bytes=32 * GIB, available_bytes=16 * GIB)
        return self.answers.ask(question, live, kind)


def probed(name, released, *, below=(), hanging=frozenset(), seconds=0.1):
    """The machine of a snapshot, how long its probe took, and whether something was waited for."""
    snapshot = read_snapshot(FOLDER / f"{name}.json")
    sources = snapshot.sources()
    tree = HangingTree(sources.root.tree, below, released)
    answers = HangingAnswers(sources.answers, frozenset(hanging), released)
    looked = dataclasses.replace(sources, root=TreePath(tree), answers=answers, seconds=seconds)
    machine, taken = taken_by(
        lambda: probe.probe(Path(snapshot.models_folder), snapshot.gpus, snapshot.engine, looked), MOST_SECONDS
    )
    return machine, taken, tree.waited


def questions(name):
    return [(name, question) for question in read_snapshot(FOLDER / f"{name}.json").answers]


def sentences(machine):
    return [*machine.notes, *(each.why for each in machine.unseen)]


@pytest.mark.parametrize(
    "place",
    [
        "etc/os-release",
        "proc/cpuinfo",
        "proc/swaps",
        "proc/sys/kernel",
        "sys/class/dmi",
        "sys/devices/pci0000:00",
        "sys/devices/system/cpu",
        "sys/devices/system/node",
    ],
)
def test_a_kernel_file_that_never_returns_costs_the_time_given_and_is_told(place, released, monkeypatch):
    monkeypatch.setattr(probe, "COMPLETE_SECONDS", 0.1)
    machine, seconds, waited = probed(LINUX, released, below=(place,))
    assert waited, "nothing of it was read"
    assert seconds < MOST_SECONDS
    assert machine.ram.total_bytes > 0
    assert machine.gpus
    assert any(LATE in words for words in sentences(machine))


@pytest.mark.parametrize(("name", "question"), [*questions(LINUX), *questions(WINDOWS)])
def test_a_call_that_never_returns_costs_the_time_given(name, question, released):
    whole, _, _ = probed(name, released, seconds=5.0)
    machine, seconds, _ = probed(name, released, hanging={question})
    assert seconds < MOST_SECONDS
    if machine != whole:
        assert any(LATE in words for words in sentences(machine))


def test_a_hanging_card_keeps_what_the_engine_and_other_drivers_tell(released, monkeypatch):
    monkeypatch.setattr(probe, "COMPLETE_SECONDS", 5.0)
    (whole,) = probed(LINUX, released, seconds=5.0)[0].gpus
    monkeypatch.setattr(probe, "COMPLETE_SECONDS", 0.1)
    machine, _, _ = probed(LINUX, released, below=("sys/devices/pci0000:00",))
    (card,) = machine.gpus
    assert (card.name, card.total_bytes) == (whole.name, whole.total_bytes)
    assert card.pcie is None
    assert card.driver_version is None


def test_everything_hanging_at_once_is_answered_in_two_seconds_with_the_real_limits(released):
    snapshot = read_snapshot(FOLDER / f"{LINUX}.json")
    # Main memory is the one thing that there must be: what is asked last of all answers.
    snapshot_answers = set(snapshot.answers) - {"memory pages", "processor", "system"}
    sources = snapshot.sources()
    answers = HangingAnswers(sources.answers, frozenset(snapshot_answers), released)
    looked = dataclasses.replace(
        sources, root=TreePath(HangingTree(sources.root.tree, ("",), released)), answers=answers
    )
    looked = dataclasses.replace(looked, memory=released.wait)
    machine, taken = taken_by(
        lambda: probe.probe(Path(snapshot.models_folder), snapshot.gpus, snapshot.engine, looked), 2
    )
    assert taken < 2
    assert machine.ram.total_bytes == 32 * GIB
    assert sum(LATE in words for words in sentences(machine)) >= 10


# ---- samples -----------------------------------------------------------------------------------


def test_a_kernels_driver_that_never_returns_delays_one_sample_and_is_told(tmp_path, released, monkeypatch):
    amd_card(tmp_path)
    write_process(tmp_path)
    entered = threading.Event()

    def hang(*_):
        entered.set()
        released.wait()
        return ()

    monkeypatch.setattr(kernel_now, "read_cards", hang)
    with sampler(tmp_path, (RADEON,)) as made:
        first = made.sample()
        begin = time.monotonic()
        for _ in range(20):
            sample = made.sample({GPU_MEMORY, GPU_LOAD})
        # Each of them would wait; half of that is for a busy machine.
        assert time.monotonic() - begin < 10 * sampling.KERNEL_SECONDS, "it was waited for again"
        assert entered.is_set()
        assert first.engine_rss_bytes, "the others go on"
        assert sample.gpus[0].used_bytes is None
        assert LATE in sample.gpus[0].missing
        assert LATE in sample.gpu_loads[0].reasons["busy_percent"]
        released.set()
        end = time.monotonic() + 10
        while LATE in made.sample({GPU_MEMORY}).gpus[0].missing and time.monotonic() < end:
            pass
        missing = made.sample({GPU_MEMORY}).gpus[0].missing
    assert missing, "the kernel shows no cards"
    assert LATE not in missing


def test_a_model_file_on_a_disk_that_never_answers_delays_one_sample_and_is_told(tmp_path, released, monkeypatch):
    model = tmp_path / "model.gguf"
    model.write_bytes(bytes(MIB))

    def hang(_path):
        released.wait()
        raise NotSeenError("The test is over.")

    monkeypatch.setattr(page_cache, "_MappedFile", hang)
    with contextlib.closing(Sampler(os.getpid(), (), [str(model)])) as made:
        begin = time.monotonic()
        samples = [made.sample() for _ in range(20)]
        assert time.monotonic() - begin < 10 * sampling.KERNEL_SECONDS, "more than one waited"
        assert all(sample.model_share is None for sample in samples)
        assert all(LATE in sample.reasons["model_share"] for sample in samples)
        assert samples[-1].engine_rss_bytes
