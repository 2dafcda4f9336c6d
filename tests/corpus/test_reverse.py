"""Backward language models, ``corpus.reverse=true``: each is a forward one of the text with its lines turned."""

import itertools
import json
import math
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from command_line import MODELS, QUICK, command

import lmzoo
from lmzoo.commands import compare, demo, embed, evaluate, export, generate, inspect, label, reading, score
from lmzoo.core.files import LONGEST_WORD
from lmzoo.corpus import Vocabulary
from lmzoo.corpus.form import Form
from lmzoo.corpus.vocabulary import reversed_order
from lmzoo.labels.dense import Dense
from lmzoo.labels.formats import Sentence
from lmzoo.models.neural.recurrent import LSTM
from lmzoo.protocol.model import Trained
from lmzoo.runs.directory import Run
from lmzoo.runs.loading import load

FORWARD = ["ngram", "lstm"]
UNITS = {"word": [], "char": ["corpus.unit=char"], "bpe": ["corpus.unit=bpe", "corpus.subwords=280"]}


def backwards(text: str, unit: str = "word") -> str:
    return "".join(
        (line[::-1] if unit == "char" else " ".join(line.split()[::-1])) + "\n" for line in text.split("\n")[:-1]
    )


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of a text, and of the same with its lines turned: by words (``word``), by characters (``char``)."""
    folder, drawn = tmp_path_factory.mktemp("reversed"), random.Random(0)
    words = [f"w{i}" for i in range(30)]
    for split, lines in (("train", 300), ("valid", 40), ("test", 60)):
        text = ""
        for _ in range(lines):
            word, line = drawn.randrange(30), []
            for _ in range(drawn.randrange(1, 9)):
                word = (word * 3 + drawn.randrange(3)) % 30
                line.append(words[word])
            text += " ".join(line) + "\n"
        (folder / f"{split}.txt").write_text(text)
        for unit in ("word", "char"):
            (folder / f"{split}.{unit}.txt").write_text(backwards(text, unit))
    return folder


def trained(texts: Path, name: str, run: Path, *more: str, turned_files: str = "") -> Path:
    files = [f"corpus.{split}={texts / split}{turned_files}.txt" for split in ("train", "valid", "test")]
    options = [*MODELS[name], *QUICK, f"corpus.unknown={str('corpus.unit=bpe' not in more).lower()}"]
    outcome = command("corpus=text", *files, *options, *more, "device=cpu", f"run_dir={run}")
    assert outcome.code == 0, outcome
    return run


@pytest.mark.parametrize(("name", "unit"), [("ngram", "word"), ("lstm", "word"), ("ngram", "char")])
def test_it_is_a_forward_model_of_the_turned_text(texts: Path, folder: Path, name: str, unit: str):
    a = trained(texts, name, folder / "a", "corpus.reverse=true", *UNITS[unit])
    b = trained(texts, name, folder / "b", *UNITS[unit], turned_files=f".{unit}")
    forward = trained(texts, name, folder / "c", *UNITS[unit])
    found = [Run(run).results() for run in (a, b, forward)]
    assert found[0] is not None
    assert found[1] is not None
    assert found[2] is not None
    assert found[0]["perplexity"] == found[1]["perplexity"] != found[2]["perplexity"]
    assert found[0]["corpus"] == "train-reversed"
    if unit == "char":
        return
    drawn = [command(str(run), "--prompt", prompt, main=generate.main) for run, prompt in ((a, "w2 w1"), (b, "w1 w2"))]
    assert drawn[0].out == backwards(drawn[1].out)
    assert drawn[0].out.split("\n")[0].endswith("w2 w1")
    likely = [command(str(run), "--beam", "3", "--tokens", "1", main=generate.main).out for run in (a, b)]
    assert likely[0] == backwards(likely[1])
    assert "…" in likely[0]
    lm, other = lmzoo.load(a), lmzoo.load(b)
    for ask in (lm.surprisal, lm.expected):
        found = ask("w3 w1 w2")
        assert [*found[2::-1], found[3]] == getattr(other, ask.__name__)("w2 w1 w3")
    assert "reads backwards" in repr(lm)
    assert "backwards" not in repr(other)
    for text, split in ((texts / "test.txt", "test"), (texts / "test.word.txt", str(texts / "test.word.txt"))):
        rows = [command(str(run), str(of), main=score.main).out for run, of in ((a, texts / "test.txt"), (b, split))]
        assert [sorted(row.splitlines()) for row in rows[:1]] == [sorted(row.splitlines()) for row in rows[1:]]
        assert evaluate.evaluate(a, str(text))["perplexity"] > 0


@pytest.mark.parametrize("unit", ["word", "char"])
def test_a_text_is_printed_as_it_stands_in_its_file(texts: Path, folder: Path, unit: str):
    """Its figures are those of a forward run of the turned text, in the other order."""
    a = str(trained(texts, "ngram", folder / "a", "corpus.reverse=true", *UNITS[unit]))
    b = str(trained(texts, "ngram", folder / "b", *UNITS[unit], turned_files=f".{unit}"))
    text, other = str(texts / "test.txt"), str(texts / f"test.{unit}.txt")

    def scored(run: str, file: str, *more: str) -> list[list[str]]:
        outcome = command(run, file, *more, main=score.main)
        assert (f"{a}: reads lines backwards" in outcome.err) == (run == a)
        out = (folder / "t.tsv").read_text() if "--table" in more else outcome.out
        return [line.split("\t")["--table" in more :] for line in out.splitlines()[more != ("--json",) :] if line]

    lines = [
        [*(line.replace(" ", "\n") if unit == "char" else line.split()), "<eos>"]
        for line in Path(text).read_text().splitlines()
    ]
    lines = [[word.replace("\n", "<space>") for word in line] for line in lines]
    sums = scored(a, text, "--sums")
    assert [row[4] for row in sums] == [" ".join(line[:-1]) for line in lines]
    assert [row[:4] for row in sums] == [row[:4] for row in scored(b, other, "--sums")]
    parsed = [json.loads(row[0]) for row in scored(a, text, "--json")]
    assert [[each["word"] for each in line["words"]] for line in parsed] == lines
    for place, more in ((0, []), (2, ["--table", str(folder / "t.tsv")])):
        for file, of in ((text, other), ("test", "test")):
            found, expected = scored(a, file, *more), scored(b, of, *more)
            assert [row[place] for row in found] == [word for line in lines for word in line]
            ends = [0, *itertools.accumulate(map(len, lines))]
            for begin, end in itertools.pairwise(ends):
                here, there = ([row[place:] for row in rows[begin:end]] for rows in (found, expected))
                assert here == [*there[-2::-1], there[-1]]
            assert [row[:place] for row in found] == [row[:place] for row in expected]
    sentence = command(a, "--sentence", "w1 w2", main=compare.main)
    shown = ["w", "1", "<space>", "w", "2"] if unit == "char" else ["w1", "w2"]
    assert [row.split()[0] for row in sentence.out.splitlines()[3:]] == [*shown, "<eos>", "all"]
    assert "reads lines backwards" in sentence.err


def test_vectors_and_states_stand_beside_the_words_of_the_text(texts: Path, folder: Path):
    a = str(trained(texts, "vlhmm", folder / "a", "corpus.reverse=true", "corpus.context=sentence"))
    b = str(trained(texts, "vlhmm", folder / "b", "corpus.context=sentence", turned_files=".word"))
    Path("a.txt").write_text("w1 w2 w3\nw4\nw5 w6\n")
    Path("b.txt").write_text("w3 w2 w1\nw4\nw6 w5\n")
    for name, run in (("a", a), ("b", b)):
        assert command(run, f"{name}.txt", f"{name}.npy", main=embed.main).code == 0
    rows = [line.split("\t")[1] for line in Path("a.tsv").read_text().splitlines()[1:]]
    assert rows == ["w1", "w2", "w3", "w4", "w5", "w6"]
    assert np.array_equal(np.load("a.npy"), np.load("b.npy")[[2, 1, 0, 3, 5, 4]])
    shown = [command(run, "--sentence", text, main=inspect.main).out.splitlines()
             for run, text in ((a, "w1 w2 w3"), (b, "w3 w2 w1"))]  # fmt: skip
    assert shown[0] == [shown[1][line] for line in (0, 3, 2, 1, 4, 5)]


@pytest.mark.parametrize("unit", UNITS)
def test_what_is_drawn_is_written_forwards(texts: Path, folder: Path, unit: str):
    lm = lmzoo.load(trained(texts, "ngram", folder / "a", "corpus.reverse=true", *UNITS[unit]))
    lines = (texts / "test.txt").read_text().split("\n")[:5]
    tokens = lm.vocabulary.encode(lines).tolist()
    ends = " <eos>\n" if unit == "word" else "\n"
    assert lm.vocabulary.decode(tokens).removesuffix(" <eos>").removesuffix("\n") == ends.join(lines)
    assert lm.vocabulary.decode(tokens[:2]) in lines[0]
    assert lm.sample(tokens=20, prompt="w1")[0].split("\n")[0].removesuffix(" <eos>").endswith("w1")


def test_a_line_is_turned_as_a_whole_however_long_it_is(folder: Path):
    words = [f"{i % 7}" for i in range(LONGEST_WORD)]
    Path("long.txt").write_text(" ".join(words) + "\nb c\n")
    files = [f"corpus.{split}=long.txt" for split in ("train", "valid")]
    assert command("corpus=text", *files, "corpus.reverse=true", *MODELS["ngram"], "run_dir=a").code == 0
    corpus = Run(Path("a")).corpus()
    assert [corpus.vocabulary.words[token] for token in corpus.splits["train"].tolist()] == [
        *reversed(words), "<eos>", "c", "b", "<eos>"
    ]  # fmt: skip


@pytest.mark.parametrize("tokens", [[], [1], [0], [1, 2, 3], [1, 2, 0, 3, 4, 5, 0], [0, 0, 1, 2], [5, 0, 7, 8, 0, 0]])
def test_words_are_turned_line_by_line(tokens: list[int]):
    lines, expected = "".join(map(str, tokens)).split("0"), []
    for number, line in enumerate(lines):
        expected += [*map(int, reversed(line)), *([0] if number < len(lines) - 1 else [])]
    given = torch.tensor(tokens, dtype=torch.int64)
    order = reversed_order(given)
    assert given[order].tolist() == expected
    assert order[order].tolist() == [*range(len(tokens))]


def test_it_is_not_taken_for_a_forward_one(texts: Path, folder: Path):
    a = trained(texts, "ngram", Path("a"), "corpus.reverse=true")
    b = trained(texts, "ngram", Path("b"))
    told = f"{a} reads lines backwards (corpus.reverse=true), and "
    assert f"{told}{b} forwards; choose" in command("--tokens", str(b), str(a), main=compare.main).refused()
    options = [f"trainer.from={a}", "model=lstm", "run_dir=c"]
    lines = [f"corpus.{split}={texts / split}.txt" for split in ("train", "valid")]
    refused = command("corpus=text", *lines, *options).refused()
    assert f"trainer.from: {told}corpus train forwards; choose another run" in refused
    tables = command(str(a), str(b), main=compare.main).out.split("\n\n")
    assert [table.split(",")[0] for table in tables[:2]] == ["train", "train-reversed"]
    for sentence in ("w1 w2", "w1 w2 w1"):
        assert f"{told}{b} forwards" in command(str(b), str(a), "--sentence", sentence, main=compare.main).err
    files = [f"corpus.{split}={texts / split}.txt" for split in ("train", "valid", "test")]
    mixed = command("corpus=text", *files, "corpus.unknown=true", "model=mixture", f"model.runs=[{a},{b}]")
    assert f"model.runs: {told}corpus train forwards; choose another run" in mixed.refused()
    (folder / "times.tsv").write_text("item\tzone\tword\tmeanItemRT\n1\t1\tw1\t300\n")
    assert "reads lines backwards" in command(str(a), "times.tsv", main=reading.main).refused()
    assert "-reverse" in command(str(a), "a.arpa", main=export.main).err
    assert "-reverse" not in command(str(b), "b.arpa", main=export.main).err
    again = command("corpus=text", *files, "corpus.unknown=true", *MODELS["ngram"], "run_dir=b", "corpus.reverse=true")
    assert "corpus.reverse: false -> true" in again.refused()
    Path("t.txt").write_text("w1 A\nw2 B\n\n")
    lstm = trained(texts, "lstm", folder / "lstm", "corpus.reverse=true")
    sizes = ["labeller.embedding=8", "labeller.hidden=8"]
    task = ["task=pos", "task.train=t.txt", "task.test=t.txt", "labeller=birnn", *sizes, f"labeller.from={lstm}"]
    assert "reads backwards" in command(*task, main=label.main).refused()


def test_the_demo_takes_no_backward_run(texts: Path, folder: Path):
    pytest.importorskip("gradio", reason="extra demo")
    assert (
        "reads backwards"
        in command(str(trained(texts, "ngram", folder / "a", "corpus.reverse=true")), main=demo.main).refused()
    )


def opened(option: str, folder: str) -> tuple[Trained, Vocabulary]:
    model, vocabulary = load(folder)
    return Trained(folder, Run(Path(folder)).config()["model"], model), vocabulary


def test_both_directions_are_features_of_a_tagger(texts: Path, folder: Path):
    names = [
        str(trained(texts, "lstm", folder / "f")),
        str(trained(texts, "lstm", folder / "b", "corpus.reverse=true")),
    ]
    sentences = [Sentence(line.split(), [], []) for line in ("w3 w1 w4 w1", "w5", "w9 xyz")]
    dense = Dense(None, names, window=0, scale=1.0)
    dense.start(sentences, opened)
    found = dense.rows(sentences)
    halves = found.double().tensor_split([found.shape[1] // 2], 1)
    rows = 0
    (forward, words), (backward, turned_words) = (load(name) for name in names)
    assert isinstance(forward, LSTM)
    assert isinstance(backward, LSTM)
    for sentence in sentences:
        for place in range(len(sentence.words)):
            before = [words.index.get(word, words.index["<unk>"]) for word in sentence.words[: place + 1]]
            after = [turned_words.index.get(word, turned_words.index["<unk>"]) for word in sentence.words[place:][::-1]]
            for half, model, read in zip(halves, (forward, backward), (before, after), strict=True):
                expected = model.embed(torch.tensor([read]))[0, -1].double()
                ratio = half[rows].norm() / expected.norm()
                assert torch.allclose(half[rows], expected * ratio, atol=1e-5)
            rows += 1
    assert [math.isclose(float(half.square().mean()), 1.0, rel_tol=1e-4) for half in halves] == [True, True]
    other = Dense(None, names, window=0, scale=1.0)
    other.load_state_dict(dense.state_dict())
    assert torch.equal(other.rows(sentences), found)
    alone = Dense(None, names[0], window=0, scale=1.0)
    alone.start(sentences, opened)


def test_a_tagger_of_both_directions_labels_a_file(texts: Path, folder: Path):
    trained(texts, "lstm", folder / "f")
    trained(texts, "lstm", folder / "b", "corpus.reverse=true")
    Path("t.txt").write_text("w1 A\nw2 B\n\nw2 B\nw1 A\n\n")
    task = ["task=pos", "task.train=t.txt", "task.test=t.txt", "task.features=[]", "labeller=crf", "run_dir=r"]
    done = command(*task, "labeller.encoder=[f,b]", main=label.main)
    assert "test accuracy 100.00" in done.out, done
    for name in ("f", "b"):
        Path(name).rename(f"gone-{name}")
    assert lmzoo.load("r")("w2 w1")[0][:2] == ("w2", "B")
    assert set(Run(Path("r")).origins()["labeller.encoder"]) == {"f", "b"}


def test_the_form_says_it():
    assert Form(reverse=True).words("a b c") == ["c", "b", "a"]
    assert Form(reverse=True).changed_options() == ["corpus.reverse=true"]
