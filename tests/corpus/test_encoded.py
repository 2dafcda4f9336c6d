"""Texts in files, encoded once and kept: against the encoding of the whole text in memory."""

import contextlib
import errno
import gzip
import hashlib
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from command_line import command
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lmzoo.core import disk_cache, files
from lmzoo.core.configs import defaults
from lmzoo.core.errors import UserError
from lmzoo.core.files import checked_text, text_bytes
from lmzoo.corpus import Corpus, Vocabulary, encoded, entries, load_corpus
from lmzoo.corpus.form import Form
from lmzoo.corpus.user_files import text_files

PENN = Path(os.environ.get("LMZOO_DATA", ""), "ptb").absolute()
PARTS = [
    "a ",
    "ab ",
    " Abcdefgh-ijkl",
    "é ",
    " €",
    " ",
    "\t",
    "\n",
    "\n\n",
    "\r\n",
    "b\u2028 ",
    "\x1c ",
    " <unk> ",
    " b\n",
]
texts = st.lists(st.sampled_from(PARTS), max_size=40).map("".join)


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache, in which files settle at once. The current folder is that of the texts."""
    monkeypatch.setenv("LMZOO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(encoded, "SETTLED", -1)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "cache"


def load(**options: Any) -> Corpus:
    return load_corpus(defaults("corpus", "text") | {"train": "train", "valid": "train"} | options)


def in_memory(options: dict[str, Any]) -> Corpus:
    """A corpus=text without labels as it would be without files of numbers."""
    read = {split: [text_bytes(file) for file in text_files(options[split])] for split in ("train", "valid")}
    form = entries.Form(**{name: options[name] for name in ("unit", "lower", "tokenizer")})
    whole = {split: [form.prepared(checked_text(data, split).removesuffix(b"\n") + b"\n") for data in parts]
             for split, parts in read.items()}  # fmt: skip
    words = Vocabulary.of(b"".join(whole["train"]), options["min_count"], options["max_size"], options["unknown"])
    splits = {split: torch.cat([words.encode(data) for data in parts]) for split, parts in whole.items()}
    sums = {split: hashlib.sha256(b"".join(parts)).hexdigest() for split, parts in read.items()}
    return Corpus("text", "stream", Vocabulary(words.words, form), splits, sums)


def same(found: Corpus, expected: Corpus) -> bool:
    alike = all(torch.equal(found.splits[split], expected.splits[split]) for split in expected.splits)
    words = found.vocabulary.words == expected.vocabulary.words and found.vocabulary.form == expected.vocabulary.form
    return alike and words and found.sha256 == expected.sha256


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("texts")


@settings(deadline=None, max_examples=40)
@given(st.lists(texts, min_size=1, max_size=3), texts, st.sampled_from([32, 2**20]), st.fixed_dictionaries({
    "unit": st.sampled_from(["word", "word", "char"]), "lower": st.booleans(), "min_count": st.sampled_from([1, 2]),
    "max_size": st.sampled_from([None, 4]),
}))  # fmt: skip
@example(["a b\n\n ab", "\ufeffa\r\nb"], " b", 32, {"unit": "char", "lower": True, "min_count": 2, "max_size": None})
def test_numbers_are_those_of_the_text_in_memory(
    folder: Path, parts: list[str], valid: str, block: int, options: dict[str, Any]
):
    named = []
    for number, text in enumerate(parts):
        named.append(str(folder / f"part{number}{'.gz' if number == 1 else ''}"))
        data = f"{text} x".encode()
        Path(named[-1]).write_bytes(gzip.compress(data) if number == 1 else data)
    (folder / "valid").write_text(f"{valid} x", newline="")
    given = {"train": named, "valid": str(folder / "valid"), "unknown": True, **options}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "LONGEST_WORD", block)
        patch.setattr(encoded, "BLOCK", 5)
        expected = in_memory(defaults("corpus", "text") | given)
        assert same(load(**given), expected)
        assert same(load(**given), expected)  # from the cache


def test_a_later_start_reads_no_text(kept: Path, monkeypatch: pytest.MonkeyPatch):
    Path("train").write_text("b a\na\n")
    first = load()
    with monkeypatch.context() as patch:
        for name in ("text_blocks", "read_pieces"):
            patch.setattr(encoded, name, lambda *_: pytest.fail("read again"))
        assert same(load(), first)
        with pytest.raises(pytest.fail.Exception):
            load(unknown=True)
        patch.setattr(encoded, "RULES", [*encoded.RULES, "another"])
        with pytest.raises(pytest.fail.Exception):
            load()
    assert first.splits["train"].dtype == torch.int32


@pytest.mark.usefixtures("kept")
def test_each_form_of_a_text_has_numbers_of_its_own():
    Path("train").write_text("A a\n")
    assert load().splits["train"].tolist() == [1, 2, 0]
    assert load(lower=True).splits["train"].tolist() == [1, 1, 0]
    assert load(unit="char").splits["train"].tolist() == [1, 2, 3, 0]


@pytest.mark.usefixtures("kept")
def test_a_changed_file_is_noticed_whatever_its_size_and_time():
    Path("train").write_text("b a\na\n")
    before, first = Path("train").stat(), load()
    Path("train").write_text("b b\na\n")
    os.utime("train", ns=(before.st_atime_ns, before.st_mtime_ns))
    changed = load()
    assert changed.vocabulary.words == ["<eos>", "b", "a"] != first.vocabulary.words
    assert first.splits["train"].tolist() == [2, 1, 0, 1, 0]  # as it was


def test_a_file_of_a_moment_ago_is_read_again(kept: Path, monkeypatch: pytest.MonkeyPatch):
    Path("train").write_text("b a\na\n")
    monkeypatch.setattr(encoded, "SETTLED", 60)
    load()
    assert not list(kept.glob("sha256-*"))
    assert len(list(kept.glob("text-*[0-9a-f]"))) == 2


def test_another_file_with_the_same_text_is_not_encoded_again(kept: Path, monkeypatch: pytest.MonkeyPatch):
    Path("train").write_text("b a\na\n")
    load()
    Path("copy").write_text("b a\na\n")
    monkeypatch.setattr(encoded, "read_pieces", lambda *_: pytest.fail("encoded again"))
    assert load(train="copy").splits["train"].tolist() == [2, 1, 0, 1, 0]


@pytest.mark.usefixtures("kept")
def test_files_cut_otherwise_are_another_text():
    for name, text in {"a": "x y", "b": "z x\n", "c": "x yz", "d": " x\n"}.items():
        Path(name).write_text(text)
    assert load(train=["a", "b"], valid="a").splits["train"].tolist()[2::3] == [0, 0]
    assert load(train=["c", "d"], valid="c").splits["train"].tolist()[2::2] == [0, 0]


def test_a_damaged_file_of_numbers_is_made_again(kept: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(encoded, "BLOCK", 5)
    Path("train").write_text("b a\na\n" * 9)
    first = load()
    for path in kept.glob("text-*[0-9a-f]"):
        whole = path.read_bytes()
        for damaged in (
            b"",
            whole[:5],
            whole[:40],
            whole[:-9],
            whole[:-1],
            whole[4:],
            whole[:-12] + b"\xff" * 8 + whole[-4:],
            bytes([whole[0] ^ 3]) + whole[1:],  # another word
            whole[:7] + b"\x40" + whole[8:],  # a word that is none
            whole.replace(b'"b"', b'"c"'),
            whole[:-1] + bytes([whole[-1] ^ 1]),
        ):
            assert damaged != whole
            path.unlink()  # it stays in the memory of who has mapped it
            path.write_bytes(damaged)
            assert same(load(), first)
            assert path.read_bytes() == whole


class Full:
    """A stream on a disk that has no room left after so many writes."""

    def __init__(self, stream: Any, writes: int):
        self.stream, self.left = stream, writes

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def write(self, data: bytes) -> int:
        self.left -= 1
        if self.left < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self.stream.write(data)


@pytest.mark.parametrize("writes", [0, 3, 9])
def test_a_full_disk_is_reported_and_leaves_nothing(kept: Path, writes: int, monkeypatch: pytest.MonkeyPatch):
    Path("train").write_text("b a\na\n" * 8_000)
    monkeypatch.setattr(files, "LONGEST_WORD", 6000)
    opened = encoded.atomic_stream

    @contextlib.contextmanager
    def full(path: Path):
        with opened(path) as stream:
            yield Full(stream, writes)

    with monkeypatch.context() as patch:
        patch.setattr(encoded, "atomic_stream", full)
        with pytest.raises(UserError) as told:
            load()
    room = "cannot be written (No space left on device), and the encoded text takes about 0.00016 GB"
    assert str(told.value) == f"{kept}: {room}; set LMZOO_CACHE to a folder with more room"
    assert not [path for path in kept.iterdir() if "text-" in path.name and path.suffix != ".lock"]
    assert load().splits["train"][:5].tolist() == [2, 1, 0, 1, 0]


def test_a_cache_that_cannot_be_written_is_no_error(kept: Path, caplog: pytest.LogCaptureFixture):
    Path("train").write_text("b a\na\n")
    kept.write_text("not a folder")
    assert load().splits["train"].tolist() == [2, 1, 0, 1, 0]
    assert "set LMZOO_CACHE to another folder" in caplog.text


def test_a_file_that_changes_while_it_is_read_is_refused(kept: Path, monkeypatch: pytest.MonkeyPatch):
    Path("train").write_text("b a\na\n")
    read = encoded.text_checksums

    def then_changed(named: list[Path], form: Form):
        found = read(named, form)
        Path("train").write_text("b a\na b\n")
        return found

    monkeypatch.setattr(entries, "text_checksums", then_changed)
    with pytest.raises(
        UserError, match=r"^train: the text changed while it was read; start again when it is complete$"
    ):
        load()
    assert not list(kept.glob("text-*[0-9a-f]"))


def test_a_killed_process_s_part_is_removed(kept: Path):
    Path("train").write_text("b a\na\n")
    load()
    entries = list(kept.glob("text-*[0-9a-f]"))
    for entry in entries:
        entry.rename(entry.with_name(f".{entry.name}.0123abcd.part"))
    load()
    assert not list(kept.glob(".*.part"))
    assert sorted(kept.glob("text-*[0-9a-f]")) == sorted(entries)


def test_who_starts_at_once_waits_for_the_first(kept: Path):
    Path("train").write_text("b a\na\n")
    found: list[Corpus] = []
    names = [path.name for path in kept.glob("*")]
    known = encoded.text_checksums([Path("train")], Form())
    assert known is not None
    limits = encoded.Limits(1, None, False)
    given = (entries.Form(), limits)
    first = encoded.encoded([Path("train")], known, *given)
    (entry,) = set(kept.glob("text-*[0-9a-f]"))
    moved = entry.rename(kept / "moved")
    with disk_cache.exclusive_lock(entry.name):  # as another process would
        waiting = threading.Thread(target=lambda: found.append(encoded.encoded([Path("absent")], known, *given)))  # type: ignore[arg-type]
        waiting.start()
        waiting.join(0.1)
        assert not found
        moved.rename(entry)
    waiting.join(20)
    assert torch.equal(found[0].tokens, first.tokens)  # type: ignore[attr-defined]
    assert not names


@pytest.mark.usefixtures("kept")
def test_a_pipe_is_read_once():
    Path("valid").write_text("a\n")
    read, write = os.pipe()
    os.write(write, b"b a\na")
    os.close(write)
    assert load(train=f"/dev/fd/{read}", valid="valid").splits["train"].tolist() == [2, 1, 0, 1, 0]
    os.close(read)


def drawn() -> dict[str, str]:
    random, texts = torch.Generator().manual_seed(0), {}
    for split, lines in {"train": 60, "valid": 15}.items():
        words = torch.randint(30, (lines, 9), generator=random).tolist()
        texts[split] = "".join(" ".join(f"w{word}" for word in line) + "\n" for line in words)
    return texts


def penn() -> dict[str, str]:
    """The first 7,141 tokens of train and 930 of valid."""
    if not (PENN / "ptb.train.txt").exists():
        pytest.skip("LMZOO_DATA has no Penn Treebank")
    lines = {"train": 320, "valid": 40}
    return {split: "".join((PENN / f"ptb.{split}.txt").read_text().splitlines(True)[:n]) for split, n in lines.items()}


@pytest.mark.parametrize("texts", [drawn, penn])
@pytest.mark.usefixtures("kept")
def test_a_run_is_the_same_to_the_bit_as_with_int64_in_memory(texts: Callable, monkeypatch: pytest.MonkeyPatch):
    for split, text in texts().items():
        Path(split).write_text(text)
    options = ["corpus=text", "corpus.train=train", "corpus.valid=valid", "corpus.unknown=true", "model=rnn",
               "model.embedding=8", "model.hidden=8", "trainer=debug", "device=cpu",
               "trainer.batch_size=4", "corpus.label=x"]  # fmt: skip
    assert command(*options, "run_dir=mapped").code == 0
    whole = in_memory(defaults("corpus", "text") | {"train": "train", "valid": "valid", "unknown": True})
    parts = {str(split): whole.splits[split] for split in whole.splits}
    mapped = encoded.encoded

    def unmapped(named: list[Path], *given: Any) -> encoded.Encoded:
        found = mapped(named, *given)
        return encoded.Encoded(parts[named[0].name], found.words, found.sha256)

    monkeypatch.setattr(entries, "encoded", unmapped)
    assert command(*options, "run_dir=memory").code == 0
    runs = [torch.load(f"{run}/best.pt", weights_only=True)["model"] for run in ("mapped", "memory")]
    assert runs[0].keys() == runs[1].keys()
    assert all(torch.equal(value, runs[1][name]) for name, value in runs[0].items() if torch.is_tensor(value))
    results = [json.loads(Path(run, "results.json").read_text()) for run in ("mapped", "memory")]
    assert results[0]["perplexity"] == results[1]["perplexity"]
    assert [check["valid"] for check in results[0]["checks"]] == [check["valid"] for check in results[1]["checks"]]
