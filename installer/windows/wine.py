"""Programs of Windows under Wine: a Windows of their own, and stand-ins for what this Wine lacks. Nothing of it ships.

Wine 8 (Debian 12) lacks functions of the C library that numpy calls, and the Unicode library that Qt 6.10 and later
call. On a real Windows 10 both are parts of the system.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import zipfile
from pathlib import Path

import engine_wheel
import mingw
import pe
import pins

# A Java kernel's wheel for Windows: of it only Microsoft's own C library is taken.
_WITH_C_LIBRARY = "shims.txt"
_SYSTEM_FOLDER = Path("drive_c/windows/system32")
# Wine loads its own C library for every other program: they are made for it.
_PROGRAMS = ("python.exe", "pythonw.exe", "expert-lanes.exe", "expert-lanes-window.exe")
_FONTS = Path("/usr/share/fonts/truetype/dejavu")
_LONGEST_SECONDS = 240
_FILE_ACCESS_ERROR = 4  # of ICU: what it answers for a character set without data; Qt then uses its own tables


def windows_path(path: Path | str) -> str:
    """The name of a file of this system as Windows' programs see it: all of it is drive Z."""
    return "Z:" + str(path).replace("/", "\\")


def default_prefix() -> Path:
    """The Windows in which the app is frozen and tried."""
    return engine_wheel.cache_folder() / "wine" / "windows-2"


def environment(prefix: Path, home: Path) -> dict[str, str]:
    """What a program under Wine starts with: a Windows of its own, no window, nothing shown or written elsewhere.

    Args:
        prefix: Folder of that Windows.
        home: Folder that takes the place of this user's own.
    """
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL") if name in os.environ}
    # File names are any character of Unicode; without a locale that says so, Wine shows them as question marks.
    kept.setdefault("LANG", "C.UTF-8")
    # Without a helper's window where a program breaks, and without the parts that would be fetched.
    overrides = "winedbg.exe=;mscoree=;mshtml="
    own = {"WINEPREFIX": str(prefix), "WINEARCH": "win64", "WINEDLLOVERRIDES": overrides}
    return {**kept, **own, "WINEDEBUG": "-all", "HOME": str(home)}


def on_one_processor(command: list[str]) -> list[str]:
    """The command, so that it and what it starts get one processor, of which the app then makes one thread.

    Two threads that compute together wait for each other busily. Where other programs want the same processors, as
    on a machine that builds something else meanwhile, hardly a token comes of it, under Wine and without: 1.3 a second
    at a load of 8 on two processors, with one thread 26 (November 2026).
    """
    return ["taskset", "--cpu-list", str(min(os.sched_getaffinity(0))), *command]


def run(
    command: list[str],
    prefix: Path,
    *,
    seconds: float = _LONGEST_SECONDS,
    cwd: Path | None = None,
    more: dict[str, str] | None = None,
    one_processor: bool = False,
) -> subprocess.CompletedProcess[bytes]:
    """Run a program under Wine to its end, with an empty home.

    Args:
        command: The program, as Wine is to find it, and its arguments.
        prefix: Folder of its Windows.
        seconds: How long it may take.
        cwd: Where it runs.
        more: Further variables of its environment.
        one_processor: Keep it to one of this machine's processors.

    Raises:
        subprocess.TimeoutExpired: it took longer.
    """
    with tempfile.TemporaryDirectory() as home:
        return subprocess.run(
            on_one_processor(["wine", *command]) if one_processor else ["wine", *command],
            env=environment(prefix, Path(home)) | (more or {}),
            cwd=cwd,
            # Pipes on every side: without them programs end at once under some releases of Wine.
            input=b"",
            capture_output=True,
            timeout=seconds,
            check=False,
        )


def wait_for_end(prefix: Path) -> None:
    """Return when the last program in that Windows has ended: its files are written then."""
    with tempfile.TemporaryDirectory() as home:
        settings = environment(prefix, Path(home))
        subprocess.run(["wineserver", "--wait"], env=settings, check=False, timeout=_LONGEST_SECONDS)


def make_windows(prefix: Path) -> None:
    """Make a Windows 10 without desktop and browser parts, unless it is there."""
    if (prefix / "system.reg").is_file():
        return
    prefix.parent.mkdir(parents=True, exist_ok=True)
    for command in (
        ["wineboot", "--init"],
        ["reg", "add", r"HKCU\Software\Wine", "/v", "Version", "/d", "win10", "/f"],
    ):
        done = run(command, prefix)
        if done.returncode != 0:
            raise SystemExit(f"windows: Wine failed: {' '.join(command)}\n{done.stderr.decode(errors='replace')}")
    wait_for_end(prefix)


def lay_shims(prefix: Path, qt_core: Path) -> None:
    """Lay the stand-ins into a Windows that does not have the ones asked for.

    Args:
        prefix: Folder of that Windows.
        qt_core: The Qt6Core.dll that is to run there; its own list says which functions it asks for.
    """
    system = prefix / _SYSTEM_FOLDER
    marker = prefix / "expert-lanes-shims"
    asked = pe.imports(qt_core).get("icuuc.dll", ())
    if marker.is_file() and marker.read_text("utf-8") == "\n".join(asked):
        return
    with tempfile.TemporaryDirectory() as scratch:
        _make_unicode_stub(asked, system / "icuuc.dll", Path(scratch))
        _take_c_library(system / "ucrtbase.dll", Path(scratch))
    for font in _FONTS.glob("DejaVuSans*.ttf"):  # or pictures of windows show squares for letters
        shutil.copyfile(font, prefix / "drive_c" / "windows" / "Fonts" / font.name)
    for program in _PROGRAMS:
        key = rf"HKCU\Software\Wine\AppDefaults\{program}\DllOverrides"
        done = run(["reg", "add", key, "/v", "ucrtbase", "/d", "native,builtin", "/f"], prefix)
        if done.returncode != 0:
            raise SystemExit(f"windows: Wine's registry: {done.stderr.decode(errors='replace')}")
    wait_for_end(prefix)
    marker.write_text("\n".join(asked), "utf-8")


def stub_source(asked: tuple[str, ...]) -> str:
    """C source of a library in which every function named exists and none does anything."""
    lines = ["/* Stands in for Windows' own Unicode library: no character set can be opened. */"]
    for name in asked:
        if name == "ucnv_open":
            opens = f"if (status) *status = {_FILE_ACCESS_ERROR}; return 0;"
            lines.append(f"__declspec(dllexport) void *{name}(const char *set, int *status) {{ (void) set; {opens} }}")
        else:
            lines.append(f"__declspec(dllexport) void *{name}(void) {{ return 0; }}")
    return "\n".join(lines) + "\n"


def _make_unicode_stub(asked: tuple[str, ...], target: Path, scratch: Path) -> None:
    source = scratch / "icuuc.c"
    source.write_text(stub_source(asked), "ascii")
    subprocess.run([mingw.tool("gcc"), "-shared", "-O1", "-o", str(target), str(source)], check=True)


def _take_c_library(target: Path, scratch: Path) -> None:
    pins.download(_WITH_C_LIBRARY, scratch / "shim")
    (wheel,) = (scratch / "shim").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.rpartition("/")[2] == "ucrtbase.dll")
        with archive.open(name) as packed, target.open("wb") as laid:
            shutil.copyfileobj(packed, laid)


def try_prefix(qt_core: Path) -> Path:
    """The default Windows with its stand-ins, made on first use."""
    prefix = default_prefix()
    make_windows(prefix)
    lay_shims(prefix, qt_core)
    return prefix
