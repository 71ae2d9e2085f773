"""A model file that is changed, replaced or gone while it is mapped: said in words, and never a wrong answer."""

import mmap
import os
import shutil
import sys
import time

import pytest
from engine_driver import GREEDY, QUESTION, answer, plan_for

from app.engine import protocol
from app.engine.client import EngineClient, ProcessOutcome
from app.engine.mapped_files import MappedFiles
from app.errors import AppError, ErrorCode

not_on_windows = pytest.mark.skipif(sys.platform == "win32", reason="a mapped file cannot be changed on Windows")
MIB = 1024**2
ALONE = {"threads": 1, "threads_batch": 1}  # threads wait for one another where others compute, too
BUDGETS = pytest.mark.parametrize("budget", [100 * MIB, 0], ids=["within a budget", "left to the system"])


@pytest.fixture
def files(tmp_path):
    paths = [tmp_path / "a-1.gguf", tmp_path / "a-2.gguf"]
    for path in paths:
        path.write_bytes(b"x" * 100)
    return paths


def changed(files) -> MappedFiles:
    return MappedFiles(map(str, files))


def replace(path, data: bytes) -> None:
    other = path.with_suffix(".other")
    other.write_bytes(data)
    other.replace(path)


def test_files_that_are_as_they_were_are_nothing_to_tell(files):
    watched = changed(files)
    files[0].read_bytes()
    assert watched.check() == []


@pytest.mark.parametrize("data", [b"y" * 100, b"y" * 99], ids=["same size", "shorter"])
def test_bytes_written_into_a_file_are_refused_every_time(files, data):
    watched = changed(files)
    files[1].write_bytes(data)
    os.utime(files[1], ns=(1, 1))
    for _ in range(2):
        with pytest.raises(AppError, match=r"a-2\.gguf") as caught:
            watched.check()
        assert caught.value.code is ErrorCode.MODEL_DAMAGED


def touch(path) -> None:
    """Another time, and the same bytes."""
    before = path.stat().st_mtime_ns
    os.utime(path, ns=(before + 10**9, before + 10**9))


def test_a_new_time_alone_is_no_change(files):
    watched = changed(files)
    for _ in range(2):
        touch(files[0])
        assert watched.check() == []


def test_bytes_written_after_a_new_time_are_found(files):
    watched = changed(files)
    touch(files[0])
    assert watched.check() == []
    files[0].write_bytes(b"x" * 50 + b"y" * 50)
    with pytest.raises(AppError, match=r"a-1\.gguf"):
        watched.check()


@pytest.fixture
def large(tmp_path):
    """Larger than what is read of its head, so that the rest is sampled."""
    path = tmp_path / "large.gguf"
    path.write_bytes(os.urandom(MIB) * 40)
    return path


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of writing")
def test_a_single_byte_written_between_the_samples_is_found(large):
    watched = changed([large])
    with large.open("r+b") as file:
        file.seek(30 * MIB + 12345)
        before = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([before ^ 1]))
    with pytest.raises(AppError) as caught:
        watched.check()
    assert "written to" in caught.value.detail


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of writing")
def test_bytes_written_into_a_file_that_has_another_name_now_are_found(large):
    watched = changed([large])
    moved = large.rename(large.with_suffix(".moved"))
    assert len(watched.check()) == 1
    moved.write_bytes(b"y")
    with pytest.raises(AppError, match=r"large\.gguf"):
        watched.check()


@pytest.mark.parametrize("at", [0, 17 * MIB, 40 * MIB - 300 * 1024], ids=["head", "middle", "end"])
def test_bytes_written_through_a_mapping_are_found_by_samples(large, at):
    """No system tells of these."""
    watched = changed([large])
    with large.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        mapped[at : at + 300 * 1024] = bytes(300 * 1024)
    touch(large)
    with pytest.raises(AppError) as caught:
        watched.check()
    assert caught.value.detail == "other bytes of the same number"


def test_of_a_file_of_a_terabyte_little_is_read(tmp_path):
    path = tmp_path / "sparse.gguf"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    watched = changed([path])
    touch(path)
    started = time.monotonic()
    assert watched.check() == []
    assert time.monotonic() - started < 10


def test_another_file_in_its_place_is_told_once(files):
    watched = changed(files)
    replace(files[0], b"y" * 100)
    [sentence] = watched.check()
    assert "a-1.gguf was replaced by another one" in sentence
    assert watched.check() == []


def test_a_file_that_is_gone_is_told_once(files):
    watched = changed(files)
    files[0].unlink()
    [sentence] = watched.check()
    assert "is gone from its place" in sentence
    assert watched.check() == []


def test_a_file_that_is_not_there_from_the_start_is_missing(files):
    files[0].unlink()
    with pytest.raises(AppError) as caught:
        changed(files)
    assert caught.value.code is ErrorCode.FILE_MISSING


