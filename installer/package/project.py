"""What packages of every system are made with: the facts of the project, one date for all files, commands."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
DIST = ROOT / "dist"
WORK = ROOT / "build" / "package"
NAME = "expert-lanes"
PROGRAMS = (NAME, f"{NAME}-window")
_WITHOUT_GIT = 1767225600  # 1 January 2026


def project(root: Path = ROOT) -> dict[str, Any]:
    """The table `project` of pyproject.toml."""
    return dict(tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"])


def source_date() -> int:
    """The time that every file gets, in seconds since 1970: the last commit's, unless SOURCE_DATE_EPOCH says."""
    told = os.environ.get("SOURCE_DATE_EPOCH")
    if told:
        return int(told)
    done = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=False)
    return int(done.stdout) if done.returncode == 0 and done.stdout.strip() else _WITHOUT_GIT


def requirement_name(requirement: str) -> str:
    """The distribution that a requirement such as "numpy>=2; python_version < '4'" names."""
    found = re.match(r"[A-Za-z0-9][A-Za-z0-9._-]*", requirement)
    if found is None:
        raise SystemExit(f"package: not a requirement: {requirement}")
    return found[0]


def run(command: list[str], **keywords: Any) -> None:
    """Run a command in the checkout; its failure ends everything."""
    done = subprocess.run(command, check=False, cwd=ROOT, **keywords)
    if done.returncode != 0:
        raise SystemExit(f"package: failed ({done.returncode}): {' '.join(command)}")


def settle(folder: Path, date: int) -> None:
    """Give everything in `folder` the same times and modes."""
    for path in [folder, *folder.rglob("*")]:
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or _is_program(path) else 0o644)
        os.utime(path, (date, date), follow_symlinks=False)


def _is_program(path: Path) -> bool:
    """True for what is run; libraries are only read, whatever their makers' permissions say."""
    return bool(path.stat().st_mode & 0o100) and re.search(r"\.so(\.|$)", path.name) is None


def file_list(folder: Path) -> list[tuple[str, int]]:
    """Every file below `folder` with its size in bytes (0 for a link), sorted by name."""
    files = [path for path in folder.rglob("*") if path.is_symlink() or path.is_file()]
    return sorted((p.relative_to(folder).as_posix(), 0 if p.is_symlink() else p.stat().st_size) for p in files)
