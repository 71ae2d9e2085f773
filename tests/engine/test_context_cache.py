"""The expert cache of a loaded model: orders reach the device, and what it tells is told truly."""

import pytest
from engine_driver import plan_for
from fake_device import EXPERT_BYTES, FakeDevice

from app.engine.cache import Result
from app.engine.cache_types import PoolStruct, TokenStruct, TotalsStruct
from app.engine.context_cache import ContextCache, without_pool
from app.engine.profiles import ProfileStore
from app.errors import AppError, ErrorCode
from app.model import read_expert_tensors, read_facts
from app.placement.cache.trace import read_trace
from app.placement.plan import CachePolicy, ExpertPin

CYCLE = 2 * 3 * EXPERT_BYTES
ENOUGH = PoolStruct(requested=9000, allocated=9000, staging=80, slots=9, resident=4)


def pinned(layer, expert, pin="gpu"):
    return ExpertPin(layer=layer, expert=expert, pin=pin)


@pytest.fixture
def device():
    return FakeDevice()


@pytest.fixture
def cache_for(device, demo_model):
    def make(profile=None, **changes):
        changes = {"gpu": "Vulkan0", **changes}
        plan = plan_for(demo_model, **changes)
        cache = ContextCache(device, 7, plan, read_facts(demo_model), profile)
        cache.prepare(plan, read_expert_tensors(demo_model))
        return cache

    return make


def refused(order, *arguments) -> str:
    with pytest.raises(AppError) as caught:
        order(*arguments)
    assert caught.value.code is ErrorCode.BAD_USAGE
    return caught.value.message


def test_a_plan_is_carried_out_with_the_pool_last_so_that_it_is_filled_by_heat_and_pins(
    cache_for, device, demo_model, tmp_path
):
    facts = read_facts(demo_model)
    saved = ProfileStore(tmp_path, facts.fingerprint)
    saved.save({3: (0.0, 2.0, 0.0, 1.0), 5: (1.0, 2.0)})
    policy = CachePolicy(kind="decay")
    cache_for(saved, pool_bytes=9000, staging_bytes=80, policy=policy, pins=(pinned(2, 1), pinned(0, 1)))
    told = [call for call in device.told if call[0] != "add_source"]
    assert told == [
        ("set_policy", 7, policy),
        ("set_heat", 7, 3, (0.0, 2.0, 0.0, 1.0)),  # layer 5 has as many experts no longer
        ("set_pins", 7, (pinned(2, 1),)),  # layer 0 is none of the device's
        ("set_resident", 7, 3 * 4 * EXPERT_BYTES),  # all of them: the machine has more than that
        ("set_layer_device", 7, "Vulkan0"),
        ("set_pool", 7, "Vulkan0", 9000, 80),
    ]
    sources = [call for call in device.told if call[0] == "add_source"]
    assert device.told[: len(sources)] == sources
    assert sum(call[5] for call in sources) == facts.bytes.experts


def test_without_a_pool_in_the_plan_none_is_set_and_none_is_told_of(cache_for, device):
    cache = cache_for()
    assert "set_pool" not in device.names()
    told = cache.pool_facts()
    assert (told.device, told.requested_bytes, told.allocated_bytes, told.used) == ("Vulkan0", 0, 0, False)
    assert told.reason == "No pool was asked for."


def test_the_pools_own_device_goes_before_the_attentions(cache_for, device):
    cache_for(pool_device="CPU", pool_bytes=9000)
    assert ("set_pool", 7, "CPU", 9000, 0) in device.told


def test_without_a_gpu_a_pool_is_refused_and_no_pool_is_told_of(cache_for):
    cache = cache_for(gpu=None)
    assert cache.pool_facts() is None
    assert "without a GPU" in refused(cache.set_pool, 9000, 0)


def test_a_model_without_experts_on_the_cpu_has_nothing_for_a_pool(cache_for, device):
    device.layer_structs = []
    cache = cache_for(pool_bytes=9000)
    assert "set_pool" not in device.names()
    assert "No experts" in refused(cache.set_pool, 9000, 0)
    assert "No experts are on the CPU" in cache.report(cache.sums()).reason


def test_impossible_orders_are_refused_before_the_device_is_asked(cache_for, device):
    cache = cache_for()
    before = len(device.told)
    assert "-1 bytes" in refused(cache.set_pool, -1, 0)
    assert "layers that have: 2, 3, 5" in refused(cache.set_pins, (pinned(2, 0), pinned(4, 0)))
    assert "no expert 4" in refused(cache.set_pins, (pinned(2, 4),))
    assert "lru, decay" in refused(cache.set_policy, CachePolicy(kind="best"))
    assert len(device.told) == before
    assert cache.facts(experts=False, since=0).policy == CachePolicy()


