"""Checksums that results keep of themselves and of files."""

import json
from pathlib import Path

import pytest

from lmzoo.core.checksums import check_recorded, is_altered, with_checksum
from lmzoo.core.errors import UserError
from lmzoo.core.files import sha256

RESULTS = {"method": "lsa", "loss": 1e-300, "figures": {"test": 0.1 + 0.2, "valid": None}}


def kept_files(data: bytes) -> dict:
    return RESULTS | {"files": {"vectors.bin": sha256(data)}}


def test_any_other_entry_breaks_a_seal():
    whole = with_checksum(kept_files(b"123"))
    read = json.loads(json.dumps(whole, indent=2))
    assert not is_altered(read)
    assert not is_altered(dict(reversed(read.items())))
    changes = {"loss": 2e-300}, {"more": 1}, {"figures": {}}, {"sha256": None}
    for other in (None, [], RESULTS, *(whole | change for change in changes)):
        assert is_altered(other)
    del read["files"]
    assert is_altered(read)


def test_a_file_is_the_one_that_its_run_wrote(tmp_path: Path):
    file, results = tmp_path / "vectors.bin", tmp_path / "results.json"
    file.write_bytes(b"123")
    check_recorded(file)
    results.write_text(json.dumps(with_checksum(kept_files(b"123"))))
    check_recorded(file)
    results.write_text(json.dumps(with_checksum(kept_files(b"124"))))
    with pytest.raises(UserError, match=r"vectors.bin: changed since the run wrote it"):
        check_recorded(file)
    results.write_text(json.dumps(with_checksum(kept_files(b"124")) | {"files": {}}))
    with pytest.raises(UserError, match=r"results.json: changed since the run wrote it"):
        check_recorded(file)
    for damaged in ("[]", '{"files": 3}', "{", '{"files": {"vectors.bin": [1]}}'):
        results.write_text(damaged)
        with pytest.raises(UserError):
            check_recorded(file)
