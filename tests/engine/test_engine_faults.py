"""The engine child when something is wrong: bad plans, bad files, killed and hanging processes."""

import os
import shutil
import signal
import subprocess
import sys
import time

import psutil
import pytest
import tiny_shapes
from engine_driver import QUESTION, answer, plan_for

from app.engine import protocol
from app.engine.client import EngineClient, engine_command
from app.errors import AppError, ErrorCode


def test_a_device_that_is_not_there_is_named_with_those_that_are(demo_model):
    with EngineClient() as client, pytest.raises(AppError) as caught:
        client.request(protocol.Load, protocol.Loaded, plan=plan_for(demo_model, gpu="CUDA7"))
    assert caught.value.code is ErrorCode.DEVICE_MISSING
    assert "CUDA7" in caught.value.message


def test_without_a_model_an_answer_is_refused_and_unload_is_harmless():
    with EngineClient() as client:
        client.request(protocol.Unload, protocol.Unloaded)
        with pytest.raises(AppError) as caught:
            answer(client)
    assert caught.value.code is ErrorCode.ENGINE_FAILED


def test_a_killed_child_is_a_typed_error_that_names_the_signal(demo_model):
    with EngineClient() as client:
        client.request(protocol.Load, protocol.Loaded, plan=plan_for(demo_model))
        request = client.send(protocol.Generate, messages=QUESTION, max_tokens=500)
        with pytest.raises(AppError) as caught:
            for event in client.events(request, protocol.Finished):
                if isinstance(event, protocol.Token):
                    os.kill(client.pid, signal.SIGKILL)
        assert caught.value.code is ErrorCode.ENGINE_CRASHED
        assert "SIGKILL" in caught.value.message
        with pytest.raises(AppError):
            client.send(protocol.ListDevices)


