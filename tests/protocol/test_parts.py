"""Texts in pieces: figures and errors are those of the whole text, wherever it is cut."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from command_line import MODELS, QUICK, TEXT, command

from lmzoo import load
from lmzoo.commands import evaluate, score
from lmzoo.core import files
from lmzoo.core.errors import UserError
from lmzoo.core.files import read_pieces, read_text
from lmzoo.corpus import Vocabulary
from lmzoo.corpus.form import Form
from lmzoo.protocol import perplexity
from lmzoo.protocol.perplexity import Score, part_logprobs, text_logprobs

LINES = ["w1 w2  w3", "", "w4 " * 60, "\tw5 w1\r", "w2"] * 12


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "lstm"
    assert command(*TEXT, *QUICK, *MODELS["lstm"], f"run_dir={folder}").code == 0
    return folder


@pytest.fixture
def text(tmp_path: Path) -> Path:
    (tmp_path / "text").write_bytes("\n".join(LINES).encode())  # without a line feed at its end
    return tmp_path / "text"


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of 7 bytes, sentences of 20 tokens at once."""
    monkeypatch.setattr(files, "LONGEST_WORD", 7)
    monkeypatch.setattr(perplexity, "SENTENCES", 20)


@pytest.mark.usefixtures("small")
def test_pieces_are_the_text(run: Path, text: Path):
    pieces = list(read_pieces(text))
    assert b"".join(pieces) == read_text(text) + b"\n"
    assert len(pieces) > 60
    assert all(b"\n" not in piece[:-1] or piece.endswith(b"\n") for piece in pieces)
    _, vocabulary = load(run)
    parts = [tokens for _, tokens in vocabulary.encode_pieces(iter(pieces), "text")]
    assert torch.equal(torch.cat(parts), vocabulary.encode(read_text(text)))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "empty; it needs at least one line"),
        (b" \n\n" * 9, "empty; it needs at least one line"),
        (b"\xef\xbb\xbfab cd\n" + b"ef\n" * 9 + b"g \xff\n", r"not UTF-8 \(line 11, byte 38\)"),
        (b"a b\n" + b"a" * 30, "no text of words, as 7 bytes"),
        (b"ab c\rdef\r" * 9, "line 1 has a carriage return inside"),
    ],
)
@pytest.mark.usefixtures("small")
def test_errors_are_those_of_the_whole(data: bytes, message: str, tmp_path: Path):
    (tmp_path / "text").write_bytes(data)
    for read in (read_text, lambda path: list(read_pieces(path))):
        with pytest.raises(UserError, match=message):
            read(tmp_path / "text")


@pytest.mark.parametrize("context", ["stream", "sentence"])
def test_log_probabilities_are_those_of_the_whole(run: Path, context: Any, monkeypatch: pytest.MonkeyPatch):
    model, vocabulary = load(run)
    monkeypatch.setattr(type(model), "window_tokens", 16)
    tokens = vocabulary.encode(LINES)
    whole = text_logprobs(model, tokens, context)
    monkeypatch.setattr(perplexity, "SENTENCES", 20)
    parts = list(part_logprobs(model, tokens.split(7), context))
    assert [len(part) for part in parts] == [len(part) for part in tokens.split(7)]
    if context == "stream":
        assert torch.equal(torch.cat(parts), whole)
    torch.testing.assert_close(torch.cat(parts), whole)


