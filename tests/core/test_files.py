"""Files: written whole or not at all, read with errors a user understands."""

import bz2
import gzip
import lzma
import re
import stat
from pathlib import Path

import pytest

from lmzoo.core import files
from lmzoo.core.errors import UserError
from lmzoo.core.files import (
    atomic_stream,
    decompressed_name,
    read_lines,
    read_pieces,
    read_text,
    sha256,
    text_ending,
    write_atomic,
    write_output,
)


def test_a_file_is_written_whole(tmp_path: Path):
    write_atomic(tmp_path / "file", b"first")
    write_atomic(tmp_path / "file", b"second")
    assert (tmp_path / "file").read_bytes() == b"second"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) & 0o400


def test_until_it_is_whole_the_file_is_what_it_was(tmp_path: Path):
    write_atomic(tmp_path / "file", b"first")
    with atomic_stream(tmp_path / "file") as stream:
        stream.write(b"second")
        stream.flush()
        assert (tmp_path / "file").read_bytes() == b"first"
    assert (tmp_path / "file").read_bytes() == b"second"


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_an_error_leaves_what_was_there_and_nothing_else(error: type[BaseException], tmp_path: Path):
    def fail() -> None:
        with atomic_stream(tmp_path / "file") as stream:
            stream.write(b"second")
            raise error

    write_atomic(tmp_path / "file", b"first")
    with pytest.raises(error):
        fail()
    assert (tmp_path / "file").read_bytes() == b"first"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_two_writers_of_one_file_do_not_disturb_each_other(tmp_path: Path):
    with atomic_stream(tmp_path / "file") as first, atomic_stream(tmp_path / "file") as second:
        first.write(b"first")
        second.write(b"second")
    assert (tmp_path / "file").read_bytes() == b"first"  # which was closed last
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_an_output_that_cannot_be_written_is_a_mistake_of_the_user_s(tmp_path: Path):
    with pytest.raises(UserError, match=r"nowhere/file: cannot be written \(No such file or directory\)"):
        write_output(tmp_path / "nowhere" / "file", b"")


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"a b\nc\n", ["a b", "c"]),
        (b"a b\nc", ["a b", "c"]),
        (b"a\n\nc\n", ["a", "", "c"]),
        (b"a\r\n\r\nc\r\r\nd", ["a", "", "c\r", "d"]),
        (b"a b\r", ["a b"]),
        ("é\u2028\x0cb\n".encode(), ["é\u2028\x0cb"]),
    ],
)
def test_lines_are_read(data: bytes, lines: list[str], tmp_path: Path):
    (tmp_path / "text").write_bytes(data)
    assert read_lines(tmp_path / "text") == lines


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (None, "text: no such file"),
        (b" \n", "text: empty; it needs at least one line of text"),
        (b"a\nb \xff\n", r"text: not UTF-8 \(line 2, byte 4\); convert it first"),
        (b"a\nb \xff\n\xef\xbb\xbfc\n", r"text: not UTF-8 \(line 2, byte 4\); convert it first"),
        (b"\xef\xbb\xbfa\nb \xff\n", r"text: not UTF-8 \(line 2, byte 7\); convert it first"),
        (b"a b\rc\r", r"text: line 1 has a carriage return inside; where it ends a line, write a line feed: tr '\\r'"),
        (b"a\r\nb\rc\n", "text: line 2 has a carriage return inside"),
    ],
)
def test_a_text_that_cannot_be_read(data: bytes | None, message: str, tmp_path: Path):
    if data is not None:
        (tmp_path / "text").write_bytes(data)
    with pytest.raises(UserError, match=message):
        read_lines(tmp_path / "text")


def test_what_has_no_words_is_refused_before_it_is_read_to_its_end(tmp_path: Path):
    """A file of zeros takes no room on the disk, and 2**40 bytes would not fit into memory."""
    with (tmp_path / "zeros").open("wb") as stream:
        stream.truncate(1 << 40)
    with pytest.raises(UserError, match="zeros: no text of words, as 1,048,576 bytes of it contain no space"):
        read_lines(tmp_path / "zeros")


def test_a_text_may_be_one_long_line(tmp_path: Path):
    (tmp_path / "text").write_bytes(b"word " * 500_000)  # such as text8, of 100 MB
    assert len(read_lines(tmp_path / "text")[0]) == 2_500_000


def test_a_folder_is_no_text(tmp_path: Path):
    with pytest.raises(UserError, match=r"cannot be read \(Is a directory\)"):
        read_lines(tmp_path)


