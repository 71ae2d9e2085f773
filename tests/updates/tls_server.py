"""A server on this machine that speaks HTTPS with a certificate made for the test, and misbehaves where asked to."""

import contextlib
import http.server
import ssl
import subprocess
import threading

PATIENCE_SECONDS = 10
BODY = bytes(range(256)) * 1024
"""256 KiB."""


def make_certificate(folder, name="IP:127.0.0.1"):
    """A key and a certificate for `name`, signed by itself; returns the paths of certificate and key."""
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-days", "2", "-subj", "/CN=test", "-addext", f"subjectAltName={name}"),
            *("-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    return certificate, key


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.server.asked.append((self.path, dict(self.headers)))
        getattr(self, f"answer_{self.path.strip('/').partition('/')[0].replace('-', '_')}", self.answer_missing)()

    def _send(self, status, headers=(), body=b""):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        if not any(name in ("Content-Length", "Transfer-Encoding") for name, _ in headers):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with contextlib.suppress(OSError):  # who asked may have had enough
            self.wfile.write(body)

    def answer_missing(self):
        self._send(404)

    def answer_file(self):
        start = self.headers.get("Range", "").removeprefix("bytes=").removesuffix("-")
        if not start:
            self._send(200, body=BODY)
        elif int(start) >= len(BODY):
            self._send(416, [("Content-Range", f"bytes */{len(BODY)}")])
        else:
            place = f"bytes {start}-{len(BODY) - 1}/{len(BODY)}"
            self._send(206, [("Content-Range", place)], BODY[int(start) :])

    def answer_folder(self):
        """A file of `server.folder`; the first time each is asked for, the connection ends in its middle."""
        path = self.server.folder / self.path.rpartition("/")[2]
        content = path.read_bytes()
        start = int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").removesuffix("-"))
        place = [("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")] if start else []
        rest = content[start:]
        cut = self.server.cuts and sum(asked == self.path for asked, _ in self.server.asked) == 1
        if cut:
            self.close_connection = True
        headers = [("Content-Length", str(len(rest))), *place]
        self._send(206 if start else 200, headers, rest[: len(rest) // 2] if cut else rest)

    def answer_whole(self):
        self._send(200, body=BODY)

    def answer_elsewhere(self):
        self._send(206, [("Content-Range", f"bytes 5-{len(BODY) - 1}/{len(BODY)}")], BODY[5:])

    def answer_nowhere(self):
        self._send(206, [("Content-Range", "words")], BODY)

    def answer_short(self):
        self._send(200, [("Content-Length", str(len(BODY)))], BODY[:1000])
        self.close_connection = True

    def answer_endless(self):
        self._send(200, [("Transfer-Encoding", "chunked")])
        self.close_connection = True
        with contextlib.suppress(OSError):
            while True:
                self.wfile.write(b"10000\r\n" + bytes(0x10000) + b"\r\n")

    def answer_packed(self):
        self._send(200, [("Content-Encoding", "gzip")], b"packed")

    def answer_broken(self):
        self.close_connection = True

    def answer_silent(self):
        self.server.released.wait(PATIENCE_SECONDS)
        self.close_connection = True

    def answer_error(self):
        self._send(503)

    def answer_to_file(self):
        self._send(302, [("Location", "/file")], b"over there")

    def answer_to_http(self):
        self._send(302, [("Location", f"http://127.0.0.1:{self.server.server_port}/file")])

    def answer_to_disk(self):
        self._send(302, [("Location", "file:///etc/hostname")])

    def answer_endless_redirect(self):
        self.send_response(302)
        self.send_header("Location", "/file")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.close_connection = True
        with contextlib.suppress(OSError):
            while True:
                self.wfile.write(b"10000\r\n" + bytes(0x10000) + b"\r\n")

    def answer_on(self):
        """From /on/3 to /on/2 and so on; /on/0 is the file."""
        left = int(self.path.rpartition("/")[2])
        self._send(302, [("Location", f"/on/{left - 1}" if left else "/file")])

    def answer_round(self):
        self._send(302, [("Location", "/round")])


@contextlib.contextmanager
def tls_server(certificate, key):
    """A running server; gives its address without a path, and the server with what it was `asked`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        server.handle_error = lambda *_: None  # who asks may hang up, or not trust us
        server.asked = []
        server.folder, server.cuts = None, False
        server.released = threading.Event()
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"https://127.0.0.1:{server.server_port}", server
        finally:
            server.released.set()
            server.shutdown()
            thread.join()