@pytest.mark.parametrize("status", [0xC0000006, -0x3FFFFFFA, 0x3FFFFFFA])
def test_a_page_that_windows_could_not_read_is_a_damaged_model(status):
    """As `subprocess` tells it, as a signed number, and with the sign that the window gives a crash."""
    error = ProcessOutcome(status, expected=False).error()
    assert error.code is ErrorCode.MODEL_DAMAGED
    assert "drive failed" in error.message


# ---- through the engine child --------------------------------------------------------------------


@pytest.fixture
def own_copy(demo_model, tmp_path):
    path = tmp_path / "own.gguf"
    shutil.copy(demo_model, path)
    yield path
    path.unlink(missing_ok=True)


def say(client) -> str:
    return answer(client, max_tokens=8).text


def load(client, path, budget):
    client.request(protocol.Load, protocol.Loaded, plan=plan_for(path, **ALONE, resident_bytes=budget))


def write_zeros(path) -> None:
    """Other bytes of the same size, in the middle of the file."""
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        file.write(bytes(MIB))


def failed(client) -> AppError:
    with pytest.raises(AppError) as caught:
        say(client)
    return caught.value


@not_on_windows
@BUDGETS
def test_a_file_cut_while_it_answers_is_a_damaged_model(own_copy, budget):
    """Left to the system a page that is gone ends the child: the error is the same."""
    with EngineClient() as client:
        load(client, own_copy, budget)
        request = client.send(protocol.Generate, messages=QUESTION, sampling=GREEDY, max_tokens=400)
        with pytest.raises(AppError) as caught:
            for event in client.events(request, protocol.Finished):
                if isinstance(event, protocol.Token) and event.count == 1:
                    os.truncate(own_copy, 1_000_000)
    assert caught.value.code is ErrorCode.MODEL_DAMAGED
    assert "was changed" in caught.value.message


@not_on_windows
@BUDGETS
def test_a_file_cut_while_it_is_measured_is_a_damaged_model(own_copy, budget):
    with EngineClient() as client:
        load(client, own_copy, budget)
        request = client.send(protocol.Measure, prompts=("Red, green, blue.",), decode_tokens=400)
        with pytest.raises(AppError) as caught:
            for event in client.events(request, protocol.Measured):
                if isinstance(event, protocol.MeasureProgress) and event.done > 10 and own_copy.stat().st_size > MIB:
                    os.truncate(own_copy, 1_000_000)
    assert caught.value.code is ErrorCode.MODEL_DAMAGED


@not_on_windows
@BUDGETS
def test_a_file_cut_between_answers_is_a_damaged_model_and_the_child_lives(own_copy, demo_model, budget):
    with EngineClient() as client:
        load(client, own_copy, budget)
        text = say(client)
        os.truncate(own_copy, 1_000_000)
        for _ in range(2):
            error = failed(client)
            assert error.code is ErrorCode.MODEL_DAMAGED
            assert "own.gguf" in error.message
        load(client, demo_model, budget)
        assert say(client) == text


@not_on_windows
@BUDGETS
def test_other_bytes_of_the_same_size_written_into_the_file_give_no_answer(own_copy, budget):
    with EngineClient() as client:
        load(client, own_copy, budget)
        say(client)
        write_zeros(own_copy)
        assert failed(client).code is ErrorCode.MODEL_DAMAGED


@not_on_windows
def test_a_file_that_was_touched_goes_on_answering_and_nothing_is_told(own_copy):
    said: list[protocol.LogLine] = []
    with EngineClient(on_log=said.append) as client:
        load(client, own_copy, None)
        text = say(client)
        touch(own_copy)
        assert say(client) == text
    assert [line for line in said if line.level == "warning"] == []


@not_on_windows
def test_bytes_written_while_it_answers_give_no_answer_that_counts(own_copy):
    with EngineClient() as client:
        load(client, own_copy, None)
        request = client.send(protocol.Generate, messages=QUESTION, sampling=GREEDY, max_tokens=12)
        with pytest.raises(AppError) as caught:
            for event in client.events(request, protocol.Finished):
                if isinstance(event, protocol.Token) and event.count == 1:
                    write_zeros(own_copy)
    assert caught.value.code is ErrorCode.MODEL_DAMAGED


@not_on_windows
@BUDGETS
def test_after_a_file_was_replaced_answers_are_of_the_file_as_it_was_and_that_is_said_once(own_copy, budget):
    said: list[protocol.LogLine] = []
    with EngineClient(on_log=said.append) as client:
        load(client, own_copy, budget)
        text = say(client)
        if budget:
            client.request(protocol.ReleaseMemory, protocol.CacheFacts)
        replace(own_copy, bytes(own_copy.stat().st_size))
        assert say(client) == text
        assert say(client) == text
    assert [line.level for line in said] == ["warning"]
    assert "own.gguf was replaced by another one" in said[0].text
