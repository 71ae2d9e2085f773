"""Plans that compute each token with another number of experts than the model's own: what follows, what is refused."""

import msgspec
import pytest
from factories import GIB, make_facts, make_gpu, make_machine, qwen3_30b
from hypothesis import given, settings
from hypothesis import strategies as st
from plan_exchange import tensors_of
from test_tuned_plans import record

from app.errors import AppError, ErrorCode
from app.placement.active_experts import active_words, check_experts_used, facts_with, may_change
from app.placement.comparison import expert_differences
from app.placement.evidence import Evidence, planned, with_speed
from app.placement.exchange.export_flags import export_flags
from app.placement.exchange.export_words import lm_studio, ollama
from app.placement.exchange.import_flags import import_flags
from app.placement.exchange.plan_file import export_json, import_json
from app.placement.memory import predict, working_bytes
from app.placement.placing import STEP_CYCLE, with_lanes
from app.placement.plan import CPU_LANE, Plan
from app.placement.planner import make_plan
from app.placement.speed.demand import curve_for, demand_of
from app.placement.tuner.candidates import Candidates
from app.placement.wishes import Wishes
from app.placement.words import describe_plan

FACTS = qwen3_30b()
MACHINE = make_machine(make_gpu(7 * GIB))
OWN, ALL = FACTS.experts_used, FACTS.expert_count
counts = st.integers(1, ALL)


def plan_with(count, **fields):
    lanes = dict.fromkeys(FACTS.moe_layers, CPU_LANE)
    plan = Plan(model_files=FACTS.files, gpu="CUDA0", expert_lanes=lanes, n_ctx=4096, experts_used=count, **fields)
    return msgspec.structs.replace(plan, memory=predict(FACTS, MACHINE, plan))


@pytest.mark.parametrize("count", [0, -1, ALL + 1, 10**15])
def test_a_number_that_no_layer_has_is_refused_with_what_is_possible(count):
    with pytest.raises(AppError, match="a layer of this model has 128, and from 1 to all of them") as caught:
        check_experts_used(FACTS, count)
    assert caught.value.code is ErrorCode.BAD_USAGE
    with pytest.raises(AppError, match="its own number is 8"):
        make_plan(FACTS, MACHINE, Wishes(experts_used=count))


def test_models_whose_number_cannot_be_changed_say_why():
    dense = make_facts(experts=0)
    listed = qwen3_30b(experts_used_listed=True)
    assert not may_change(dense)
    assert not may_change(listed)
    assert may_change(FACTS)
    with pytest.raises(AppError, match="no experts"):
        check_experts_used(dense, 1)
    with pytest.raises(AppError, match="changes no such list"):
        check_experts_used(listed, 4)
    for facts in (dense, listed):
        check_experts_used(facts, None)


@given(counts)
def test_facts_with_a_number_are_those_of_a_model_that_has_it(count):
    facts = facts_with(FACTS, count)
    assert facts.token_cycle_bytes * OWN == FACTS.token_cycle_bytes * count
    assert facts_with(facts, count) is facts
    assert facts_with(facts, OWN) == FACTS
    assert facts_with(FACTS, None) is FACTS


@settings(max_examples=20, deadline=None)
@given(counts)
def test_a_plan_with_a_number_is_predicted_as_one_of_a_model_that_has_it(count):
    """One law for both: nothing that depends on top-k may look past the plan's number."""
    model = facts_with(FACTS, count)
    plan = plan_with(count, pool_bytes=GIB, pool_device="CUDA0")
    as_model = msgspec.structs.replace(plan, experts_used=None)
    assert predict(FACTS, MACHINE, plan) == predict(model, MACHINE, as_model)
    assert demand_of(FACTS, MACHINE, plan, 512) == demand_of(model, MACHINE, as_model, 512)
    assert curve_for(FACTS, plan) == curve_for(model, as_model)
    assert with_speed(plan, FACTS, MACHINE).speed == with_speed(as_model, model, MACHINE).speed
    moved = with_lanes(plan, FACTS, MACHINE, (), CPU_LANE)
    assert msgspec.structs.replace(moved, experts_used=None) == with_lanes(as_model, model, MACHINE, (), CPU_LANE)


@settings(max_examples=10, deadline=None)
@given(st.sampled_from([1, 3, 16, 64]))
def test_the_planner_plans_as_for_a_model_that_has_the_wished_number(count):
    plan = planned(FACTS, MACHINE, Wishes(experts_used=count))
    assert plan.experts_used == count
    assert msgspec.structs.replace(plan, experts_used=None) == planned(facts_with(FACTS, count), MACHINE)


def test_wishing_the_models_own_number_changes_nothing():
    assert planned(FACTS, MACHINE, Wishes(experts_used=OWN)) == planned(FACTS, MACHINE)


def test_fewer_experts_are_faster_and_llama_cpp_takes_less_to_compute_in():
    few, own, many = (with_speed(plan_with(count), FACTS, MACHINE) for count in (2, None, 32))
    assert few.speed.decode.likely > own.speed.decode.likely > many.speed.decode.likely
    assert working_bytes(facts_with(FACTS, 2)) != working_bytes(FACTS)
    sizes = [sum(part.bytes for part in plan.memory if part.part == "compute") for plan in (few, own, many)]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1]


