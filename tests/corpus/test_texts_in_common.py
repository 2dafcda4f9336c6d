"""A text that is in train and in what is measured is reported, for language models, labels and vectors alike."""

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import MODELS, QUICK, Outcome, command, edit, put

from lmzoo.commands import evaluate, label, score, train, vectors
from lmzoo.core.configs import defaults
from lmzoo.corpus import load_corpus

TOLD = "its figures do not tell how good the model is with other text"
CHOSEN = "its figures are of a text that the model was chosen with"
NGRAM = ["corpus=text", *QUICK, *MODELS["ngram"]]


@pytest.fixture
def texts(folder: Path) -> Path:
    for number, name in enumerate("abcd"):
        Path(f"{name}.txt").write_text(f"{name} x y\nx z\n" * 9 + "x\n" * number)
    Path("spaced").write_bytes(Path("a.txt").read_bytes().replace(b" ", b"  ").replace(b"\n", b" \r\n"))
    Path("a.txt.gz").write_bytes(gzip.compress(Path("a.txt").read_bytes()))
    shutil.copy("a.txt", "copy")
    Path("link").symlink_to("b.txt")
    return folder


def corpus(*, condition: bool = False, **named: str | list[str]) -> list[str]:
    """The warnings of a corpus of these files."""
    options = defaults("corpus", "text") | {"context": "sentence", "unknown": True, "condition": condition}
    return load_corpus(options | named).warnings


def test_a_text_that_train_has_twice_is_reported(texts: Path):
    told = ["1 of the files of train are duplicates, which are counted, too"]
    assert corpus(train="a.txt*") == told
    assert corpus(train=["a.txt", "b.txt", "copy"]) == told
    assert corpus(train=["a.txt", "b.txt"]) == corpus(train=["a.txt", "b.txt"], valid="10%") == []


def test_words_that_are_others_than_they_seem_are_reported(texts: Path):
    Path("words.txt").write_text("the <UNK> caf\u00e9 [unk] unk UNK <unk>\ncafe\u0301 is closed oov\n")
    like = "is a word like others; only <unk> stands for unknown words, so write it so in the texts"
    forms = "words present in another Unicode normal form, too: 2, such as 'caf\u00e9'; normalize the texts"
    assert corpus(train="words.txt") == [*(f"'{word}' {like}" for word in ("<UNK>", "[unk]", "UNK")), forms]
    Path("words.txt").write_text('the """Great"" film\na """closed""" form = ""\n')
    quotes = "write the texts alone, without the quotes of the table"
    assert corpus(train="words.txt") == [
        f"""words with doubled quotes, as in cells of a table: 1, such as '\"""Great""'; {quotes}"""
    ]


@pytest.mark.parametrize(
    ("train", "valid", "test", "told"),
    [
        ("a.txt", "b.txt", "c.txt", []),
        ("a.txt", "a.txt", "c.txt", [f"valid has text of train: {TOLD}"]),
        ("a.txt", "copy", "c.txt", [f"valid has text of train: {TOLD}"]),
        ("a.txt", "spaced", "c.txt", [f"valid has text of train: {TOLD}"]),
        ("b.txt", "a.txt", "spaced", [f"test has text of valid: {CHOSEN}"]),
        ("a.txt.gz", "b.txt", "a.txt", [f"test has text of train: {TOLD}"]),
        ("a.txt", "b.txt", "link", [f"test has text of valid: {CHOSEN}"]),
        ("?.txt", "c.txt", "copy", [f"valid has text of train: {TOLD}", f"test has text of train: {TOLD}"]),
        (["a.txt", "b.txt"], ["c.txt", "link"], "d.txt", [f"valid has text of train: {TOLD}"]),
        (["a.txt", "b.txt"], ["b.txt", "a.txt"], "d.txt", [f"valid has text of train: {TOLD}"]),
    ],
)
def test_texts_in_common_are_reported(texts: Path, train, valid, test, told: list[str]):
    assert corpus(train=train, valid=valid, test=test) == told


def test_lines_with_labels_have_texts_in_common_as_well(folder: Path):
    for name in "ab":
        Path(name).write_text(f"one\t{name} x\ntwo\ty\n")
    assert corpus(condition=True, train=["a", "b"], valid="b") == [f"valid has text of train: {TOLD}"]
    assert not corpus(condition=True, train="a", valid="b")


LABELS = ["task=pos", "task.word=0", "task.label=1", "labeller=majority"]


@pytest.mark.parametrize(
    ("main", "options"),
    [
        (train.main, [*NGRAM, "corpus.train=[a.txt,b.txt]", "corpus.valid=b.txt"]),
        (vectors.main, ["corpus=text", "corpus.train=a.txt", "corpus.valid=a.txt", "method=ppmi", "method.dim=2",
                        "method.min_count=1"]),
        (label.main, [*LABELS, "task.train=tagged", "task.valid=tagged", "task.test=null"]),
    ],
)  # fmt: skip
def test_a_run_tells_of_them_in_its_log_and_with_its_figures(texts: Path, main: Callable[[], int], options: list[str]):
    Path("tagged").write_text("x X\ny Y\n\n")
    warning = f"valid has text of train: {TOLD}"

    def told(outcome: Outcome) -> bool:
        assert outcome.code == 0, outcome
        return outcome.out.count(f"warning: {warning}\n") == 1

    assert told(command(*options, "run_dir=run", main=main))
    assert warning in Path("run/train.log").read_text()
    assert json.loads(Path("run/results.json").read_text())["warnings"] == [warning]
    assert told(command(*options, "run_dir=run", main=main))


