"""Main memory of mapped experts through the engine child: its budget, warm-up, release, refusals and facts."""

import shutil
import sys
import time
from pathlib import Path

import gguf
import psutil
import pytest
from engine_driver import GREEDY, QUESTION, answer, plan_for
from memory_group import drop_pages
from requantised import requantise

from app.engine import protocol
from app.engine.client import EngineClient
from app.errors import AppError, ErrorCode
from app.library.demo import build_demo

MIB = 1024**2
ALONE = {"threads": 1, "threads_batch": 1}  # threads wait for one another where others compute, too
BUDGET = 100 * MIB  # a quarter of the demo's experts
LAYERS = 30
EXPERTS = 8


@pytest.fixture(scope="module")
def expected(demo_model):
    """What the model says with all in memory."""
    with EngineClient() as client:
        client.request(protocol.Load, protocol.Loaded, plan=plan_for(demo_model, **ALONE))
        return answer(client).text


@pytest.fixture(scope="module")
def budgeted(demo_model):
    """A child with the demo model and a budget from its plan."""
    with EngineClient() as client:
        loaded = client.request(
            protocol.Load, protocol.Loaded, plan=plan_for(demo_model, **ALONE, resident_bytes=BUDGET)
        )
        assert loaded.differences == ()
        yield client


def facts(client, request=protocol.ReadCache, **fields):
    return client.request(request, protocol.CacheFacts, **fields)


def set_to(client, budget):
    return facts(client, protocol.SetMemory, budget_bytes=budget).memory


def refused(client, request, **fields):
    with pytest.raises(AppError) as caught:
        facts(client, request, **fields)
    return caught.value


def mapped_in_memory(client, path) -> int:
    """Bytes of the model file that are in memory and mapped by the child, as the system tells."""
    return sum(its.rss for its in psutil.Process(client.pid).memory_maps() if Path(its.path) == path)


def wait_until(client, path, wanted):
    """Wait until the bytes of the file in memory are as `wanted` says."""
    deadline = time.monotonic() + 60
    while not wanted(found := mapped_in_memory(client, path)):
        assert time.monotonic() < deadline, f"{found:,} bytes of the file are in memory"


def test_a_plans_budget_is_kept_while_it_answers_and_the_text_is_the_same(budgeted, expected):
    set_to(budgeted, BUDGET)
    before = facts(budgeted)
    assert answer(budgeted).text == expected
    after = facts(budgeted)
    assert after.memory.budget_bytes == BUDGET
    assert 0 < after.memory.resident_bytes <= BUDGET < after.memory.total_bytes
    assert after.memory.reads
    cold = [getattr(after.decode, name) - getattr(before.decode, name) for name in ("cold_experts", "cold_reads")]
    assert all(count > 0 for count in cold)
    letters = "".join(layer.memory for layer in after.layers.values())
    assert len(letters) == LAYERS * EXPERTS
    share = after.memory.resident_bytes / after.memory.total_bytes
    assert letters.count("r") / len(letters) == pytest.approx(share, abs=0.02)


def test_from_the_load_on_a_budget_holds_where_the_engine_chooses(demo_model):
    """Nobody can ask in between: until the load is over there is no model to ask of."""
    with EngineClient() as client:
        client.request(protocol.Load, protocol.Loaded, plan=plan_for(demo_model, **ALONE, resident_bytes=None))
        told = facts(client).memory
        assert 0 < told.budget_bytes <= told.total_bytes
        assert told.resident_bytes <= told.budget_bytes
        assert told.reason == ""
        assert set_to(client, BUDGET).budget_bytes == BUDGET
        again = set_to(client, None)
        assert BUDGET < again.budget_bytes <= again.total_bytes, "what fits now is chosen as at the load"


