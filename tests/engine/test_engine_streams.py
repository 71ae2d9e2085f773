"""The engine child's standard streams: requests and events have them for themselves."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORDS = """
import os
from app.engine import process
requests = process._take_requests()
print(repr(os.read(0, 100)), repr(requests.readline()), requests.fileno() > 2, os.get_inheritable(requests.fileno()))
"""


def test_only_the_requests_reader_gets_what_comes_in_on_standard_input():
    done = subprocess.run(
        [sys.executable, "-c", WORDS], input=b"a request\n", capture_output=True, cwd=ROOT, check=True, timeout=240
    )
    assert done.stdout.decode().split("\n")[0] == "b'' b'a request\\n' True False"