def test_the_child_ends_with_its_parent():
    program = (
        "import sys, os\nfrom app.engine.client import EngineClient\n"
        "c = EngineClient(); print(c.pid, flush=True); os._exit(1)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=240, check=False)
    deadline = time.monotonic() + 60
    while is_running(int(done.stdout)):
        assert time.monotonic() < deadline, "it outlives its parent"


def is_running(pid):
    """False for one that has ended, too, which nobody waits for where the first process of a container does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_text_that_is_no_unicode_is_refused_and_the_child_lives(loaded):
    with pytest.raises(AppError) as caught:
        answer(loaded, messages=(protocol.Message(role="user", content="caf\udce9"),))
    assert caught.value.code is ErrorCode.BAD_USAGE
    assert answer(loaded).text


def test_a_log_nobody_can_be_shown_does_not_stop_the_answers():
    def show(_line):
        raise BrokenPipeError

    program = (
        "import os, sys\nfrom app.engine import protocol as p\n"
        "w = lambda e: (sys.stdout.buffer.write(p.encode(e)), sys.stdout.flush())\n"
        "w(p.Ready(protocol=p.PROTOCOL_VERSION, pid=os.getpid()))\n"
        "for line in sys.stdin.buffer:\n"
        "    w(p.LogLine(level='error', text='x')); w(p.Unloaded(id=p.decode_request(line).id))\n"
    )
    with EngineClient([sys.executable, "-c", program], on_log=show) as client:
        for _ in range(3):
            client.request(protocol.Unload, protocol.Unloaded, timeout=240)


def test_a_child_that_does_not_answer_is_given_up_in_time():
    program = (
        "import os, sys\nfrom app.engine import protocol as p\n"
        "sys.stdout.buffer.write(p.encode(p.Ready(protocol=p.PROTOCOL_VERSION, pid=os.getpid()))); sys.stdout.flush()\n"
        "sys.stdin.buffer.read()\n"
    )
    with EngineClient([sys.executable, "-c", program]) as client, pytest.raises(AppError) as caught:
        client.request(protocol.ListDevices, protocol.Devices, timeout=0.5)
    assert caught.value.code is ErrorCode.ENGINE_FAILED


BAD_PLANS = {
    "no files": {"model_files": ()},
    "no context": {"n_ctx": 0},
    "a huge context": {"n_ctx": 2**40},
    "no batch": {"n_batch": 0},
    "a batch below the ubatch": {"n_batch": 64},
    "an unknown cache type": {"kv_type": "q9"},
    "no threads": {"threads": 0},
    "too many threads": {"threads_batch": 1000},
}


@pytest.mark.parametrize("changes", BAD_PLANS.values(), ids=BAD_PLANS)
def test_a_plan_llama_cpp_would_abort_on_is_refused(demo_model, changes):
    with EngineClient() as client, pytest.raises(AppError) as caught:
        client.request(protocol.Load, protocol.Loaded, plan=plan_for(demo_model, **changes))
    assert caught.value.code is ErrorCode.BAD_USAGE


def test_a_model_without_a_vocabulary_is_unsupported_and_the_child_lives(tmp_path, demo_model):
    path = tmp_path / "no vocabulary.gguf"
    tiny_shapes.mixtral(path)
    with EngineClient() as client:
        with pytest.raises(AppError) as caught:
            client.request(protocol.Load, protocol.Loaded, plan=plan_for(path, n_ctx=256))
        client.request(protocol.Load, protocol.Loaded, plan=plan_for(demo_model))
    assert caught.value.code is ErrorCode.MODEL_UNSUPPORTED
    assert "vocabulary" in caught.value.message


def test_a_model_that_computes_no_numbers_is_damaged_instead_of_answering(tmp_path, demo_model):
    path = tmp_path / "damaged.gguf"
    shutil.copyfile(demo_model, path)
    with path.open("r+b") as file:
        file.seek(-1_000_000, os.SEEK_END)
        file.write(b"\xff" * 1_000_000)  # scales of blocks that are no numbers; the tables are sound
    with EngineClient() as client:
        client.request(protocol.Load, protocol.Loaded, plan=plan_for(path))
        for _ in range(2):
            with pytest.raises(AppError) as caught:
                answer(client)
            assert caught.value.code is ErrorCode.MODEL_DAMAGED
            assert "computes no numbers" in caught.value.message
        client.request(protocol.Load, protocol.Loaded, plan=plan_for(demo_model))
        assert answer(client).text
    path.unlink()


def test_an_answer_that_cannot_be_stopped_ends_the_child_with_the_reason(tmp_path, demo_model):
    """A chat template that loops: nothing can interrupt it, so the child ends itself."""
    begun = tmp_path / "begun"
    program = (
        "import sys\nfrom app.engine import process\n"
        "process._GIVE_UP_SECONDS = 1.0\n"
        "from app.engine import text\n"
        f"text.Prompter.tokens = lambda self, messages: (open({str(begun)!r}, 'w').close(), exec('while True: pass'))\n"
        "sys.exit(process.main([]))\n"
    )
    with EngineClient([sys.executable, "-c", program]) as client, pytest.raises(AppError) as caught:
        client.request(protocol.Load, protocol.Loaded, plan=plan_for(demo_model))
        request = client.send(protocol.Generate, messages=QUESTION)
        deadline = time.monotonic() + 30
        while not begun.exists() and time.monotonic() < deadline:
            client.request(protocol.ReadRouting, protocol.Routing)
        client.send(protocol.Cancel, target=request)
        list(client.events(request, protocol.Finished))
    assert caught.value.code is ErrorCode.ENGINE_CRASHED
    assert "did not stop" in caught.value.detail


def test_what_c_code_prints_cannot_corrupt_the_messages(tmp_path):
    program = (
        "import ctypes, sys\nfrom app.engine import process, protocol\n"
        "out, log = process._protect_output()\n"
        "libc = ctypes.CDLL(None); libc.puts(b'printf from C'); libc.fflush(None); print('print from python')\n"
        "process.EventWriter(out).write(protocol.Unloaded(id=3))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert protocol.decode_event(done.stdout) == protocol.Unloaded(id=3)


def test_what_an_abort_printed_is_the_detail_of_the_error():
    program = (
        "import ctypes, os\nfrom app.engine import process, protocol\n"
        "out, log = process._protect_output()\n"
        "ready = protocol.Ready(protocol=protocol.PROTOCOL_VERSION, pid=os.getpid(), output_log=str(log))\n"
        "process.EventWriter(out).write(ready)\n"
        "libc = ctypes.CDLL(None); libc.puts(b'GGML_ASSERT(n > 0) failed'); libc.fflush(None); libc.abort()\n"
    )
    with EngineClient([sys.executable, "-c", program]) as client, pytest.raises(AppError) as caught:
        client.request(protocol.Unload, protocol.Unloaded)
    assert caught.value.code is ErrorCode.ENGINE_CRASHED
    assert "SIGABRT" in caught.value.message
    assert "GGML_ASSERT(n > 0) failed" in caught.value.detail


def test_a_line_that_is_no_request_is_answered_and_the_child_goes_on():
    child = subprocess.Popen(engine_command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert isinstance(protocol.decode_event(child.stdout.readline()), protocol.Ready)
        child.stdin.write(b'{"type":"load","id":1}\nnonsense\n' + protocol.encode(protocol.ReadRouting(id=9)))
        child.stdin.flush()
        answers = [protocol.decode_event(child.stdout.readline()) for _ in range(3)]
    finally:
        child.stdin.close()
        child.wait(20)
        child.stdout.close()
    assert [type(a) for a in answers] == [protocol.Failed, protocol.Failed, protocol.Routing]
    assert answers[0].code == answers[1].code == "engine_protocol"
