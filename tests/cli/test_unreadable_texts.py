"""Texts that cannot be read: one line that names the way out, and nothing left behind."""

import re
from pathlib import Path

import pytest
from command_line import MODELS, QUICK, command

pytestmark = pytest.mark.usefixtures("folder")


def text(**splits: bytes | None) -> list[str]:
    """Options for a corpus of three files; None leaves a file out."""
    for split, data in ({"train": b"a b a b\nb a\n" * 9, "valid": b"a b\n", "test": b"b\n"} | splits).items():
        if data is not None:
            Path(f"{split}.txt").write_bytes(data)
    return ["corpus=text", *(f"corpus.{split}={split}.txt" for split in ("train", "valid", "test"))]


@pytest.mark.parametrize(
    ("splits", "message"),
    [
        ({"valid": None}, "valid.txt: no such file"),
        ({"train": b""}, "train.txt: empty; it needs at least one line of text"),
        ({"test": b" \n\n"}, "test.txt: empty; it needs at least one line of text"),
        ({"train": b"a b\nna\xefve\n"}, "train.txt: not UTF-8 (line 2, byte 6); convert it first"),
    ],
)
def test_a_text_that_cannot_be_read(splits: dict, message: str):
    assert message in command(*QUICK, *MODELS["lstm"], *text(**splits)).refused()
    assert not Path("outputs").exists()


def test_unseen_words_are_refused_where_no_word_is_to_be_unknown():
    refused = command(*QUICK, *MODELS["lstm"], *text(test=b"a\nc a\n"), "corpus.unknown=false").refused()
    assert "test.txt, line 2: 'c' is not in the vocabulary, which has no <unk>" in refused


def test_a_text_that_is_not_named_or_is_a_folder():
    assert "corpus=text needs corpus.train=FILE" in command("corpus=text").refused()
    Path("train.txt").mkdir()
    assert "train.txt: cannot be read (Is a directory)" in command(*text(train=None)).refused()
    assert not Path("outputs").exists()


def test_a_pinned_corpus_with_other_bytes(folder: Path):
    (folder / "data" / "ptb").mkdir(parents=True)
    (folder / "data" / "ptb" / "ptb.train.txt").write_text("a b\n")
    message = command("corpus=ptb", "corpus.urls=[]").refused()
    assert "data/ptb/ptb.train.txt: sha256 is" in message
    assert "delete the file to download it again, or use corpus=text" in message
    assert [path.name for path in folder.iterdir()] == ["data"]


@pytest.mark.parametrize("corpus", ["ptb", "wikitext2"])
def test_no_network_and_no_data(corpus: str, folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LMZOO_DATA", "texts")
    urls = 'corpus.urls=["https://127.0.0.1:9/{file}","https://127.0.0.1:9/{split}"]'
    message = command(f"corpus={corpus}", urls).refused()
    assert "Connection refused" in message
    assert re.search(
        r"put the file into texts/[\w-]+, set LMZOO_DATA to the folder that has it, or use corpus=pydoc", message
    )
    assert not list(folder.iterdir())
