"""Devices that refuse, fail or throw: a typed reason, the processor goes on at once, never a wrong number."""

from collections.abc import Iterable
from pathlib import Path

import msgspec
import numpy as np
import pytest
from decode_logits import Job
from decoding import decode, run_child
from faulty_decoding import ARMED, BATCHES, CHURNS, STIRS, Case, Told
from native_build import faulty_device
from tiny_shapes import mixtral

from app.engine.cache import Result

PROGRAM = Path(__file__).parent / "faulty_decoding.py"

PATHS = {
    "some experts in the pool": {"pool": 0.5},
    "all experts in the pool": {"pool": 1.0, "pinned": True},
    "experts streamed": {"pool": 0.0, "staging": 2, "stream": "always"},
    "experts streamed beside a pool": {"pool": 0.3, "staging": 2, "stream": "always"},
}
# What can go wrong while a layer is computed, and how manieth such call of the batch it is.
COMPUTING = (
    ("upload", 2),
    ("download", 1),
    ("download", 2),
    ("compute_status", 1),
    ("compute_status", 3),
    ("compute_throw", 1),
    ("compute_throw", 3),
    ("wait", 1),
)
WHILE_DECODING = [
    Case(name=f"{fault} {nth}, {path}", fault=fault, nth=nth, **options)
    for path, options in PATHS.items()
    for fault, nth in COMPUTING
]
# A prompt whose layers' experts are brought together on the device, from slots and from main memory.
WHOLE_LAYERS = {"pool": 0.3, "staging": 20, "stream": "always"}
WHILE_WHOLE = [
    Case(name=f"{fault} {nth}, whole layers", fault=fault, nth=nth, batch=4, **WHOLE_LAYERS)
    for fault, nth in (*COMPUTING, ("upload", 7), ("copy", 1))
]
# The allocation after those of the three layers' slots.
WORKING_MEMORY = [Case(name="working memory", fault="allocate", nth=4, armed="pool", pool=0.5)]
COPYING = [
    Case(name="copy 2", fault="copy", nth=2, pool=0.3),
    Case(name="copy 4", fault="copy", nth=4, pool=0.3),
    *(
        Case(name=f"copy {nth} of a prompt", fault="copy", nth=nth, batch=4, **PATHS["experts streamed"])
        for nth in (24, 26, 28)
    ),
    Case(name="copy 2, streamed", fault="copy", nth=2, **PATHS["experts streamed"]),
]
FILLING = [Case(name="copy while the pool is filled", fault="copy", nth=5, armed="pool", pool=1.0, pinned=True)]
MEASURING = [
    Case(name=f"{fault} while measuring", fault=fault, armed="pool", nth=nth, pool=0.3, staging=4, stream="auto")
    for fault, nth in (("compute_throw", 1), ("copy", 2), ("wait", 1), ("compute_status", 2))
]
MOVING = [
    Case(name=f"{fault} while moving", fault=fault, armed="resize", nth=2, pool=1.0, pinned=True, resized=0.5)
    for fault in ("copy", "download")
]
REFUSED = [
    Case(name="too large, later smaller", pool=1.0, refuse_above=0.5, armed="resize", resized=0.4),
    Case(name="second allocation", fault="allocate", nth=2, armed="pool", pool=0.5),
    Case(name="growing", pool=0.3, fault="allocate", nth=1, armed="resize", resized=0.9),
    Case(name="staging area", fault="allocate", nth=4, armed="pool", pool=0.5, staging=2, stream="always"),
]
THROWN = [
    Case(name=f"allocation {nth} throws", fault="allocate_throw", nth=nth, armed="pool", pool=0.5, staging=2)
    for nth in (1, 2, 4)
]
CLEARED = [
    Case(name=f"clearing {nth} fails", fault="clear", nth=nth, armed="pool", pool=0.5, staging=2, stream="always")
    for nth in (1, 2, 4)  # of the first and the second layer's slots, of the staging area
]
UNSUPPORTED = [Case(name="no MUL_MAT_ID", refuse_op="MUL_MAT_ID", pool=1.0)]
HEALTHY = [Case(name=f"healthy, {path}", **options) for path, options in PATHS.items()]
HEALTHY_WHOLE = [Case(name="healthy, whole layers", **WHOLE_LAYERS)]
LOCKED = [Case(name=f"locked, {path}", lock=1.0, **options) for path, options in PATHS.items()]
LOCKED_IN_PART = [
    Case(name="may lock a third", lock=0.3, **PATHS["experts streamed beside a pool"]),
    Case(name="third lock refused", fault="lock", nth=3, armed="pool", lock=1.0, **PATHS["some experts in the pool"]),
    Case(name="locked while resized", armed="resize", resized=0.8, lock=1.0, pool=0.3, staging=2, stream="always"),
]
# Main memory that may keep half of the experts; or all, at last.
BUDGETED = [
    *(Case(name=f"half may stay, {path}", resident=0.5, lock=1.0, **options) for path, options in PATHS.items()),
    *(
        Case(name=f"half may stay later, {path}", resident_later=0.5, lock=1.0, **options)
        for path, options in PATHS.items()
    ),
]
NOT_BUDGETED = [
    Case(name="all may stay", resident=1.0, lock=1.0, **PATHS["some experts in the pool"]),
    Case(name="all may stay later", resident=0.5, resident_later=1.0, lock=1.0, **PATHS["some experts in the pool"]),
]
FAILING = [*WHILE_DECODING, *WHILE_WHOLE, *COPYING]
CASES = [
    *HEALTHY,
    *HEALTHY_WHOLE,
    *FAILING,
    *WORKING_MEMORY,
    *FILLING,
    *MEASURING,
    *MOVING,
    *REFUSED,
    *THROWN,
    *CLEARED,
    *UNSUPPORTED,
]
CASES += [*LOCKED, *LOCKED_IN_PART, *BUDGETED, *NOT_BUDGETED]
BATCHES_BEFORE = {case.name: case.batch for case in CASES}


