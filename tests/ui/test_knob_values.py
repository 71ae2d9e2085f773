"""What each knob makes of a plan, which values it takes, and what is refused with which offer. No window."""

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ui_factories import GIB, MIB, make_facts, make_machine

from app.hardware.facts import Ram
from app.placement.evidence import NO_EVIDENCE, Evidence
from app.placement.memory import fits, predict
from app.placement.plan import CPU_LANE, KV_TYPES, CachePolicy
from app.placement.planner import Wishes, make_plan
from app.placement.speed.learning import Correction, Learned, devices_of
from app.ui.tuning.consequences import consequences, outlook
from app.ui.tuning.knob_values import (
    LIVE,
    POLICY,
    Situation,
    all_keys,
    automatic,
    automatic_gpu,
    bounds,
    changed,
    choices,
    differing,
    turned,
    value_of,
    why_not,
)
from app.ui.tuning.knob_words import change_text, choice_word, does, knob_name, outlook_text, value_word, when_text

FACTS = make_facts(layers=8, experts=16, context_length=65536)
OTHER_VALUES = {
    "n_ctx": 16384, "kv_type": "q8_0", "threads": 3, "threads_batch": 4, "residency": "mapped", "n_ubatch": 128,
    "n_batch": 1024, "gpu": None, "pool_bytes": 24 * MIB, "lock_bytes": 64 * MIB, "kind": "decay", "window": 8,
    "decay": 0.9, "insert_cap": 5, "threshold": 0.25, "stream": "always", "experts_used": 3,
    "resident_bytes": 40 * MIB,
}  # fmt: skip


def situation(facts=FACTS, machine=None, **wishes):
    machine = machine or make_machine()
    plan = make_plan(facts, machine, Wishes(**{"whole_layers": 0, "pool_bytes": 32 * MIB, **wishes}))
    return Situation(facts=facts, machine=machine, plan=plan, evidence=NO_EVIDENCE)


def situation_for(key):
    """One in which the knob can be turned."""
    return situation(residency="mapped") if key == "resident_bytes" else situation()


def tight(free_mib, **wishes):
    """A machine without a GPU that has so little main memory available."""
    machine = make_machine(False, ram=Ram(total_bytes=16 * GIB, available_bytes=free_mib * MIB))
    return situation(machine=machine, pool_bytes=0, **wishes)


def test_every_knob_has_another_value_here():
    assert set(OTHER_VALUES) == set(all_keys())


@pytest.mark.parametrize("key", OTHER_VALUES)
def test_a_turned_knob_stands_where_it_was_wanted_and_the_others_where_they_were(key):
    here = situation_for(key)
    wanted = OTHER_VALUES[key]
    assert value_of(here.plan, key, FACTS) != wanted
    after = turned(here, key, wanted)
    assert after.refusal == ""
    assert value_of(after.plan, key, FACTS) == wanted
    follows = {"gpu": {"pool_bytes"}, "n_batch": set()}.get(key, set())
    assert set(differing(after.plan, here.plan, FACTS)) - follows == {key}
    assert after.plan.pins == here.plan.pins
    assert (after.plan.speed, after.plan.tuned) in ((None, ""), (after.plan.speed, ""))


@pytest.mark.parametrize("key", sorted(set(OTHER_VALUES) - {"gpu"}))
def test_turned_back_a_knob_leaves_the_plan_as_it_was(key):
    here = situation_for(key)
    there = changed(here, key, OTHER_VALUES[key])
    back = changed(with_plan(here, there), key, value_of(here.plan, key, FACTS))
    assert differing(back, here.plan, FACTS) == ()
    assert msgspec.structs.replace(back, steps=(), memory=()).loads_like(
        msgspec.structs.replace(here.plan, steps=(), memory=())
    )


def with_plan(here, plan):
    return Situation(facts=here.facts, machine=here.machine, plan=plan, evidence=here.evidence)


def test_the_policy_the_pool_and_main_memory_are_what_a_loaded_model_follows():
    assert set(CachePolicy.__struct_fields__) - {"margin"} == set(POLICY)
    assert {"pool_bytes", "resident_bytes"} == LIVE - POLICY


@pytest.mark.parametrize("key", OTHER_VALUES)
def test_every_value_is_told_in_words(key):
    here = situation_for(key)
    values = (OTHER_VALUES[key], value_of(here.plan, key, FACTS), *(choices(key, here) if is_choice(key) else ()))
    said = [does(key, value, here) for value in values]
    assert all(text and text.endswith(".") and "{" not in text for text in said)
    assert len(set(said)) == len(set(values))
    assert all(value_word(key, value, here.machine) for value in values)
    assert knob_name(key)
    for live, loaded in ((True, True), (False, True), (False, False)):
        assert when_text(key, live=live, loaded=loaded).endswith(".")


def is_choice(key):
    return key in ("kv_type", "residency", "gpu", "kind", "stream")


@pytest.mark.parametrize("key", [key for key in OTHER_VALUES if not is_choice(key)])
def test_what_is_there_is_always_within_the_bounds(key):
    here = situation_for(key)
    least, most = bounds(key, here)
    assert least <= (value_of(here.plan, key, FACTS) or 0) <= most
    assert least <= OTHER_VALUES[key] <= most


