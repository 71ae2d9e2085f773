"""The disk lane's reading threads, table, locks and system calls, under the sanitizers."""

import subprocess
import sys
from pathlib import Path

import pytest
from native_build import NATIVE, SOURCES, compile_with_ggml

DISK = ("disk_test.cpp", "pages.cpp", "reader.cpp", "resident.cpp")
LOCKS = ("hot_locks_test.cpp", "hot_locks.cpp", "page_locks.cpp", "pages.cpp")

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the tests map a file as Linux does")


def run(folder: Path, files: tuple[str, ...], sanitizer: str, *arguments: str) -> str:
    """What the program of these files prints, the first of them a test's; built with a sanitizer, or with none."""
    program = folder / Path(files[0]).stem
    sources = [str((SOURCES if name.endswith("_test.cpp") else NATIVE) / name) for name in files]
    flags = [f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all"] if sanitizer else []
    compile_with_ggml(program, "-g", "-O1", *flags, *sources, "-pthread")
    done = subprocess.run([str(program), *arguments], capture_output=True, text=True, timeout=240, check=False)
    if done.returncode != 0 and "unexpected memory mapping" in done.stderr:
        pytest.skip("ThreadSanitizer cannot run with this kernel's address randomisation")
    assert done.returncode == 0, done.stderr[-6000:]
    return done.stdout.strip()


@pytest.mark.parametrize("sanitizer", ["address,undefined", "thread"])
def test_reads_and_the_order_of_leaving_run_clean_from_all_threads(tmp_path, sanitizer):
    assert run(tmp_path, DISK, sanitizer, str(tmp_path / "file")) == "ok"


def test_no_page_is_locked_twice_or_unlocked_without_being_locked_and_ranges_are_few(tmp_path):
    assert run(tmp_path, LOCKS, "address,undefined") == "ok"


def test_neighbours_are_locked_as_one_and_each_refusal_of_the_system_has_its_reason(tmp_path):
    """Without a sanitizer: theirs replace the calls that lock memory by none."""
    assert run(tmp_path, LOCKS, "", str(tmp_path / "file")) == "ok"


def test_where_the_process_has_no_mapping_left_that_is_the_reason(tmp_path):
    said = run(tmp_path, LOCKS, "", str(tmp_path / "file"), "mappings")
    if said == "too many":
        pytest.skip("a process may have very many mappings here")
    assert said == "ok"
