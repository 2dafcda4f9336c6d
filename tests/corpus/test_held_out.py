"""Splits from the end of train, against a loop over lines."""

import gzip
import json
import os
from pathlib import Path

import pytest
from command_line import MODELS, command

from lmzoo.commands import evaluate, vectors
from lmzoo.core.configs import defaults
from lmzoo.core.errors import UserError
from lmzoo.corpus import Corpus, held_out, load_corpus
from lmzoo.corpus.encoded import Checksums
from lmzoo.corpus.held_out import share


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LMZOO_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def own(**options: object) -> Corpus:
    return load_corpus(defaults("corpus", "text") | options)


def lines(begin: int, end: int) -> list[str]:
    return [f"w{number} x" if number % 7 else "" for number in range(begin, end)]


def text(of: Corpus, split: str) -> list[str]:
    return of.vocabulary.decode(of.splits[split].tolist()).replace(" <eos>", "").replace("<eos>", "").split("\n")


@pytest.mark.parametrize("end", ["\n", ""])
@pytest.mark.parametrize("packed", [False, True])
def test_the_last_lines_of_train_are_taken_from_it(cache: Path, end: str, packed: bool):
    data = ("\n".join(lines(1, 201)) + end).encode()
    name = "train.gz" if packed else f"train.{200 * 'a'}"
    (cache / name).write_bytes(gzip.compress(data) if packed else data)
    corpus = own(train=name, valid="5%", test="2.5%", unknown=True)
    assert text(corpus, "train") == lines(1, 186)
    assert set(corpus.vocabulary.words) == {"<eos>", "<unk>", *" ".join(lines(1, 186)).split()}
    assert [int((corpus.splits[split] == 0).sum()) for split in ("train", "valid", "test")] == [185, 10, 5]
    assert corpus.notes == {"valid": "lines 186 to 195 of train's 200", "test": "lines 196 to 200 of train's 200"}
    assert not corpus.warnings
    for split, (a, b) in {"train": (1, 186), "valid": (186, 196), "test": (196, 201)}.items():
        (cache / split).write_text("\n".join(lines(a, b)) + "\n")
    same = own(train="train", valid="valid", test="test", unknown=True)
    for split in ("train", "valid", "test"):
        assert same.splits[split].equal(corpus.splits[split])


def test_files_of_train_keep_their_ends(cache: Path):
    for number in range(4):
        (cache / f"{number}.txt").write_text("\n".join(lines(50 * number + 1, 50 * number + 51)) + "\n")
    corpus = own(train="*.txt", valid="30%", unknown=True)
    assert text(corpus, "train") == lines(1, 141)
    words = "\n".join(text(corpus, "valid")).split()
    assert len(words) == len("\n".join(lines(141, 201)).split())
    labelled = [f"l{number % 2}\t{line} a" for number, line in enumerate(lines(1, 101))]
    (cache / "labels").write_text("\n".join(labelled))
    given = own(train="labels", valid="10%", unknown=True, condition=True, context="sentence")
    assert given.conditions["valid"].tolist() == [0, 1] * 5
    assert len(given.conditions["train"]) == 90


def test_a_run_says_which_lines_and_reads_them_again(cache: Path):
    (cache / "text").write_text("a b c d\nb a d c\nc c\n" * 100)
    options = ["corpus=text", "corpus.train=text", "corpus.valid=5%", *MODELS["ngram"], "device=cpu", "run_dir=run"]
    done = command(*options)
    assert done.code == 0, done
    assert "valid is lines 286 to 300 of train's 300" in (cache / "run" / "train.log").read_text()
    assert json.loads((cache / "run" / "provenance.json").read_text())[0]["corpus"]["valid"].startswith("lin")
    figures = evaluate.evaluate(Path("run"), "valid", device="cpu")
    (cache / "last").write_text("a b c d\nb a d c\nc c\n" * 5)
    assert figures["perplexity"] == evaluate.evaluate(Path("run"), "last", device="cpu")["perplexity"]
    assert figures["tokens"] == 65
    assert "is text that run was trained on" in command("run", "./text", main=evaluate.main).err
    (cache / "text").write_text("a b c d\nb a d c\nc d\n" * 100)
    assert "was trained on another text" in command("run", "valid", main=evaluate.main).refused()


