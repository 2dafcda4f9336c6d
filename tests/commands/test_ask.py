"""Questions to a trained HMM, and gaps that it fills."""

import json
import math
import re
from pathlib import Path

import pytest
import torch
from command_line import QUICK, TEXT, command

from lmzoo import load
from lmzoo.api import Loaded
from lmzoo.commands import ask, fill, generate
from lmzoo.core.errors import UserError
from lmzoo.corpus.lines import by_line
from lmzoo.protocol.lines import scored
from lmzoo.protocol.sampling import sample_sentences


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    assert (
        command(
            *TEXT,
            *QUICK,
            "model=hmm",
            "model.states=8",
            "model.iterations=5",
            "corpus.context=sentence",
            f"run_dir={folder}",
        ).code
        == 0
    )
    return folder


@pytest.fixture(scope="module")
def lm(run: Path) -> Loaded:
    return load(run)


def test_a_free_estimate_is_near_the_probability(lm: Loaded):
    """The share of 5,000 samples that match is within three standard deviations."""
    tokens = sample_sentences(lm.model, 5000, torch.Generator().manual_seed(0))
    share = sum(bool((line == 3).any()) for line in by_line(tokens, tokens)) / 5000
    p = lm.probability(f"… {lm.vocabulary.words[3]} …")
    assert abs(share - p) < 3 * math.sqrt(p * (1 - p) / 5000)


def test_a_whole_sentence_has_its_score(lm: Loaded):
    text = " ".join(lm.vocabulary.words[2:9])
    assert math.log(lm.probability(text)) == pytest.approx(lm.score(text), abs=1e-5)


def test_the_command_answers_in_words_and_in_json(run: Path, lm: Loaded):
    one, two = lm.vocabulary.words[3:5]
    pattern, given = f"… {one} …", f"… {two} …"
    p = lm.probability(pattern, given)
    line = [str(run), pattern, "--given", given, "--words", f"{one},{two}"]
    text = command(*line, main=ask.main).out.splitlines()
    assert text[0] == f"p = {p:.6g}, log p = {math.log(p):.4f} nats"
    counts = {word: float(count) for count, word in (row.split("\t") for row in text[1:])}
    assert counts[one] > 1
    assert counts[two] > 1
    answer = json.loads(command(*line, "--json", main=ask.main).out)
    assert answer["probability"] == pytest.approx(p)
    assert answer["words"] == pytest.approx(counts, rel=1e-5)


def test_gaps_have_the_shares_of_scored_sentences(run: Path, lm: Loaded):
    words = lm.vocabulary.words
    text = f"{words[2]} ___ {words[4]}"
    filled = lm.fill(text, 3)
    lines = list(scored(lm.model, lm.vocabulary, [text.replace("___", word) for word in words[1:]], "sentence"))
    p = [math.exp(line.logprob) for line in lines]
    expected = sorted(((q / sum(p), word) for q, word in zip(p, words[1:], strict=True)), reverse=True)[:3]
    assert [word for word, _ in filled.gaps[0]] == [word for _, word in expected]
    assert [q for _, q in filled.gaps[0]] == pytest.approx([q for q, _ in expected], rel=1e-4)
    assert filled.best == [(text.replace("___", word), pytest.approx(q, rel=1e-4)) for q, word in expected]
    assert filled.logprob == pytest.approx(math.log(sum(p)), abs=1e-5)
    shown = command(str(run), text, "--top", "3", main=fill.main).out.splitlines()
    assert shown[0] == f"log p = {filled.logprob:.4f} nats, summed over all fillings"
    assert shown[1] == "gap 1: " + ", ".join(f"{word} {100 * q:.1f}%" for word, q in filled.gaps[0])
    assert shown[2:5] == [f"{100 * q:.3g}%\t{sentence}" for sentence, q in filled.best]
    assert not shown[5:]
    assert json.loads(command(str(run), text, "--json", main=fill.main).out)["logprob"] == pytest.approx(filled.logprob)


def test_samples_match_the_pattern_by_any_guide(lm: Loaded):
    word = lm.vocabulary.words[10]
    for text in lm.sample(pattern=f"… {word} …", length="3..5", samples=20):
        assert re.search(rf"(^| ){re.escape(word)}( |$)", text)
        assert 3 <= len(text.split()) <= 5
    guided = lm.sample(
        pattern=f"… {word} …", length=4, guide=lm, samples=5, temperature=0.5, prompt=lm.vocabulary.words[2]
    )
    assert all(text.split()[0] == lm.vocabulary.words[2] and len(text.split()) == 4 for text in guided)


def test_mistakes_are_named(run: Path, lm: Loaded):
    for main, line, problem in (
        (ask.main, ["_ xylophone"], "'xylophone' is not in the vocabulary"),
        (ask.main, ["…", "--words", "xylophone"], "words: 'xylophone' is not in the vocabulary; choose from: "),
        (ask.main, ["…", "--words", f"{lm.vocabulary.words[2]},"], "'' is not in the vocabulary"),
        (generate.main, ["--pattern", ""], "is empty"),
        (generate.main, ["--guide", str(run)], "there is no constraint"),
        (fill.main, [lm.vocabulary.words[2]], "has no gap"),
        (fill.main, ["… _ …"], "several gaps of any number of words"),
    ):
        done = command(str(run), *line, main=main)
        assert done.code == 2
        assert problem in done.err
    words = lm.vocabulary.words
    with pytest.raises(UserError, match="samples is the number of sentences"):
        lm.sample(10, pattern="…")
    for asked, problem in (
        (lambda: lm.sample(guide=lm), "there is no constraint"),
        (lambda: lm.sample(length="ten"), "length ten: is not a number of words"),
        (lambda: lm.sample(length=""), "length : is not a number of words"),
        (lambda: lm.sample(length=".."), "is not a number of words"),
        (lambda: lm.sample(length=1, prompt=f"{words[2]} {words[3]}"), "no sentence that matches begins with the prom"),
        (lambda: lm.sample(length=1, prompt=f"{words[2]} {words[3]}", guide=lm), "no sentence that matches begins"),
        (lambda: lm.fill("___", -1), "k=-1: must be at least 0"),
    ):
        with pytest.raises(UserError, match=problem):
            asked()


def test_a_run_of_a_stream_is_no_good_source_of_sentences(folder: Path, caplog: pytest.LogCaptureFixture):
    assert command(*TEXT, *QUICK, "model=hmm", "model.states=4", "model.iterations=2", "run_dir=stream").code == 0
    caution = "stream: reads a text as one stream, so it hardly knows how a sentence begins; "
    for main, arguments in (
        (ask.main, ["w1 …"]), (fill.main, ["w1 ___ …"]), (generate.main, ["--pattern", "w1 …"]),
    ):  # fmt: skip
        assert f"warning: {caution}" in command("stream", *arguments, main=main).err
    load("stream").probability("w1 …")
    assert caution in caplog.text
