"""The real transport against a real HTTPS server: whom it trusts, where it follows, and what it gives up."""

import shutil
import socket
import ssl

import pytest
from tls_server import BODY, make_certificate, tls_server

from app.errors import AppError, ErrorCode
from app.updates import transport as transport_module
from app.updates.transport import HttpsTransport, RangeRefusedError, read_whole, system_context

pytestmark = pytest.mark.skipif(
    shutil.which("openssl") is None, reason="there is no openssl here to make a certificate"
)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    return make_certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    """The server is on this machine; whoever runs the tests may have a proxy."""
    for name in ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def served(certificate):
    with tls_server(*certificate) as served:
        yield served


@pytest.fixture
def transport(certificate):
    return HttpsTransport(ssl.create_default_context(cafile=certificate[0]))


def whole(transport, url, most=1 << 20, seconds=10):
    return read_whole(transport, url, most, seconds)


def failure(transport, url, **keywords):
    with pytest.raises(AppError) as refused:
        whole(transport, url, **keywords)
    return refused.value


def test_a_file_comes_whole_with_its_size(transport, served):
    url, _ = served
    with transport.open(f"{url}/file") as reply:
        assert (reply.start, reply.total_bytes) == (0, len(BODY))
        assert b"".join(iter(lambda: reply.read(10_000), b"")) == BODY


def test_nothing_of_the_user_is_sent(transport, served):
    url, server = served
    whole(transport, f"{url}/file")
    headers = server.asked[0][1]
    assert set(headers) == {"Host", "User-Agent", "Accept-Encoding", "Cache-Control", "Connection"}
    assert headers["User-Agent"] == "expert-lanes"


def test_the_rest_of_a_file_comes_from_where_it_is_asked(transport, served):
    url, _ = served
    with transport.open(f"{url}/file", 1000) as reply:
        assert (reply.start, reply.total_bytes) == (1000, len(BODY))
        assert b"".join(iter(lambda: reply.read(1 << 16), b"")) == BODY[1000:]


def test_a_server_that_cannot_do_that_says_so(transport, served):
    url, _ = served
    with transport.open(f"{url}/whole", 1000) as reply:
        assert (reply.start, reply.total_bytes) == (0, len(BODY))


def test_a_place_behind_the_end_is_refused(transport, served):
    url, _ = served
    with pytest.raises(RangeRefusedError):
        transport.open(f"{url}/file", len(BODY))


@pytest.mark.parametrize("path", ["elsewhere", "nowhere", "packed", "broken", "error", "missing"])
def test_an_answer_to_something_else_is_an_error(transport, served, path):
    url, _ = served
    with pytest.raises(AppError) as refused:
        transport.open(f"{url}/{path}", 1000)
    assert refused.value.code is ErrorCode.NO_NETWORK


def test_redirects_to_https_are_followed_with_the_place_that_was_asked_for(transport, served):
    url, server = served
    with transport.open(f"{url}/to-file", 7) as reply:
        assert reply.start == 7
    assert [path for path, _ in server.asked] == ["/to-file", "/file"]


def test_five_redirects_are_followed_and_not_one_more(transport, served):
    url, _ = served
    assert whole(transport, f"{url}/on/4") == BODY
    assert failure(transport, f"{url}/on/5").code is ErrorCode.UPDATE_UNTRUSTED


@pytest.mark.parametrize("path", ["to-http", "to-disk", "round"])
def test_a_redirect_to_plain_http_or_to_nowhere_is_not_followed(transport, served, path):
    url, server = served
    assert failure(transport, f"{url}/{path}").code is ErrorCode.UPDATE_UNTRUSTED
    assert all(asked != "/file" for asked, _ in server.asked)


def test_what_comes_with_a_redirect_is_not_waited_for(transport, served):
    url, _ = served
    assert whole(transport, f"{url}/endless-redirect") == BODY


def test_an_endless_answer_is_given_up_at_the_limit(transport, served):
    url, _ = served
    assert failure(transport, f"{url}/endless", most=500_000).code is ErrorCode.FEED_UNREADABLE


def test_an_answer_that_takes_too_long_is_given_up(transport, served):
    url, _ = served
    ticks = iter(range(0, 1000, 7))
    with pytest.raises(AppError) as refused:
        read_whole(transport, f"{url}/endless", 1 << 30, 20, clock=lambda: next(ticks))
    assert refused.value.code is ErrorCode.NO_NETWORK


def test_a_silent_server_is_given_up(transport, served, monkeypatch):
    monkeypatch.setattr(transport_module, "TIMEOUT_SECONDS", 0.2)
    url, _ = served
    assert failure(transport, f"{url}/silent").code is ErrorCode.NO_NETWORK


def test_an_answer_shorter_than_its_size_ends_where_it_ends(transport, served):
    url, _ = served
    with transport.open(f"{url}/short") as reply:
        assert reply.total_bytes == len(BODY)
        assert len(b"".join(iter(lambda: reply.read(1 << 16), b""))) == 1000


def test_a_small_file_that_was_cut_off_is_the_connections_fault_and_not_called_changed(transport, served):
    url, _ = served
    error = failure(transport, f"{url}/short")
    assert error.code is ErrorCode.NO_NETWORK
    assert f"1000 of {len(BODY)}" in error.message


def test_a_certificate_that_nobody_vouches_for_is_not_trusted(served):
    url, server = served
    error = failure(HttpsTransport(), f"{url}/file")
    assert error.code is ErrorCode.UPDATE_UNTRUSTED
    assert "could not prove who it is" in error.message
    assert server.asked == []


def test_a_certificate_for_another_host_is_not_trusted(tmp_path):
    other = make_certificate(tmp_path, "DNS:other.test")
    with tls_server(*other) as (url, server):
        error = failure(HttpsTransport(ssl.create_default_context(cafile=other[0])), f"{url}/file")
    assert error.code is ErrorCode.UPDATE_UNTRUSTED
    assert server.asked == []


def test_plain_http_is_never_asked(transport):
    assert failure(transport, "http://127.0.0.1:1/file").code is ErrorCode.UPDATE_UNTRUSTED


def test_where_nobody_listens_it_says_so(transport):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"https://127.0.0.1:{free.getsockname()[1]}/file"
        assert failure(transport, url).code is ErrorCode.NO_NETWORK


def test_the_systems_proxy_is_asked(transport, served, monkeypatch):
    url, server = served
    with socket.socket() as proxy:
        proxy.bind(("127.0.0.1", 0))  # it does not listen: whoever asks it is refused
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{proxy.getsockname()[1]}")
        monkeypatch.setenv("no_proxy", "")
        assert failure(transport, f"{url}/file").code is ErrorCode.NO_NETWORK
    assert server.asked == []


def test_the_systems_certificates_are_asked_and_nothing_older_than_tls_1_2():
    context = system_context()
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
