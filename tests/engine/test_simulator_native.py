"""The native simulator alone, under the sanitizers."""

import subprocess

from native_policy import NATIVE, TESTS, build_with_policy


def test_random_and_damaged_routings_run_clean_under_sanitizers(tmp_path):
    program = tmp_path / "simulator_test"
    build_with_policy(
        "-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all",
        str(TESTS / "simulator_test.cpp"), str(NATIVE / "simulate.cpp"), "-o", str(program),
    )  # fmt: skip
    done = subprocess.run([str(program)], capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "ok"
