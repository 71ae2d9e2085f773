"""Looking for a newer version: what is found, what is not believed, and what is remembered."""

import datetime
import json

import pytest
from played_releases import (
    DEB,
    FEED_URL,
    ISSUED,
    OTHER_KEY,
    SETUP,
    SOURCE,
    feed_bytes,
    make_file,
    make_release,
    serving,
    signed,
)

from app.errors import AppError, ErrorCode
from app.updates.check import check, is_due, seen_record

NOW = datetime.datetime(2026, 12, 1, 9, tzinfo=datetime.UTC)
DAY = datetime.timedelta(days=1)


def look(transport, installed=DEB, now=NOW):
    return check(SOURCE, installed, transport, seen_record(), now)


def test_a_newer_release_is_found_with_its_file_and_address():
    found = look(serving(make_release(), make_release("0.1.0")))
    assert found.release == make_release()
    assert found.file == make_file()
    assert found.url == "https://releases.test/feed/expert-lanes_0.2.0_amd64.deb"


def test_only_feed_and_signature_are_asked_for():
    transport = serving(make_release())
    look(transport)
    assert transport.asked == [(FEED_URL, 0), (f"{FEED_URL}.sig", 0)]


def test_the_newest_version_finds_nothing():
    assert look(serving(make_release("0.1.0"))).release is None


def test_a_release_for_other_platforms_only_is_told_without_a_file():
    found = look(serving(make_release()), SETUP)
    assert found.release == make_release()
    assert found.file is None


def code_of(transport):
    with pytest.raises(AppError) as refused:
        look(transport)
    return refused.value.code


def test_a_feed_signed_by_someone_else_is_not_believed():
    assert code_of(serving(make_release(), key=OTHER_KEY)) is ErrorCode.UPDATE_UNTRUSTED
    assert seen_record().read() is None


def test_a_changed_feed_is_not_believed():
    transport = serving(make_release())
    transport.pages[FEED_URL] = transport.pages[FEED_URL].replace(b"0.2.0", b"9.2.0")
    assert code_of(transport) is ErrorCode.UPDATE_UNTRUSTED


def test_a_feed_that_is_published_between_the_two_requests_is_fetched_once_more():
    transport, later = serving(make_release("0.2.0")), serving(make_release("0.3.0"))
    open_page = transport.open

    def open_and_publish(url, start=0):
        reply = open_page(url, start)
        transport.pages = later.pages
        return reply

    transport.open = open_and_publish
    assert look(transport).release.version == "0.3.0"
    assert len(transport.asked) == 4


def test_a_feed_without_its_signature_is_not_read():
    transport = serving(make_release())
    del transport.pages[f"{FEED_URL}.sig"]
    assert code_of(transport) is ErrorCode.NO_NETWORK


def test_a_signed_feed_that_is_no_feed_is_unreadable():
    transport = serving(make_release())
    transport.pages[FEED_URL] = b"{half"
    transport.pages[f"{FEED_URL}.sig"] = signed(b"{half")
    assert code_of(transport) is ErrorCode.FEED_UNREADABLE


def test_a_huge_feed_is_given_up_early():
    transport = serving(make_release())
    transport.pages[FEED_URL] = b" " * (3 << 20)
    assert code_of(transport) is ErrorCode.FEED_UNREADABLE


def test_a_huge_signature_is_given_up_early():
    transport = serving(make_release())
    transport.pages[f"{FEED_URL}.sig"] = b"A" * 5000
    assert code_of(transport) is ErrorCode.FEED_UNREADABLE


def test_a_file_that_leads_to_plain_http_is_not_offered():
    assert code_of(serving(make_release(files=[make_file(url="http://cdn.test/a.deb")]))) is ErrorCode.UPDATE_UNTRUSTED


def test_without_a_network_it_says_so():
    transport = serving(make_release())
    transport.pages[FEED_URL] = AppError(ErrorCode.NO_NETWORK, "No route.")
    assert code_of(transport) is ErrorCode.NO_NETWORK


def test_a_feed_older_than_one_that_was_seen_is_not_believed():
    look(serving(make_release("0.3.0"), issued=ISSUED))
    assert code_of(serving(make_release(), issued=ISSUED - DAY)) is ErrorCode.UPDATE_UNTRUSTED
    assert look(serving(make_release("0.3.0"), issued=ISSUED)).release.version == "0.3.0", (
        "the same one is no older one"
    )


def test_a_check_is_due_at_first_then_after_a_day_and_when_the_clock_was_set_back():
    record = seen_record()
    assert is_due(record, NOW)
    look(serving(make_release()))
    assert not is_due(record, NOW)
    assert not is_due(record, NOW + DAY - datetime.timedelta(seconds=1))
    assert is_due(record, NOW + DAY)
    assert is_due(record, NOW - DAY)


@pytest.mark.parametrize("name", ["checked", "issued"])
def test_a_kept_time_that_names_no_zone_is_told_as_damage(name):
    record = seen_record()
    look(serving(make_release()))
    kept = json.loads(record.path.read_bytes())
    record.path.write_text(json.dumps(kept | {name: "2026-11-30T12:00:00"}))
    with pytest.raises(AppError) as refused:
        is_due(record, NOW)
    assert refused.value.code is ErrorCode.FILE_UNREADABLE


def test_a_check_that_failed_is_due_again():
    code_of(serving(make_release(), key=OTHER_KEY))
    assert is_due(seen_record(), NOW)


def test_a_feed_made_by_hand_as_documented_is_read():
    data = b"""{"format": 1, "product": "expert-lanes", "issued": "2026-11-30T12:00:00Z",
        "releases": [{"version": "0.2.0", "date": "2026-11-30", "files": []}]}"""
    transport = serving()
    transport.pages = {FEED_URL: data, f"{FEED_URL}.sig": signed(data)}
    assert look(transport).release.version == "0.2.0"
    assert feed_bytes() != data
