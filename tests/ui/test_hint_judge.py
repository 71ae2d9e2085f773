"""What hints are judged by beside the window: the engine's files, again after a failure, and the model's own disk."""

import base64
import hashlib

import pytest
from ui_factories import make_facts, make_machine

from app.doctor.observation import Observation
from app.hardware import engine_files
from app.hardware.facts import Disk
from app.placement.planner import make_plan
from app.ui.hint_judge import Judge


@pytest.fixture
def library(tmp_path, monkeypatch):
    """The one library of an installed engine, in a distribution of its own."""
    folder = tmp_path / "llama_cpp"
    folder.mkdir()
    file = folder / "libllama.so"
    file.write_bytes(b"code")
    digest = base64.urlsafe_b64encode(hashlib.sha256(b"code").digest()).rstrip(b"=").decode()
    info = tmp_path / "llama_cpp_python-9.9.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: llama_cpp_python\nVersion: 9.9\n")
    (info / "RECORD").write_text(f"llama_cpp/libllama.so,sha256={digest},4\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(engine_files, "_ENGINE", (("llama_cpp_python", "llama_cpp/"),))
    return file


def rules(diagnosis):
    return [hint.rule for hint in diagnosis.hints]


def test_the_engines_files_are_looked_at_again_after_a_failure(library):
    judge, seen = Judge(), Observation(machine=make_machine())
    assert "engine-files" in judge.judge(seen, engine_failed=False).fine
    library.unlink()
    assert rules(judge.judge(seen, engine_failed=False)) == []
    diagnosis = judge.judge(seen, engine_failed=True)
    assert rules(diagnosis) == ["engine-files"]
    assert "libllama.so is missing" in diagnosis.hints[0].evidence


def test_a_model_in_the_models_folder_is_judged_by_that_folders_disk():
    slow = Disk(path="/models", total_bytes=1, free_bytes=1, rotational=True, network=False)
    facts, machine = make_facts(), make_machine(disk=slow)
    seen = Observation(machine=machine, facts=facts, plan=make_plan(facts, machine))
    assert rules(Judge().judge(seen, engine_failed=False)) == ["slow-disk"]


def test_a_model_elsewhere_is_not_judged_by_the_disk_of_the_models_folder(tmp_path):
    slow = Disk(path="/models", total_bytes=1, free_bytes=1, rotational=True, network=False)
    facts, machine = make_facts(files=(str(tmp_path / "a.gguf"),)), make_machine(disk=slow)
    seen = Observation(machine=machine, facts=facts, plan=make_plan(facts, machine))
    diagnosis = Judge().judge(seen, engine_failed=False)
    assert all("/models" not in hint.evidence for hint in diagnosis.hints)