@pytest.fixture(scope="module")
def faulty_library(tmp_path_factory) -> Path:
    return faulty_device(tmp_path_factory.mktemp("faulty"))


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("mixtral") / "model.gguf"
    mixtral(path)
    return path


@pytest.fixture(scope="module")
def stock(model, tmp_path_factory) -> np.ndarray:
    """Logits without the device."""
    return decode(tmp_path_factory.mktemp("stock"), Job(batches=BATCHES), model)["model"].logits["stock"]


class Outcomes(msgspec.Struct):
    """What each case gave, by its name."""

    logits: dict[str, np.ndarray]
    told: dict[str, Told]


@pytest.fixture(scope="module")
def outcomes(faulty_library, model, tmp_path_factory) -> Outcomes:
    folder = tmp_path_factory.mktemp("outcomes")
    cases = msgspec.json.encode(CASES).decode()
    out = run_child(PROGRAM, str(folder), str(faulty_library), str(model), cases)
    with np.load(folder / "logits.npz") as stored:
        logits = dict(stored)
    return Outcomes(logits, msgspec.json.decode(out.splitlines()[-1], type=dict[str, Told]))


def by_name(cases: Iterable[Case]):
    return pytest.mark.parametrize("case", [case.name for case in cases])


@by_name(CASES)
def test_no_failure_changes_a_number(case, outcomes, stock):
    np.testing.assert_array_equal(outcomes.logits[case], stock)


@by_name(CASES)
def test_nothing_of_a_context_stays_on_the_device(case, outcomes):
    assert outcomes.told[case].buffers == 0


@by_name(HEALTHY)
def test_a_device_without_faults_is_used_all_along(case, outcomes):
    told = outcomes.told[case]
    assert told.failed == 0
    assert set(told.results) == {Result.OK}
    assert set(told.reasons) == {""}
    used = np.array(told.hits) + np.array(told.streamed)
    assert (used[ARMED:] > 0).all()
    assert told.released == Result.OK


@by_name(LOCKED)
def test_memory_that_experts_are_copied_from_is_locked_and_let_go_with_the_pool(case, outcomes):
    told = outcomes.told[case]
    before, after = told.locks
    assert 0.6 * told.may_lock < min(told.locked) <= told.may_lock, "all but the pages that others share"
    assert before.bytes == told.locked[-1]
    assert before.copies > 0
    assert after.bytes == 0
    assert set(told.reasons) == {""}


@by_name([*LOCKED, *LOCKED_IN_PART, *BUDGETED, *NOT_BUDGETED])
def test_no_copy_is_made_of_memory_that_is_locked_in_part(case, outcomes):
    assert outcomes.told[case].locks[1].torn == 0
    assert outcomes.told[case].locks[1].bytes == 0


def test_no_more_memory_is_locked_than_was_allowed(outcomes):
    told = outcomes.told["may lock a third"]
    assert 0 < told.locked[-1] <= told.may_lock