def test_a_pool_is_guarded_by_the_cycle_of_the_plans_number():
    pool = FACTS.token_cycle_bytes + 1

    def guarded(count):
        plan = with_lanes(plan_with(count, pool_bytes=pool), FACTS, MACHINE, (), CPU_LANE)
        return any(step.name == STEP_CYCLE for step in plan.steps)

    assert not guarded(None)
    assert not guarded(OWN // 2)
    assert guarded(OWN + 1)


def test_a_plan_in_words_says_that_it_changes_answers():
    assert "4 experts a token instead of 8, which changes answers" in describe_plan(plan_with(4), FACTS)
    assert "1 expert a token instead of 8" in describe_plan(plan_with(1), FACTS)
    for same in (None, OWN):
        assert "changes answers" not in describe_plan(plan_with(same), FACTS)
        assert active_words(FACTS, same) == ""


def test_what_llama_cpp_computes_with_is_held_against_the_plan():
    assert expert_differences(plan_with(4), 4) == ()
    assert expert_differences(plan_with(None), 8) == ()
    assert expert_differences(plan_with(4), 8) == ("llama.cpp computes each token with 8 experts; the plan said 4.",)
    assert "unknown number" in expert_differences(plan_with(4), None)[0]


# ---- tuning ----------------------------------------------------------------------------------


def test_the_tuner_keeps_the_number_and_never_varies_it():
    wishes = Wishes(experts_used=4)
    base = planned(FACTS, MACHINE, wishes)
    for found in (
        Candidates(FACTS, MACHINE, base, wishes).single_changes(),
        Candidates(FACTS, MACHINE, base, Wishes()).single_changes(),
    ):
        assert found
        assert {candidate.plan.experts_used for candidate in found} == {4}
    own = Candidates(FACTS, MACHINE, planned(FACTS, MACHINE), Wishes()).single_changes()
    assert {candidate.plan.experts_used for candidate in own} == {None}


def test_a_tuned_plan_that_changes_answers_is_for_those_who_wish_that():
    kept = record(wishes=Wishes(experts_used=4))
    assert kept.plan.experts_used == 4
    wished = planned(FACTS, MACHINE, Wishes(experts_used=4), Evidence(tuned=kept))
    assert (wished.experts_used, bool(wished.tuned)) == (4, True)
    unwished = planned(FACTS, MACHINE, Wishes(), Evidence(tuned=kept))
    assert (unwished.experts_used, unwished.tuned) == (None, "")
    assert "active experts" in unwished.steps[0].reason


# ---- other programs --------------------------------------------------------------------------


def test_llama_cpp_is_told_by_its_metadata_and_that_it_changes_answers():
    exported = export_flags(plan_with(4), FACTS, "llama-server", "posix")
    assert "--override-kv qwen3moe.expert_used_count=int:4" in exported.text
    assert any("changes answers" in note for note in exported.notes)
    assert "--override-kv" not in export_flags(plan_with(None), FACTS, "llama-server", "posix").text


def read(line):
    return import_flags(line, FACTS, MACHINE, tensors_of(FACTS))


def test_the_first_number_of_a_pasted_line_counts_and_the_rest_is_told():
    key = "qwen3moe.expert_used_count"
    imported = read(
        f"llama-server -c 4096 --cpu-moe -ngl 99 --override-kv tokenizer.ggml.add_bos_token=bool:false,{key}=int:4 "
        f"--override-kv {key}=int:6"
    )
    assert imported.plan.experts_used == 4
    assert len(imported.remarks) == 2
    assert "add_bos_token=bool:false is not taken over" in imported.remarks[0]
    assert "the first one, 4, counts" in imported.remarks[1]
    of_another = read("llama-server -c 4096 --cpu-moe -ngl 99 --override-kv llama.expert_used_count=int:4")
    assert of_another.plan.experts_used is None
    assert "not taken over" in of_another.remarks[0]
    wrong_type = read(f"llama-server -c 4096 --cpu-moe -ngl 99 --override-kv {key}=float:4.0")
    assert wrong_type.plan.experts_used is None
    assert "wants an int" in wrong_type.remarks[0]


@pytest.mark.parametrize("value", ["int:0", "int:129", "int:-3", "int:four", "int:"])
def test_an_impossible_number_in_a_pasted_line_is_refused(value):
    with pytest.raises(AppError) as caught:
        read(f"llama-server --override-kv qwen3moe.expert_used_count={value}")
    assert caught.value.code is ErrorCode.BAD_USAGE


def test_the_apps_own_json_keeps_the_number_and_refuses_an_impossible_one():
    text = export_json(plan_with(4), FACTS).text
    assert import_json(text, FACTS, MACHINE).plan.experts_used == 4
    with pytest.raises(AppError, match="a layer of this model has 128"):
        import_json(text.replace('"experts_used": 4', '"experts_used": 400'), FACTS, MACHINE)


def test_lm_studio_is_told_the_number_and_ollama_cannot_be():
    assert "Number of Experts: 4\n" in lm_studio(plan_with(4), FACTS).text
    assert "Number of Experts" not in lm_studio(plan_with(None), FACTS).text
    assert any("how many experts compute" in sentence for sentence in ollama(plan_with(4), FACTS).lost)
    assert not any("how many experts compute" in sentence for sentence in ollama(plan_with(None), FACTS).lost)
