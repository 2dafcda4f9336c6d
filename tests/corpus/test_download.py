"""Downloads from servers that are broken: each ends soon, is reported in a line, and leaves nothing behind."""

import gzip
import socket
import struct
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from https_server import CERTIFICATE, Answer, Server, page, serving

from lmzoo.core.errors import UserError, one_line
from lmzoo.core.files import sha256
from lmzoo.corpus import download as module
from lmzoo.corpus.download import DownloadError, download
from lmzoo.corpus.sources import Pinned, fetch

TEXT = b"the cat sat\n" * 1000
FILE = Pinned("a.txt", sha256(TEXT), limit=len(TEXT))
OPEN = "Connection: close"  # a header that says nothing of the body's length
CHUNKED = "Transfer-Encoding: chunked"


def moved(to: str) -> bytes:
    return page(b"", "302 Found", f"Location: {to}", "Content-Length: 0")


def endless(start: bytes, part: bytes = b"x" * 60_000) -> Answer:
    def answer(connection: socket.socket) -> None:
        connection.sendall(start)
        while True:
            connection.sendall(part)

    return answer


def silent(connection: socket.socket) -> None:
    while connection.recv(2**16):
        pass


def reset(connection: socket.socket) -> None:
    connection.sendall(page(TEXT)[:500])
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    socket.close(connection.detach())


ANSWERS: dict[str, tuple[Answer, str]] = {
    # another status than 200
    "not found": (page(b"gone", "404 Not Found"), "HTTP 404 Not Found"),
    "broken": (page(b"", "500 Internal Server Error"), "HTTP 500 Internal Server Error"),
    "as before": (page(b"", "304 Not Modified"), "HTTP 304 Not Modified"),
    "log in first": (page(b"", "511 Network Authentication Required"), "HTTP 511 Network Authentication Required"),
    "escapes": (page(b"", "404 \x1b[31mred\x07"), "HTTP 404 \\x1b[31mred\\x07"),
    "a long status": (page(b"", "404 " + "long" * 9999), "HTTP 404 longlong"),
    # redirects
    "in circles": (moved("/in-circles"), "HTTP 302 The HTTP server returned a redirect error"),
    "to nowhere": (page(b"", "301 Moved Permanently"), "HTTP 301 Moved Permanently"),
    "to a file": (moved("file:///etc/passwd"), "Redirection to url 'file:///etc/passwd' is not allowed"),
    # no answer in HTTP
    "closed": (lambda _: None, "Remote end closed connection without response"),
    "reset": (reset, ""),
    "garbage": (b"\x00\x1b[31mgarbage\r\n\r\n", "no answer in HTTP: \\x00\\x1b[31mgarbage"),
    "no status": (b"HTTP/1.1\r\n\r\n", "no answer in HTTP: HTTP/1.1"),
    "a large header": (page(b"", "200 OK", "X: " + "x" * 100_000), "got more than 65536 bytes"),
    "many headers": (page(TEXT, "200 OK", *["X: x"] * 1000), "got more than 100 headers"),
    "only headers": (endless(b"HTTP/1.1 200 OK\r\n", b"X: x\r\n" * 1000), "got more than 100 headers"),
    # another body
    "empty": (page(b""), "0 bytes with another sha256"),
    "short": (page(TEXT[:-1]), "11999 bytes with another sha256"),
    "cut": (page(TEXT)[:-10], "11990 bytes with another sha256"),
    "cut without length": (page(TEXT[:99], "200 OK", OPEN), "99 bytes with another sha256"),
    "long": (page(TEXT + b"x"), "sends more than the 12000 bytes"),
    "long without length": (page(TEXT + b"x", "200 OK", OPEN), "sends more than the 12000 bytes"),
    "endless": (endless(page(b"", "200 OK", OPEN)), "sends more than the 12000 bytes"),
    "negative length": (endless(page(b"", "200 OK", "Content-Length: -5")), "sends more than the 12000 bytes"),
    "wrong": (page(TEXT.replace(b"cat", b"dog")), "12000 bytes with another sha256"),
    "gzip": (page(gzip.compress(TEXT), "200 OK", "Content-Encoding: gzip", OPEN), "bytes with another sha256"),
    "html": (page(b"<html>log in first</html>"), "25 bytes with another sha256"),
    "chunks cut": (page(b"1000\r\n" + TEXT[:99], "200 OK", CHUNKED), "IncompleteRead"),
    "chunks of zz": (page(b"zz\r\n" + TEXT, "200 OK", CHUNKED), "IncompleteRead"),
    "chunks of -9": (page(b"-9\r\n" + TEXT, "200 OK", CHUNKED), "must be non-negative"),
    "endless chunk": (endless(page(b"f" * 15 + b"\r\n", "200 OK", CHUNKED)), "sends more than the 12000 bytes"),
}

HANDSHAKES = {
    "closed": (lambda _: None, "EOF"),
    "http": (lambda connection: connection.sendall(page(TEXT)), "SSL"),
}

