"""The Windows package: what is frozen, what it is fetched from, and what Windows shows of it.

What needs the compiler for Windows, Wine or a frozen app is skipped where that is not there; the engine is in
test_windows_engine.py.
"""

import ast
import re
import struct
import subprocess
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import engine
import engine_wheel
import freeze
import frozen_contents
import identity
import imports
import mingw
import notices
import pins
import project
import pytest
import python
import trial
import wine

ROOT = Path(__file__).resolve().parents[2]
NOT_COMPILED = "no compiler for Windows here"


# ---- what is frozen -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "PySide6/plugins/platforms/qwindows.dll",
        "PySide6/plugins/platforms/qoffscreen.dll",
        "PySide6/plugins/imageformats/qsvg.dll",
        "PySide6/plugins/styles/qmodernwindowsstyle.dll",
        "llama_cpp/lib/ggml-cpu-x64.dll",
        "app/engine/expert_device.dll",
        "VCRUNTIME140.dll",
    ],
)
def test_what_the_app_uses_on_windows_is_frozen(name):
    assert frozen_contents.is_wanted(name)


@pytest.mark.parametrize(
    "name",
    [
        "ucrtbase.dll",
        "api-ms-win-core-file-l1-1-0.dll",
        "icuuc.dll",
        "PySide6/plugins/imageformats/qpdf.dll",
        "PySide6/plugins/platforms/qdirect2d.dll",
        "PySide6/plugins/tls/qschannelbackend.dll",
        "PySide6/translations/qt_de.qm",
    ],
)
def test_what_windows_has_itself_or_nothing_uses_is_not_frozen(name):
    assert not frozen_contents.is_wanted(name)


def test_windows_libraries_that_no_kept_file_needs_are_left_out():
    needs = {
        "python311.dll": ["VCRUNTIME140.dll"],
        "VCRUNTIME140.dll": [],
        "_socket.pyd": [],
        "PySide6/QtGui.pyd": ["Qt6Gui.dll"],
        "PySide6/Qt6Gui.dll": ["Qt6Core.dll"],
        "PySide6/Qt6Core.dll": [],
        "PySide6/Qt6Pdf.dll": ["Qt6Core.dll"],
        "PySide6/opengl32sw.dll": [],
        "PySide6/plugins/imageformats/qsvg.dll": ["Qt6Svg.dll"],
        "PySide6/Qt6Svg.dll": [],
        "llama_cpp/lib/ggml-vulkan.dll": [],
        "app/placement/expert_simulator.dll": [],
    }
    assert set(needs) - frozen_contents.used(needs) == {"PySide6/Qt6Pdf.dll", "PySide6/opengl32sw.dll"}


@pytest.fixture
def built(tmp_path):
    """An engine's folders with one file of each kind."""
    folders = {name: tmp_path / name for name in ("libraries", "native", "source")}
    for folder in folders.values():
        folder.mkdir()
    for name in ("ggml.dll", "ggml-cpu-x64.dll"):
        (folders["libraries"] / name).write_bytes(b"engine")
    for name in engine.NATIVE_LIBRARIES:
        (folders["native"] / f"{name}.dll").write_bytes(b"ours")
    binding = folders["source"] / "llama_cpp"
    (binding / "lib").mkdir(parents=True)
    (binding / "lib" / "libggml.so").write_bytes(b"of another system")
    (binding / "llama.py").write_text("")
    return engine.Engine(key="key", **folders)


def test_what_is_frozen_are_our_sources_with_the_libraries_of_windows_and_no_others(built, tmp_path, monkeypatch):
    monkeypatch.setattr(freeze, "STAGE", tmp_path / "stage")
    stage = freeze.lay_stage(built, "0.1.0")
    libraries = {path.relative_to(stage).as_posix() for path in stage.rglob("*") if path.suffix in {".dll", ".so"}}
    assert libraries == {
        "app/engine/expert_device.dll",
        "app/placement/expert_simulator.dll",
        "llama_cpp/lib/ggml.dll",
        "llama_cpp/lib/ggml-cpu-x64.dll",
    }
    ours = {path.relative_to(ROOT).as_posix() for path in (ROOT / "app").rglob("*.py")}
    assert {path.relative_to(stage).as_posix() for path in (stage / "app").rglob("*.py")} == ours
    assert (stage / "llama_cpp" / "llama.py").is_file()
    metadata = (stage / "expert_lanes-0.1.0.dist-info" / "METADATA").read_text()
    assert "Version: 0.1.0" in metadata
    assert f"Version: {engine_wheel.LLAMA_CPP_PYTHON}" in next(stage.glob("llama_cpp_python-*/METADATA")).read_text()


# ---- what it is made from -----------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(path.name for path in pins.FOLDER.iterdir()))
def test_everything_that_is_fetched_has_its_release_and_hash(name):
    assert pins.read(name)