def test_a_budget_is_changed_while_it_answers(budgeted, expected):
    set_to(budgeted, BUDGET)
    request = budgeted.send(protocol.Generate, messages=QUESTION, sampling=GREEDY, max_tokens=24)
    orders = iter([BUDGET // 2, 2 * BUDGET, 0, BUDGET])
    asked, told = {}, []
    while True:
        event = budgeted._take(120)  # both requests' events, as they come
        if isinstance(event, protocol.CacheFacts):
            told.append((asked[event.id], event.memory.budget_bytes if event.memory else 0))
        elif isinstance(event, protocol.Token) and (budget := next(orders, None)) is not None:
            asked[budgeted.send(protocol.SetMemory, budget_bytes=budget)] = budget
        elif isinstance(event, protocol.Finished):
            break
        assert not isinstance(event, protocol.Failed)
    assert event.id == request
    assert event.text == expected
    while len(told) < 4:
        event = budgeted._take(20)
        told.append((asked[event.id], event.memory.budget_bytes if event.memory else 0))
    # Where the system decided until now, a budget may not hold yet.
    assert [its for its in told if its != (BUDGET, 0)] == [(b, b) for b in (BUDGET // 2, 2 * BUDGET, 0, BUDGET)][
        : 3 if (BUDGET, 0) in told else 4
    ]
    assert facts(budgeted).memory.budget_bytes == BUDGET


def test_more_than_all_experts_is_all_of_them_and_then_nothing_is_read(demo_model, expected):
    with EngineClient() as client:
        client.request(protocol.Load, protocol.Loaded, plan=plan_for(demo_model, **ALONE, resident_bytes=BUDGET))
        told = set_to(client, 1 << 40 if psutil.virtual_memory().available > 1 << 40 else 2000 * MIB)
        assert told.budget_bytes == told.total_bytes
        answer(client)  # the warm-up of the rest may still run
        before = facts(client)
        assert answer(client).text == expected
        after = facts(client)
        assert after.memory.resident_bytes == after.memory.total_bytes
        assert after.decode.cold_reads == before.decode.cold_reads


@pytest.fixture
def own_copy(demo_model, tmp_path):
    """The demo in a file that no other process has mapped: pages that two have are given up by neither."""
    path = tmp_path / "own.gguf"
    shutil.copy(demo_model, path)
    drop_pages(path)
    yield path
    path.unlink()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only there the system tells what is in memory")
def test_what_is_released_leaves_main_memory_and_after_a_warm_up_less_is_read(own_copy):
    with EngineClient() as client:
        client.request(protocol.Load, protocol.Loaded, plan=plan_for(own_copy, **ALONE, resident_bytes=3 * BUDGET))
        answer(client)  # what is hot is known now
        full = mapped_in_memory(client, own_copy)
        released = facts(client, protocol.ReleaseMemory).memory
        assert (released.budget_bytes, released.resident_bytes) == (3 * BUDGET, 0)
        wait_until(client, own_copy, lambda found: found < full - 2 * BUDGET)
        cold = cold_bytes_of_a_token(client)
        assert cold > 2 * LAYERS * MIB  # two experts in each layer: all that a token needs
        facts(client, protocol.ReleaseMemory)
        wait_until(client, own_copy, lambda found: found < full - 2 * BUDGET)
        warmed = facts(client, protocol.WarmMemory).memory
        assert 2 * BUDGET < warmed.resident_bytes <= 3 * BUDGET
        # Not all of it: the system may take some back meanwhile.
        wait_until(client, own_copy, lambda found: found > 2 * BUDGET)
        assert cold_bytes_of_a_token(client) < cold / 2


def cold_bytes_of_a_token(client) -> int:
    """What one token reads: of a prompt that was answered before, only the last token is computed."""
    before = facts(client)
    assert answer(client, max_tokens=1).reused_tokens > 0
    after = facts(client)
    return after.decode.cold_bytes + after.prompt.cold_bytes - before.decode.cold_bytes - before.prompt.cold_bytes


def test_a_budget_stays_when_the_pool_is_resized(demo_model, expected):
    plan = plan_for(demo_model, **ALONE, pool_device="CPU", pool_bytes=64 * MIB, resident_bytes=BUDGET)
    with EngineClient() as client:
        client.request(protocol.Load, protocol.Loaded, plan=plan)
        for size in (128 * MIB, 0, 64 * MIB):
            told = facts(client, protocol.SetPool, pool_bytes=size)
            assert told.memory.budget_bytes == BUDGET
            assert told.memory.resident_bytes <= BUDGET
        assert answer(client).text == expected
        assert facts(client).memory.budget_bytes == BUDGET


def test_left_to_the_system_there_are_no_facts_and_nothing_to_warm_up(demo_model, expected):
    with EngineClient() as client:
        client.request(protocol.Load, protocol.Loaded, plan=plan_for(demo_model, **ALONE, resident_bytes=0))
        told = facts(client)
        assert told.memory is None
        assert {layer.memory for layer in told.layers.values()} == {""}
        assert "only within a budget" in refused(client, protocol.WarmMemory).message
        assert facts(client, protocol.ReleaseMemory).memory is None
        assert answer(client).text == expected


# ---- refusals ------------------------------------------------------------------------------------

ORDERS = ((protocol.SetMemory, {"budget_bytes": MIB}), (protocol.WarmMemory, {}), (protocol.ReleaseMemory, {}))


@pytest.mark.parametrize(("request_type", "fields"), ORDERS)
def test_without_a_model_every_order_is_refused(request_type, fields):
    with EngineClient() as client:
        client.request(protocol.Unload, protocol.Unloaded)
        error = refused(client, request_type, **fields)
    assert error.code is ErrorCode.ENGINE_FAILED
    assert error.message == "No model is loaded."


@pytest.fixture(scope="module")
def repackable(tmp_path_factory):
    """A small demo with all experts in a type that the processor has a faster layout for."""
    small = build_demo(tmp_path_factory.mktemp("repackable") / "small.gguf", experts=2, used=1).path
    path = small.with_name("repackable.gguf")
    requantise(small, path, lambda name: "_exps." in name, gguf.GGMLQuantizationType.Q4_0)
    return path


def test_experts_that_were_copied_have_no_budget(repackable):
    with EngineClient() as client:
        plan = plan_for(repackable, **ALONE, residency="repacked", resident_bytes=BUDGET)
        loaded = client.request(protocol.Load, protocol.Loaded, plan=plan)
        if "repacked" not in {its.part for its in loaded.buffers} and not any(
            "faster layout" in its for its in loaded.differences
        ):
            pytest.skip("this processor has no faster layout for Q4_0")
        assert any(
            "100.0 MiB of main memory for mapped experts; the experts were copied" in its for its in loaded.differences
        )
        for request_type, fields in ORDERS:
            error = refused(client, request_type, **fields)
            assert error.code is ErrorCode.BAD_USAGE
            assert "faster layout" in error.message
        assert facts(client).memory is None


def test_budgets_that_cannot_be_are_refused_and_the_one_before_stays(budgeted):
    set_to(budgeted, BUDGET)
    error = refused(budgeted, protocol.SetMemory, budget_bytes=-1)
    assert error.code is ErrorCode.BAD_USAGE
    assert "-1 bytes" in error.message
    assert facts(budgeted).memory.budget_bytes == BUDGET


def test_a_plan_with_a_negative_budget_is_refused(demo_model):
    with EngineClient() as client, pytest.raises(AppError) as caught:
        client.request(protocol.Load, protocol.Loaded, plan=plan_for(demo_model, **ALONE, resident_bytes=-5))
    assert caught.value.code is ErrorCode.BAD_USAGE
