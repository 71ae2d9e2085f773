"""Counting the threads of the frozen engine: whose are seen, and which count ends the build."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import steady_threads
import wine
from steady_threads import MOST_THREADS, ThreadCounter

from app.library import folders

MANY = """
import sys, threading
end = threading.Event()
threads = [threading.Thread(target=end.wait) for _ in range(30)]
for thread in threads: thread.start()
print("started", flush=True)
sys.stdin.read()
end.set()
"""


@pytest.fixture
def start():
    started = []

    def run(program, prefix):
        command = [sys.executable, "-c", MANY, program]
        environment = dict(os.environ, WINEPREFIX=str(prefix))
        started.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment))
        assert started[-1].stdout.readline() == b"started\n"

    yield run
    for process in started:
        process.communicate()


def test_the_threads_of_the_program_in_its_windows_are_counted_and_no_others(start, tmp_path):
    with (
        ThreadCounter("app.exe", tmp_path) as counted,
        ThreadCounter("app.exe", tmp_path / "other") as elsewhere,
        ThreadCounter("other.exe", tmp_path) as other,
    ):
        start("app.exe", tmp_path)
    assert (counted.most, elsewhere.most, other.most) == (31, 0, 0)


@pytest.fixture
def counted(monkeypatch):
    """Lets the demo model answer, and so many threads be seen."""

    def lay(threads, status=0, failing="chat"):
        def run(command, _prefix, more):
            homes.append(more)
            code = status if failing in command else 0
            return subprocess.CompletedProcess([], code, b'{"tokens_per_second": 80.0}', b"it broke")

        homes = []
        monkeypatch.setattr(wine, "run", run)
        monkeypatch.setattr(ThreadCounter, "most", threads)
        return homes

    return lay


def test_few_threads_pass(counted, tmp_path, capsys):
    counted(17)
    steady_threads.check(tmp_path, tmp_path)
    assert "80.0 tokens a second with 2 threads, of 17" in capsys.readouterr().out


@pytest.mark.parametrize("threads", [0, MOST_THREADS, 1408])
def test_threads_for_every_token_end_the_build_and_so_does_seeing_none(threads, counted, tmp_path):
    counted(threads)
    with pytest.raises(SystemExit, match="not kept"):
        steady_threads.check(tmp_path, tmp_path)


@pytest.mark.parametrize(("failing", "words"), [("demo", "not written"), ("chat", "did not answer")])
def test_what_fails_ends_the_build_with_its_reason(failing, words, counted, tmp_path):
    counted(17, status=1, failing=failing)
    with pytest.raises(SystemExit, match=rf"{words} \(1\)\n.*it broke"):
        steady_threads.check(tmp_path, tmp_path)


def test_what_the_app_keeps_lies_in_a_folder_that_is_gone_afterwards(counted, tmp_path):
    homes = counted(17)
    steady_threads.check(tmp_path, tmp_path)
    (first,) = {tuple(home.items()) for home in homes}
    ((variable, folder),) = first
    assert variable == folders.HOME_VARIABLE
    assert folder.startswith("Z:")
    assert not Path(folder.removeprefix("Z:").replace("\\", "/")).exists()