def test_a_new_policy_is_told_from_then_on(cache_for):
    cache = cache_for()
    cache.set_policy(CachePolicy(kind="frozen"))
    assert cache.facts(experts=False, since=0).policy.kind == "frozen"


def test_a_pool_is_used_only_by_hits_since_it_was_set(cache_for, device):
    device.pool_struct = ENOUGH
    device.decode = TotalsStruct(hits=50, misses=10)
    cache = cache_for(pool_bytes=9000)
    assert not cache.pool_facts().used
    device.decode = TotalsStruct(hits=51, misses=20)
    told = cache.pool_facts()
    assert (told.used, told.reason) == (True, "")
    assert (told.allocated_bytes, told.staging_bytes, told.slots, told.resident) == (9000, 80, 9, 4)


def answered(cache, device, hits, misses, **more):
    before = cache.sums()
    was = device.decode
    device.decode = TotalsStruct(hits=was.hits + hits, misses=was.misses + misses, **more)
    return cache.report(before)


def test_an_answers_report_counts_that_answer_alone(cache_for, device):
    device.pool_struct = ENOUGH
    device.decode = TotalsStruct(hits=1000, misses=1000, streamed=0)
    cache = cache_for(pool_bytes=9000)
    report = answered(cache, device, 30, 12, streamed=5, inserted_bytes=700, streamed_bytes=50)
    assert (report.hits, report.misses, report.streamed, report.copied_bytes) == (30, 12, 5, 750)
    assert (report.requested_bytes, report.allocated_bytes) == (9000, 9000)
    assert (report.used, report.reason) == (True, "")


@pytest.mark.parametrize(
    ("pool", "policy", "hits", "misses", "words"),
    [
        (PoolStruct(result=7, reason=b"Vulkan0 refused 9,000 bytes."), "lru", 0, 60, "Vulkan0 refused 9,000 bytes."),
        (PoolStruct(result=5), "lru", 0, 60, "no pool on Vulkan0: the device is not there"),
        (PoolStruct(result=99), "lru", 0, 60, "result 99"),
        (PoolStruct(), "lru", 0, 60, "no room for a single expert"),
        (PoolStruct(allocated=CYCLE - 1), "lru", 0, 60, "would help"),
        (ENOUGH, "lru", 0, 60, "All 60 experts routed to in this answer were missing"),
        (ENOUGH, "lru", 0, 0, "No expert was routed to in this answer."),
        (PoolStruct(allocated=9000), "manual", 0, 60, "none is pinned"),
    ],
)
def test_an_unused_pool_says_why(cache_for, device, pool, policy, hits, misses, words):
    device.pool_struct = pool
    cache = cache_for(pool_bytes=9000, policy=CachePolicy(kind=policy))
    report = answered(cache, device, hits, misses)
    assert not report.used
    assert words in report.reason


def test_a_pool_below_one_token_cycle_says_so_even_where_it_is_hit(cache_for, device):
    device.pool_struct = PoolStruct(requested=3500, allocated=3000, slots=3, resident=3)
    cache = cache_for(pool_bytes=3500)
    report = answered(cache, device, 3, 57)
    assert report.used
    assert "would help" in report.reason
    # Pinned or frozen experts do not push one another out: for them any size may do.
    cache.set_policy(CachePolicy(kind="frozen"))
    assert answered(cache, device, 3, 57).reason == ""


def test_hits_of_a_pool_that_has_failed_since_are_no_use(cache_for, device):
    device.pool_struct = PoolStruct(allocated=9000, result=Result.DEVICE_FAILED, reason=b"Vulkan0 was lost.")
    cache = cache_for(pool_bytes=9000)
    report = answered(cache, device, 10, 50)
    assert (report.used, report.reason) == (False, "Vulkan0 was lost.")


def test_a_device_that_cannot_even_be_asked_of_its_pool_leaves_the_orders_result(cache_for, device):
    device.no_pool_facts = True
    device.answers["set_layer_device"] = Result.NO_DEVICE
    cache = cache_for(pool_bytes=9000)
    assert "set_pool" not in device.names()
    told = cache.pool_facts()
    assert (told.requested_bytes, told.allocated_bytes, told.used) == (9000, 0, False)
    assert "not there or cannot be started" in told.reason


