"""What is exported and imported again is the same plan."""

import json

import msgspec
import pytest
from factories import GIB, demo, gpt_oss_20b, make_gpu, make_machine, qwen3_30b
from hypothesis import given, settings
from hypothesis import strategies as st
from plan_exchange import MACHINE, MODELS, plans, tensors_of, without_single_experts

from app.errors import AppError, ErrorCode
from app.placement.exchange.command_line import SHELLS, join, shell_of, split
from app.placement.exchange.export_flags import PROGRAMS, export_flags
from app.placement.exchange.import_flags import import_flags
from app.placement.exchange.plan_file import export_json, import_json
from app.placement.plan import CPU_LANE, DISK_LANE, Plan
from app.placement.planner import make_plan

some = settings(max_examples=150, deadline=None)


@some
@given(plans(), st.sampled_from(PROGRAMS), st.sampled_from(SHELLS))
def test_flags_mean_the_plan_they_were_made_of_but_for_single_experts(given_plan, program, shell):
    facts, plan = given_plan
    exported = export_flags(plan, facts, program, shell)
    imported = import_flags(exported.text, facts, MACHINE, tensors_of(facts))
    assert imported.plan == without_single_experts(plan, facts, program)
    assert imported.remarks == ()


@some
@given(plans())
def test_what_flags_cannot_say_is_told(given_plan):
    facts, plan = given_plan
    lost = " ".join(export_flags(plan, facts, "llama-server", "posix").lost)
    assert ("pool for single experts" in lost) == (plan.pool_bytes > 0)
    assert ("staging area" in lost) == (plan.staging_bytes > 0)
    assert ("placed by hand" in lost) == bool(plan.pins)
    assert ("budget of main memory" in lost) == bool(plan.resident_bytes)
    assert ("on disk" in lost) == (DISK_LANE in plan.expert_lanes.values())


@some
@given(plans())
def test_json_means_the_plan_it_was_made_of(given_plan):
    facts, plan = given_plan
    exported = export_json(plan, facts)
    imported = import_json(exported.text, facts, MACHINE)
    assert (imported.plan, imported.remarks, exported.lost) == (plan, (), ())


def imported_with(**changes):
    facts = qwen3_30b()
    plan = msgspec.structs.replace(make_plan(facts, MACHINE), **changes)
    return import_json(export_json(plan, facts).text, facts, MACHINE)


def test_a_budget_of_main_memory_is_taken_over_and_what_it_cannot_do_here_is_said():
    within = imported_with(residency="mapped", resident_bytes=5 * GIB)
    assert (within.plan.resident_bytes, within.remarks) == (5 * GIB, ())
    for changes, words in (
        ({"residency": "mapped", "resident_bytes": 300 * GIB}, "200.0 GiB that are available"),
        ({"residency": "repacked", "resident_bytes": 5 * GIB}, "do nothing"),
    ):
        found = imported_with(**changes)
        assert found.plan.resident_bytes == changes["resident_bytes"]
        [remark] = found.remarks
        assert words in remark


def test_a_budget_for_which_the_expert_device_is_missing_is_said():
    facts = qwen3_30b()
    reason = "The library is missing."
    engine = msgspec.structs.replace(MACHINE.engine, expert_device=False, expert_device_reason=reason)
    there = msgspec.structs.replace(MACHINE, engine=engine)
    plan = msgspec.structs.replace(make_plan(facts, MACHINE), residency="mapped", resident_bytes=5 * GIB)
    plan = msgspec.structs.replace(plan, pool_bytes=0, staging_bytes=0)
    remarks = import_json(export_json(plan, facts).text, facts, there).remarks
    assert [its for its in remarks if "are not kept here" in its and its.endswith(f"is missing: {reason}")]


def test_a_budget_that_no_machine_has_is_refused():
    with pytest.raises(AppError, match="impossible") as caught:
        imported_with(residency="mapped", resident_bytes=-1)
    assert caught.value.code is ErrorCode.BAD_USAGE


