"""An engine child whose system has no memory to read experts in: an end in words after a moment, and it goes on."""

import sys

import pytest
from engine_driver import answer, plan_for
from native_build import SOURCES, compile_with_ggml

from app.engine import protocol
from app.engine.client import EngineClient, engine_command
from app.errors import AppError, ErrorCode

MIB = 1024**2

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the test stands between the engine and Linux")


def test_where_the_system_refuses_memory_for_experts_the_answer_ends_in_words_and_the_next_one_is_right(
    demo_model, tmp_path
):
    library, short = tmp_path / "libshort_of_memory.so", tmp_path / "short"
    compile_with_ggml(library, "-O1", "-shared", "-fPIC", str(SOURCES / "short_of_memory.cpp"))
    command = ["/usr/bin/env", f"LD_PRELOAD={library}", f"SHORT_OF_MEMORY={short}", *engine_command()]
    plan = plan_for(demo_model, threads=1, threads_batch=1, resident_bytes=100 * MIB)
    with EngineClient(command) as client:
        client.request(protocol.Load, protocol.Loaded, plan=plan)
        text = answer(client, max_tokens=4).text
        client.request(protocol.ReleaseMemory, protocol.CacheFacts)
        short.touch()
        with pytest.raises(AppError) as caught:
            answer(client, max_tokens=4)
        assert caught.value.code is ErrorCode.OUT_OF_MEMORY
        assert "no main memory left to read experts into" in caught.value.message
        short.unlink()
        assert answer(client, max_tokens=4).text == text
