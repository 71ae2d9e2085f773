"""Looks whether a newer version is published: fetches the feed, proves it genuine and recent, compares versions."""

import datetime
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from app.errors import AppError, ErrorCode
from app.library.folders import data_folder
from app.library.record_file import RecordFile
from app.updates import signature
from app.updates.feed import FEED_BYTES, Release, ReleaseFile, address_of, file_for, newer_release, read_feed
from app.updates.installation import Installation
from app.updates.source import Source
from app.updates.transport import Transport, read_whole

log = logging.getLogger(__name__)

FETCH_SECONDS = 30.0
"""Longest that the feed, or its signature, may take to come."""

BETWEEN_CHECKS = datetime.timedelta(days=1)
_RECORD_VERSION = 1


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept between checks.

    Attributes:
        checked: When a check last came to a result.
        issued: When the newest feed seen was made: an older one is not believed, lest someone hide a release.
    """

    version: int = _RECORD_VERSION
    checked: Annotated[datetime.datetime, Meta(tz=True)]
    issued: Annotated[datetime.datetime, Meta(tz=True)]


@dataclass(frozen=True)
class Checked:
    """What a check found.

    Attributes:
        release: The newest release after what is installed, with a file for it where there is such a one; None where
            nothing is newer.
        file: Its file for this installation; None where it has none, or there is no release.
        url: Where that file is.
    """

    release: Release | None
    file: ReleaseFile | None = None
    url: str = ""


def seen_record() -> RecordFile[Seen]:
    """Where it is kept what was seen."""
    return RecordFile(_record_path(), Seen, _RECORD_VERSION)


def _record_path() -> Path:
    return data_folder() / "machine" / "updates.json"


def is_due(record: RecordFile[Seen], now: datetime.datetime) -> bool:
    """Whether the last check is a day ago, or there was none; also with a clock that was set back since.

    Raises:
        AppError: file_unreadable.
    """
    seen = record.read()
    return seen is None or not datetime.timedelta(0) <= now - seen.checked < BETWEEN_CHECKS


def check(
    source: Source, installed: Installation, transport: Transport, record: RecordFile[Seen], now: datetime.datetime
) -> Checked:
    """Ask `source` for releases newer than what is installed.

    Raises:
        AppError: no_network; feed_unreadable; update_untrusted, the feed is not signed by one of the source's keys, or
            is older than one that was seen before; what `record` raises.
    """
    data, signed = _fetched(source, transport)
    try:
        signature.verify(data, signed, source.keys)
    except AppError as error:
        # Two requests: a feed may have been published between them, and its signature belongs to no older one.
        log.info("feed and signature are fetched once more: %s", error.message)
        data, signed = _fetched(source, transport)
        signature.verify(data, signed, source.keys)
    feed = read_feed(data)
    record.change(lambda before: _seen_now(before, feed.issued, now))
    release = newer_release(feed, installed.version, installed.platform, installed.kind)
    log.info("releases looked for: %s", release.version if release else "none newer")
    if release is None:
        return Checked(None)
    file = file_for(release, installed.platform, installed.kind)
    return Checked(release, file, address_of(file, source.feed_url) if file else "")


def _fetched(source: Source, transport: Transport) -> tuple[bytes, bytes]:
    """The feed and its signature, as they come."""
    return (
        read_whole(transport, source.feed_url, FEED_BYTES, FETCH_SECONDS),
        read_whole(transport, source.feed_url + signature.SUFFIX, signature.SIGNATURE_BYTES, FETCH_SECONDS),
    )


def _seen_now(before: Seen | None, issued: datetime.datetime, now: datetime.datetime) -> Seen:
    if before is not None and issued < before.issued:
        raise AppError(
            ErrorCode.UPDATE_UNTRUSTED,
            f"The releases feed was made at {issued:%Y-%m-%d %H:%M}, before the one that was seen last "
            f"({before.issued:%Y-%m-%d %H:%M}).",
        )
    return Seen(checked=now, issued=issued)
