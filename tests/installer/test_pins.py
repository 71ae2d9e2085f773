"""What the packages are made of: every release pinned, as pyproject.toml permits, and the same on every system."""

import zipfile
from pathlib import Path

import engine_wheel
import environment
import pinned
import pins
import project
import pytest
import renew_pins
import setup
from packaging.requirements import Requirement

from app.library.demo_source import SOURCE_DISTRIBUTION

ROOT = Path(__file__).resolve().parents[2]
WINDOWS = {name: pins.read(f"{name}.txt") for name in ("packages", "tools")}
LINUX = {"packages": pinned.read(pinned.PACKAGES), "tools": pinned.read(pinned.TOOLS)}
LISTS = {
    "Linux' packages": LINUX["packages"],
    "Linux' tools": LINUX["tools"],
    "Windows' packages": WINDOWS["packages"],
    "Windows' tools": WINDOWS["tools"],
    "the tests under Wine": pins.read("hardware-tests.txt"),
    "the feed's": pinned.read(ROOT / "installer" / "release" / "pins.txt"),
    "the CUDA component's": pinned.read(ROOT / "installer" / "release" / "cuda-tools.txt"),
}
OF_ONE_SYSTEM = {"cmake", "ninja", "pathspec", "scikit-build-core"} | {"pefile", "pywin32-ctypes"}


def requirements(lines):
    found = [Requirement(line) for line in lines]
    return [each for each in found if each.marker is None or each.marker.evaluate({"extra": ""})]


def test_the_app_can_run_with_the_pinned_packages_on_both_systems():
    for requirement in requirements([*project.project()["dependencies"], *renew_pins.app_requirements()]):
        if pinned.normal(requirement.name) == "llama-cpp-python":
            continue
        for system in (LINUX, WINDOWS):
            version, _ = system["packages"][pinned.normal(requirement.name)]
            assert requirement.specifier.contains(version), requirement


def test_the_app_is_built_and_frozen_with_tools_that_pyproject_permits():
    asked = [*project.project()["optional-dependencies"]["package"], *renew_pins.build_requirements()]
    for requirement in requirements(asked):
        version, _ = LINUX["tools"][pinned.normal(requirement.name)]
        assert requirement.specifier.contains(version), requirement


def test_a_release_is_the_same_in_every_list():
    versions = {}
    for pinned_there in LISTS.values():
        for name, (version, _) in pinned_there.items():
            versions.setdefault(name, set()).add(version)
    assert {name: found for name, found in versions.items() if len(found) > 1} == {}


def test_what_is_pinned_for_one_system_is_pinned_for_the_other():
    for name in ("packages", "tools"):
        assert set(LINUX[name]) ^ set(WINDOWS[name]) <= OF_ONE_SYSTEM


def test_the_demos_source_is_the_release_that_the_app_knows():
    assert setup.DENSE_MODEL == SOURCE_DISTRIBUTION, "the checkout's"
    name, _, version = SOURCE_DISTRIBUTION.partition("==")
    assert LINUX["packages"][name][0] == WINDOWS["packages"][name][0] == version


def test_the_engine_is_the_release_that_pyproject_asks_for():
    assert f"llama-cpp-python=={engine_wheel.LLAMA_CPP_PYTHON}" in project.project()["dependencies"]


def test_lists_are_written_in_one_order_under_their_comment_and_read_back(tmp_path):
    path = tmp_path / "list.txt"
    path.write_text("# What it is for.\nold==1 --hash=sha256:" + "0" * 64 + "\n")
    found = {"b": ("2.0", "1" * 64), "a": ("1.0", "2" * 64)}
    pinned.write(path, found)
    assert path.read_text().splitlines()[0] == "# What it is for."
    assert [line[:1] for line in path.read_text().splitlines()] == ["#", "a", "b"]
    assert pinned.read(path) == found


def test_a_wheel_is_pinned_by_its_name_version_and_content(tmp_path):
    wheel = tmp_path / "PySide6_Essentials-6.11.3-cp310-abi3-manylinux_2_34_x86_64.whl"
    wheel.write_bytes(b"")
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert renew_pins.of_wheels([wheel]) == {"pyside6-essentials": ("6.11.3", empty)}


def test_a_wheel_whose_content_is_another_is_not_installed(tmp_path):
    info = "a_part-1.0.dist-info"
    wheel = tmp_path / "a_part-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as files:
        files.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: a-part\nVersion: 1.0\n")
        files.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        files.writestr(f"{info}/RECORD", "")
    path = tmp_path / "list.txt"
    where = ("--no-index", "--no-deps", "--find-links", str(tmp_path), "--dest")
    path.write_text(f"a-part==1.0 --hash=sha256:{renew_pins.of_wheels([wheel])['a-part'][1]}\n")
    pinned.pip(path, "download", *where, str(tmp_path / "right"))
    assert (tmp_path / "right" / wheel.name).is_file()
    path.write_text(f"a-part==1.0 --hash=sha256:{'0' * 64}\n")
    with pytest.raises(SystemExit, match="could not fetch"):
        pinned.pip(path, "download", *where, str(tmp_path / "wrong"))


def test_packages_are_made_with_the_python_that_the_wheels_are_for():
    environment.check_python("3.11.2", "x86_64")
    for version, machine in (("3.14.1", "x86_64"), ("3.1.1", "x86_64"), ("3.11.2", "riscv64")):
        with pytest.raises(SystemExit, match=rf"for Python 3\.11 on x86_64, and this is Python {version} on {machine}"):
            environment.check_python(version, machine)