@pytest.mark.parametrize("line", ["numpy", "numpy==2.0", "numpy>=2 --hash=sha256:" + "0" * 64, "-r other.txt"])
def test_what_is_not_pinned_is_refused(line, tmp_path, monkeypatch):
    monkeypatch.setattr(pins, "FOLDER", tmp_path)
    (tmp_path / "list.txt").write_text(f"# a list\n{line}\n")
    with pytest.raises(SystemExit, match="not a release"):
        pins.read("list.txt")


def test_a_distribution_is_pinned_once(tmp_path, monkeypatch):
    monkeypatch.setattr(pins, "FOLDER", tmp_path)
    pinned = "1.0 --hash=sha256:" + "0" * 64
    (tmp_path / "list.txt").write_text(f"a-b=={pinned}\nA_b=={pinned}\n")
    with pytest.raises(SystemExit, match="twice"):
        pins.read("list.txt")


def test_every_dependency_of_the_app_is_among_the_packages_for_windows():
    asked = {
        re.sub(r"[-_.]+", "-", project.requirement_name(line)).lower() for line in project.project()["dependencies"]
    }
    pinned = pins.read(python.PACKAGES)
    # Built here, from its pinned source.
    assert asked - set(pinned) == {"llama-cpp-python"}


def test_packages_and_tools_do_not_get_in_each_others_way():
    assert not set(pins.read(python.PACKAGES)) & set(pins.read(python.TOOLS))


# ---- what Windows shows of it -------------------------------------------------------------------


def test_the_icon_holds_every_size_with_its_pixels_where_windows_looks_for_them():
    png = b"\x89PNG picture"
    pictures = {16: (bytes(range(256)) * 4, png), 256: (bytes(256 * 256 * 4), png)}
    made = identity.icon(pictures)
    assert struct.unpack_from("<HHH", made) == (0, 1, 2)
    width, height, _, _, _, depth, size, place = struct.unpack_from("<BBBBHHII", made, 6)
    assert (width, height, depth) == (16, 16, 32)
    assert struct.unpack_from("<Iii", made, place) == (40, 16, 32)
    assert made[place + 40 : place + 40 + 64] == pictures[16][0][-64:], "rows begin at the lowest"
    assert size == 40 + 16 * 16 * 4 + 16 * 4
    width, _, _, _, _, _, size, place = struct.unpack_from("<BBBBHHII", made, 22)
    assert width == 0, "which stands for 256"
    assert made[place : place + size] == png
    assert place + size == len(made)