def test_checksums():
    assert sha256(b"abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # FIPS 180-2, B.1


@pytest.mark.parametrize("blocks", [1, 9])
def test_a_byte_order_mark_is_no_part_of_a_word(blocks: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Texts that are put together have one at the beginning of each."""
    monkeypatch.setattr(files, "LONGEST_WORD", 1 << 20 if blocks == 1 else 7)
    (tmp_path / "text").write_bytes("\ufeffa b\nc\n\ufeffd\n\ufeff\ufeff\n".encode())
    assert read_lines(tmp_path / "text") == ["a b", "c", "d", "\ufeff"]
    assert b"".join(read_pieces(tmp_path / "text")).decode() == "a b\nc\nd\n\ufeff\n"


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ("a b\nc d\n".encode("utf-16-le"), "line 1 has a null byte, which no text has; convert it to UTF-8 if it is"),
        (b"a\nb\nc\0d\ne\n", "line 3 has a null byte"),
        ("a b\n".encode("utf-16"), "not UTF-8 (line 1, byte 0) but UTF-16; convert it first"),
        (
            gzip.compress(gzip.compress(b"a b\n", mtime=0), mtime=0),
            "not UTF-8 (line 1, byte 1) but gzip once more; decompress it, and compress it once",
        ),
        (bz2.compress(b"a b\n"), "but bzip2; decompress it first"),
        (lzma.compress(b"a b\n"), "not UTF-8 (line 1, byte 0) but xz; decompress it first"),
        ("a b\n".encode("utf-32"), "not UTF-8 (line 1, byte 0) but UTF-32; convert it first"),
        ("BZh is no caf\xe9\n".encode(), None),
        (gzip.compress(b"a b\n", mtime=0), b"a b\n"),
        (b"a\nb\xff\n", "not UTF-8 (line 2, byte 3); convert it first"),
    ],
)
def test_what_is_no_text_is_reported_as_what_it_is(data: bytes, problem: str | bytes | None, tmp_path: Path):
    (file := tmp_path / "text").write_bytes(data)
    if not isinstance(problem, str):
        assert read_text(file) == problem or data
    else:
        with pytest.raises(UserError, match=re.escape(problem)):
            read_text(file)


PACKED = gzip.compress(b"a b\n", mtime=0)


def test_a_name_ends_as_what_is_packed_does():
    assert [*map(str, map(decompressed_name, map(Path, ("x/A.txt.GZ", "a.zst", "a.txt"))))] == ["A.txt", "a", "a.txt"]
    names = ["A.CSV.gz", "a.b.csv", "a.csv.ZST", ".csv", "a.gz", "a", "a.gz.gz"]
    assert [text_ending(Path(name)) for name in names] == [".csv", ".csv", ".csv", ".csv", "", "", ".gz"]


@pytest.mark.parametrize("name", ["text.txt", "text.csv"])
@pytest.mark.parametrize(
    "text", ["1\ta b\n\n2\tc\n", "1\ta b\tx\n2\t\tx\n3\tc\tx", "\ta b\n\tc\n", "a b\tc\n", "a\tb\nc d\n"]
)
def test_a_table_is_no_text(name: str, text: str, tmp_path: Path):
    (tmp_path / name).write_text(text)
    assert b"".join(read_pieces(tmp_path / name, of_words=False)).decode() == text.removesuffix("\n") + "\n"
    if name.endswith(".csv") or text[0] == "1":
        with pytest.raises(
            UserError, match=r"is a table, by its suffix or by the equal number of tabs per line; write the column"
        ):
            next(read_pieces(tmp_path / name))
    else:
        assert b"".join(read_pieces(tmp_path / name)).decode() == text


@pytest.mark.parametrize(
    ("name", "data", "problem"),
    [
        ("a.gz", b"a b\n", "a.gz: is not gzip, as its suffix says; rename it"),
        ("a.gz", bz2.compress(b"a b\n"), "a.gz: is bzip2, not gzip as its suffix says; rename it"),
        ("a.zst", PACKED, "a.zst: is gzip, not zstd as its suffix says; rename it"),
        (
            "a.gz",
            gzip.compress(PACKED, mtime=0),
            "a.gz: not UTF-8 (line 1, byte 1) but gzip once more; decompress it, and compress it",
        ),
        ("a.gz", PACKED[:-3], "a.gz: no whole file of gzip; pack it again"),
        ("a.gz", b"", "a.gz: empty"),
        ("a.GZ", PACKED, None),
    ],
)
def test_what_is_packed_is_what_its_name_says(name: str, data: bytes, problem: str | None, tmp_path: Path):
    (file := tmp_path / name).write_bytes(data)
    if problem is None:
        assert read_text(file) == b"a b\n"
    else:
        with pytest.raises(UserError, match=re.escape(problem)):
            read_text(file)


def test_an_output_is_packed_where_its_name_says_so(tmp_path: Path):
    write_output(tmp_path / "out.tsv.gz", b"a b\n")
    assert read_text(tmp_path / "out.tsv.gz") == gzip.decompress((tmp_path / "out.tsv.gz").read_bytes()) == b"a b\n"
