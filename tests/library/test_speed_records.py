"""Real answers kept for the speed model."""

import msgspec
import pytest
from factories import demo, make_machine, qwen3_30b

from app.errors import AppError, ErrorCode
from app.library import folders
from app.library.speed_records import KEPT, keep, observations, remember
from app.placement.cache.facts import CacheReport
from app.placement.memory import spare_bytes
from app.placement.plan import CPU_LANE, Plan
from app.placement.planner import make_plan
from app.placement.speed.learning import Observation

WHO = (demo(), make_machine())


@pytest.fixture(autouse=True)
def _home(tmp_path, monkeypatch):
    monkeypatch.setenv(folders.HOME_VARIABLE, str(tmp_path))


def answer(speed):
    return Observation(
        plan=Plan(model_files=(), gpu=None, expert_lanes={0: "CPU", 1: "CUDA0"}, n_ctx=512),
        hit_rate=None,
        decode_tokens_per_second=speed,
        prompt_tokens_per_second=0.0,
        prompt_tokens=10,
        context_tokens=100,
        spare_ram_bytes=-5,
        at="2026-01-01T00:00:00+00:00",
    )


def test_answers_come_back_in_the_order_they_were_kept():
    assert observations(*WHO) == ()
    keep(*WHO, answer(1.0))
    keep(*WHO, answer(2.0))
    assert observations(*WHO) == (answer(1.0), answer(2.0))


def test_every_model_machine_and_engine_has_its_own():
    keep(*WHO, answer(1.0))
    engine = msgspec.structs.replace(WHO[1].engine, llama_cpp_python="0.4.0")
    for other in (
        (qwen3_30b(fingerprint="another"), WHO[1]),
        (WHO[0], make_machine(cores=2)),
        (WHO[0], make_machine(engine=engine)),
    ):
        assert observations(*other) == ()


def test_the_oldest_are_forgotten():
    for index in range(KEPT + 3):
        keep(*WHO, answer(float(index)))
    kept = observations(*WHO)
    assert len(kept) == KEPT
    assert (kept[0].decode_tokens_per_second, kept[-1].decode_tokens_per_second) == (3.0, KEPT + 2.0)


class Figures(msgspec.Struct, frozen=True):
    prompt_tokens: int = 300
    reused_tokens: int = 100
    completion_tokens: int = 60
    prompt_tokens_per_second: float = 90.0
    tokens_per_second: float = 14.0
    cache: CacheReport = CacheReport(requested_bytes=0, allocated_bytes=0, used=False, reason="", hits=0, misses=9)


def test_a_finished_answer_is_remembered_with_the_main_memory_that_was_left():
    facts, machine = WHO
    plan = make_plan(facts, machine)
    remember(facts, machine, plan, Figures())
    (seen,) = observations(facts, machine)
    assert seen.decode_tokens_per_second == 14.0
    assert seen.spare_ram_bytes == spare_bytes(plan, machine, CPU_LANE)


def test_an_answer_that_tells_nothing_makes_no_file():
    facts, machine = WHO
    remember(facts, machine, make_plan(facts, machine), Figures(completion_tokens=1, reused_tokens=299))
    assert not (folders.data_folder() / "machine").exists()


def test_an_answer_that_cannot_be_kept_is_logged(caplog):
    facts, machine = WHO
    keep(*WHO, answer(1.0))
    (path,) = (folders.data_folder() / "machine" / "speed").glob("*.json")
    path.write_bytes(b"{")
    remember(facts, machine, make_plan(facts, machine), Figures())
    assert "is not kept" in caplog.text
    assert path.read_bytes() == b"{"


def test_a_damaged_record_is_told_and_kept():
    keep(*WHO, answer(1.0))
    (path,) = (folders.data_folder() / "machine" / "speed").glob("*.json")
    path.write_bytes(msgspec.json.encode({"version": 99}))
    with pytest.raises(AppError) as told:
        keep(*WHO, answer(2.0))
    assert told.value.code is ErrorCode.FILE_UNREADABLE
    assert b"99" in path.read_bytes()
