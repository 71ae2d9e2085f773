"""Releases that are played to the tests: feeds signed with a test's key, and a transport that asks no network."""

import base64
import datetime
import hashlib

import msgspec
from nacl.signing import SigningKey

from app.errors import AppError, ErrorCode
from app.updates.feed import FORMAT, PRODUCT, Feed, Release, ReleaseFile
from app.updates.installation import Installation
from app.updates.source import Source
from app.updates.transport import RangeRefusedError

KEY = SigningKey(bytes(range(32)))
OTHER_KEY = SigningKey(bytes(range(1, 33)))
FEED_URL = "https://releases.test/feed/releases.json"
ISSUED = datetime.datetime(2026, 11, 30, 12, tzinfo=datetime.UTC)
CONTENT = bytes(range(256)) * 4096
"""What the played package holds: 1 MiB."""

DEB = Installation(version="0.1.0", platform="linux-x86_64", kind="deb")
SETUP = Installation(version="0.1.0", platform="windows-x86_64", kind="setup")


def public(key):
    return base64.b64encode(bytes(key.verify_key)).decode()


SOURCE = Source(feed_url=FEED_URL, keys=(public(KEY),))


def make_file(content=CONTENT, **overrides):
    fields = {
        "platform": "linux-x86_64",
        "kind": "deb",
        "name": "expert-lanes_0.2.0_amd64.deb",
        "bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
        "url": "expert-lanes_0.2.0_amd64.deb",
    }
    return ReleaseFile(**{**fields, **overrides})


def make_release(version="0.2.0", files=None, notes="Faster."):
    files = (make_file(),) if files is None else files
    return Release(version=version, date=datetime.date(2026, 11, 30), notes=notes, files=tuple(files))


def feed_bytes(*releases, issued=ISSUED, **overrides):
    fields = {"format": FORMAT, "product": PRODUCT, "issued": issued, "releases": releases}
    return msgspec.json.encode(Feed(**{**fields, **overrides}))


def signed(data, key=KEY):
    return base64.b64encode(key.sign(data).signature) + b"\n"


class PlayedReply:
    """A reply of `content` from `start` on; `whole` is what the server says of its size."""

    def __init__(self, content, start=0, whole=None, fails_after=None):
        self._rest = content[start:]
        self.start = start
        self.total_bytes = whole
        self._fails_after = fails_after
        self.closed = False

    def read(self, most):
        if self._fails_after is not None:
            most = min(most, self._fails_after)
            self._fails_after -= most
            if most == 0:
                raise AppError(ErrorCode.NO_NETWORK, "The connection ended.")
        piece, self._rest = self._rest[:most], self._rest[most:]
        return piece

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.closed = True


class PlayedTransport:
    """Serves what is put under addresses; what is not there is an error, as a server's.

    Attributes:
        asked: Every address asked for, with the byte from which on.
        ranges: Whether it can send the rest of a file.
        fails_after: Bytes after which the connection ends, None for never.
        says: What it says of a file's size, in place of the truth.
    """

    def __init__(self, pages=None):
        self.pages = dict(pages or {})
        self.asked = []
        self.ranges = True
        self.fails_after = None
        self.says = None

    def open(self, url, start=0):
        self.asked.append((url, start))
        page = self.pages.get(url)
        if isinstance(page, Exception):
            raise page
        if page is None:
            raise AppError(ErrorCode.NO_NETWORK, f"{url} is not there (HTTP 404).")
        if start and self.ranges and start >= len(page):
            raise RangeRefusedError(url)
        whole = len(page) if self.says is None else self.says
        return PlayedReply(page, start if self.ranges else 0, whole, self.fails_after)


def serving(*releases, key=KEY, **overrides):
    """A transport with a signed feed of `releases`, and the played package."""
    data = feed_bytes(*releases, **overrides)
    return PlayedTransport(
        {
            FEED_URL: data,
            f"{FEED_URL}.sig": signed(data, key),
            "https://releases.test/feed/expert-lanes_0.2.0_amd64.deb": CONTENT,
        }
    )
