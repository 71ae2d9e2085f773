"""What `make test` installs: every program that a test is skipped without, and nothing may keep back the rest."""

import re
from pathlib import Path
from types import SimpleNamespace

import debian
import setup

TESTS = Path(__file__).resolve().parents[1]
# Programs that tests ask for, each with the package that brings it.
BRINGS = {
    "cc": "g++",
    "c++": "g++",
    "g++": "g++",
    "gcc": "g++",
    "objdump": "g++",
    "strip": "g++",
    "Xvfb": "xvfb",
    "desktop-file-validate": "desktop-file-utils",
    "dpkg-parsechangelog": "dpkg-dev",
    "makensis": "nsis",
    "man": "man-db",
    "mksquashfs": "squashfs-tools",
    "openssl": "openssl",
    "osslsigncode": "osslsigncode",
    "patchelf": "patchelf",
    "wine": "wine",
    "x86_64-w64-mingw32-gcc": "g++-mingw-w64-x86-64-posix",
    "x86_64-w64-mingw32-g++": "g++-mingw-w64-x86-64-posix",
    "x86_64-w64-mingw32-g++-posix": "g++-mingw-w64-x86-64-posix",
    "xdotool": "xdotool",
}
IN_PLACE_OF_ANOTHER = {"clang++"}


def asked_for():
    """Names of programs in the tests: in calls of `which`, and in lists of tools that are looked for."""
    found = set()
    for path in TESTS.rglob("*.py"):
        text = path.read_text("utf-8")
        found |= set(re.findall(r"which\(\s*\"([^\"]+)\"", text))
        for listed in re.findall(r"(?m)^(?:TOOLS|COMPILERS?)\s*=\s*(\(.*\)|\{.*\}|\".*\")$", text):
            found |= set(re.findall(r"\"([^\"]+)\"\s*:", listed) or re.findall(r"\"([^\"]+)\"", listed))
    return found


def test_every_program_that_a_test_is_skipped_without_is_installed():
    programs = asked_for() - IN_PLACE_OF_ANOTHER
    assert {"wine", "makensis", "openssl", "patchelf", "x86_64-w64-mingw32-gcc"} <= programs
    assert programs <= set(BRINGS)
    assert set(BRINGS.values()) <= {*debian.BUILD_PACKAGES, *debian.TEST_PACKAGES}


def test_where_windows_programs_cannot_run_nothing_is_installed_for_them():
    assert debian.packages_for_tests("x86_64") == debian.TEST_PACKAGES
    there = debian.packages_for_tests("aarch64")
    assert {"xvfb", "patchelf"} <= set(there) <= set(debian.TEST_PACKAGES) - set(debian.WINDOWS_PACKAGES)


def test_a_package_that_cannot_be_had_does_not_keep_back_the_others(tmp_path, monkeypatch):
    asked = []

    class Done:
        def __init__(self, returncode, stdout=""):
            self.returncode, self.stdout = returncode, stdout

    def played(command, **_keywords):
        if command[0] == "dpkg-query":
            there = {name for names in asked if "gone" not in names for name in names}
            return Done(0, "".join(f"{name} ii\n" for name in there))
        if "install" in command:
            names = command[command.index("--no-install-recommends") + 1 :]
            asked.append(names)
            return Done(100 if "gone" in names else 0)
        return Done(0)

    monkeypatch.setattr(debian, "_privilege", lambda: [])
    monkeypatch.setattr(debian.subprocess, "run", played)
    memory = tmp_path / "memory.json"
    assert debian.install(("one", "gone", "other"), memory) == ["gone"]
    assert asked == [["one", "gone", "other"], ["one"], ["gone"], ["other"]]
    asked.clear()
    asked.append(["one", "other"])
    assert debian.install(("one", "gone", "other"), memory) == ["gone"]
    assert asked == [["one", "other"]], "it is not tried twice on one day"


def test_the_releases_own_headers_are_known_whatever_language_the_user_speaks(tmp_path, monkeypatch):
    program = tmp_path / "apt-cache"
    program.write_text(
        '#!/bin/sh\n[ "$LC_ALL" = C ] && word=Candidate || word=Installationskandidat\necho "  $word: 1.4.309.0-1"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    assert debian.release_has_new_vulkan_headers()
    program.write_text("#!/bin/sh\necho '  Candidate: 1.3.239.0-1'\n")
    assert not debian.release_has_new_vulkan_headers()


def test_the_python_of_the_tests_under_wine_is_laid_out_where_there_is_wine_and_its_lack_hinders_nothing(
    monkeypatch, capsys
):
    called = []

    def played(command, **_keywords):
        called.append(command[-1])
        return SimpleNamespace(returncode=1)

    monkeypatch.setattr(setup.subprocess, "run", played)
    monkeypatch.setattr(setup.shutil, "which", lambda name: None)
    setup.windows_python()
    assert called == []
    monkeypatch.setattr(setup.shutil, "which", lambda name: f"/usr/bin/{name}")
    setup.windows_python()
    (script,) = called
    assert (setup.ROOT / script).is_file()
    assert "no Windows Python" in capsys.readouterr().out
