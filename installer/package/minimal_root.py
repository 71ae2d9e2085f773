"""Fresh Debian systems in folders, with next to nothing in them, to try packages where no developer has been.

The first one is made by debootstrap and kept in the cache; each use gets a copy. Mounts are private to the processes
that run inside, so nothing is left mounted whatever happens to them.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from project import ROOT, WORK
from screen import SOCKETS

sys.path.insert(0, str(ROOT / "installer" / "checkout"))
import debian
import engine_wheel

USER = 1000
HOME = "/home/user"
_TOOLS = ("debootstrap", "xvfb")
_NOT_MINIMAL = ("python3", "python", "gcc", "cc", "c++", "ld", "make", "cmake")
_INSIDE = """
set -e
root=$1 user=$2; shift 2
for name in proc sys dev; do mount --rbind /$name "$root/$name"; done
if [ -d {sockets} ]; then mkdir -p "$root{sockets}"; mount --bind {sockets} "$root{sockets}"; fi
exec chroot --userspec="$user" "$root" "$@"
"""


def why_not() -> str | None:
    """Why no root can be made here; None where it can."""
    if os.geteuid() != 0:
        return "only an administrator may make one"
    if not debian.is_debian_like():
        return "this is no Debian"
    lacking = debian.install(_TOOLS, engine_wheel.package_memory())
    if lacking:
        return f"{' '.join(lacking)} missing"
    mounted = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False)
    return None if mounted.returncode == 0 else "mounts are not permitted here"


@dataclass(frozen=True)
class Root:
    """A system in a folder."""

    folder: Path

    def command(self, *words: str, environment: Mapping[str, str], user: int = 0) -> list[str]:
        """The command line that runs `words` inside, with no other environment than the one given."""
        inside = _INSIDE.format(sockets=SOCKETS)
        told = [f"{name}={value}" for name, value in environment.items()]
        root = ["sh", "-c", inside, "sh", str(self.folder), f"{user}:{user}"]
        return ["unshare", "--mount", "--propagation", "private", *root, "env", "-i", *told, *words]

    def run(self, *words: str, environment: Mapping[str, str], user: int = 0, **keywords: Any) -> str:
        """Run a command inside; returns what it printed.

        Raises:
            SystemExit: it failed.
        """
        command = self.command(*words, environment=environment, user=user)
        done = subprocess.run(command, capture_output=True, text=True, check=False, **keywords)
        if done.returncode != 0:
            told = "\n".join((done.stdout + done.stderr).splitlines()[-30:])
            raise SystemExit(f"{told}\npackage: in a minimal root, {words[0]} ended with {done.returncode}")
        return done.stdout

    def install(self, *packages: str) -> list[str]:
        """Install packages, or .deb files by their path inside, with what they depend on; returns what was added."""
        environment = _administrator()
        before = self._installed()
        self.run("apt-get", "update", "-q", environment=environment)
        options = ("-y", "-q", "--no-install-recommends")
        self.run("apt-get", "install", *options, *packages, environment=environment)
        self.run("apt-get", "clean", environment=environment)
        return sorted(self._installed() - before)

    def purge(self, package: str) -> None:
        """Remove a package with all that it configured."""
        self.run("apt-get", "purge", "-y", "-q", package, environment=_administrator())

    def _installed(self) -> set[str]:
        told = self.run("dpkg-query", "-W", "-f", "${Package}\n", environment=_administrator())
        return set(told.split())

    def check_minimal(self) -> None:
        """Nothing that developers have is inside.

        Raises:
            SystemExit: something is.
        """
        found = [
            name for name in _NOT_MINIMAL for place in ("usr/bin", "usr/local/bin") if self._has(f"{place}/{name}")
        ]
        if found:
            raise SystemExit(f"package: the minimal root is not minimal: it has {', '.join(found)}")

    def _has(self, path: str) -> bool:
        return (self.folder / path).exists() or (self.folder / path).is_symlink()


@contextlib.contextmanager
def fresh_root() -> Iterator[Root]:
    """A new system, gone with the block."""
    base = _base()
    WORK.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="root-", dir=WORK) as scratch:
        folder = Path(scratch) / "root"
        subprocess.run(["cp", "-a", "--reflink=auto", str(base), str(folder)], check=True)
        home = folder / HOME.lstrip("/")
        home.mkdir(parents=True)
        os.chown(home, USER, USER)
        with (folder / "etc/passwd").open("a") as users:
            users.write(f"user:x:{USER}:{USER}::{HOME}:/bin/sh\n")
        for name in ("resolv.conf", "hosts"):
            if Path("/etc", name).is_file():
                shutil.copyfile(Path("/etc", name), folder / "etc" / name)
        yield Root(folder)


def _administrator() -> dict[str, str]:
    """The environment for installing: the proxies of this one and nothing else."""
    proxies = {name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")}
    return {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive", **proxies}


def _base() -> Path:
    """The cached system, made when there is none: the same release as this one, from the mirrors that apt uses here."""
    codename = _release()
    base = engine_wheel.cache_folder() / "roots" / codename
    if base.is_dir():
        return base
    sources = _sources()
    mirror = next(site for site, _release, _component in sources if not site.endswith("-security"))
    print(f"package: making a minimal root of {codename}; once per machine", flush=True)
    base.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="unfinished-", dir=base.parent) as scratch:
        folder = Path(scratch) / "root"
        certificates = ["--include=ca-certificates"] if mirror.startswith("https") else []
        command = ["debootstrap", "--variant=minbase", *certificates, codename, str(folder), mirror]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"{done.stdout[-2000:]}{done.stderr}\npackage: debootstrap ended with {done.returncode}")
        lines = [f"deb {site} {release} {component}\n" for site, release, component in sources]
        (folder / "etc/apt/sources.list").write_text("".join(lines))
        settings = subprocess.run(["apt-config", "dump", "Acquire"], capture_output=True, text=True, check=True)
        (folder / "etc/apt/apt.conf.d/90host").write_text("".join(_wanted(settings.stdout.splitlines(keepends=True))))
        folder.rename(base)
    return base


def _wanted(settings: Iterable[str]) -> list[str]:
    """How this machine's apt reaches its mirrors, not what it keeps of them."""
    kinds = ("Acquire::http", "Acquire::https", "Acquire::Check-", "Acquire::Retries")
    return [line for line in settings if line.startswith(kinds)]


def _release() -> str:
    lines = Path("/etc/os-release").read_text().splitlines()
    told = dict(line.split("=", 1) for line in lines if "=" in line)
    return told["VERSION_CODENAME"].strip('"')


def _sources() -> list[tuple[str, str, str]]:
    """Site, release and component of each Debian mirror that apt uses here; their keys are in every Debian."""
    form = "$(SITE)|$(RELEASE)|$(COMPONENT)"
    command = ["apt-get", "indextargets", "--format", form, "Created-By: Packages", "Origin: Debian"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = dict.fromkeys(tuple(line.split("|")) for line in told.splitlines())
    if not found:
        raise SystemExit("package: apt knows no Debian mirror here")
    return [(site, release, component) for site, release, component in found]
