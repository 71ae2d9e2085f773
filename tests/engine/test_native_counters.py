"""The native routing counters under AddressSanitizer, UndefinedBehaviorSanitizer and ThreadSanitizer."""

import shutil
import subprocess
from pathlib import Path

import pytest

NATIVE = Path(__file__).resolve().parents[2] / "app" / "engine" / "native"
SOURCE = Path(__file__).parent / "native" / "routing_test.cpp"


@pytest.mark.parametrize("sanitizer", ["address,undefined", "thread"])
def test_counters_run_clean_with_one_writer_and_several_readers(tmp_path, sanitizer):
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("no C++ compiler here")
    program = tmp_path / "routing_test"
    subprocess.run(
        [compiler, "-std=c++17", "-g", "-O1", "-Wall", "-Wextra", "-Werror", f"-fsanitize={sanitizer}",
         "-fno-sanitize-recover=all", f"-I{NATIVE}", str(SOURCE), str(NATIVE / "routing.cpp"), "-pthread",
         "-o", str(program)],
        check=True,
    )  # fmt: skip
    done = subprocess.run([str(program)], capture_output=True, text=True, timeout=240, check=False)
    if done.returncode != 0 and "unexpected memory mapping" in done.stderr:
        pytest.skip("ThreadSanitizer cannot run with this kernel's address randomisation")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "ok"
