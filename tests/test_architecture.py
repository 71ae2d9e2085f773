"""Which package may import which: the one-way rule of the design, read from the sources."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1] / "app"

# Package (or module) to what of ours it may import, besides itself, app.errors and app.units.
ALLOWED = {
    "model": set(),
    "hardware": set(),
    "chat": set(),
    "library": {"model", "hardware", "placement"},
    "library.load_memory": {"hardware", "placement"},
    "updates": {"library", "platform_name"},
    "placement": {"model", "hardware", "native_library"},
    # Pure: judges what others measured; the protocol is plain data too.
    "doctor": {"model", "hardware", "placement", "engine.protocol"},
    "engine": {"model", "hardware", "placement", "native_library", "platform_name"},
    "engine.process": {"model", "hardware", "placement", "library"},
    "engine.client": {"hardware", "placement"},
    "engine.protocol": {"engine.events", "engine.requests"},
    "engine.events": {"hardware", "placement"},
    "engine.requests": {"placement"},
    "ui": {
        "model",
        "hardware",
        "placement",
        "engine.client",
        "engine.protocol",
        "library",
        "library.load_memory",
        "updates",
        "chat",
        "advice",
        "doctor",
    },
    "cli": {"commands", "commands.bench", "terminal", "advice"},
    "commands": {
        "model",
        "hardware",
        "placement",
        "engine.client",
        "engine.protocol",
        "library",
        "library.load_memory",
        "advice",
        "doctor",
        "terminal",
    },
    # Draws a chart, and imports what draws it only then.
    "commands.bench": {
        "model",
        "hardware",
        "placement",
        "engine.client",
        "library",
        "library.load_memory",
        "terminal",
        "ui",
    },
    "terminal": {"placement", "engine.client", "engine.protocol", "advice"},
    "advice": set(),
    "units": set(),
    "native_library": set(),
    "platform_name": set(),
    "errors": set(),
    "__main__": {"engine.process", "cli", "ui"},
}
COMMON = {"errors", "units"}
QT = {"PySide6", "pyqtgraph", "shiboken6"}


def modules():
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def imports_of(path: Path, module: str):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} uses a relative import"
            for alias in node.names:
                yield f"{node.module}.{alias.name}"


def owner(module: str) -> str:
    """The most specific entry of ALLOWED that `module` (dotted, without app.) belongs to."""
    parts = module.split(".")
    for size in range(len(parts), 0, -1):
        name = ".".join(parts[:size])
        if name in ALLOWED:
            return name
    return parts[0]


@pytest.mark.parametrize(("module", "path"), [pytest.param(m, p, id=m or "app") for m, p in modules()])
def test_a_module_imports_only_what_its_package_may(module, path):
    if not module:
        return
    mine = owner(module)
    assert mine in ALLOWED, f"{module} belongs to no known package"
    for name in imports_of(path, module):
        top, _, rest = name.partition(".")
        if top in QT:
            assert mine == "ui", f"{module} imports {name}: only ui imports Qt"
        if top == "llama_cpp":
            assert mine in {"engine", "engine.process"}, f"{module} imports {name}: only engine imports llama.cpp"
        if top != "app" or not rest or (rest == "engine" and mine == "engine"):
            continue
        target = owner(rest)
        same_package = target.split(".")[0] == mine.split(".")[0]
        if mine.startswith("engine.") and mine != "engine.process":  # used without llama.cpp and without the engine
            same_package = target in {"engine.protocol", "engine.client"}
        assert same_package or target in COMMON or target in ALLOWED[mine], f"{module} imports {name}"


def test_qt_is_not_loaded_by_the_engine_child_or_the_command_line():
    import subprocess
    import sys

    program = "import sys, app.engine.process, app.cli; print([m for m in sys.modules if m.startswith('PySide6')])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_llama_cpp_is_not_loaded_by_the_window_or_the_command_line():
    import subprocess
    import sys

    program = "import sys, app.cli, app.ui.main_window; print([m for m in sys.modules if m.startswith('llama_cpp')])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
