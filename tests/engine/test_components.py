"""Backends installed apart from the app: loaded with the very ggml they were made for, and otherwise left out aloud."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from app.engine.components import MANIFEST, load_components
from app.engine.ggml import library_folder
from app.platform_name import this_platform

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import sys
from pathlib import Path
from app.engine.components import load_components
from app.engine.ggml import Ggml
ggml = Ggml()
notes = load_components(ggml, Path(sys.argv[1]))
print(ggml.backends())
ggml.load_backends()
print(ggml.backends())
print(*notes, sep="\\n")
"""


class NoGgml:
    """A ggml of version 0.25.3 into which nothing may be loaded."""

    version = "0.25.3"

    def register_backend(self, library):
        raise AssertionError(f"{library} was loaded")


@pytest.fixture
def lay(tmp_path):
    """Lays a component: `lay(**changes_of_the_manifest) -> its folder`."""

    def make(**changes):
        folder = tmp_path / "components" / "cuda"
        folder.mkdir(parents=True)
        (folder / "ggml-cuda.dll").write_bytes(b"library")
        told = {
            "format": 1,
            "name": "cuda",
            "platform": this_platform(),
            "ggml": NoGgml.version,
            "library": "ggml-cuda.dll",
            "files": {"ggml-cuda.dll": 7},
        }
        (folder / MANIFEST).write_text(json.dumps(told | changes))
        return folder

    return make


def only_note(folder):
    (note,) = load_components(NoGgml(), folder.parent)
    assert str(folder) in note
    return note


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"ggml": "0.25.4"}, "made for ggml 0.25.4, and this engine has 0.25.3"),
        ({"platform": "windows-riscv"}, "made for windows-riscv"),
        ({"format": 2}, "of format 2"),
        ({"library": "other.dll"}, "other.dll is not among its files"),
        ({"library": "../evil.dll"}, "cannot be read"),
        ({"files": {"../evil.dll": 7}}, "cannot be read"),
        ({"files": {"ggml-cuda.dll": 8}}, "7 bytes in place of 8"),
        ({"files": {"ggml-cuda.dll": 7, "cudart.dll": 1}}, "cudart.dll is missing"),
        ({"files": {}}, "cannot be read"),
        ({"name": None}, "cannot be read"),
    ],
)
def test_a_component_that_does_not_fit_is_left_out_with_the_reason(lay, changes, reason):
    assert reason in only_note(lay(**changes))


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[" * 70_000, b'{"deep":' + b"[" * 60_000])
def test_a_manifest_that_is_none_is_told(lay, content):
    folder = lay()
    (folder / MANIFEST).write_bytes(content)
    assert "cannot be read" in only_note(folder)


def test_a_library_that_is_none_is_told(lay):
    assert "cannot be loaded" in only_note(lay())


def test_without_components_nothing_is_said(tmp_path):
    assert load_components(NoGgml(), tmp_path / "nowhere") == ()
    (tmp_path / "other").mkdir()
    (tmp_path / "file").write_text("")
    assert load_components(NoGgml(), tmp_path) == ()


def test_a_folder_that_cannot_be_looked_into_is_told(tmp_path):
    folder = tmp_path / "components"
    folder.write_text("a file where the folder should be")
    (note,) = load_components(NoGgml(), folder)
    assert str(folder) in note
    assert "cannot be looked for" in note


def run(folder):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.fixture
def real(lay):
    """A component with a real backend: the engine's own for the processor, under another name."""
    import app.engine.ggml

    source = next(path for path in sorted(library_folder().iterdir()) if path.name.startswith("libggml-cpu"))

    def make(**changes):
        version = app.engine.ggml.Ggml().version
        size = source.stat().st_size
        folder = lay(**{"ggml": version, "library": source.name, "files": {source.name: size}} | changes)
        shutil.copyfile(source, folder / source.name)
        return folder

    return make


def test_a_component_that_fits_is_offered_before_the_engines_own_backends(real):
    before, after, *notes = run(real().parent)
    assert before == "('CPU',)"
    assert after.startswith("('CPU', ")
    assert notes == [""]


def test_a_component_of_another_ggml_is_not_even_loaded(real):
    before, _, note = run(real(ggml="0.25.2").parent)
    assert before == "()"
    assert "made for ggml 0.25.2" in note


def test_a_library_that_is_no_backend_is_told(lay):
    source = library_folder() / "libllama.so.0"
    source = source if source.exists() else next(library_folder().glob("libllama.so*"))
    import app.engine.ggml

    version, size = app.engine.ggml.Ggml().version, source.stat().st_size
    folder = lay(ggml=version, library=source.name, files={source.name: size})
    shutil.copyfile(source, folder / source.name)
    before, _, note = run(folder.parent)
    assert before == "()"
    assert "it is no backend of ggml." in note
