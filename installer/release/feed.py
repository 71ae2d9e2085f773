"""Makes what a release publishes beside its packages: SHA256SUMS, and the signed feed that installed apps ask.

    python installer/release/feed.py FOLDER --key FILE [--version V] [--notes FILE] [--base URL]
        [--before FILE [--before-key PUBLIC]...]

FOLDER holds the packages. The feed's format is that of app/updates/feed.py, which also reads the result once more
before this ends. With --before the releases of an earlier feed stay in it; --before-key says who else may have signed
that one, where the key has changed since.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "installer" / "package"), str(ROOT / "installer" / "release")]

import project  # noqa: E402 - found by the line above, as are the next ones
import signing  # noqa: E402

from app.errors import AppError  # noqa: E402
from app.updates import signature  # noqa: E402
from app.updates.feed import FEED_BYTES, FORMAT, PRODUCT, Feed, Release, ReleaseFile, read_feed, version_key  # noqa: E402

FEED = "releases.json"
SUMS = "SHA256SUMS"
# Names of the packages, as the scripts beside this one write them.
_KINDS = (
    (r"expert-lanes_{v}_amd64\.deb", "linux-x86_64", "deb"),
    (r"expert-lanes-{v}-linux-x86_64\.tar\.xz", "linux-x86_64", "tar.xz"),
    (r"expert-lanes-{v}-linux-x86_64\.AppImage", "linux-x86_64", "appimage"),
    (r"expert-lanes-{v}-windows-x86_64-setup\.exe", "windows-x86_64", "setup"),
    (r"expert-lanes-(?P<component>[a-z]+)-{v}-windows-x86_64\.zip", "windows-x86_64", ""),
)
_ANY_VERSION = r"\d+(?:\.\d+)+"


def kind_of(name: str, version: str) -> tuple[str, str] | None:
    """Platform and kind of a package by its name; None for a file that is none, such as a list.

    Raises:
        SystemExit: it is a package of another version.
    """
    for pattern, platform, kind in _KINDS:
        found = re.fullmatch(pattern.replace("{v}", re.escape(version)), name)
        if found is not None:
            return platform, kind or found["component"]
        if re.fullmatch(pattern.replace("{v}", _ANY_VERSION), name):
            raise SystemExit(f"release: {name} is not of version {version}")
    return None


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def release_of(folder: Path, version: str, date: datetime.date, notes: str, base: str) -> Release:
    """The release whose packages lie in `folder`.

    Args:
        folder: Where they lie.
        version: Of the app.
        date: Of the release.
        notes: What is new, in plain text.
        base: What comes before each file's name in its address; empty where they lie beside the feed.

    Raises:
        SystemExit: there is no package.
    """
    files = []
    for path in sorted(folder.iterdir()):
        known = kind_of(path.name, version) if path.is_file() else None
        if known is None:
            continue
        files.append(
            ReleaseFile(
                platform=known[0],
                kind=known[1],
                name=path.name,
                bytes=path.stat().st_size,
                sha256=sha256_of(path),
                url=f"{base.rstrip('/')}/{path.name}" if base else path.name,
            )
        )
    if not files:
        raise SystemExit(f"release: no package of version {version} is in {folder}")
    return Release(version=version, date=date, notes=notes, files=tuple(files))


def feed_with(release: Release, before: Feed | None, issued: datetime.datetime) -> bytes:
    """The feed with `release` and those of the feed `before`, the newest first.

    Raises:
        SystemExit: it would be larger than apps read, or not newer than `before`.
    """
    if before is not None and issued <= before.issued:
        # Apps refuse a feed that is older than one they have seen.
        raise SystemExit(
            f"release: the earlier feed is of {before.issued}, and it is {issued} here: apps would refuse it"
        )
    others = [each for each in (before.releases if before else ()) if each.version != release.version]
    releases = sorted([release, *others], key=lambda each: version_key(each.version), reverse=True)
    feed = Feed(format=FORMAT, product=PRODUCT, issued=issued, releases=tuple(releases))
    data = msgspec.json.format(msgspec.json.encode(feed), indent=1) + b"\n"
    if len(data) > FEED_BYTES:
        raise SystemExit(f"release: the feed has {len(data)} bytes, and apps read {FEED_BYTES}: leave old releases out")
    return data


def sums(folder: Path) -> str:
    """The text of SHA256SUMS, as `sha256sum --check` reads it, for every file in `folder`."""
    names = sorted(path.name for path in folder.iterdir() if path.is_file() and path.name != SUMS)
    return "".join(f"{sha256_of(folder / name)}  {name}\n" for name in names)


def earlier_feed(path: Path, keys: Sequence[str]) -> Feed:
    """The feed in `path`, which bears the signature of one of the public `keys` beside it.

    Raises:
        AppError: it does not, or is none.
    """
    data = path.read_bytes()
    signature.verify(data, path.with_name(f"{path.name}{signature.SUFFIX}").read_bytes(), keys)
    return read_feed(data)


def publish(
    folder: Path, key: signing.SigningKey, release: Release, before: Feed | None, issued: datetime.datetime
) -> None:
    """Write feed, signature and sums into `folder`, and read them as an app would."""
    data = feed_with(release, before, issued)
    (folder / FEED).write_bytes(data)
    (folder / f"{FEED}{signature.SUFFIX}").write_bytes(signing.signature(key, data))
    (folder / SUMS).write_text(sums(folder), "ascii")
    signature.verify(
        (folder / FEED).read_bytes(), (folder / f"{FEED}{signature.SUFFIX}").read_bytes(), (signing.public_text(key),)
    )
    read_feed((folder / FEED).read_bytes())


def public_key(text: str) -> str:
    """A public key as an argument.

    Raises:
        ValueError: it is none.
    """
    signature.public_key(text)
    return text


def now() -> datetime.datetime:
    """When a feed that is made now is issued, in whole seconds."""
    return datetime.datetime.now(datetime.UTC).replace(microsecond=0)


def main(arguments: Sequence[str] | None = None) -> None:
    """Make and check everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--key", type=Path, required=True, help="the signing key's file")
    parser.add_argument("--version", default=str(project.project()["version"]))
    parser.add_argument("--date", type=datetime.date.fromisoformat, help="today unless given")
    parser.add_argument("--notes", type=Path, help="file with what is new, in plain text")
    parser.add_argument("--base", default="", help="what comes before the files' names in their addresses")
    parser.add_argument("--before", type=Path, help="an earlier feed whose releases stay")
    parser.add_argument(
        "--before-key", type=public_key, action="append", default=[], help="a public key that may have signed it, too"
    )
    told = parser.parse_args(arguments)
    issued = now()
    notes = told.notes.read_text("utf-8").strip() if told.notes else ""
    release = release_of(told.folder, told.version, told.date or issued.date(), notes, told.base)
    key = signing.read_key(told.key)
    try:
        before = earlier_feed(told.before, (signing.public_text(key), *told.before_key)) if told.before else None
        publish(told.folder, key, release, before, issued)
    except AppError as error:
        raise SystemExit(f"release: {error.message} {error.detail}") from error
    for file in release.files:
        print(f"release: {file.bytes:>13,} {file.platform} {file.kind}: {file.name}")
    print(f"release: {FEED} is signed by {signing.public_text(key)}")


if __name__ == "__main__":
    main()