def test_choices_are_those_of_the_model_and_the_machine():
    here = situation()
    assert choices("kv_type", here) == KV_TYPES
    assert choices("gpu", here) == ("Vulkan0", None)
    gone = with_plan(here, msgspec.structs.replace(here.plan, gpu="CUDA5"))
    assert choices("gpu", gone) == ("Vulkan0", "CUDA5", None)
    assert "not found" in choice_word("gpu", "CUDA5", here.machine)


def test_batches_follow_each_other_and_the_context():
    here = situation()
    larger = changed(here, "n_ubatch", 2048)
    assert (larger.n_ubatch, larger.n_batch) == (2048, 2048)
    smaller = changed(with_plan(here, larger), "n_batch", 64)
    assert (smaller.n_ubatch, smaller.n_batch) == (64, 64)
    short = changed(here, "n_ctx", 256)
    assert (short.n_ctx, short.n_batch, short.n_ubatch) == (256, 256, 256)
    assert changed(here, "n_ctx", 5000).n_ctx == 5120  # llama.cpp keeps whole blocks


# ---- what does not fit -----------------------------------------------------------------------


def test_a_context_that_does_not_fit_is_refused_with_the_longest_that_does():
    facts = make_facts(layers=8, experts=16, context_length=1048576)
    here = situation(
        facts, machine=make_machine(False, ram=Ram(total_bytes=16 * GIB, available_bytes=3 * GIB)), pool_bytes=0
    )
    after = turned(here, "n_ctx", 1048576)
    assert after.plan is None
    assert after.refusal.startswith("Main memory would need")
    assert after.nearest % 256 == 0
    assert turned(here, "n_ctx", after.nearest).plan is not None
    assert turned(here, "n_ctx", after.nearest + 256).plan is None


def test_a_cache_type_that_does_not_fit_is_refused_with_a_smaller_one():
    facts = make_facts(layers=8, experts=16, context_length=1048576)
    machine = make_machine(False, ram=Ram(total_bytes=16 * GIB, available_bytes=3 * GIB))
    here = situation(facts, machine=machine, pool_bytes=0, kv_type="q4_0")
    longest = turned(here, "n_ctx", 1048576).nearest or 1048576
    here = with_plan(here, turned(here, "n_ctx", longest).plan)
    after = turned(here, "kv_type", "f16")
    assert after.plan is None
    assert "Main memory" in after.refusal
    assert after.nearest in (None, "q8_0")


def test_what_lacks_memory_already_may_become_smaller():
    here = situation(machine=make_machine(False), pool_bytes=0, n_ctx=65536)
    small = make_machine(False, ram=Ram(total_bytes=16 * GIB, available_bytes=600 * MIB))
    lacking = Situation(facts=FACTS, machine=small, plan=here.plan, evidence=NO_EVIDENCE)
    assert fits(here.plan, small)
    assert turned(lacking, "n_ctx", 32768).plan is not None
    assert turned(lacking, "threads", 2).plan is not None


def test_copies_without_room_are_refused_with_the_reason():
    facts = make_facts(layers=8, experts=64, expert_mib=8)
    machine = make_machine(False, ram=Ram(total_bytes=16 * GIB, available_bytes=3 * GIB))
    here = situation(facts, machine=machine, pool_bytes=0)
    assert here.plan.residency == "mapped"
    after = turned(here, "residency", "repacked")
    assert after.plan is None
    assert "no room for a copy" in after.refusal


def test_impossible_values_are_refused_in_words():
    here = situation()
    assert "16, and" in turned(here, "experts_used", 17).refusal
    assert "A decay of" in turned(here, "decay", 2.0).refusal
    assert "a GPU" in turned(here, "gpu", "Vulkan9").refusal or "no device" in turned(here, "gpu", "Vulkan9").refusal


@settings(max_examples=40, deadline=None)
@given(st.integers(300, 4000), st.integers(256, 65536), st.sampled_from(["n_ctx", "n_ubatch"]))
def test_an_offer_always_fits_and_a_plan_that_is_given_too(free_mib, wanted, key):
    here = tight(free_mib)
    after = turned(here, key, min(wanted, here.plan.n_ctx) if key == "n_ubatch" else wanted)
    before = {short.device for short in fits(here.plan, here.machine)}
    if after.plan is not None:
        assert {short.device for short in fits(after.plan, here.machine)} <= before
    elif after.nearest is not None:
        assert turned(here, key, after.nearest).plan is not None


# ---- why not ---------------------------------------------------------------------------------


