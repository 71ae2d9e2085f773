"""The releases feed: its format, and which release and file of it concern an installation. Pure.

The feed is one JSON file of at most FEED_BYTES, signed as a whole (`signature`)::

    {
      "format": 1,
      "product": "expert-lanes",
      "issued": "2026-11-30T12:00:00Z",
      "releases": [
        {
          "version": "0.2.0",
          "date": "2026-11-30",
          "notes": "What is new, in plain text.",
          "files": [
            {
              "platform": "linux-x86_64",
              "kind": "deb",
              "name": "expert-lanes_0.2.0_amd64.deb",
              "bytes": 173135732,
              "sha256": "64 hexadecimal digits, small",
              "url": "expert-lanes_0.2.0_amd64.deb"
            }
          ]
        }
      ]
    }

`version` is two to four numbers. `platform` is system and processor: "linux-x86_64", "windows-x86_64". `kind` is
"deb", "tar.xz", "appimage" or "setup", or one that this version does not know and leaves alone, such as "cuda". `url`
may be relative to the feed's own address. What is not named here may be added in format 1 and is passed over; another
`format` is one that older versions cannot read.
"""

import datetime
import re
from typing import Annotated
from urllib.parse import urljoin, urlsplit

import msgspec
from msgspec import Meta

from app.errors import AppError, ErrorCode

FORMAT = 1
PRODUCT = "expert-lanes"
FEED_BYTES = 1 << 20
"""A release with six files takes 2 KiB: five hundred fit."""

_LARGEST_FILE = 8 << 30
_NAME = r"^[A-Za-z0-9][A-Za-z0-9._+-]{0,119}\Z"
_VERSION = r"^[0-9]{1,6}(\.[0-9]{1,6}){1,3}\Z"


class ReleaseFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file of a release; see the module for each field."""

    platform: Annotated[str, Meta(max_length=60)]
    kind: Annotated[str, Meta(max_length=60)]
    name: Annotated[str, Meta(pattern=_NAME)]
    bytes: Annotated[int, Meta(ge=1, le=_LARGEST_FILE)]
    sha256: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
    url: Annotated[str, Meta(min_length=1, max_length=2000)]


class Release(msgspec.Struct, frozen=True, kw_only=True):
    """One published version."""

    version: Annotated[str, Meta(pattern=_VERSION)]
    date: datetime.date
    notes: Annotated[str, Meta(max_length=20_000)] = ""
    files: Annotated[tuple[ReleaseFile, ...], Meta(max_length=60)] = ()


class Feed(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is published.

    Attributes:
        issued: When the feed was made; a newer feed replaces an older one, never the other way round.
    """

    format: int
    product: str
    issued: Annotated[datetime.datetime, Meta(tz=True)]
    releases: Annotated[tuple[Release, ...], Meta(max_length=500)]


class _Head(msgspec.Struct):
    """What is read of a feed of any format."""

    format: int
    product: str


def read_feed(data: bytes) -> Feed:
    """The feed that `data` holds, whose signature was verified.

    Raises:
        AppError: feed_unreadable, for anything else.
    """
    if len(data) > FEED_BYTES:
        raise AppError(ErrorCode.FEED_UNREADABLE, f"The releases feed is larger than {FEED_BYTES} bytes.")
    try:
        head = msgspec.json.decode(data, type=_Head)
        if head.product != PRODUCT:
            raise AppError(ErrorCode.FEED_UNREADABLE, f"The releases feed is one of another program ({head.product}).")
        if head.format != FORMAT:
            raise AppError(
                ErrorCode.FEED_UNREADABLE,
                f"The releases feed is of format {head.format}; this version reads format {FORMAT}.",
            )
        return msgspec.json.decode(data, type=Feed)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise AppError(ErrorCode.FEED_UNREADABLE, "The releases feed cannot be read.", str(error)) from error


def version_key(version: str) -> tuple[int, ...]:
    """What versions are compared by: their numbers, so that 0.10 is newer than 0.9 and 0.2.0 is 0.2.

    A development version such as 0.2.0.dev1 counts as the one it leads to.
    """
    found = re.match(r"[0-9]+(\.[0-9]+)*", version)
    numbers = [int(number) for number in found[0].split(".")] if found else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def newer_release(feed: Feed, installed: str, platform: str, kind: str) -> Release | None:
    """The newest release after the `installed` version that has a file for that platform and kind.

    Where none has one it is the newest of all, so that the user learns of it; None where nothing is newer.
    """
    newer = [release for release in feed.releases if version_key(release.version) > version_key(installed)]
    fitting = [release for release in newer if file_for(release, platform, kind) is not None]
    return max(fitting or newer, key=lambda release: version_key(release.version), default=None)


def file_for(release: Release, platform: str, kind: str) -> ReleaseFile | None:
    """The file of `release` that replaces an installation of that platform and kind; None where it has none."""
    return next((file for file in release.files if (file.platform, file.kind) == (platform, kind)), None)


def address_of(file: ReleaseFile, feed_url: str) -> str:
    """Where `file` is fetched from.

    Raises:
        AppError: update_untrusted, that is no HTTPS address.
    """
    return https_address(urljoin(feed_url, file.url))


def https_address(url: str) -> str:
    """`url`, which is one that may be asked.

    Raises:
        AppError: update_untrusted, it is no HTTPS address with a host.
    """
    try:
        parts = urlsplit(url)
        good = parts.scheme == "https" and bool(parts.hostname) and parts.username is None
    except ValueError:
        good = False
    if not good:
        raise AppError(ErrorCode.UPDATE_UNTRUSTED, f"Releases are fetched over HTTPS only, not from {url}.")
    return url
