"""Makes the Windows packages in dist/ on a Linux machine: the frozen app, tried under Wine, and its Setup.exe.

Run by `make package-windows` with the checkout's own Python. The first run compiles the engine for Windows, which takes
half an hour on two cores; what is kept of it in the per-user cache serves every later one.

A release is made in two steps: `--only frozen`, then `--only setup` with the system's Python, which signs (sign.py)
where a certificate is configured. Nothing that was fetched runs where the certificate is known.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "installer" / part) for part in ("checkout", "package")]

import debian  # noqa: E402 - found by the line above, as are the next ones
import engine  # noqa: E402
import engine_wheel  # noqa: E402
import freeze  # noqa: E402
import imports  # noqa: E402
import notices  # noqa: E402
import nsis  # noqa: E402
import project  # noqa: E402
import python  # noqa: E402
import rehearsal  # noqa: E402
import shaders  # noqa: E402
import sign  # noqa: E402
import sign_frozen  # noqa: E402
import trial  # noqa: E402
import wine  # noqa: E402

PACKAGES = (*debian.WINDOWS_PACKAGES, *debian.VULKAN_PACKAGES)
PICTURES = freeze.WORK / "setup-pictures"


def system_packages() -> None:
    """Install the compiler, Wine and the installer's compiler where that is permitted."""
    if debian.is_debian_like():
        debian.install(PACKAGES, engine_wheel.package_memory())
    if shutil.which("wine") is None:
        raise SystemExit("windows: Wine is not installed")


def list_files(frozen: Path, target: Path) -> int:
    """Write the list of all frozen files with their sizes; returns their sum in bytes."""
    files = project.file_list(frozen)
    target.write_text("".join(f"{size:>12,} {name}\n" for name, size in files), "utf-8")
    for name, size in sorted(files, key=lambda file: -file[1])[:15]:
        print(f"windows: {size:>12,} {name}")
    total = sum(size for _, size in files)
    print(f"windows: {total:,} bytes in {len(files)} files, listed in {target.relative_to(ROOT)}", flush=True)
    return total


def make_frozen(told: argparse.Namespace, version: str, date: int) -> bool:
    """Make the frozen folder and try it under Wine; False where only the engine was asked for, and made."""
    started = time.monotonic()
    system_packages()
    modules = told.modules.split(",") if told.modules else engine.MODULES
    built = engine.build(Path(sys.executable), modules, any_shaders=told.any_shaders)
    if told.engine_only:
        print(f"windows: the engine lies in {built.libraries} and {built.native}")
        return False
    home = python.lay()
    prefix = wine.try_prefix(python.site_packages(home) / "PySide6" / "Qt6Core.dll")
    frozen = freeze.freeze(home, built, prefix, version, date)
    print(f"windows: frozen after {time.monotonic() - started:.0f} s", flush=True)
    notices.lay(frozen, home, built)
    project.settle(frozen, date)
    found = imports.check(frozen)
    if "ggml-vulkan" in modules:
        library = frozen / "_internal" / "llama_cpp" / "lib" / "ggml-vulkan.dll"
        shaders.check(library, anyway=told.any_shaders)
    print(f"windows: {found.files} programs and libraries; of Windows they need {', '.join(sorted(found.system))}")
    list_files(frozen, project.DIST / f"{nsis.package_name(version)}.files.txt")
    nsis.draw(PICTURES, version)
    trial.try_frozen(frozen, prefix, freeze.WORK / "pictures")
    return True


def make_setup(version: str, date: int) -> Path:
    """Make the setup of the frozen folder, both signed where a certificate is configured."""
    certificate = sign.configured()
    if certificate is not None:
        print(f"windows: {len(sign_frozen.sign_frozen(freeze.FROZEN, certificate))} programs and libraries are signed")
        list_files(freeze.FROZEN, project.DIST / f"{nsis.package_name(version)}.files.txt")
    setup = nsis.make_setup(freeze.FROZEN, version, date, nsis.setup_file(version), PICTURES)
    digest = hashlib.sha256(setup.read_bytes()).hexdigest()
    print(f"windows: {setup.stat().st_size:>12,} {setup.relative_to(ROOT)} sha256 {digest}", flush=True)
    return setup


def main() -> None:
    """Make and try everything."""
    parser = argparse.ArgumentParser(description="Make the Windows packages.")
    parser.add_argument("--modules", help="hold only these of the engine's, with commas between them: to be tried only")
    parser.add_argument("--engine-only", action="store_true", help="compile the engine and end")
    parser.add_argument("--only", choices=("frozen", "setup"), help="make only the frozen app, or only the setup of it")
    shaders.add_option(parser)
    told = parser.parse_args()
    version, date = str(project.project()["version"]), project.source_date()
    if told.only != "setup" and not make_frozen(told, version, date):
        return
    if told.only != "frozen" and not told.modules:
        setup = make_setup(version, date)
        if told.only is None:
            rehearsal.rehearse(setup, version, freeze.FROZEN, wine.default_prefix())


if __name__ == "__main__":
    main()
