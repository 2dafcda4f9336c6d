"""Checksums of the files of a run, stored with it, which reveal any later change."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lmzoo.core.errors import UserError
from lmzoo.core.files import input_stream, read_bytes, sha256

CHECKSUM = "sha256"
"""The entry that holds the checksum of all other entries."""

NOT_AS_WRITTEN = "changed since the run wrote it (its own checksum differs or is missing)"

RESULTS = "results.json"


def with_checksum(entries: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of JSON entries with their checksum."""
    return {**entries, CHECKSUM: _checksum(entries)}


def _checksum(entries: Mapping[str, Any]) -> str:
    """The SHA-256 of JSON entries without `CHECKSUM`."""
    others = {name: value for name, value in entries.items() if name != CHECKSUM}
    return sha256(json.dumps(others, sort_keys=True).encode())


def is_altered(entries: Any) -> bool:
    """Whether something read from JSON is not what `with_checksum` returned."""
    return not isinstance(entries, dict) or entries.get(CHECKSUM) != _checksum(entries)


def check_recorded(file: Path) -> None:
    """Raise a UserError if a file of a finished run does not match its checksum in the results."""
    results = file.with_name(RESULTS)
    if not results.exists():
        return
    try:
        entries = json.loads(read_bytes(results))
    except (ValueError, RecursionError):
        raise UserError(f"{results}: damaged") from None
    if is_altered(entries):
        raise UserError(f"{results}: {NOT_AS_WRITTEN}")
    with input_stream(file) as stream:
        now = hashlib.file_digest(stream, "sha256").hexdigest()
    if entries["files"].get(file.name) != now:
        raise UserError(
            f"{file}: changed since the run wrote it", "its checksum in results.json is another; make it again"
        )
