"""ARPA files are written as KenLM writes and reads them: a file read back is the same model."""

import math
from itertools import product
from pathlib import Path

import pytest
import torch
from arpa_model import WORDS, corpus_of, stream
from command_line import command
from hypothesis import example, given, settings
from hypothesis import strategies as st
from test_arpa import FOLDER
from test_ngram import DEFAULTS, SMOOTHINGS, texts

from lmzoo import load
from lmzoo.commands.export import main
from lmzoo.core.configs import defaults
from lmzoo.core.errors import UserError
from lmzoo.corpus import Corpus, load_corpus
from lmzoo.corpus.vocabulary import Vocabulary
from lmzoo.models.ngram.arpa import Arpa
from lmzoo.models.ngram.arpa_file import read_arpa, write_arpa
from lmzoo.models.ngram.ngram import NGram
from lmzoo.models.ngram.smoothing import estimate
from lmzoo.models.ngram.table import NGramTable


def predictions(table: NGramTable, order: int) -> torch.Tensor:
    contexts = torch.tensor(list(product(range(5), repeat=order - 1))).view(5 ** (order - 1), order - 1)
    return table.predict(contexts[:, order - table.order :])[:, :5] / math.log(10)  # of an order that left no n-grams


@settings(deadline=None)
@given(texts, st.integers(1, 4), st.sampled_from(SMOOTHINGS), st.booleans(), st.booleans())
@example([[1, 1]], 2, "modified_kneser_ney", False, False)  # a backoff above 1
def test_round_trip(tmp_path_factory, lines: list[list[int]], order: int, smoothing, interpolated: bool, unknown: bool):
    options = DEFAULTS | {
        "smoothing": smoothing,
        "interpolated": interpolated,
        "prune": [0] * (order - 1) + [order // 4],
    }
    table = estimate(stream(lines), vocabulary_size=5 + unknown, order=order, **options)
    path = tmp_path_factory.mktemp("arpa") / ("model.arpa.gz" if unknown else "model.arpa")
    write_arpa(path, table, [*WORDS, "<unk>"][: 5 + unknown])
    words, read = read_arpa(path)
    assert words[:5] == ["</s>", *WORDS[1:]]
    torch.testing.assert_close(predictions(read, order), predictions(table, order), atol=1e-6, rtol=0)
    assert not list(path.parent.glob(".*.part"))


def test_what_is_impossible_is_written_as_99(tmp_path: Path):
    table = estimate(stream([[1, 2], [2]]), vocabulary_size=4, order=2, **DEFAULTS | {"smoothing": "mle"})
    assert table.logprob.isneginf().any()
    write_arpa(tmp_path / "model.arpa", table, WORDS[:4])
    text = (tmp_path / "model.arpa").read_text()
    assert "inf" not in text
    assert "-99\tc" in text


def test_a_file_that_cannot_be_written(tmp_path: Path):
    table = estimate(stream([[1, 2]]), vocabulary_size=5, order=2, **DEFAULTS)
    with pytest.raises(UserError, match="cannot be written"):
        write_arpa(tmp_path / "nowhere" / "model.arpa", table, WORDS)
    with pytest.raises(UserError, match="has the word </s>"):
        write_arpa(tmp_path / "model.arpa", table, [*WORDS[:4], "</s>"])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("file", "order", "changed"),
    [("trigram", 3, {}), ("pruned", 4, {"prune": [0, 0, 1], "interpolate_unigrams": False})],
)
def test_lmplz_estimates_as_we_do(file: str, order: int, changed: dict):
    """Its files are of `lmplz --discount_fallback` with -o 3, and with -o 4 --prune 0 0 1 --interpolate_unigrams 0."""
    words, theirs = read_arpa(FOLDER / f"{file}.arpa")
    number = {word: i for i, word in enumerate(words)}
    lines = (FOLDER / "text.txt").read_text().splitlines()
    tokens = torch.tensor([number[word] for line in lines for word in [*line.split(), "</s>"]])
    ours = estimate(tokens, vocabulary_size=len(words), order=order, **DEFAULTS | changed)
    assert ours.first_rows() == theirs.first_rows()
    assert torch.equal(ours.keys, theirs.keys)
    torch.testing.assert_close(ours.logprob, theirs.logprob, atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(ours.backoff, theirs.backoff, atol=1e-6, rtol=1e-6)


def test_an_unknown_word_of_a_closed_text_has_the_share_of_lmplz():
    text = str(FOLDER / "text.txt")
    corpus = load_corpus(defaults("corpus", "text") | {"train": text, "valid": text, "unknown": True})
    ours = estimate(corpus.splits["train"], vocabulary_size=len(corpus.vocabulary), order=3, **DEFAULTS)
    words, theirs = read_arpa(FOLDER / "trigram.arpa")
    place = [words.index("</s>" if word == "<eos>" else word) for word in corpus.vocabulary.words]
    unigrams = theirs.logprob[torch.tensor(place)]
    torch.testing.assert_close(ours.logprob[: len(place)], unigrams, atol=1e-6, rtol=1e-6)
    assert float(unigrams[corpus.vocabulary.index["<unk>"]]) == pytest.approx(-1.4535731 * math.log(10))


SCORED = [line.split("\t") for line in (FOLDER / "scores.tsv").read_text().splitlines()]


@pytest.mark.parametrize("interpolated", ["true", "false"])
@pytest.mark.parametrize("smoothing", SMOOTHINGS[1:])
def test_kenlm_scores_as_we_do(smoothing, interpolated: str, tmp_path: Path):
    """The log10 probabilities by ``kenlm.Model(FILE).full_scores`` (kenlm 0.3.0) for files that `write_arpa` wrote.

    MLE is left out, since KenLM has no log 0.
    """
    text = (FOLDER / "text.txt").read_text().splitlines()
    vocabulary = Vocabulary.of(text)
    names, V = [*vocabulary.words, "<unk>"], len(vocabulary)
    options = DEFAULTS | {"smoothing": smoothing, "interpolated": interpolated == "true"}
    table = estimate(vocabulary.encode(text), vocabulary_size=V + 1, order=3, **options)
    write_arpa(tmp_path / "model.arpa", table, names)
    _, read = read_arpa(tmp_path / "model.arpa")  # whose words have the same numbers
    scored = [(line, scores) for *of, line, scores in SCORED if of == [smoothing, interpolated]]
    assert len(scored) == 5
    for line, scores in scored:
        words = torch.tensor([[0, 0, *(vocabulary.index.get(word, V) for word in line.split()), 0]])
        for model in (table, read):
            ours = model.score(words, 2)[0] / math.log(10)
            assert ours.tolist() == pytest.approx(list(map(float, scores.split())), abs=2e-6)


@pytest.mark.parametrize("order", [2, pytest.param(5, marks=pytest.mark.slow)])
def test_penn_treebank_is_read_as_it_was_written(ptb: Corpus, order: int, tmp_path: Path):
    model = NGram(vocabulary_size=len(ptb.vocabulary), order=order, unknown=False, **DEFAULTS)
    model.estimate(ptb)
    write_arpa(tmp_path / "ptb.arpa", model.table, ptb.vocabulary.words)
    words, table = read_arpa(tmp_path / "ptb.arpa")
    entry = torch.tensor([0, *map({word: i for i, word in enumerate(words)}.get, ptb.vocabulary.words[1:])])
    history = torch.cat([torch.zeros(order - 1, dtype=torch.int64), ptb.splits["test"]])[None]
    ours, theirs = model.table.score(history, order - 1), table.score(entry[history], order - 1)
    torch.testing.assert_close(theirs, ours, atol=3e-6, rtol=0)


def test_a_run_becomes_a_file(tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch):
    run = tmp_path / "run"
    options = ["corpus=markov", "corpus.words=20", "corpus.train=500", "corpus.valid=100", "corpus.test=100"]
    assert command(*options, "model=ngram", "model.order=3", "device=cpu", f"run_dir={run}").code == 0
    monkeypatch.setattr("sys.argv", ["export", str(run), str(tmp_path / "run.arpa.gz")])
    main()
    assert capsys.readouterr().err.endswith(f"{tmp_path / 'run.arpa.gz'}\n")
    monkeypatch.setattr("sys.argv", ["export", str(run), str(run / "last.pt")])
    with pytest.raises(UserError, match="is a part of the run in"):
        main()
    model, vocabulary = load(run)
    read = Arpa(vocabulary_size=len(vocabulary), path=str(tmp_path / "run.arpa.gz"))
    read.estimate(corpus_of(vocabulary.words))
    tokens = torch.arange(20)[None]
    torch.testing.assert_close(
        read(tokens, read.initial_state(1))[0], model(tokens, model.initial_state(1))[0], atol=1e-5, rtol=0
    )


@pytest.mark.parametrize(
    ("unknown", "line", "listed"),
    [("true", "a b a", True), ("true", "a <unk> a", True), ("false", "a <unk> a", True), ("false", "a b a", False)],
)
def test_unk_is_in_the_file(tmp_path: Path, unknown: str, line: str, listed: bool):
    """It is a word of the text, else the type of all unknown words; once, and with its own probability."""
    (tmp_path / "text").write_text(f"{line}\n" * 5)
    paths = [f"corpus.{split}={tmp_path / 'text'}" for split in ("train", "valid", "test")]
    model = ["model=ngram", "model.order=2", f"model.unknown={unknown}", "model.interpolate_unigrams=true"]
    assert command("corpus=text", *paths, *model, "device=cpu", f"run_dir={tmp_path / 'run'}").code == 0
    assert command(str(tmp_path / "run"), str(tmp_path / "run.arpa"), main=main).code == 0
    trained, vocabulary = load(tmp_path / "run")
    rows = (line.split("\t") for line in (tmp_path / "run.arpa").read_text().splitlines())
    written = [float(row[0]) for row in rows if row[1:2] == ["<unk>"]]
    number = vocabulary.index.get("<unk>", len(vocabulary))
    logprobs = trained.table.logprob.double() / math.log(10)
    assert written == ([pytest.approx(float(logprobs[number]), abs=1e-6)] if listed else [])