def test_json_names_no_folder_and_no_prediction():
    facts = qwen3_30b(files=("/home/somebody/m.gguf",))
    text = export_json(make_plan(facts, MACHINE), facts).text
    assert "somebody" not in text
    assert '"memory"' not in text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("llama", "not JSON"),
        ("[1]", "no object"),
        ("{}", "its kind"),
        ('{"kind": "expert-lanes plan", "plan": {}, "version": 7}', "version 7"),
        ('{"kind": "expert-lanes plan", "plan": 3, "version": 1}', "its kind"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_what_is_no_plan_is_refused(text, words):
    with pytest.raises(AppError, match=words) as caught:
        import_json(text, MODELS[0], MACHINE)
    assert caught.value.code is ErrorCode.BAD_USAGE


def exported_fields(facts, **changes):
    whole = json.loads(export_json(make_plan(facts, MACHINE), facts).text)
    whole["plan"] |= changes
    return json.dumps(whole)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"n_ctx": 99_999_999}, "99,999,999 tokens"),
        ({"n_ctx": -1}, "-1 tokens"),
        ({"n_ctx": "8k"}, "damaged"),
        ({"threads": 0}, "0 threads"),
        ({"n_ubatch": 600}, "600"),
        ({"kv_type": "q5_1"}, "q5_1"),
        ({"residency": "here"}, "here"),
        ({"cpu_cores": [64]}, "processor 64"),
        ({"n_seq_max": 0}, "0 conversations"),
        ({"pool_bytes": -1}, "pool"),
        ({"pins": [[99, 0, "gpu"]]}, "Layer 99"),
        ({"expert_lanes": {"0": "CPU"}}, "does not say"),
        ({"expert_lanes": {"48": "CPU"}}, "where there are none"),
        ({"gpu": None, "expert_lanes": {}, "pool_bytes": 1}, "does not say"),
    ],
)
def test_a_plan_that_the_model_or_llama_cpp_cannot_have_is_refused(changes, words):
    with pytest.raises(AppError, match=words) as caught:
        import_json(exported_fields(MODELS[0], **changes), MODELS[0], MACHINE)
    assert caught.value.code is ErrorCode.BAD_USAGE


def test_a_pool_without_a_gpu_is_refused():
    lanes = {str(layer): CPU_LANE for layer in MODELS[0].moe_layers}
    text = exported_fields(MODELS[0], gpu=None, expert_lanes=lanes, pool_bytes=1, pool_device=None, staging_bytes=0)
    with pytest.raises(AppError, match="no GPU that could hold it"):
        import_json(text, MODELS[0], MACHINE)


def test_a_plan_of_another_model_is_refused_by_name():
    other = qwen3_30b(fingerprint="77", name="Another")
    with pytest.raises(AppError, match="another model, 'Another'"):
        import_json(export_json(make_plan(other, MACHINE), other).text, MODELS[0], MACHINE)


def test_a_plan_for_devices_that_are_not_here_is_refused_and_one_that_does_not_fit_says_where():
    facts = MODELS[0]
    plan = Plan(model_files=facts.files, gpu="CUDA1", expert_lanes=dict.fromkeys(facts.moe_layers, "CUDA1"), n_ctx=4096)
    text = export_json(plan, facts).text
    with pytest.raises(AppError, match="'CUDA1'") as caught:
        import_json(text, facts, make_machine())
    assert caught.value.code is ErrorCode.DEVICE_MISSING
    small = import_json(text, facts, make_machine(make_gpu(4 * 1024**3, device="CUDA1")))
    assert len(small.shortfalls) == 1
    assert small.shortfalls[0].startswith("CUDA1 would need")
    with pytest.raises(AppError, match="'CUDA7'"):  # also where the pool it names is yet to come
        import_json(exported_fields(facts, pool_device="CUDA7", pool_bytes=0, staging_bytes=0), facts, MACHINE)


