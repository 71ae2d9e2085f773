"""The engine child with less main memory than its model: the same text, and an end in words where it cannot be."""

import contextlib
import os

import pytest
from engine_driver import answer, plan_for
from memory_group import MemoryGroup, drop_pages

from app.engine import protocol
from app.engine.client import EngineClient
from app.errors import AppError, ErrorCode
from app.hardware.probe import probe
from app.hardware.samples import MAIN_MEMORY
from app.hardware.sampling import Sampler

# Little beside the experts: what the process takes for itself counts, too.
SMALL = {"n_ctx": 512, "n_batch": 64, "n_ubatch": 64, "threads": 1, "threads_batch": 1}
LESS_THAN_THE_PROCESS = 48 << 20
TOKENS = 12


@pytest.fixture(scope="module")
def expected(demo_model):
    with EngineClient() as client:
        client.request(protocol.Load, protocol.Loaded, plan=plan_for(demo_model, **SMALL))
        return answer(client, max_tokens=TOKENS).text


def test_with_memory_for_three_fifths_of_the_model_it_says_the_same(demo_model, expected):
    size = demo_model.stat().st_size
    with MemoryGroup(size * 6 // 10) as group:
        drop_pages(demo_model)
        with EngineClient(group.command) as client:
            client.request(protocol.Load, protocol.Loaded, plan=plan_for(demo_model, **SMALL))
            before = client.request(protocol.ReadCache, protocol.CacheFacts)
            assert answer(client, max_tokens=TOKENS).text == expected
            after = client.request(protocol.ReadCache, protocol.CacheFacts)
            assert group.most_bytes <= size * 6 // 10
            too_much = after.memory.total_bytes
            with pytest.raises(AppError) as caught:
                client.request(protocol.SetMemory, protocol.CacheFacts, budget_bytes=too_much)
    # The engine chose a budget that fits below the limit, and reads the rest when it is needed.
    assert 0 < after.memory.resident_bytes <= after.memory.budget_bytes < size * 6 // 10
    assert after.decode.cold_bytes > before.decode.cold_bytes
    assert caught.value.code is ErrorCode.OUT_OF_MEMORY
    assert "is available now" in caught.value.message


def test_killed_for_want_of_memory_while_it_loads_it_ends_with_a_typed_error(demo_model):
    with MemoryGroup(LESS_THAN_THE_PROCESS) as group, EngineClient(group.command) as client:
        with pytest.raises(AppError) as caught:
            client.request(protocol.Load, protocol.Loaded, plan=plan_for(demo_model, **SMALL))
        with pytest.raises(AppError):
            client.send(protocol.ListDevices)
    assert caught.value.code is ErrorCode.ENGINE_CRASHED
    assert "SIGKILL" in caught.value.message
    assert "memory runs out" in caught.value.message


def test_samples_tell_what_is_available_below_a_limit_on_the_engine_alone():
    limit = 512 << 20
    with MemoryGroup(limit) as group, EngineClient(group.command) as client:
        client.request(protocol.ListDevices, protocol.Devices)
        told = []
        for pid in (client.pid, os.getpid()):
            with contextlib.closing(Sampler(pid, ())) as sampler:
                told.append(sampler.sample(frozenset((MAIN_MEMORY,))).ram_available_bytes)
    assert 0 < told[0] < limit < told[1]


def test_the_probe_counts_the_limit_on_the_engine_and_not_that_on_the_app(tmp_path):
    """As where a desktop put the app into a group of its own after it had started the engine."""
    limit = 512 << 20
    with MemoryGroup(limit) as group, EngineClient(group.command) as client:
        devices = client.request(protocol.ListDevices, protocol.Devices)
        machine = probe(tmp_path, devices.gpus, devices.build)
    assert group.folder.name in devices.build.control_groups
    assert machine.ram.total_bytes == limit
    assert machine.ram.available_bytes < limit
    assert any("on the engine's memory" in note for note in machine.notes)
    with EngineClient() as client:
        ours = client.request(protocol.ListDevices, protocol.Devices)
    assert ours.build.control_groups == ""
    assert probe(tmp_path, ours.gpus, ours.build).ram.total_bytes > limit


def test_a_limit_leaves_no_group_behind_when_the_test_in_it_fails(demo_model):
    with pytest.raises(ZeroDivisionError), MemoryGroup(1 << 30) as group:
        folder = group.folder
        client = EngineClient(group.command)
        assert str(client.pid) in (folder / "cgroup.procs").read_text().split()
        raise ZeroDivisionError
    assert not folder.exists()
    with pytest.raises(AppError) as caught:
        client.request(protocol.ListDevices, protocol.Devices, timeout=20)
    assert caught.value.code is ErrorCode.ENGINE_CRASHED
    client.close()
