"""Tries the Linux packages as a user would: each in a minimal root, its window on a screen of memory.

What is tried: that nothing is missing, that the demo model answers (`--self-test`), that the engine takes the code for
this processor, that the window also could open on Wayland, and that removing the package leaves nothing.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from minimal_root import HOME, USER, Root, fresh_root, why_not
from project import NAME, WORK, project, run
from screen import Screen, screen
from self_test import SECONDS

_PICTURES = WORK / "pictures"
_UNPACKED = f"{HOME}/Meine Programme/專家 été"
# Flags of /proc/cpuinfo, and what the engine calls them.
_FEATURES = {
    "avx2": "AVX2",
    "fma": "FMA",
    "f16c": "F16C",
    "avx512f": "AVX512",
    "avx512_vnni": "AVX512_VNNI",
    "avx512vbmi": "AVX512_VBMI",
    "avx512_bf16": "AVX512_BF16",
}
# What Qt says when its part for Wayland is loaded and finds no compositor; without a library it does not come so far.
_NO_COMPOSITOR = "Failed to create wl_display"
_PAINTED_ROWS = 300


def try_in_roots(archive: Path, deb: Path, packages: Iterable[str]) -> None:
    """Try both packages, each in a root of its own; skipped with its reason where no root can be made.

    Args:
        archive: The .tar.xz.
        deb: The .deb.
        packages: Packages with the libraries that the archive says it needs.

    Raises:
        SystemExit: something does not work.
    """
    reason = why_not()
    if reason is not None:
        print(f"package: not tried in a minimal root: {reason}")
        return
    _PICTURES.mkdir(parents=True, exist_ok=True)
    with fresh_root() as root:
        shutil.copy(deb, root.folder / "tmp" / deb.name)
        added = root.install(f"/tmp/{deb.name}")
        print(f"package: {deb.name} is installed in a minimal root, with {len(added) - 1} packages it depends on")
        _try(root, "/usr/bin", deb.name)
        root.purge(NAME)
        left = sorted(str(path.relative_to(root.folder)) for path in (root.folder / "usr").rglob(f"*{NAME}*"))
        if left:
            raise SystemExit(f"package: after its removal {deb.name} leaves {', '.join(left)}")
    with fresh_root() as root:
        root.install(*packages)
        place = root.folder / _UNPACKED.lstrip("/")
        place.mkdir(parents=True)
        run(["tar", "-xf", str(archive), "-C", str(place), "--no-same-owner"])
        _try(root, f"{_UNPACKED}/{NAME}-{project()['version']}", archive.name)


def _try(root: Root, folder: str, label: str) -> None:
    root.check_minimal()
    with screen() as shown:
        environment = {
            "PATH": "/usr/bin:/bin",
            "HOME": HOME,
            "LANG": "C.UTF-8",
            "DISPLAY": shown.display,
            "QT_QPA_PLATFORM": "xcb",
        }
        facts = _self_test(root, f"{folder}/{NAME}-window", environment, shown, label)
    seconds = facts["seconds"]["window"]
    told = json.dumps(facts, ensure_ascii=False)
    print(f"package: {label} in a minimal root: the window after {seconds:.2f} s; {told}")
    if facts["platform"] != "xcb":
        raise SystemExit(f"package: the window was not on X, but on {facts['platform']}")
    _check_variant(root, f"{folder}/{NAME}", environment)
    _check_wayland(root, f"{folder}/{NAME}-window", environment)


def _self_test(root: Root, program: str, environment: Mapping[str, str], shown: Screen, label: str) -> dict[str, Any]:
    """Run it and keep two pictures: the window as Qt drew it at the end, and the last screen on which it was seen."""
    inside = f"{HOME}/window.png"
    command = root.command(program, "--self-test", inside, environment=environment, user=USER)
    began = time.monotonic()
    last = _PICTURES / f"{label}.screen.png"
    last.unlink(missing_ok=True)
    with (
        tempfile.TemporaryDirectory() as scratch,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running,
    ):
        while True:
            try:
                output, errors = running.communicate(timeout=1)
                break
            except subprocess.TimeoutExpired:
                now = Path(scratch) / "now.png"
                if shown.save(now) > _PAINTED_ROWS:
                    shutil.move(now, last)
            if time.monotonic() - began > SECONDS:
                running.kill()
                raise SystemExit(f"package: {label}: --self-test was not over after {SECONDS} s")
    if running.returncode != 0:
        raise SystemExit(f"package: {label}: --self-test ended with {running.returncode}\n{errors.strip()}")
    if not last.exists():
        raise SystemExit(f"package: {label}: no window was seen on the screen")
    shutil.copy(root.folder / inside.lstrip("/"), _PICTURES / f"{label}.window.png")
    return dict(json.loads(output))


def _check_variant(root: Root, program: str, environment: Mapping[str, str]) -> None:
    """The engine must use all that this processor has and the engine has code for.

    Raises:
        SystemExit: it does not.
    """
    machine = json.loads(root.run(program, "probe", "--json", environment=environment, user=USER))
    engine = machine["engine"]
    features = engine["cpu_features"]
    print(f"package: the engine took its code for '{engine['cpu_variant']}': {', '.join(features)}")
    if os.uname().machine == "x86_64":
        flags = Path("/proc/cpuinfo").read_text().partition("flags")[2].partition("\n")[0].split()
        unused = [name for flag, name in _FEATURES.items() if flag in flags and name not in features]
        if engine["cpu_variant"] is None or unused:
            raise SystemExit(f"package: the engine does not use this processor's {', '.join(unused)}")


def _check_wayland(root: Root, program: str, environment: Mapping[str, str]) -> None:
    """Without a compositor no window opens on Wayland, but every library must be there to find that out.

    Raises:
        SystemExit: it ended for another reason.
    """
    on_wayland = dict(environment, QT_QPA_PLATFORM="wayland", QT_DEBUG_PLUGINS="1")
    command = root.command(program, environment=on_wayland, user=USER)
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=60, check=False)
    if _NO_COMPOSITOR not in done.stderr:
        told = [line for line in done.stderr.splitlines() if "wayland" in line.lower() or "cannot" in line.lower()]
        raise SystemExit("\n".join(["package: the window cannot open on Wayland:", *told[-10:]]))
    print("package: on Wayland only a compositor was missing")