def test_a_pool_of_no_bytes_is_a_release(cache_for, device):
    device.pool_struct = ENOUGH
    cache = cache_for(pool_bytes=9000)
    device.pool_struct = PoolStruct()
    cache.set_pool(0, 0)
    told = cache.pool_facts()
    assert (told.requested_bytes, told.allocated_bytes, told.used, told.reason) == (
        0,
        0,
        False,
        "No pool was asked for.",
    )


def test_every_expert_is_told_with_its_count_heat_lane_and_pin(cache_for, device):
    device.heat[2] = (3.25, 0, 0.5, 0)
    device.lane[2] = (1, 0, 2, 0)
    device.pin[2] = (0, 2, 1, 0)
    layers = cache_for().facts(experts=True, since=0).layers
    assert set(layers) == {2, 3, 5}
    told = layers[2]
    assert (told.routed, told.heat, told.slots) == ((5, 0, 1, 0), (3.25, 0.0, 0.5, 0.0), 1)
    assert (told.lanes, told.pins) == ("gcmc", "acga")
    assert cache_for().facts(experts=False, since=0).layers == {}


def test_sums_are_told_in_seconds_and_copies_together(cache_for, device):
    device.prompt = TotalsStruct(
        tokens=5, layers=15, inserted_bytes=30, streamed_bytes=4, total_ns=2_000_000_000, cpu_ns=1_500_000_000
    )
    told = cache_for().facts(experts=False, since=0)
    assert (told.prompt.tokens, told.prompt.layers, told.prompt.copied_bytes) == (5, 15, 34)
    assert (told.prompt.seconds, told.prompt.cpu_seconds) == (2.0, 1.5)
    assert told.decode.tokens == 0


def test_batches_are_told_once_and_from_the_start_after_another_model(cache_for, device):
    device.tokens = [TokenStruct(index=index, tokens=1, phase=1, hits=index) for index in range(3)]
    cache = cache_for()
    first = cache.facts(experts=False, since=0)
    assert ([batch.index for batch in first.batches], first.next_batch) == ([0, 1, 2], 3)
    assert (first.batches[2].hits, first.batches[2].prompt) == (2, False)
    again = cache.facts(experts=False, since=first.next_batch)
    assert (again.batches, again.next_batch) == ((), 3)
    device.tokens.append(TokenStruct(index=3, tokens=17, phase=0))
    [newer] = cache.facts(experts=False, since=3).batches
    assert (newer.tokens, newer.prompt) == (17, True)
    elsewhere = cache.facts(experts=False, since=5000)
    assert [batch.index for batch in elsewhere.batches] == [0, 1, 2, 3]


def test_a_trace_is_written_until_it_is_ended_and_says_of_what(cache_for, device, tmp_path, demo_model):
    cache = cache_for()
    path = tmp_path / "routing.trace"
    assert cache.set_trace(str(path)).entries == 0
    device.recorded = [(0, 2, 1, 0.5), (0, 2, 3, 0.25), (1, 5, 0, 1.0)]
    ended = cache.set_trace("")
    assert (ended.path, ended.entries, ended.dropped) == ("", 3, 0)
    trace = read_trace(path)
    assert trace.entries.tolist() == [(0, 2, 1, 0.5), (0, 2, 3, 0.25), (1, 5, 0, 1.0)]
    assert trace.header.fingerprint == read_facts(demo_model).fingerprint
    assert (trace.header.experts, trace.header.experts_used) == ({2: 4, 3: 4, 5: 4}, 2)
    assert device.told[-1] == ("set_trace", 7, 0)


def test_closing_ends_the_trace_and_keeps_the_heat(cache_for, device, tmp_path, demo_model):
    fingerprint = read_facts(demo_model).fingerprint
    cache = cache_for(ProfileStore(tmp_path / "profiles", fingerprint))
    cache.set_trace(str(tmp_path / "routing.trace"))
    device.recorded = [(0, 2, 1, 0.5)]
    device.heat[3] = (0.0, 1.5, 0.0, 4.0)
    cache.close()
    assert len(read_trace(tmp_path / "routing.trace").entries) == 1
    found = ProfileStore(tmp_path / "profiles", fingerprint).load({2: 4, 3: 4, 5: 4})
    assert found[3] == (0.0, 1.5, 0.0, 4.0)


def test_without_the_device_there_are_facts_too():
    told = without_pool(CachePolicy(kind="decay"))
    assert (told.pool, told.policy.kind, told.decode.misses, told.layers) == (None, "decay", 0, {})