ADDRESSES = {
    "http://127.0.0.1/a.txt": "the address must begin with https://",
    "file:///etc/passwd": "the address must begin with https://",
    "https://": "no host given",
    "https://127.0.0.1:9/a.txt": "Connection refused",
    "https://127.0.0.1:http/a.txt": "nonnumeric port",
    "https://[\x1b[31m/a.txt": "Invalid IPv6 URL",
    "https://\x1b31m/a.txt": "control characters",
    "https://127.0.0.1/\x1b[31m": "control characters",
    "/etc/a\x1b[31m.txt": "no such file",
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, which has no data; the server's certificate is trusted."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LMZOO_DATA", raising=False)
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    monkeypatch.setenv("no_proxy", "*")
    return tmp_path


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """The text under ``/good``, and each of `ANSWERS` under its name."""
    answers = {path(kind): answer for kind, (answer, _) in ANSWERS.items()}
    with serving({**answers, "/good": page(TEXT)}) as server:
        yield server


def path(kind: str) -> str:
    return "/" + kind.replace(" ", "-")


def refused_and_passed_over(bad: str, reason: str, good: Server, caplog: pytest.LogCaptureFixture) -> None:
    """A mirror without the file is reported in one line, leaves nothing behind, and the next mirror is taken."""
    with pytest.raises(UserError) as refused:
        fetch("corpus", FILE, [bad])
    message = one_line(refused.value)
    assert reason in message
    assert message.isprintable()
    assert not list(Path().iterdir())
    caplog.clear()
    assert fetch("corpus", FILE, [bad, good.url("/good")]) == TEXT
    (warning,) = caplog.messages
    assert reason in warning
    assert warning.startswith(
        f"a.txt cannot be downloaded from {bad}: " if bad.isprintable() else "a.txt cannot be downloaded from "
    )
    assert warning.isprintable()
    assert len(warning) <= 300
    assert [str(path) for path in Path().rglob("*") if path.is_file()] == ["data/corpus/a.txt"]


@pytest.mark.parametrize("kind", ANSWERS)
def test_a_bad_answer(kind: str, server: Server, caplog: pytest.LogCaptureFixture):
    refused_and_passed_over(server.url(path(kind)), ANSWERS[kind][1], server, caplog)


@pytest.mark.parametrize("kind", HANDSHAKES)
def test_a_bad_handshake(kind: str, server: Server, caplog: pytest.LogCaptureFixture):
    handshake, reason = HANDSHAKES[kind]
    with serving({}) as bad:
        bad.handshake = handshake
        refused_and_passed_over(bad.url("/a.txt"), reason, server, caplog)


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_bad_address(address: str, server: Server, caplog: pytest.LogCaptureFixture):
    refused_and_passed_over(address, ADDRESSES[address], server, caplog)


def test_an_untrusted_server_is_refused(server: Server, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("SSL_CERT_FILE")
    with pytest.raises(DownloadError, match="CERTIFICATE_VERIFY_FAILED"):
        download(server.url("/good"), len(TEXT))


@pytest.mark.parametrize(
    "answer",
    [
        page(TEXT),
        page(TEXT, "200 OK", OPEN),
        page(TEXT, "200 OK", "Content-Length: -5"),
        page(b"10\r\n" + TEXT[:16] + b"\r\n2ed0\r\n" + TEXT[16:] + b"\r\n0\r\n\r\n", "200 OK", CHUNKED),
    ],
    ids=["length", "no length", "negative length", "chunks"],
)
def test_a_good_answer(answer: bytes):
    with serving({"/good": answer}) as server:
        assert download(server.url("/good"), len(TEXT)) == TEXT


def test_a_silent_handshake(server: Server, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "SILENCE", 0.4)
    with serving({}) as bad:
        bad.handshake = silent
        refused_and_passed_over(bad.url("/a.txt"), "timed out", server, caplog)


def test_a_redirect_to_http_is_refused(server: Server, caplog: pytest.LogCaptureFixture):
    with serving({}) as plain:
        plain.handshake = HANDSHAKES["http"][0]
        address = plain.url("/a.txt").replace("https", "http")
        with serving({"/bad": moved(address)}) as bad:
            refused_and_passed_over(bad.url("/bad"), f"redirects to {address}, which is not https", server, caplog)


def test_a_redirect_is_followed():
    with serving({"/bad": moved("/good"), "/good": page(TEXT)}) as server:
        assert download(server.url("/bad"), len(TEXT)) == TEXT
        assert server.requests == ["/bad", "/good"]


@pytest.mark.parametrize("kind", ["endless", "negative length", "endless chunk"])
def test_an_endless_answer_takes_no_memory(kind: str, server: Server):
    tracemalloc.start()
    with pytest.raises(DownloadError):
        download(server.url(path(kind)), len(TEXT))
    assert tracemalloc.get_traced_memory()[1] < 2_000_000
    tracemalloc.stop()


def test_after_a_broken_connection_the_same_call_begins_again(folder: Path):
    answers = {"/a.txt": page(TEXT)[:-10]}
    with serving(answers) as server:
        with pytest.raises(UserError, match="11990 bytes with another sha256"):
            fetch("corpus", FILE, [server.url("/a.txt")])
        assert not list(folder.iterdir())
        answers["/a.txt"] = page(TEXT)
        assert fetch("corpus", FILE, [server.url("/a.txt")]) == TEXT
        assert fetch("corpus", FILE, [server.url("/a.txt")]) == TEXT
    assert server.requests == ["/a.txt"] * 2