def test_where_no_more_memory_can_be_locked_it_is_said_and_copies_go_on_without(outcomes):
    told = outcomes.told["third lock refused"]
    whole = outcomes.told["locked, some experts in the pool"]
    assert told.given == Result.OK
    assert 0 < told.locked[-1] < whole.locked[-1]
    assert told.reasons[-1].startswith(f"FAULTY refused to lock more than {told.locked[-1]} bytes")
    assert told.hits == whole.hits


@by_name([case for case in BUDGETED if case.resident])
def test_beside_a_budget_for_some_no_mapped_experts_are_locked_and_it_is_said_why(case, outcomes):
    told = outcomes.told[case]
    assert told.given == Result.OK
    assert set(told.locked) == {0}
    assert told.locks[0].bytes == 0
    assert all("0 bytes of main memory are page-locked for copies to FAULTY" in its for its in told.reasons)
    assert all("main memory may keep" in its for its in told.reasons)


@by_name([case for case in BUDGETED if case.resident_later and not case.resident])
def test_what_is_locked_is_let_go_once_there_is_a_budget_for_some(case, outcomes):
    told = outcomes.told[case]
    assert min(told.locked[: ARMED + 1]) > 0
    assert set(told.reasons[: ARMED + 1]) == {""}
    assert set(told.locked[ARMED + 1 :]) == {0}
    assert told.locks[0].bytes == 0
    assert "main memory may keep" in told.reasons[-1]


def test_where_all_experts_may_stay_they_are_locked_by_the_pools_next_size(outcomes):
    told = outcomes.told["all may stay later"]
    assert "its pool was set while not all of them could stay" in told.reasons[ARMED + 1]
    assert set(told.locked) == {0}
    told = outcomes.told["all may stay"]
    assert told.locked == outcomes.told["locked, some experts in the pool"].locked
    assert set(told.reasons) == {""}


@by_name([case for case in HEALTHY if case.stream == "always"])
def test_a_prompts_next_experts_are_copied_before_their_layer_begins(case, outcomes):
    assert outcomes.told[case].ahead > 0


@by_name(FAILING)
def test_a_device_that_fails_while_decoding_is_off_from_that_batch_on(case, outcomes):
    told = outcomes.told[case]
    assert told.given == Result.OK
    assert told.failed == 1
    results = np.array(told.results[1:])
    first = int((results != Result.OK).argmax())
    assert BATCHES_BEFORE[case] <= first < len(BATCHES) - 1, "it failed, and batches came after it"
    assert (results[:first] == Result.OK).all()
    assert (results[first:] == Result.DEVICE_FAILED).all()
    assert "FAULTY failed while" in told.reasons[-1]
    assert told.hits[first + 1 :] == [0] * (len(BATCHES) - first - 1)
    assert told.streamed[first + 1 :] == [0] * (len(BATCHES) - first - 1)
    assert sum(told.hits[:first]) + sum(told.streamed[:first]) > 0


@by_name(CASES)
def test_every_pair_is_counted_once_whatever_fails(case, outcomes):
    # Layers × top-k × tokens; of a prompt's last layer llama.cpp computes the one token whose logits are asked.
    expected = [2 * (2 * size + (1 if size == 17 else size)) for size in BATCHES]
    assert outcomes.told[case].pairs == expected


@by_name(FILLING)
def test_a_copy_that_fails_while_the_pool_is_filled_turns_it_off(case, outcomes):
    told = outcomes.told[case]
    assert told.failed == 1
    assert set(told.results) == {Result.DEVICE_FAILED}
    assert sum(told.hits) == 0


@by_name(MEASURING)
def test_a_device_that_fails_while_it_is_measured_is_met_once(case, outcomes):
    assert outcomes.told[case].failed == 1


@by_name(MOVING)
def test_a_device_that_fails_while_experts_move_to_a_smaller_pool_is_off(case, outcomes):
    told = outcomes.told[case]
    assert told.failed == 1
    assert told.resized == Result.DEVICE_FAILED
    assert told.results[ARMED + 1] == Result.DEVICE_FAILED
    assert "FAULTY failed while" in told.reasons[-1]
    assert sum(told.hits[:ARMED]) > 0
    assert sum(told.hits[ARMED:]) == 0


