"""The disk lane's reading threads, table and system calls, under the sanitizers."""

import subprocess
import sys

import pytest
from native_build import NATIVE, SOURCES, compile_with_ggml

FILES = (
    SOURCES / "disk_test.cpp",
    *(NATIVE / name for name in ("own_pages.cpp", "pages.cpp", "reader.cpp", "resident.cpp")),
)


@pytest.mark.skipif(sys.platform != "linux", reason="the test maps a file as Linux does")
@pytest.mark.parametrize("sanitizer", ["address,undefined", "thread"])
def test_reads_and_the_order_of_leaving_run_clean_from_all_threads(tmp_path, sanitizer):
    program = tmp_path / "disk_test"
    compile_with_ggml(
        program, "-g", "-O1", f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all", *map(str, FILES), "-pthread"
    )
    done = subprocess.run(
        [str(program), str(tmp_path / "file")], capture_output=True, text=True, timeout=120, check=False
    )
    if done.returncode != 0 and "unexpected memory mapping" in done.stderr:
        pytest.skip("ThreadSanitizer cannot run with this kernel's address randomisation")
    assert done.returncode == 0, done.stderr[-6000:]
    assert done.stdout.strip() == "ok"
