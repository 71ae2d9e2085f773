"""The releases feed: what is read of it, what is refused, and which release and file concern whom."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from played_releases import FEED_URL, feed_bytes, make_file, make_release

from app.errors import AppError, ErrorCode
from app.updates.feed import (
    FEED_BYTES,
    address_of,
    file_for,
    https_address,
    newer_release,
    read_feed,
    version_key,
)

DEB = ("linux-x86_64", "deb")


def changed(path, value):
    """A feed with one value of its JSON replaced."""
    told = json.loads(feed_bytes(make_release()))
    place = told
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return json.dumps(told).encode()


def test_a_feed_is_read_as_it_was_written():
    feed = read_feed(feed_bytes(make_release(), make_release("0.1.0")))
    assert [release.version for release in feed.releases] == ["0.2.0", "0.1.0"]
    assert feed.releases[0] == make_release()


def test_what_a_later_version_adds_is_passed_over():
    told = json.loads(feed_bytes(make_release()))
    told["colour"] = "blue"
    told["releases"][0]["files"][0]["mirrors"] = ["https://elsewhere.test/"]
    assert read_feed(json.dumps(told).encode()).releases == (make_release(),)


FILE = ("releases", 0, "files", 0)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("releases", 0, "version"), "1"),
        (("releases", 0, "version"), "1.0\n"),
        (("releases", 0, "version"), "1.0-beta"),
        (("releases", 0, "date"), "yesterday"),
        (("releases", 0, "notes"), "x" * 20_001),
        (("issued",), "2026-11-30T12:00:00"),
        (("releases",), {}),
        ((*FILE, "name"), "../expert-lanes"),
        ((*FILE, "name"), "a/b"),
        ((*FILE, "name"), ".hidden"),
        ((*FILE, "name"), "name\n"),
        ((*FILE, "name"), "C:evil"),
        ((*FILE, "bytes"), 0),
        ((*FILE, "bytes"), 1 << 40),
        ((*FILE, "bytes"), "many"),
        ((*FILE, "sha256"), "A" * 64),
        ((*FILE, "sha256"), "a" * 63),
        ((*FILE, "url"), ""),
    ],
)
def test_a_value_that_cannot_be_makes_the_feed_unreadable(path, value):
    with pytest.raises(AppError) as refused:
        read_feed(changed(path, value))
    assert refused.value.code is ErrorCode.FEED_UNREADABLE


def test_a_feed_of_another_format_says_so_although_nothing_else_of_it_is_known():
    with pytest.raises(AppError, match="format 2") as refused:
        read_feed(b'{"format": 2, "product": "expert-lanes", "entries": 7}')
    assert refused.value.code is ErrorCode.FEED_UNREADABLE


def test_a_feed_of_another_program_is_refused():
    with pytest.raises(AppError, match="another program"):
        read_feed(changed(("product",), "other"))


@pytest.mark.parametrize("data", [b"", b"{", b"[" * 100_000, b"\xff\xfe", b"<html>", b"null", b"{}"])
def test_what_is_no_json_of_ours_is_a_typed_error(data):
    with pytest.raises(AppError) as refused:
        read_feed(data)
    assert refused.value.code is ErrorCode.FEED_UNREADABLE


@given(st.binary(max_size=80))
def test_any_bytes_are_read_or_a_typed_error(data):
    with pytest.raises(AppError):
        read_feed(data)


def test_a_feed_larger_than_the_limit_is_refused_unread():
    with pytest.raises(AppError, match="larger"):
        read_feed(b" " * (FEED_BYTES + 1))


@pytest.mark.parametrize(
    ("older", "newer"),
    [("0.9", "0.10"), ("0.1.0", "0.1.1"), ("1.9.9", "2.0"), ("0.2.0", "0.2.0.1"), ("0.2.0.dev1", "0.2.1")],
)
def test_versions_are_compared_by_their_numbers(older, newer):
    assert version_key(older) < version_key(newer)


def test_a_zero_at_the_end_makes_no_other_version():
    assert version_key("0.2") == version_key("0.2.0") == version_key("0.2.0.0")


def test_the_newest_release_counts_wherever_it_stands():
    feed = read_feed(feed_bytes(make_release("0.2.0"), make_release("0.10.0"), make_release("0.9.0")))
    assert newer_release(feed, "0.9.0", *DEB).version == "0.10.0"


def test_a_newer_release_without_a_file_for_this_machine_hides_none_that_has_one():
    setup = [make_file(platform="windows-x86_64", kind="setup")]
    feed = read_feed(feed_bytes(make_release("0.4.0", files=setup), make_release("0.3.0"), make_release("0.2.0")))
    assert newer_release(feed, "0.1.0", *DEB).version == "0.3.0"
    assert newer_release(feed, "0.1.0", "windows-x86_64", "setup").version == "0.4.0"
    assert newer_release(feed, "0.3.0", *DEB).version == "0.4.0", "told, although there is nothing to fetch"
    assert newer_release(feed, "0.4.0", *DEB) is None


@pytest.mark.parametrize("installed", ["0.2.0", "0.2", "0.3.0", "1.0"])
def test_an_older_or_the_same_version_is_never_offered(installed):
    feed = read_feed(feed_bytes(make_release("0.2.0"), make_release("0.1.0")))
    assert newer_release(feed, installed, *DEB) is None


def test_an_empty_feed_offers_nothing():
    assert newer_release(read_feed(feed_bytes()), "0.1.0", *DEB) is None


def test_only_the_file_of_the_same_platform_and_kind_is_taken():
    others = (make_file(platform="windows-x86_64", kind="setup"), make_file(kind="tar.xz"), make_file(kind="cuda"))
    assert file_for(make_release(files=others), "linux-x86_64", "deb") is None
    assert file_for(make_release(files=(*others, make_file())), "linux-x86_64", "deb") == make_file()


def test_a_files_address_may_be_beside_the_feed_or_elsewhere():
    assert address_of(make_file(url="a.deb"), FEED_URL) == "https://releases.test/feed/a.deb"
    assert address_of(make_file(url="https://cdn.test/a.deb"), FEED_URL) == "https://cdn.test/a.deb"


@pytest.mark.parametrize(
    "url",
    [
        "http://releases.test/a",
        "ftp://releases.test/a",
        "file:///etc/passwd",
        "https://",
        "https://user:secret@releases.test/a",
        "//releases.test",
        "https://[::1",
        "javascript:alert(1)",
    ],
)
def test_nothing_but_https_with_a_host_is_an_address(url):
    with pytest.raises(AppError) as refused:
        https_address(url)
    assert refused.value.code is ErrorCode.UPDATE_UNTRUSTED


def test_a_file_that_leads_away_from_https_is_refused():
    with pytest.raises(AppError):
        address_of(make_file(url="http://releases.test/a.deb"), FEED_URL)


def test_a_feed_of_five_hundred_releases_fits():
    releases = [make_release(f"0.{number}", files=[make_file()] * 6, notes="") for number in range(500)]
    assert len(feed_bytes(*releases)) < FEED_BYTES
    assert len(read_feed(feed_bytes(*releases)).releases) == 500


def test_the_structs_are_the_documented_format():
    told = json.loads(feed_bytes(make_release()))
    assert set(told) == {"format", "product", "issued", "releases"}
    assert set(told["releases"][0]) == {"version", "date", "notes", "files"}
    assert set(told["releases"][0]["files"][0]) == set(msgspec.structs.asdict(make_file()))
