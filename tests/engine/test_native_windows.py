"""The native libraries' sources compiled for Windows, without a warning, where that compiler is at hand."""

import os
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from native_build import NATIVE, ggml_source

COMPILERS = ("x86_64-w64-mingw32-g++-posix", "x86_64-w64-mingw32-g++")
WINDOWS_10 = "0x0A00"


def sources_of(library: str) -> list[Path]:
    """The files of a library, as CMake knows them."""
    found = re.search(rf"add_library\({library} SHARED([^)]*)\)", (NATIVE / "CMakeLists.txt").read_text())
    assert found is not None
    return [NATIVE / name for name in found[1].split()]


@pytest.fixture
def complaints():
    """What the compiler says of a file's source text; empty when all is well."""
    compiler, ggml = next(filter(None, map(shutil.which, COMPILERS)), None), ggml_source()
    if compiler is None:
        pytest.skip(f"no compiler for Windows here ({COMPILERS[0]})")
    if not ggml.is_dir():
        pytest.skip("no ggml headers of this engine")
    command = [
        compiler, "-x", "c++", "-", "-std=c++17", "-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Werror",
        f"-D_WIN32_WINNT={WINDOWS_10}", f"-DWINVER={WINDOWS_10}", '-DBUILT_FOR_GGML="0"',
        f"-I{NATIVE}", "-isystem", str(ggml / "include"), "-isystem", str(ggml / "src"),
    ]  # fmt: skip

    def compiled(text: str) -> str:
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=300, check=False)
        return done.stderr if done.returncode else ""

    return compiled


@pytest.mark.parametrize("library", ["expert_device", "expert_simulator"])
def test_every_source_compiles_for_windows_without_a_warning(library, complaints):
    """All of a library at once, which takes a tenth of the time; one by one where two files use a name each."""
    texts = [f'#include "{path}"\n' for path in sources_of(library)]
    assert len(texts) > 1
    if complaints("".join(texts)):
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            wrong = "".join(pool.map(complaints, texts))
        assert not wrong, wrong[-6000:]


def test_a_wrong_source_is_complained_of(complaints):
    assert "not_there" in complaints("int main() { return not_there; }")
    assert "unused" in complaints("int main() { int never = 1; }")