def test_train_that_changes_while_its_lines_are_copied_is_refused(cache: Path, monkeypatch: pytest.MonkeyPatch):
    (cache / "text").write_text("\n".join(lines(1, 201)))
    changed = Checksums("0", ["0"])
    with monkeypatch.context() as patch:
        patch.setattr(held_out, "text_checksums", lambda *_: changed)
        with pytest.raises(UserError, match="text: has changed while it was read; run the command again"):
            own(train="text", valid="5%")
    assert own(train="text", valid="5%", unknown=True).notes["valid"] == "lines 191 to 200 of train's 200"


def test_what_is_a_share():
    assert [share(each) for each in ("5%", "0.5%", "100%", "./5%", "5", ["5%"], None)] == [
        0.05, 0.005, 1.0, None, None, None, None
    ]  # fmt: skip


def test_mistakes(cache: Path):
    (cache / "text").write_text("a\nb\nc\n")
    for wrong, told in (
        ({"valid": "0%"}, r"corpus.valid=0%: holds out nothing of train, or all of it; hold out a few per cent"),
        (
            {"valid": "50%", "test": "50%"},
            r"corpus.valid=50%, corpus.test=50%: holds out nothing of train, or all of it",
        ),
        (
            {"valid": "5%"},
            r"corpus.valid=5%: train has 3 lines, too few; write a sentence a line, or name a file for each split",
        ),
    ):
        with pytest.raises(UserError, match=told):
            own(train="text", **wrong)
    (cache / "empty").write_text(" \n")
    (cache / "blank_end").write_text("a b\n" * 19 + "\n")
    (cache / "returns").write_bytes(b"a b\rc d\r" * 9)
    (cache / "table.CSV.gz").write_bytes(gzip.compress(b"a,b\n" * 99))
    for wrong, told in (
        ("empty", "empty: empty; it needs at least one line of text"),
        ("returns", "returns: line 1 has a carriage return inside"),
        ("blank_end", "blank_end, from line 20 on: empty; it needs at least one line of text"),
        ("table.CSV.gz", r"table\.CSV\.gz: is a table, by its suffix"),
    ):
        with pytest.raises(UserError, match=told):
            own(train=wrong, valid="5%")
    os.mkfifo(cache / "pipe")
    with pytest.raises(UserError, match=r"pipe can be read only once; copy its text into a file"):
        own(train="pipe", valid="5%")


@pytest.mark.parametrize("line", [3, 100])
def test_an_error_names_the_file_of_train_and_its_line(cache: Path, line: int):
    for wrong, told, options in (
        (b"a \xff", "", {"unknown": True}),
        (b"a b", "no tab", {"unknown": True, "condition": True, "context": "sentence"}),
        (b"a <eos>", "<eos> is added", {"unknown": True}),
    ):
        given = [b"l\ta b" if "condition" in options else b"a b"] * 100
        (cache / "text").write_bytes(b"\n".join([*given[: line - 1], wrong, *given[line:]]))
        with pytest.raises(UserError) as error:
            own(train="text", valid="5%", **options)
        assert str(error.value).startswith("text"), error.value
        assert f"line {line}" in str(error.value)
        assert told in str(error.value)
        assert "byte" not in str(error.value)


def test_a_split_of_another_type_is_reported_with_its_choices(cache: Path):
    (cache / "text").write_text("a b\n" * 100)
    with pytest.raises(UserError, match=r"valid=5: must be a path, or a share of train such as 5%"):
        own(train="text", valid=5)


def test_word_vectors_need_no_valid(cache: Path):
    (cache / "text").write_text("a b c d\nb a d c\nc c\n" * 10)
    options = ["corpus=text", "corpus.train=text", "run_dir=run"]
    refused = command(*options, *MODELS["ngram"]).refused()
    assert "corpus text needs corpus.valid; name a file, or 5% to take it from train" in refused
    assert command(*options, "method=ppmi", "method.dim=2", main=vectors.main).code == 0
