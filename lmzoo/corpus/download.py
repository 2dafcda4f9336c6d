"""Download from servers that may be broken or malicious: only https, with limits on size and time."""

import http.client
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

from lmzoo.core.errors import printable, shortened

SILENCE = 15.0
"""The timeout between bytes, in seconds."""
DURATION = 120.0
"""The timeout of a download, redirects included, in seconds."""
BESIDE = 2**16
"""The allowance for bytes besides the file: headers, chunk sizes."""


class DownloadError(Exception):
    """The failure of a download: a printable line of at most 120 characters."""


def download(url: str, limit: int) -> bytes:
    """Download at most ``limit`` bytes. Redirects from https to https are followed.

    Raises: DownloadError without a complete response of status 200 within the limits of size and time.
    """
    try:
        if urllib.parse.urlsplit(url).scheme != "https":
            raise ValueError("the address must begin with https://")
        context = _bounded(limit + BESIDE, time.monotonic() + DURATION)
        opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=context), _Redirects)
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
    """The reason for an exception of urllib."""
    if isinstance(error, urllib.error.HTTPError):
        error.close()
        return f"HTTP {error.code} {error.msg}"
    if isinstance(error, http.client.BadStatusLine):
        return f"no answer in HTTP: {error}"
    cause = getattr(error, "reason", error)
    return getattr(cause, "strerror", None) or str(cause)


def _bounded(most: int, end: float) -> ssl.SSLContext:
    """A TLS context whose connections receive at most ``most`` bytes, headers included, until the time ``end``."""

    class Connection(ssl.SSLSocket):
        received = 0

        def recv_into(self, buffer: Any, nbytes: int | None = None, flags: int = 0) -> int:
            seconds = end - time.monotonic()
            if seconds <= 0:
                raise TimeoutError("timed out")
            self.settimeout(min(SILENCE, seconds))
            count = super().recv_into(buffer, nbytes, flags)
            self.received += count
            if self.received > most:
                raise ValueError("sends far more than the file")
            return count

    context = ssl.create_default_context()
    context.sslsocket_class = Connection
    return context


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects only from https to https, without reading their bodies."""

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        fp.close()
        if urllib.parse.urlsplit(newurl).scheme != "https":
            raise ValueError(f"redirects to {newurl}, which is not https")
        return super().redirect_request(req, fp, code, msg, headers, newurl)