def test_sums_do_not_depend_on_the_cuts(monkeypatch: pytest.MonkeyPatch):
    logprobs = -torch.rand(1000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    totals = []
    for size in (1, 7, 1000):
        monkeypatch.setattr(perplexity, "BLOCK", 64)
        total = Score()
        for part in logprobs.split(size):
            total.add(part)
        totals.append((total.logprob, total.tokens, total.impossible))
    assert totals[0] == totals[1] == totals[2]
    assert totals[0][0] == pytest.approx(float(logprobs.sum()), rel=1e-14)


@pytest.mark.parametrize("context", ["stream", "sentence"])
def test_commands_print_the_same(run: Path, text: Path, context: str, monkeypatch: pytest.MonkeyPatch):
    asked = [
        (score.main, []), (score.main, ["--sums"]), (score.main, ["--json"]), (score.main, ["--tokenize", "words"])
    ]  # fmt: skip

    def printed() -> list[str]:
        return [command(str(run), str(text), *more, "--context", context, main=main).out for main, more in asked]

    whole = printed()
    monkeypatch.setattr(files, "LONGEST_WORD", 7)
    assert printed() == whole
    text.write_text("\n".join([*LINES, "w1 nonsense"]))
    message = f"text, line {len(LINES) + 1}: 'nonsense' is not in the vocabulary"
    assert message in command(str(run), str(text), main=evaluate.main).refused()


def test_figures_are_those_of_the_whole(run: Path, text: Path, monkeypatch: pytest.MonkeyPatch):
    whole = evaluate.evaluate(run, str(text), "sentence")
    monkeypatch.setattr(files, "LONGEST_WORD", 7)
    monkeypatch.setattr(perplexity, "SENTENCES", 20)
    assert load(run).perplexity(text, "sentence") == pytest.approx(whole["perplexity"])
    told = json.loads(command(str(run), str(text), "--context", "sentence", "--json", main=evaluate.main).out)
    assert told["perplexity"] == pytest.approx(whole["perplexity"])
    assert told.keys() == whole.keys()


BLANK_TEXTS = [
    "  w1",
    "   w1 w2\n",
    "\t\tw1",
    " " * 30 + "w1\nw2",
    "w1" + " " * 30,
    "w1\n" + " " * 30,
    "\n\n   w1",
    " \r\n w1",
]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("data", BLANK_TEXTS)
def test_blanks_before_the_first_word_of_a_line_are_nothing(run: Path, data: str, tmp_path: Path):
    lines = [" ".join(line.split()) for line in data.removesuffix("\n").split("\n")]
    (tmp_path / "blank").write_text(data)
    (tmp_path / "plain").write_text("".join(f"{line}\n" for line in lines))
    for main, options in ((evaluate.main, ["--json"]), (score.main, []), (score.main, ["--tokenize", "words"])):
        one, other = (command(str(run), str(tmp_path / name), *options, main=main) for name in ("blank", "plain"))
        assert one.code == other.code == 0
        if main is evaluate.main:
            assert json.loads(one.out)["logprob"] == json.loads(other.out)["logprob"]
        else:
            assert one.out == other.out
    assert load(run).perplexity(tmp_path / "blank") == load(run).perplexity(tmp_path / "plain")


@pytest.mark.parametrize("data", [" ", "   ", "\t\n  ", "\u3000 \u3000", "\n\n"])
def test_blanks_alone_are_refused(run: Path, data: str, tmp_path: Path):
    (tmp_path / "blank").write_text(data)
    for main in (evaluate.main, score.main):
        assert "empty; it needs at least one line" in command(str(run), str(tmp_path / "blank"), main=main).refused()


@pytest.mark.parametrize(
    "text", ["acgt" * 30, "a c\rg\r\nt" * 9, "żółw" * 20, "\r" + "x" * 30 + "\r" * 9, "😀" * 9, " " * 40 + "a"]
)
def test_a_text_of_characters_may_have_no_space(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Cut anywhere, it has the characters of the whole, and none is lost at a cut."""
    monkeypatch.setattr(files, "LONGEST_WORD", 8)
    (tmp_path / "text").write_bytes(text.encode())
    vocabulary = Vocabulary.of([" ".join(dict.fromkeys("".join(text.split())))])
    vocabulary = Vocabulary([*vocabulary.words, "<unk>"], Form(unit="char"))
    pieces = list(read_pieces(tmp_path / "text", of_words=False))
    assert len(pieces) > 3
    parts = [tokens for _, tokens in vocabulary.encode_pieces(pieces, "text")]
    assert torch.cat(parts).tolist() == vocabulary.encode(text.encode()).tolist()
    if not any(map(str.isspace, text)):
        with pytest.raises(UserError, match=r"no text of words, .*; set corpus.unit=char for a model of characters"):
            list(read_pieces(tmp_path / "text"))