def test_a_field_of_a_plan_that_is_not_known_is_told():
    imported = import_json(exported_fields(MODELS[0], speculation=3), MODELS[0], MACHINE)
    assert imported.remarks == ("The plan's 'speculation' is not known here and is passed over.",)


# ---- shells ----------------------------------------------------------------------------------


@some
@given(st.lists(st.text("ab 0.\\\"'^|()$%=-,模", max_size=12), min_size=1), st.sampled_from(SHELLS))
def test_a_joined_line_is_divided_into_the_same_arguments(arguments, shell):
    assert split(join(tuple(arguments), shell), shell) == tuple(arguments)


def test_the_shell_of_a_pasted_line_is_told_by_its_signs():
    assert shell_of('llama-server -ot "blk\\.1\\.=CPU" \\\n -c 4096') == "posix"
    assert shell_of("llama-server.exe -c 4096") == "windows"
    assert shell_of('llama-server -m "C:\\models\\m.gguf"') == "windows"
    assert shell_of("llama-server ^\r\n -c 4096") == "windows"


def test_lines_that_go_on_and_both_marks_of_powershell_are_read():
    assert split("$ llama-server -c 4096 \\\n  -ngl 99\n") == ("llama-server", "-c", "4096", "-ngl", "99")
    line = ".\\llama-server.exe `\r\n -ot 'blk\\.(1|2)\\.ffn_.*_exps=CPU' ^\n -c 4096"
    assert split(line) == (".\\llama-server.exe", "-ot", "blk\\.(1|2)\\.ffn_.*_exps=CPU", "-c", "4096")


@pytest.mark.parametrize("line", ["llama-server -ot 'blk", 'llama-server.exe -ot "blk'])
def test_a_quotation_mark_that_is_not_closed_is_told(line):
    with pytest.raises(AppError, match="not closed"):
        split(line)


# ---- forms of flags --------------------------------------------------------------------------


def flags_of(lanes, facts=None, gpu="CUDA0", **fields):
    facts = facts or demo(layers=4)
    plan = Plan(model_files=facts.files, gpu=gpu, expert_lanes=lanes, n_ctx=4096, **fields)
    return export_flags(plan, facts, "llama-server", "posix").text


def test_the_shortest_form_is_taken():
    everything = dict.fromkeys(range(4), CPU_LANE)
    assert " --cpu-moe " in flags_of(everything)
    assert " --n-cpu-moe 2 " in flags_of({0: CPU_LANE, 1: DISK_LANE, 2: "CUDA0", 3: "CUDA0"})
    last = flags_of({0: "CUDA0", 1: "CUDA0", 2: CPU_LANE, 3: CPU_LANE})
    assert r"'^blk\.(2|3)\.ffn_(up|down|gate|gate_up)_(ch|)exps\.=CPU'" in last
    on_cpu = flags_of(everything, gpu=None)
    assert "-dev none -ngl 0" in on_cpu
    assert "moe" not in on_cpu


def test_several_gpus_leave_attention_on_the_first():
    text = flags_of({0: "CUDA1", 1: "CUDA0", 2: "CUDA0", 3: "CUDA1"})
    assert "-dev CUDA0,CUDA1 -ngl 5 -sm layer -ts 1,0" in text
    assert "=CUDA1'" in text


def test_a_quantised_cache_comes_with_flash_attention():
    lanes = dict.fromkeys(range(4), CPU_LANE)
    assert "-ctk q8_0 -ctv q8_0 -fa on" in flags_of(lanes, kv_type="q8_0")
    assert "-fa" not in flags_of(lanes)


def test_a_model_whose_first_layer_is_dense_counts_it_among_the_first_layers():
    facts = gpt_oss_20b(layers=3, moe_layers=(1, 2), expert_sizes=[10, 10])
    assert " --n-cpu-moe 2 " in flags_of({1: CPU_LANE, 2: "CUDA0"}, facts)