def test_a_pool_that_is_too_large_is_refused_with_words_and_a_smaller_one_works_later(outcomes):
    told = outcomes.told["too large, later smaller"]
    assert told.given == Result.NO_MEMORY
    assert told.results[: ARMED + 1] == [Result.NO_MEMORY] * (ARMED + 1)
    assert told.reasons[0].startswith("FAULTY refused memory for 8 experts of layer 0")
    assert told.slots[0] == 0
    assert sum(told.hits[:ARMED]) == 0
    assert told.resized == Result.OK
    assert set(told.results[ARMED + 1 :]) == {Result.OK}
    assert told.slots[-1] == 3 * 3
    assert sum(told.hits[ARMED:]) > 0


@by_name(THROWN)
def test_an_allocation_that_throws_counts_as_refused(case, outcomes):
    told = outcomes.told[case]
    assert told.failed == 1
    assert told.given == told.results[0] == Result.NO_MEMORY
    assert "FAULTY refused memory" in told.reasons[0]


@by_name(CLEARED)
def test_a_device_that_fails_while_memory_on_it_is_cleared_is_off_and_keeps_none(case, outcomes):
    told = outcomes.told[case]
    assert told.failed == 1
    assert told.given == Result.DEVICE_FAILED
    assert set(told.results) == {Result.DEVICE_FAILED}
    assert set(told.reasons) == {"FAULTY failed while memory on it was cleared."}
    assert set(told.slots) == {0}
    assert set(told.allocated) == {0}
    assert sum(told.hits) + sum(told.streamed) == 0


def test_layers_that_got_their_slots_before_memory_ran_out_use_them(outcomes):
    told = outcomes.told["second allocation"]
    assert told.given == Result.NO_MEMORY
    assert "layer 1" in told.reasons[0]
    assert told.slots[0] == 4
    assert sum(told.hits) > 0


def test_a_pool_that_may_not_grow_says_so_and_the_other_layers_keep_theirs(outcomes):
    told = outcomes.told["growing"]
    assert told.given == Result.OK
    assert told.resized == Result.NO_MEMORY
    assert 0 < told.slots[-1] < told.slots[0]
    assert sum(told.hits[ARMED:]) > 0


def test_a_refused_staging_area_leaves_the_pool_in_use(outcomes):
    told = outcomes.told["staging area"]
    assert told.given == Result.NO_MEMORY
    assert "staging area" in told.reasons[0]
    assert sum(told.hits) > 0
    assert sum(told.streamed) == 0


def test_a_device_that_lacks_an_op_names_it(outcomes):
    told = outcomes.told["no MUL_MAT_ID"]
    assert told.given == Result.UNSUPPORTED
    assert set(told.results) == {Result.UNSUPPORTED}
    assert "MUL_MAT_ID" in told.reasons[0]
    assert sum(told.hits) == 0


@by_name(CASES)
def test_a_pool_can_be_given_up_whatever_its_device_did(case, outcomes):
    assert outcomes.told[case].released == Result.OK
    assert outcomes.told[case].kept == 0


def test_copies_under_way_while_a_pool_is_resized_are_never_taken_for_later_ones(outcomes, model, tmp_path):
    stock = decode(tmp_path, Job(batches=(1,) * CHURNS), model)["model"].logits["stock"]
    assert outcomes.logits["churned_hits"] > 0
    np.testing.assert_array_equal(outcomes.logits["churned"], stock)


def test_a_staging_area_that_changes_while_experts_are_copied_ahead_changes_no_number(outcomes, model, tmp_path):
    stock = decode(tmp_path, Job(batches=(17,) * STIRS), model)["model"].logits["stock"]
    np.testing.assert_array_equal(outcomes.logits["stirred"], stock)


def test_the_device_is_waited_for_when_the_processor_runs_out_of_memory_beside_it(outcomes, model, tmp_path):
    told = msgspec.json.decode(str(outcomes.logits["starvation"]))
    assert told["ended"] == 1, "the decode failed"
    assert told["unwaited"] == 0
    assert told["result"] == Result.OK, "it was not the device's fault"
    stock = decode(tmp_path, Job(batches=(1,) * 10), model)["model"].logits["stock"]
    np.testing.assert_array_equal(outcomes.logits["starved"], stock)


@by_name(WORKING_MEMORY)
def test_a_device_that_refuses_working_memory_says_so_and_is_used_when_it_gives_some(case, outcomes):
    told = outcomes.told[case]
    assert told.failed == 1
    assert told.given == Result.NO_MEMORY
    assert "FAULTY refused the memory to compute experts in" in told.reasons[0]
    assert sum(told.hits) > 0
