"""Public texts with pinned checksums, found in a data folder or downloaded once."""

import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from lmzoo.core.errors import UserError, one_line
from lmzoo.core.files import sha256, text_bytes, write_atomic
from lmzoo.corpus.corpus import SPLITS
from lmzoo.corpus.download import DownloadError, download

log = logging.getLogger(__name__)


class Pinned(NamedTuple):
    """A file of a public corpus, of at most ``limit`` bytes."""

    name: str
    sha256: str
    limit: int


def data_folders() -> list[Path]:
    """The data folders in order of search: ``$LMZOO_DATA`` if set, then ``data``."""
    own = os.environ.get("LMZOO_DATA")
    return [*([Path(own)] if own else []), Path("data")]


def fetch(folder: str, file: Pinned, urls: Sequence[str]) -> bytes:
    """The contents of ``folder/file`` under the first data folder that has it.

    If no folder has it, it is downloaded from the first of ``urls`` that has it, and stored in the first folder.

    Args:
        urls: https addresses, or file paths.

    Raises: UserError if the checksum is wrong, if no folder and no URL has the file, and if the downloaded file cannot
        be written.
    """
    for root in data_folders():
        path = root / folder / file.name
        if os.path.lexists(path):
            data = text_bytes(path)
            if sha256(data) != file.sha256:
                raise UserError(
                    f"{path}: sha256 is {sha256(data)[:12]}…, not the pinned {file.sha256[:12]}…",
                    "delete the file to download it again, or use corpus=text for another text",
                )
            return data
    target = data_folders()[0] / folder / file.name
    try:
        data = _copy(file, urls)
        target.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(target, data)
    except DownloadError as error:
        raise UserError(
            f"{file.name} is in none of {', '.join(str(root / folder) for root in data_folders())} and no copy could "
            f"be downloaded ({error})",
            f"put the file into {target.parent}, set LMZOO_DATA "
            "to the folder that has it, or use corpus=pydoc, which needs no network",
        ) from None
    except OSError as error:
        raise UserError(f"{target}: cannot be written ({error.strerror})", "set LMZOO_DATA to a folder") from None
    return data


def _copy(file: Pinned, urls: Sequence[str]) -> bytes:
    """Download the file from the first URL that has it; failures before it are logged."""
    failures: dict[str, str] = {}
    for url in urls:
        try:
            data = download(url, file.limit) if "://" in url else text_bytes(Path(url))
        except (DownloadError, UserError) as error:
            failures[url] = str(error).removeprefix(f"{url}: ")
            continue
        if sha256(data) == file.sha256:
            for failed, reason in failures.items():
                log.warning(one_line(UserError(f"{file.name} cannot be downloaded from {failed}: {reason}")))
            return data
        failures[url] = f"{len(data)} bytes with another sha256"
    hosts = {url: url.partition("://")[2].partition("/")[0] or url for url in urls}
    reasons = dict.fromkeys(f"{hosts[url]}: {reason}" for url, reason in failures.items())
    raise DownloadError("; ".join(reasons) or "corpus.urls names none")


def fetch_splits(folder: str, files: Mapping[str, Pinned], urls: Sequence[str]) -> dict[str, bytes]:
    """`fetch` the file of each split. ``{file}`` and ``{split}`` in a URL are substituted."""
    return {
        split: fetch(folder, file, [url.replace("{file}", file.name).replace("{split}", split) for url in urls])
        for split, file in ((split, files[split]) for split in SPLITS)
    }