def test_the_icon_is_the_drawing_of_the_app(tmp_path, qapp):
    from PySide6.QtGui import QImageReader

    identity.lay(tmp_path, ROOT / "resources" / "linux" / "expert-lanes.svg", "0.1.0")
    reader = QImageReader(str(tmp_path / identity.ICON))
    seen = []
    while True:
        image = reader.read()
        assert not image.isNull(), reader.errorString()
        seen.append(image.width())
        middle = image.pixelColor(image.width() // 2, image.height() // 8)
        assert image.pixelColor(0, 0).alpha() < 128, "its corners are round"
        assert middle.alpha() == 255
        if not reader.jumpToNextImage():
            break
    assert sorted(seen) == list(identity.SIZES)


@pytest.mark.parametrize(
    ("version", "four"), [("0.1.0", (0, 1, 0, 0)), ("1.2", (1, 2, 0, 0)), ("2.0.3rc1", (2, 0, 3, 0))]
)
def test_versions_become_the_four_numbers_of_windows(version, four):
    assert identity.numbers(version) == four


def test_what_is_no_version_is_refused():
    with pytest.raises(SystemExit, match="not a version"):
        identity.numbers("next")


def test_each_program_tells_its_name_and_version():
    for program, description in identity.DESCRIPTIONS.items():
        made = identity.version_resource(program, description, "0.1.0")
        called = {node.func.id for node in ast.walk(ast.parse(made)) if isinstance(node, ast.Call)}
        assert called == {
            *("VSVersionInfo", "FixedFileInfo", "StringFileInfo", "StringTable", "StringStruct"),
            *("VarFileInfo", "VarStruct"),
        }
        assert f"'{program}.exe'" in made
        assert "(0, 1, 0, 0)" in made


def test_the_programs_ask_windows_for_no_rights_and_for_long_paths_sharp_pictures_and_unicode():
    tree = ElementTree.parse(ROOT / "installer" / "windows" / "expert-lanes.manifest")
    told = {element.tag.rpartition("}")[2]: element for element in tree.iter()}
    assert told["requestedExecutionLevel"].attrib == {"level": "asInvoker", "uiAccess": "false"}
    assert told["longPathAware"].text == "true"
    assert told["dpiAwareness"].text == "PerMonitorV2"
    assert told["activeCodePage"].text == "UTF-8"


# ---- Wine ---------------------------------------------------------------------------------------


def test_files_of_this_system_are_named_as_windows_names_them_and_back():
    assert wine.windows_path(Path("/a b/日本")) == "Z:\\a b\\日本"
    assert notices.here(wine.windows_path(Path("/a b/日本"))) == "/a b/日本"
    assert notices.here("relative/name") == "relative/name"


def test_wine_gets_a_windows_and_a_home_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("LANG", "de_DE.UTF-8")
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    settings = wine.environment(tmp_path / "prefix", tmp_path / "home")
    assert settings["WINEPREFIX"] == str(tmp_path / "prefix")
    assert settings["HOME"] == str(tmp_path / "home")
    assert settings["LANG"] == "de_DE.UTF-8"
    assert "PYTHONPATH" not in settings
    monkeypatch.delenv("LANG")
    assert "UTF-8" in wine.environment(tmp_path, tmp_path)["LANG"], "or names of files are not to be written"


def test_the_stand_in_for_the_unicode_library_has_exactly_the_functions_that_are_asked_for(tmp_path):
    asked = ("ucnv_open", "ucnv_close")
    source = wine.stub_source(asked)
    assert re.findall(r"\*(\w+)\(", source) == list(asked)
    if not mingw.is_here():
        pytest.skip(NOT_COMPILED)
    path = tmp_path / "stub.c"
    path.write_text(source)
    command = [mingw.tool("gcc"), "-fsyntax-only", "-Wall", "-Wextra", "-Werror", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def wine_told(monkeypatch, tmp_path):
    """What the next program under Wine does: its exit status, its output, and whether it writes the picture."""
    told = SimpleNamespace(status=0, output=b"", draws=True, started=[])

    def run(command, prefix, **keywords):
        told.started.append((command, keywords["cwd"]))
        if told.draws and len(command) > 2:
            Path(notices.here(command[2])).write_bytes(b"picture")
        return subprocess.CompletedProcess(command, told.status, told.output, b"it broke")

    monkeypatch.setattr(wine, "run", run)
    return told


def test_the_self_test_tells_what_the_program_printed(wine_told, tmp_path):
    wine_told.output = b'{"answer": "Paris."}\r\n'
    picture = tmp_path / "picture.png"
    assert trial.self_test(tmp_path / "app.exe", tmp_path, picture) == {"answer": "Paris."}
    assert wine_told.started == [([str(tmp_path / "app.exe"), "--self-test", wine.windows_path(picture)], tmp_path)]


def test_a_self_test_that_fails_ends_the_build_with_its_reason(wine_told, tmp_path):
    wine_told.status = 5
    with pytest.raises(SystemExit, match="it broke"):
        trial.self_test(tmp_path / "app.exe", tmp_path)


def test_a_self_test_that_draws_nothing_fails(wine_told, tmp_path):
    wine_told.draws = False
    with pytest.raises(SystemExit, match="no picture"):
        trial.self_test(tmp_path / "app.exe", tmp_path, tmp_path / "picture.png")


def test_both_programs_are_tried_also_in_a_folder_with_any_character(wine_told, tmp_path, monkeypatch):
    monkeypatch.setattr(trial, "WORK", tmp_path / "work")
    frozen = tmp_path / "frozen"
    frozen.mkdir()
    wine_told.output = b"{}"
    counted = []
    monkeypatch.setattr(trial.steady_threads, "check", lambda *asked: counted.append(asked))
    trial.try_frozen(frozen, tmp_path, tmp_path / "pictures")
    assert counted == [(frozen, tmp_path)]
    places = [(Path(command[0]).name, folder.name) for command, folder in wine_told.started]
    assert places == [
        ("expert-lanes.exe", "frozen"),
        ("expert-lanes.exe", trial.AWKWARD),
        ("expert-lanes-window.exe", trial.AWKWARD),
    ]


# ---- what was frozen here -----------------------------------------------------------------------


@pytest.fixture
def frozen():
    """The folder that `make package-windows` left, if it did."""
    if not (freeze.FROZEN / "expert-lanes.exe").is_file():
        pytest.skip("no app is frozen for Windows: make package-windows does that")
    return freeze.FROZEN


def test_the_frozen_app_is_whole(frozen):
    found = imports.check(frozen)
    assert found.files > 50
    assert set(found.system) >= {"kernel32.dll", "user32.dll"}
    engine_folder = frozen / "_internal" / "llama_cpp" / "lib"
    libraries = {path.name for path in engine_folder.iterdir()}
    assert {f"{name}.dll" for name in engine.CORE} <= libraries
    copies = [path for path in frozen.rglob("*.dll") if path.name in libraries and path.parent != engine_folder]
    assert not copies, "two copies of a library have a registry of backends each"


def test_the_frozen_programs_tell_their_version_under_wine(frozen):
    if not (wine.default_prefix() / "expert-lanes-shims").is_file():
        pytest.skip("no Windows is laid out under Wine: make package-windows does that")
    done = wine.run([str(frozen / "expert-lanes.exe"), "--version"], wine.default_prefix(), cwd=frozen)
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    assert done.stdout.decode().split() == ["expert-lanes", str(project.project()["version"])]
