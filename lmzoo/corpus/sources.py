"""Public texts with pinned checksums, found in a folder of data or downloaded once."""

import http.client
import os
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from lmzoo.core.errors import UserError
from lmzoo.core.files import read_bytes, sha256, write_atomic
from lmzoo.corpus.corpus import SPLITS


def data_folders() -> list[Path]:
    """The folders that are searched for corpora, in this order: ``$LMZOO_DATA`` if it is set, then ``data``."""
    named = os.environ.get("LMZOO_DATA")
    return [*([Path(named)] if named else []), Path("data")]


def fetch(folder: str, file: str, checksum: str, urls: list[str]) -> bytes:
    """The contents of ``folder/file`` under the first data folder that has it.

    If no folder has it, it is downloaded into the first one, from the first URL that has it.

    Args:
        checksum: the SHA-256 of the file.

    Raises: UserError for a file with another checksum, if no folder and no URL has the file, and if the downloaded file
        cannot be written.
    """
    for root in data_folders():
        path = root / folder / file
        if os.path.lexists(path):
            data = read_bytes(path)
            if sha256(data) != checksum:
                raise UserError(
                    f"{path}: sha256 is {sha256(data)[:12]}…, not the pinned {checksum[:12]}…",
                    "delete the file to download it again, or use corpus=text for another text",
                )
            return data
    target = data_folders()[0] / folder / file
    reasons = []
    for url in urls:
        try:
            with urllib.request.urlopen(url, timeout=30) as response:
                data = response.read()
        except (OSError, ValueError, http.client.HTTPException) as error:
            reasons.append(str(getattr(error, "reason", error)))
            continue
        if sha256(data) != checksum:
            reasons.append(f"{url} has another sha256")
            continue
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(target, data)
        except OSError as error:
            raise UserError(f"{target}: cannot be written ({error.strerror})", "set LMZOO_DATA to a folder") from None
        return data
    raise UserError(
        f"{file} is in none of {', '.join(str(root / folder) for root in data_folders())} and no copy could be "
        f"downloaded ({'; '.join(dict.fromkeys(reasons))})",
        f"put the file into {target.parent}, set LMZOO_DATA "
        "to the folder that has it, or use corpus=pydoc, which needs no network",
    )


def fetch_splits(folder: str, files: Mapping[str, str], checksums: Mapping[str, str], urls: list[str]) -> dict:
    """`fetch` the file of each split. ``{file}`` and ``{split}`` in a URL are filled in."""
    data = {}
    for split in SPLITS:
        filled = [url.replace("{file}", files[split]).replace("{split}", split) for url in urls]
        data[split] = fetch(folder, files[split], checksums[split], filled)
    return data