def test_lines_held_out_from_a_file_that_a_source_has_read_are_reported(texts: Path):
    Path("novel").write_text("a b c\nb a c\nc <unk> a\n" * 20)
    learn = ["corpus=text", "corpus.train=novel", *QUICK, *MODELS["rnn"], "trainer.epochs=1"]
    going_on = [*learn, "corpus.vocabulary=whole", "trainer.from={}", "corpus.valid=10%", "corpus.test=10%"]

    def warned(source: str, run: str, *options: str) -> list[str]:
        done = command(*(option.format(source) for option in going_on), *options, f"run_dir={run}")
        assert done.code == 0, done
        return [line for line in done.out.splitlines() if "trainer.from" in line]

    def found(source: str, *splits: str) -> list[str]:
        return [f"warning: trainer.from: {source} has text of {split} as its train: {TOLD}" for split in splits]

    assert command(*learn, "corpus.valid=c.txt", "corpus.unknown=true", "run_dir=whole").code == 0
    assert command(*learn, "corpus.vocabulary=whole", "corpus.valid=20%", "run_dir=fifth").code == 0
    assert command(*learn, "corpus.vocabulary=whole", "corpus.valid=5%", "run_dir=twentieth").code == 0
    assert command(*learn, "corpus.vocabulary=whole", "corpus.valid=10%", "corpus.test=10%", "run_dir=same").code == 0
    assert warned("whole", "from_whole") == found("whole", "valid", "test")
    assert warned("fifth", "from_fifth") == []
    assert warned("twentieth", "from_twentieth") == found("twentieth", "valid", "test")
    assert warned("same", "from_same") == []
    assert warned("from_whole", "chain") == found("from_whole", "valid", "test")
    assert warned("same", "truncated", "trainer.first_tokens=100") == []
    warning = "novel: is text that whole, which from_d was made from, was trained on, so its figures are better"
    made = [*learn[:1], *learn[2:], "corpus.train=d.txt", "corpus.valid=d.txt", "corpus.vocabulary=whole"]
    assert command(*made, "trainer.from=whole", "run_dir=from_d").code == 0
    assert warning in command("from_d", "novel", main=evaluate.main).err


def test_a_file_of_train_that_is_measured_is_reported(texts: Path):
    made = command(*NGRAM, "corpus.train=[a.txt,b.txt]", "corpus.valid=c.txt", "corpus.unknown=true", "run_dir=run")
    assert made.code == 0, made
    assert "warning: valid" not in made.out
    warning = "is text that run was trained on, so its figures are better than those of others\n"
    for file in ("copy", "b.txt"):
        assert command("run", file, main=evaluate.main).err == f"warning: {file}: {warning}"
        assert f"{file}: {warning}" in command("run", file, "--sums", main=score.main).err
    found = json.loads(command("run", "copy", "--json", main=evaluate.main).out)
    assert found["warning"] == f"copy: {warning[:-1]}"
    for file in ("c.txt", "d.txt", "train"):
        assert not command("run", file, main=evaluate.main).err
    Path("whole").write_bytes(Path("a.txt").read_bytes() + Path("b.txt").read_bytes())
    assert warning in command("run", "whole", main=evaluate.main).err


def test_what_runs_know_of_a_text_from_which_a_run_is_made_is_reported(texts: Path):
    """The first run learns from c and is chosen with d; the second begins from it, the third from the second."""
    options = ["corpus=text", *QUICK, *MODELS["rnn"], "trainer.epochs=1", "corpus.vocabulary=words"]
    Path("words").write_text("<unk>\nx\ny\nz\n")

    def told(run: str, train_: str, valid: str, test: str, *more: str) -> list[str]:
        splits = [f"corpus.train={train_}.txt", f"corpus.valid={valid}.txt", f"corpus.test={test}.txt"]
        done = command(*options, *splits, *more, f"run_dir={run}")
        assert done.code == 0, done
        found = json.loads(Path(run, "results.json").read_text())["warnings"]
        assert all(f"\nwarning: {warning}\n" in done.out for warning in found)
        return found

    assert told("first", "c", "d", "b") == []
    assert told("second", "a", "b", "d", "trainer.from=first") == [
        f"trainer.from: first has text of test as its valid: {CHOSEN}"
    ]
    assert told("third", "a", "b", "c", "trainer.from=second") == [
        f"trainer.from: second has text of test as its train: {TOLD}"
    ]
    assert told("fourth", "c", "d", "b", "trainer.from=first") == []
    edit(
        Path("second/provenance.json"),
        put(0, "made_from", value={"trainer.from": {"a\0b": "", "second": "", "..": ""}}),
    )
    assert told("fifth", "a", "b", "c", "trainer.from=second") == []
