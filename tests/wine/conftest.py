"""Fixtures of the tests of the Windows installer: a Windows with a screen, and the installers of three versions."""

import nsis
import pytest
import screen
import windows_shortcuts
from windows_setups import DATE, RunningApp, Windows, lacking, make_programs, make_tree


@pytest.fixture(scope="session")
def installer_tools():
    if lacking():
        pytest.skip(f"Not installed: {lacking()}.")


@pytest.fixture(scope="session")
def shown(installer_tools):
    """A screen that nobody sees."""
    with screen.screen() as shown:
        yield shown


@pytest.fixture(scope="session")
def made_windows(tmp_path_factory, shown):
    base = tmp_path_factory.mktemp("windows")
    (base / "home").mkdir()
    windows = Windows(base / "prefix", base / "home", shown.display)
    yield windows
    windows.end()


@pytest.fixture
def windows(made_windows):
    yield made_windows
    made_windows.clear()


@pytest.fixture(scope="session")
def trees(tmp_path_factory, installer_tools):
    """Frozen folders of three versions."""
    base = tmp_path_factory.mktemp("trees")
    make_programs(base)
    return {version: make_tree(base / version, base, version) for version in ("0.1.0", "0.2.0", "0.3.0")}


@pytest.fixture(scope="session")
def setups(tmp_path_factory, trees):
    """The installers of the three versions."""
    base = tmp_path_factory.mktemp("setups")
    return {version: nsis.make_setup(tree, version, DATE, base / f"{version}.exe") for version, tree in trees.items()}


@pytest.fixture
def run_app(windows, tmp_path):
    """Starts a program of an installed version; all are let go at the end."""
    started = []

    def run(program, **more):
        app = RunningApp(windows, program, tmp_path / f"told {len(started)}.txt", **more)
        started.append(app)
        return app

    yield run
    for app in started:
        app.end()


@pytest.fixture(scope="session")
def shortcut_program(tmp_path_factory, installer_tools):
    return windows_shortcuts.make_program(tmp_path_factory.mktemp("shortcuts"))


@pytest.fixture
def shortcuts(windows, shortcut_program):
    """The shortcuts of that Windows' user; those that were made are gone at the end."""
    made = windows_shortcuts.Shortcuts(windows, shortcut_program)
    yield made
    made.clear()