def test_knobs_that_cannot_be_turned_say_why():
    here = situation()
    assert {key: why_not(key, here) for key in all_keys() if why_not(key, here)} == {
        "decay": "not this policy",
        "resident_bytes": "not mapped",
    }
    assert why_not("resident_bytes", situation(residency="mapped")) == ""
    no_gpu = situation(machine=make_machine(False), pool_bytes=0)
    assert all(why_not(key, no_gpu) == "no gpu" for key in LIVE - {"resident_bytes"})
    in_file = situation(machine=make_machine(False), pool_bytes=0, residency="mapped")
    assert why_not("resident_bytes", in_file) == ""
    whole = situation(whole_layers=8, pool_bytes=0)
    assert all(why_not(key, whole) == "nothing off the gpu" for key in (*LIVE, "residency"))
    dense = make_facts(moe_layers=(), expert_count=0, experts_used=0, expert_bytes={}, token_cycle_bytes=0)
    flat = situation(dense, whole_layers=None, pool_bytes=0)
    assert all(why_not(key, flat) == "no experts" for key in (*LIVE, "residency", "experts_used"))
    listed = situation(make_facts(experts_used_listed=True))
    assert why_not("experts_used", listed) == "one number"


def test_the_planners_choice_is_for_the_gpu_that_the_plan_has():
    on_cpu = situation(gpu=None, pool_bytes=0)
    assert automatic(on_cpu).gpu is None
    assert automatic_gpu(on_cpu) == "Vulkan0"
    assert automatic(situation()).gpu == "Vulkan0"


# ---- consequences ----------------------------------------------------------------------------


def test_each_turned_knob_has_its_own_consequence():
    before = situation()
    plan = changed(before, "n_ctx", 32768)
    plan = changed(with_plan(before, plan), "experts_used", 4)
    here = with_plan(before, plan)
    found = consequences(here, before.plan)
    assert set(found.without) == {"n_ctx", "experts_used"}
    context = found.now.memory["Vulkan0"] - found.without["n_ctx"].memory["Vulkan0"]
    assert context > 0
    assert found.now.speed.decode.likely < found.without["experts_used"].speed.decode.likely
    said = change_text("n_ctx", found.now, found.without["n_ctx"])
    assert said.startswith("Predicted: Vulkan0 +")
    assert "tokens/s" in change_text("experts_used", found.now, found.without["experts_used"])
    assert found.now.memory.keys() == {"Vulkan0", "CPU"}


def test_a_prediction_is_a_range_with_what_it_takes_on_each_device():
    text = outlook_text(outlook(situation()))
    assert "tokens/s in answers" in text
    assert "on Vulkan0" in text
    assert "of RAM" in text
    assert "–" in text


def test_what_the_speed_model_does_not_tell_apart_is_said_to_be_as_before():
    before = situation()
    here = with_plan(before, changed(before, "insert_cap", 7))
    found = consequences(here, before.plan)
    said = change_text("insert_cap", found.now, found.without["insert_cap"])
    assert said.startswith("Predicted: memory as before; speed as before. No prediction tells policies apart")


def test_a_prediction_rests_on_the_plan_alone_and_not_on_what_it_says_of_itself():
    here = situation()
    stale = msgspec.structs.replace(here.plan, memory=())
    assert outlook(with_plan(here, stale)) == outlook(here)
    assert predict(FACTS, here.machine, here.plan)
    assert CPU_LANE in outlook(here).memory


def test_a_plan_whose_gpu_is_gone_is_predicted_to_lack_it():
    here = situation()
    gone = with_plan(here, msgspec.structs.replace(here.plan, gpu="CUDA5"))
    found = consequences(gone, here.plan)
    assert "CUDA5 would need" in found.now.shortage
    assert "gpu" in found.without


def taught(here, plan, slower):
    """`here` after answers with plans like `plan` that came `slower` than the rates have it."""
    correction = Correction(fixed=slower, reading=slower, prompt=slower, answers=5, prompts=5)
    learned = Learned(corrections={devices_of(plan): correction})
    return replace(here, evidence=Evidence(learned=learned))


@pytest.mark.parametrize("of_which", ["before", "after"])
def test_two_plans_are_compared_on_the_same_evidence_though_answers_taught_of_one_alone(of_which):
    before = situation(pool_bytes=0)
    after = with_plan(before, changed(before, "pool_bytes", 32 * MIB))
    assert devices_of(before.plan) != devices_of(after.plan)
    plain = consequences(after, before.plan)
    here = taught(after, (before if of_which == "before" else after).plan, 8.0)
    found = consequences(here, before.plan)
    said = change_text("pool_bytes", found.now, found.without["pool_bytes"])
    assert said.startswith(change_text("pool_bytes", plain.now, plain.without["pool_bytes"]))
    assert said.endswith("answers taught of the devices of one only.")
    # What stands alone is told by all that is known.
    assert (found.now.speed == plain.now.speed) == (of_which == "before")


def test_plans_that_answers_taught_of_alike_are_both_corrected():
    before = situation()
    after = with_plan(before, changed(before, "experts_used", 4))
    plain = consequences(after, before.plan)
    found = consequences(taught(after, before.plan, 4.0), before.plan)
    for now, was in ((found.now, plain.now), (found.without["experts_used"], plain.without["experts_used"])):
        assert now.speed.decode.likely == pytest.approx(was.speed.decode.likely / 4)
    said = change_text("experts_used", found.now, found.without["experts_used"])
    assert "tokens/s" in said
    assert "alone" not in said
