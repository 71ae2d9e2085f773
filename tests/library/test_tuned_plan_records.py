"""Tuned plans between runs: what a damaged file holds is never planned with."""

import msgspec
import pytest
from factories import demo, make_machine

from app.errors import AppError, ErrorCode
from app.library import folders
from app.library.tuned_plans import check_tuned, keep_tuned, key, tuned_plan
from app.placement.planner import make_plan
from app.placement.tuner.types import TunedPlan

WHO = (demo(), make_machine())


@pytest.fixture(autouse=True)
def _home(tmp_path, monkeypatch):
    monkeypatch.setenv(folders.HOME_VARIABLE, str(tmp_path))


def keep(**changes):
    model, machine, engine = key(*WHO)
    plan = msgspec.structs.replace(make_plan(*WHO), **changes)
    record = TunedPlan(
        model=model, machine=machine, engine=engine, plan=plan, words="1 thread", before=None, after=None,
        tuned_at="2026-01-01T00:00:00+00:00",
    )  # fmt: skip
    return keep_tuned(record, *WHO)


def test_what_is_kept_is_found():
    check_tuned(*WHO)
    assert tuned_plan(*WHO) is None
    keep(threads=1)
    check_tuned(*WHO)
    assert tuned_plan(*WHO).plan.threads == 1


@pytest.mark.parametrize(
    "changes",
    [{"n_ctx": -5}, {"threads": -3}, {"threads_batch": 10**6}, {"gpu": "CUDA9"}, {"expert_lanes": {999: "CPU"}},
     {"expert_lanes": {}}, {"pool_bytes": -7}, {"kv_type": "q9"}, {"cpu_cores": (777,)}, {"n_ubatch": 0},
     {"residency": "here"}, {"goal": "fame"}],
)  # fmt: skip
def test_a_plan_that_the_model_cannot_have_is_damage_and_stays(changes):
    path = keep(**changes)
    before = path.read_bytes()
    with pytest.raises(AppError, match="is damaged; once it is moved away") as caught:
        tuned_plan(*WHO)
    assert caught.value.code is ErrorCode.FILE_UNREADABLE
    assert path.read_bytes() == before
