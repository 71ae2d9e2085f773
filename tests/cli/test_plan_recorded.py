"""`plan` with the recorded routing of the model's answers."""

import json

import msgspec
import pytest
from factories import GIB, make_gpu, make_machine
from gguf_files import write_model
from made_traces import skewed_trace, write_trace
from model_shapes import qwen3_30b_a3b

from app import cli
from app.library.routing_records import routing_folder
from app.model import read_facts
from app.placement.cache.trace import kept_name


@pytest.fixture
def plan(tmp_path, capsys, monkeypatch):
    """Runs `plan` for a laptop with a card of 8 GiB; the model is there."""
    monkeypatch.setenv("EXPERT_LANES_HOME", str(tmp_path / "home"))
    model = write_model(tmp_path / "qwen3.gguf", qwen3_30b_a3b())
    profile = tmp_path / "machine.json"
    profile.write_bytes(msgspec.json.encode(make_machine(make_gpu(7 * GIB))))

    def run(*options):
        assert cli.main(["plan", str(model), "--hardware", str(profile), *options]) == 0
        return capsys.readouterr().out

    run.facts = read_facts(model)
    return run


def record(facts, tokens):
    routing_folder().mkdir(parents=True, exist_ok=True)
    trace = skewed_trace(tokens=tokens, layers=facts.moe_layers, experts=128, used=8, fingerprint=facts.fingerprint)
    write_trace(routing_folder() / kept_name(facts.fingerprint), trace)


def test_a_plan_says_from_how_many_recorded_tokens_its_hit_rate_is(plan):
    before = json.loads(plan("--json"))
    record(plan.facts, 150)
    after = json.loads(plan("--json"))
    assert "recorded" not in before["speed"]["sentence"]
    assert "hit rate from 150 recorded tokens" in after["speed"]["sentence"]
    assert after["speed"]["decode"] != before["speed"]["decode"]
    assert "hit rate from 150 recorded tokens" in plan()


def test_a_recording_that_is_too_short_changes_nothing(plan):
    before = plan("--json")
    record(plan.facts, 100)
    assert plan("--json") == before


def test_a_damaged_recording_is_a_note(plan):
    record(plan.facts, 150)
    (routing_folder() / kept_name(plan.facts.fingerprint)).write_bytes(b"nothing")
    assert any("recorded routing is not used" in note for note in json.loads(plan("--json"))["notes"])
