"""A file from a server that may be broken or hostile: by https alone, of bounded size, in bounded time."""

import functools
import http.client
import io
import socket
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

from lmzoo.core.errors import printable, shortened

SILENCE = 15.0
"""Seconds that a server may let pass before its next bytes."""
DURATION = 120.0
"""Seconds that a download may take, redirects included."""
BESIDE = 2**16
"""Bytes that a server may send beside the file: headers, sizes of chunks."""


class DownloadError(Exception):
    """Why a file could not be downloaded: a printable line of at most 120 signs."""


def download(url: str, limit: int) -> bytes:
    """The body of the answer to a request, at most ``limit`` bytes. Redirects from https to https are followed.

    Raises: DownloadError where there is no whole answer of status 200 within the limits of size and time.
    """
    try:
        if urllib.parse.urlsplit(url).scheme != "https":
            raise ValueError("the address must begin with https://")
        opener = urllib.request.build_opener(_Bounded(limit + BESIDE, time.monotonic() + DURATION), _Redirects)
        with opener.open(url, timeout=SILENCE) as response:
            return _body(response, limit)
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise DownloadError(shortened(printable(" ".join(_reason(error).split())), 120)) from None


def _body(response: http.client.HTTPResponse, limit: int) -> bytes:
    if response.status != 200:
        raise ValueError(f"HTTP {response.status} {response.reason}")
    if response.length is not None and response.length > limit:
        raise ValueError(f"announces {shortened(response.length)} bytes, and the file has at most {limit}")
    data = response.read(limit + 1)
    if len(data) > limit:
        raise ValueError(f"sends more than the {limit} bytes that the file has at most")
    if response.length:
        raise ValueError(f"broke off after {len(data)} bytes")
    return data


def _reason(error: Exception) -> str:
    """What an exception of urllib's is about."""
    if isinstance(error, urllib.error.HTTPError):
        error.close()
        return f"HTTP {error.code} {error.msg}"
    if isinstance(error, http.client.BadStatusLine):
        return f"no answer in HTTP: {error}"
    cause = getattr(error, "reason", error)
    return getattr(cause, "strerror", None) or str(cause)


class _Stream(io.RawIOBase):
    """What comes from a socket: at most ``left`` bytes, until the moment ``end``."""

    def __init__(self, connection: socket.socket, left: int, end: float):
        self.connection, self.left, self.end = connection, left, end
        self.source = connection.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        seconds = self.end - time.monotonic()
        if seconds <= 0:
            raise TimeoutError("timed out")
        self.connection.settimeout(min(SILENCE, seconds))
        count = self.source.readinto(buffer)
        self.left -= count or 0
        if self.left < 0:
            raise ValueError("sends far more than the file")
        return count

    def close(self) -> None:
        self.source.close()
        super().close()


class _Response(http.client.HTTPResponse):
    """An answer read through a `_Stream`, headers and redirects included."""

    def __init__(self, connection: socket.socket, *arguments: Any, left: int, end: float, **named: Any):
        super().__init__(connection, *arguments, **named)
        self.fp.close()
        self.fp = io.BufferedReader(_Stream(connection, left, end))


class _Bounded(urllib.request.HTTPSHandler):
    """Opens https addresses with `_Response`."""

    def __init__(self, left: int, end: float):
        super().__init__()
        self.response = functools.partial(_Response, left=left, end=end)

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(self.connected, req)

    def connected(self, host: str, **options: Any) -> http.client.HTTPSConnection:
        """A connection as urllib makes it, but for its answers."""
        connection = http.client.HTTPSConnection(host, **options)
        connection.response_class = self.response  # pyright: ignore - any callable will do
        return connection


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects from https to https alone, and does not read their bodies."""

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        fp.close()
        if urllib.parse.urlsplit(newurl).scheme != "https":
            raise ValueError(f"redirects to {newurl}, which is not https")
        return super().redirect_request(req, fp, code, msg, headers, newurl)
