"""Checksums of what a run has written, kept with it: a change by a hand or a disk is noticed, of whatever kind."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lmzoo.core.errors import UserError
from lmzoo.core.files import read_bytes, sha256

SEAL = "sha256"
"""The entry that holds the checksum of all other entries."""

RESULTS = "results.json"

MOST_RESULTS = 1 << 24
"""Bytes; far more than a run writes."""


def sealed(results: Mapping[str, Any], files: Mapping[str, bytes]) -> dict[str, Any]:
    """What ``results.json`` holds: results, the checksums of some files of the run, and that of it all."""
    whole = {**results, **({"files": {name: sha256(data) for name, data in files.items()}} if files else {})}
    return {**whole, SEAL: _checksum(whole)}


def _checksum(results: Mapping[str, Any]) -> str:
    entries = {name: value for name, value in results.items() if name != SEAL}
    return sha256(json.dumps(entries, sort_keys=True).encode())


def broken(results: Mapping[str, Any]) -> bool:
    """Whether results are others than those that were `sealed`. Those of older runs have no seal."""
    return SEAL in results and results[SEAL] != _checksum(results)


def check_recorded(file: Path, data: bytes) -> None:
    """Raise a UserError where a finished run keeps another checksum of one of its files. Older runs keep none."""
    results = file.with_name(RESULTS)
    if not results.exists():
        return
    try:
        kept = json.loads(read_bytes(results, MOST_RESULTS)).get("files", {}).get(file.name)
    except (ValueError, AttributeError, RecursionError):
        raise UserError(f"{results}: damaged") from None
    if kept not in (None, sha256(data)):
        raise UserError(f"{file}: not as the run wrote it", "its checksum in results.json is another; make it again")
