"""Files of word vectors that ask for more memory or time than they have bytes."""

import subprocess
import sys
from pathlib import Path

import pytest

from lmzoo.core.errors import UserError
from lmzoo.words.vectors.formats import read_vectors

READ = """
import resource, sys
from pathlib import Path
from lmzoo.core.errors import UserError
from lmzoo.words.vectors.formats import read_vectors
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
before = peak()
for file in sys.argv[1:]:
    try:
        print(len(read_vectors(Path(file)).words))
    except UserError as error:
        print(error)
print(peak() - before)
"""
"""Prints for each file the number of vectors or an error, and by how many MiB the process has grown at most."""


def read_apart(*files: Path) -> tuple[list[str], int]:
    """What `READ` prints of files."""
    done = subprocess.run([sys.executable, "-c", READ, *files], capture_output=True, text=True, check=True, timeout=300)
    *told, grown = done.stdout.splitlines()
    return told, int(grown)


@pytest.mark.parametrize("module", ["gzip", "backports.zstd"])
def test_what_unpacks_out_of_proportion_is_refused(module: str, tmp_path: Path):
    files, open_packed = [], pytest.importorskip(module).open
    for head, block in ((b"", b"a 1 2\n"), (b"9999999 2\n", b"\n"), (b"9 2\n", b"0")):
        files.append(tmp_path / str(len(files)))
        with open_packed(files[-1], "wb") as stream:
            stream.write(head)
            stream.write(block * (32_000_000 // len(block)))
        assert files[-1].stat().st_size < 150_000
    told, grown = read_apart(*files)
    assert all("not a file of word vectors" in line or "more than 50 times as large" in line for line in told)
    assert "more than 50 times as large" in told[0]
    assert grown < 100  # 32 MB of lines took 500


def test_a_file_with_holes_is_refused_at_once(tmp_path: Path):
    heads = b"", b"3000000 100\n", b"a ", b"1 16000\n", b"1 16000\na 1"
    files = [tmp_path / str(number) for number in range(len(heads))]
    for file, head in zip(files, heads, strict=True):
        with file.open("wb") as stream:
            stream.write(head)
            stream.truncate(1 << 40)
    told, grown = read_apart(*files)
    assert all("not a file of word vectors" in line for line in told)
    assert grown < 100


@pytest.mark.parametrize("form", ["text", "binary", "glove"])
def test_a_vector_of_more_numbers_than_any_has_is_refused(form: str, tmp_path: Path):
    width, numbers = 300_000, {"binary": bytes(4 * 300_000)}.get(form, b"0 " * 300_000)
    (tmp_path / "v").write_bytes(b"" if form == "glove" else b"1 %d\n" % width)
    with (tmp_path / "v").open("ab") as stream:
        stream.write(b"a " + numbers + b"\n")
    with pytest.raises(UserError, match=r"a vector has 300,000 numbers|a line has more than"):
        read_vectors(tmp_path / "v")


def test_a_header_that_promises_more_than_the_machine_has(tmp_path: Path):
    (tmp_path / "v").write_bytes(b"9999999999999 300\na 1\n")
    with pytest.raises(UserError, match="9,999,999,999,999 vectors of 300 numbers need more than the memory"):
        read_vectors(tmp_path / "v")
