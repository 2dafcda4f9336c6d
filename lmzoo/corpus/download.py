"""Download of public files, whose contents are compared with a checksum afterwards."""

import http.client
import urllib.error
import urllib.request
from urllib.parse import urlsplit

from lmzoo.core.errors import printable, shortened

SILENCE = 15.0
"""The timeout between bytes, in seconds."""


class DownloadError(Exception):
    """The failure of a download: a printable line of at most 120 characters."""


def download(url: str, limit: int) -> bytes:
    """Download a file of at most ``limit`` bytes; raise a DownloadError unless all addresses are https."""
    try:
        if urlsplit(url).scheme != "https":
            raise ValueError("the address must begin with https://")
        with urllib.request.urlopen(url, timeout=SILENCE) as response:
            if urlsplit(response.url).scheme != "https":
                raise ValueError(f"redirects to {response.url}, which is not https")
            data = response.read(limit + 1)
        if len(data) > limit:
            raise ValueError(f"sends more than the {limit} bytes that the file has at most")
        return data
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise DownloadError(shortened(printable(" ".join(_reason(error).split())), 120)) from None


def _reason(error: Exception) -> str:
    """The reason for an exception of urllib."""
    if isinstance(error, urllib.error.HTTPError):
        error.close()
        return f"HTTP {error.code} {error.msg}"
    if isinstance(error, http.client.BadStatusLine):
        return f"no answer in HTTP: {error}"
    cause = getattr(error, "reason", error)
    return getattr(cause, "strerror", None) or str(cause)
