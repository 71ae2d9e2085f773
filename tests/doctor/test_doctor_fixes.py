"""Fixes of hints: each is a difference of the plan that is shown first, in the window and in the command's JSON."""

import json
import os
import subprocess
import sys

import pytest
from doctor_factories import SNAPSHOTS, replaced
from rule_cases import CASES, seen_in

from app.doctor.diagnosis import examine
from app.placement.plan import CachePolicy, Plan
from app.ui.hint_fixes import fixed

WITH_FIX = sorted(rule for rule, case in CASES.items() if case.fix)
OF_PLANS = ["threads", "efficiency-cores", "locked-memory", "unmapped-file", "repacked", "slow-gpu"]
"""Rules that judge a plan before it is loaded."""


def the_hint(seen, rule):
    (found,) = [hint for hint in examine(seen).hints if hint.rule == rule]
    return found


@pytest.mark.parametrize("rule", WITH_FIX)
def test_a_fix_is_shown_in_the_window_as_a_difference_of_the_plan(rule):
    seen = seen_in(CASES[rule].fires)
    result = fixed(the_hint(seen, rule).fix, seen.facts, seen.machine, seen.plan)
    assert result.refusal == ""
    assert result.plan is not None
    assert not result.plan.loads_like(seen.plan)
    assert result.differences
    assert all(its.name and its.before != its.after for its in result.differences)


def test_more_memory_for_experts_is_a_difference_too():
    seen = seen_in("vm_demo_thrashes_recorded.jsonl")
    result = fixed(the_hint(seen, "thrashing").fix, seen.facts, seen.machine, seen.plan)
    assert result.refusal == ""
    assert result.plan.resident_bytes == seen.cache.memory.total_bytes, "all of them have room"
    assert ["100.0 MiB" in its.before and "379.7 MiB" in its.after for its in result.differences] == [True]
    assert result.live, "the engine follows without a load"


@pytest.mark.parametrize("rule", OF_PLANS)
def test_a_plan_with_the_fix_is_fine(rule):
    seen = seen_in(CASES[rule].fires)
    result = fixed(the_hint(seen, rule).fix, seen.facts, seen.machine, seen.plan)
    assert rule not in [hint.rule for hint in examine(replaced(seen, plan=result.plan)).hints]


@pytest.mark.parametrize("rule", sorted(CASES))
def test_a_fix_names_fields_of_the_plan_only(rule):
    fields = {*Plan.__struct_fields__, *CachePolicy.__struct_fields__}
    assert {key for key, _ in CASES[rule].fix} <= fields


def test_the_commands_json_tells_ids_evidence_action_and_the_fix_with_what_the_plan_has_now(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "app", "doctor", "--json", "--replay", str(SNAPSHOTS / "integrated_gpu_slower.jsonl")],
        capture_output=True, text=True, encoding="utf-8", timeout=240, check=False, stdin=subprocess.DEVNULL,
        env=dict(os.environ, EXPERT_LANES_HOME=str(tmp_path)),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    (hint,) = told["hints"]
    assert (hint["rule"], hint["about"], hint["severity"]) == ("slow-gpu", "Vulkan0", "slower")
    assert hint["fix"] == [{"key": "gpu", "value": None, "now": "Vulkan0"}]
    assert "27.5 GB/s" in hint["evidence"]
    assert hint["action"].startswith("Load the model without a GPU")
    judged = {hint["rule"], *told["fine"], *(its["rule"] for its in told["not_judged"])}
    assert judged == set(CASES)
