"""Copier, facts and policy with every thread that uses them at once, under the sanitizers."""

import subprocess

import pytest
from native_build import NATIVE, SOURCES, compile_with_ggml

FILES = (
    *(SOURCES / name for name in ("threads_test.cpp", "copier_test.cpp", "ahead_test.cpp")),
    *(NATIVE / name for name in ("ahead.cpp", "copier.cpp", "facts.cpp", "policy.cpp", "ways.cpp")),
)


@pytest.mark.parametrize("sanitizer", ["address,undefined", "thread"])
def test_copies_facts_and_decisions_run_clean_from_all_their_threads(tmp_path, sanitizer):
    program = tmp_path / "threads_test"
    compile_with_ggml(
        program, "-g", "-O1", f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all", *map(str, FILES), "-pthread"
    )
    done = subprocess.run([str(program)], capture_output=True, text=True, timeout=240, check=False)
    if done.returncode != 0 and "unexpected memory mapping" in done.stderr:
        pytest.skip("ThreadSanitizer cannot run with this kernel's address randomisation")
    assert done.returncode == 0, done.stderr[-6000:]
    assert done.stdout.strip() == "ok"
