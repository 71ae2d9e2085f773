"""`doctor` where the model's disk never answers: the time is bounded, what did not answer is told, and the rest too."""

import json
import os
import pathlib
import signal
import sys
import threading
import time
from pathlib import Path

import pytest
from short_model import build_short_demo

from app import cli
from app.commands import doctor, doctor_model, patience
from app.commands.patience import PatientClient, StillError
from app.engine import protocol

SNAPSHOT = Path(__file__).resolve().parents[1] / "snapshots" / "laptop_ryzen_uma.json"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def model(home):
    return build_short_demo(home / "models" / "short.gguf")


@pytest.fixture
def run(home, monkeypatch, capsys):
    """`run(*arguments)`: what `doctor --json` prints, in this process."""
    monkeypatch.setenv("EXPERT_LANES_HOME", str(home))

    def run_here(*arguments):
        assert cli.main(["doctor", *map(str, arguments), "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    return run_here


@pytest.fixture
def hanging(monkeypatch):
    """Opening a model's file never returns, as on a disk that was pulled out; fifteen seconds are a fifth of one."""
    released = threading.Event()
    opened = pathlib.Path.open

    def never(path, *arguments, **keywords):
        if path.suffix == ".gguf":
            released.wait()
        return opened(path, *arguments, **keywords)

    monkeypatch.setattr(pathlib.Path, "open", never)
    monkeypatch.setattr(doctor_model, "TABLES_SECONDS", 0.2)
    yield
    released.set()


def of(found, rule):
    return [hint for hint in found["hints"] if hint["rule"] == rule]


def why(found, rule):
    return next((its["why"] for its in found["not_judged"] if its["rule"] == rule), "")


@pytest.mark.usefixtures("hanging")
def test_a_file_that_does_not_answer_is_a_problem_and_the_machine_is_judged_all_the_same(run, model):
    begin = time.monotonic()
    found = run(model)
    assert time.monotonic() - begin < 120, "the file alone would take for ever; the engine's start takes most"
    (hint,) = of(found, "silent-disk")
    assert hint["severity"] == "problem"
    assert str(model) in hint["evidence"]
    assert hint["about"] == str(model)
    assert "engine-files" in found["fine"]
    assert "did not answer in time" in why(found, "idle-pool")


@pytest.mark.usefixtures("hanging")
def test_what_did_not_answer_is_in_the_record_without_its_folder(run, model, tmp_path):
    record = tmp_path / "silent.jsonl"
    found = run(model, "--record", record)
    again = run("--replay", record)
    assert [its["rule"] for its in again["hints"]] == [its["rule"] for its in found["hints"]]
    assert str(model.parent) not in "".join(record.read_text(encoding="utf-8").splitlines()[1:])


@pytest.mark.usefixtures("hanging")
def test_a_described_machine_is_judged_without_the_model_too(run, model):
    found = run(model, "--snapshot", SNAPSHOT)
    assert of(found, "silent-disk")
    assert "did not answer in time" in why(found, "threads")


@pytest.mark.usefixtures("hanging")
def test_nothing_is_loaded_from_a_file_that_does_not_answer(run, model, monkeypatch):
    monkeypatch.setattr(doctor, "watch_answer", lambda *_, **__: pytest.fail("it was loaded"))
    found = run(model, "--load")
    assert of(found, "silent-disk")
    assert "The model was not loaded: its file did not answer." in found["notes"]


def test_a_file_that_answers_is_found_to_be_fine(run, model):
    assert "silent-disk" in run(model, "--gpu", "none")["fine"]


def test_an_engine_that_stops_working_while_it_loads_is_told_and_the_rest_too(run, model, monkeypatch):
    def stands_still(*_, **__):
        raise StillError(61.0, "neither computed nor read anything")

    monkeypatch.setattr(doctor, "watch_answer", stands_still)
    found = run(model, "--gpu", "none", "--load")
    (hint,) = of(found, "silent-disk")
    assert "was loaded" in hint["evidence"]
    assert "61 seconds" in hint["evidence"]
    assert "threads" in found["fine"], "the plan is judged"
    assert any("neither computed nor read anything" in note for note in found["notes"])


@pytest.mark.skipif(sys.platform == "win32", reason="there is no signal that stops a process")
def test_an_engine_that_neither_computes_nor_reads_is_given_up(monkeypatch):
    with PatientClient() as client:
        os.kill(client.pid, signal.SIGSTOP)
        with monkeypatch.context() as hurried:  # else it may have to wait for its turn
            hurried.setattr(patience, "LOOK_SECONDS", 0.05)
            hurried.setattr(patience, "IDLE_SECONDS", 0.5)
            try:
                with pytest.raises(StillError) as caught:
                    client.request(protocol.ListDevices, protocol.Devices)
            finally:
                os.kill(client.pid, signal.SIGCONT)
        assert client.request(protocol.ListDevices, protocol.Devices).build.ggml, "it goes on when it is let go"
    assert caught.value.seconds >= 0.5


def test_an_engine_that_works_is_waited_for(monkeypatch, tmp_path):
    monkeypatch.setattr(patience, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(patience, "IDLE_SECONDS", 2.0)  # for so long a busy machine lets nobody wait
    child = tmp_path / "child.py"
    child.write_text(
        "import os, sys, time\n"
        "from app.engine import protocol\n"
        "def say(event):\n"
        "    sys.stdout.buffer.write(protocol.encode(event))\n"
        "    sys.stdout.flush()\n"
        "say(protocol.Ready(id=0, protocol=protocol.PROTOCOL_VERSION, pid=os.getpid()))\n"
        "request = protocol.decode_request(sys.stdin.buffer.readline())\n"
        "end = time.process_time() + 4\n"
        "while time.process_time() < end:\n"
        "    sum(range(10000))\n"
        "say(protocol.LoadProgress(id=request.id, fraction=1.0))\n"
        "sys.stdin.buffer.read()\n",
        encoding="utf-8",
    )
    with PatientClient([sys.executable, str(child)]) as client:
        assert client.request(protocol.ListDevices, protocol.LoadProgress).fraction == 1.0
