"""Fetching over HTTPS: nothing but HTTPS, few redirects, the system's proxies and certificates, limits on everything.

What checks and downloads takes a `Transport`, so that tests may give another.
"""

import http.client
import ssl
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import IO, Protocol, Self

from app.errors import AppError, ErrorCode
from app.updates.feed import https_address

TIMEOUT_SECONDS = 20.0
"""Longest wait for a connection, and for the next bytes of an answer."""

MOST_REDIRECTS = 5
_CHUNK = 1 << 16
_GONE = (401, 403, 404, 410)
# Where Linux systems keep their certificates; a frozen OpenSSL looks where the building machine has its own.
_CERTIFICATES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)


class Reply(Protocol):
    """What a server sends.

    Attributes:
        start: The first byte of the whole that `read` gives: what was asked for, or 0 from a server that sends all.
        total_bytes: Size of the whole; None where the server does not say.
    """

    @property
    def start(self) -> int: ...  # noqa: D102 - see above

    @property
    def total_bytes(self) -> int | None: ...  # noqa: D102

    def read(self, most: int) -> bytes:
        """The next bytes, at most so many; empty at the end.

        Raises:
            AppError: no_network.
        """

    def __enter__(self) -> Self: ...

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None: ...


class Transport(Protocol):
    """Asks servers."""

    def open(self, url: str, start: int = 0) -> Reply:
        """What lies at `url`, from byte `start` on where the server can do that.

        Raises:
            AppError: no_network; update_untrusted, the address is none of HTTPS, or the server leads to such a one.
        """


def read_whole(
    transport: Transport, url: str, most: int, seconds: float, clock: Callable[[], float] = time.monotonic
) -> bytes:
    """All of what lies at `url`, which is small.

    Raises:
        AppError: as `Transport.open`; feed_unreadable, it is larger than `most` bytes; no_network, it took longer than
            so many `seconds`, or ended before its end.
    """
    end = clock() + seconds
    with transport.open(url) as reply:
        data = bytearray()
        while piece := reply.read(min(_CHUNK, most + 1 - len(data))):
            data += piece
            if len(data) > most:
                raise AppError(ErrorCode.FEED_UNREADABLE, f"{url} holds more than {most} bytes.")
            if clock() > end:
                raise AppError(ErrorCode.NO_NETWORK, f"{url} did not come within {seconds:.0f} s.")
        if reply.total_bytes not in (None, len(data)):
            raise AppError(ErrorCode.NO_NETWORK, f"Of {url} only {len(data)} of {reply.total_bytes} bytes came.")
        return bytes(data)


class HttpsTransport:
    """The real one.

    Args:
        context: Whom to trust; the system's certificates unless given.
    """

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self._context = context

    def open(self, url: str, start: int = 0) -> "HttpsReply":
        """See `Transport.open`."""
        headers = {"User-Agent": "expert-lanes", "Accept-Encoding": "identity", "Cache-Control": "no-cache"}
        if start:
            headers["Range"] = f"bytes={start}-"
        request = urllib.request.Request(https_address(url), headers=headers)  # noqa: S310 - HTTPS, as just checked
        try:
            answer = self._opener().open(request, timeout=TIMEOUT_SECONDS)
        except urllib.error.HTTPError as error:
            error.close()
            raise _refused(url, error.code, start) from error
        except urllib.error.URLError as error:
            raise _unreachable(url, error.reason) from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise _unreachable(url, error) from error
        try:
            return HttpsReply(answer, url, start)
        except BaseException:
            answer.close()
            raise

    def _opener(self) -> urllib.request.OpenerDirector:
        """Only what is named here: the usual opener also reads files, FTP and plain HTTP."""
        if self._context is None:
            self._context = system_context()
        opener = urllib.request.OpenerDirector()
        for handler in (
            urllib.request.ProxyHandler(),
            urllib.request.HTTPSHandler(context=self._context),
            urllib.request.UnknownHandler(),
            urllib.request.HTTPDefaultErrorHandler(),
            urllib.request.HTTPErrorProcessor(),
            _HttpsRedirects(),
        ):
            opener.add_handler(handler)
        return opener


class _HttpsRedirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects to HTTPS, a few."""

    max_redirections = MOST_REDIRECTS
    max_repeats = 2

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        """The request to follow; the range that was asked for goes along.

        Raises:
            AppError: update_untrusted, it leads to something else than HTTPS.
        """
        fp.close()  # what comes with it is not wanted; urllib would read it whole, however large
        return super().redirect_request(req, fp, code, msg, headers, https_address(newurl))


class HttpsReply:
    """What a server sends; see `Reply`."""

    def __init__(self, answer: http.client.HTTPResponse, url: str, start: int) -> None:
        """Takes `answer` over.

        Raises:
            AppError: no_network, the server answered something else than what was asked.
        """
        self._answer = answer
        self._url = url
        if answer.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise AppError(ErrorCode.NO_NETWORK, f"{url} came in an encoding that was not asked for.")
        length = _number(answer.headers.get("Content-Length"))
        self._start, self._total = 0, length
        if answer.status == http.HTTPStatus.PARTIAL_CONTENT:
            self._start, self._total = _content_range(answer.headers.get("Content-Range", ""))
            if self._start != start:
                raise AppError(ErrorCode.NO_NETWORK, f"{url} came from another place on than what was asked for.")

    @property
    def start(self) -> int:
        """See `Reply`."""
        return self._start

    @property
    def total_bytes(self) -> int | None:
        """See `Reply`."""
        return self._total

    def read(self, most: int) -> bytes:
        """See `Reply.read`."""
        try:
            # Not `read`, which waits for all of them: what came so far shows as progress, and can be cancelled.
            return self._answer.read1(most)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise _unreachable(self._url, error) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._answer.close()


def system_context() -> ssl.SSLContext:
    """Trusts whom the system trusts; TLS 1.2 or newer."""
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if sys.platform != "win32":
        for name in _CERTIFICATES:
            if Path(name).is_file():
                context.load_verify_locations(cafile=name)
                break
    return context


def _refused(url: str, status: int, start: int) -> AppError:
    if status == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and start:
        return RangeRefusedError(url)
    if status in _GONE:
        return AppError(ErrorCode.NO_NETWORK, f"{url} is not there (HTTP {status}).")
    if status in (301, 302, 303, 307, 308):
        return AppError(ErrorCode.UPDATE_UNTRUSTED, f"{url} leads on and on, and nowhere.")
    return AppError(ErrorCode.NO_NETWORK, f"The server of {url} answered with HTTP {status}.")


class RangeRefusedError(AppError):
    """The server has no bytes from the place on that was asked for: what lies here is not the beginning of its file."""

    def __init__(self, url: str) -> None:
        super().__init__(ErrorCode.NO_NETWORK, f"The server does not send the rest of {url}.")


def _unreachable(url: str, reason: object) -> AppError:
    if isinstance(reason, ssl.SSLCertVerificationError):
        return AppError(
            ErrorCode.UPDATE_UNTRUSTED, f"The server of {url} could not prove who it is.", reason.verify_message
        )
    return AppError(ErrorCode.NO_NETWORK, f"{url} could not be reached.", str(reason))


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() else None


def _content_range(text: str) -> tuple[int, int | None]:
    """First byte and size of the whole, of a header such as "bytes 100-199/200"."""
    unit, _, rest = text.strip().partition(" ")
    places, _, whole = rest.partition("/")
    first = _number(places.partition("-")[0])
    if unit.lower() != "bytes" or first is None:
        raise AppError(ErrorCode.NO_NETWORK, "The server does not say which part of the file it sends.")
    return first, _number(whole)
