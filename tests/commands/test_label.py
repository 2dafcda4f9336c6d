"""The command ``lmzoo label``: runs, what they write, and mistakes."""

import csv
import json
import os
import re
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
import torch
from chunks import FILES, TEST, TRAIN
from command_line import QUICK, command
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from lmzoo.commands import compare, evaluate, label, tag
from lmzoo.labels.birnn import BiRNN
from lmzoo.labels.formats import Sentence
from lmzoo.labels.model import Labeller, decode, labellers
from lmzoo.runs.checkpoint import read_checkpoint
from lmzoo.runs.kinds import LABELS


def test_a_run_has_its_figures_and_the_labels_in_the_form_of_the_text(labelled: Path):
    done = command("task=chunk", "labeller=majority", *FILES, main=label.main)
    assert done.code == 0, done
    (run,) = labelled.glob("outputs/chunk/majority*")
    results = json.loads((run / "results.json").read_text())
    # majority: walk is I-NP, cat is B-NP, the most frequent label; B-NP of "the" ends before that of "cat"
    assert (run / "test.labels").read_text() == TEST.replace("walk V B-VP", "walk V I-NP").replace(
        "I-NP\n", "I-NP\n", 1
    )[: -len("cat N I-NP\n")] + "cat N B-NP\n"
    assert results["figures"] == {"test": 0}
    assert results["details"]["test"]["accuracy"] == 2 / 4
    assert results["details"]["test"]["unknown_accuracy"] == 0
    assert "already finished" in command("task=chunk", "labeller=majority", *FILES, main=label.main).out


def test_models_learn_where_entities_end_and_texts_keep_their_labels(labelled: Path):
    options = ["task=chunk", "task.scheme=iobes", "labeller=crf", "task.train=train.txt", "task.test=train.txt"]
    done = command(*options, "run_dir=r", main=label.main)
    assert "test f1 100.00" in done.out, done
    assert "test NP: precision 100.00, recall 100.00, f1 100.00, 2 found" in done.out
    assert Path("r/test.labels").read_text() == TRAIN
    learnt = read_checkpoint(Path("r/best.pt"))["state"]["labels"]
    assert decode(learnt) == ["B-NP", "E-NP", "S-NP", "S-VP"]
    assert command("r", "train.txt", main=tag.main).out == TRAIN


def test_conllu_is_read_and_written(labelled: Path):
    lines = ["1-2\tdon't\t_\t_", "1\tdo\tdo\tAUX", "2\tn't\tnot\tPART", "2.1\tx\tx\tX"]
    text = "# text = don't\n" + "".join(line + "\t_" * 6 + "\n" for line in lines)
    Path("a.conllu").write_text(text)
    done = command("task=upos", "task.train=a.conllu", "task.valid=null", "task.test=a.conllu", "run_dir=r",
                   main=label.main)  # fmt: skip
    assert "test accuracy 100.00" in done.out, done
    assert Path("r/test.labels").read_text() == text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["task=ner"], "task.train=FILE and task.test=FILE (or task.valid) are needed"),
        (["task.train=none.txt"], "none.txt: no such file, here or under "),
        (
            [*FILES, "task.label=7"],
            "train.txt: line 1 has 3 of the 8 columns that are needed; task.word=0, task.label=7 and",
        ),
        ([*FILES, "labeller=magority"], "did you mean 'majority'?"),
        ([*FILES, "task.labell=1"], "task.label"),
        (
            ["task=pos", *FILES, "labeller=birnn", "labeller.schedule=plateau"],
            "labeller.schedule=plateau: needs a valid text, by which the rate falls; name task.valid",
        ),
    ],
)
def test_mistakes_are_reported_in_a_line(labelled: Path, options: list[str], message: str):
    assert message in command(*options, main=label.main).refused()
    assert not Path("outputs").exists()


def test_commands_for_language_models_refuse_the_run(labelled: Path):
    assert command(*FILES, "run_dir=r", main=label.main).code == 0
    assert "r: is a run of labels; this needs a run of lmzoo train" in command("r", main=evaluate.main).refused()


def test_runs_are_compared_by_what_they_measure(labelled: Path):
    given = ["task=chunk", "task.train=train.txt", "task.valid=train.txt", "task.test=test.txt"]
    for run, options in {"m": ["labeller=majority"], "h": ["labeller=hmm_tagger"]}.items():
        assert command(*given, *options, f"run_dir={run}", main=label.main).code == 0
    other = [*given[:-1], "task.test=train.txt", "labeller=majority", "run_dir=o"]
    assert command(*other, main=label.main).code == 0
    done = command("h", "m", "o", "--csv", "a.csv", main=compare.main)
    assert (done.code, done.err) == (0, "")
    tables = [[line.split() for line in table.splitlines()] for table in done.out.split("\n\n")]
    (best, other), (alone,) = (table[2:] for table in sorted(tables, key=len, reverse=True))
    figures = [json.loads(Path(run, "results.json").read_text())["figures"] for run in "hmo"]
    assert [row[-1] for row in (best, other, alone)] == ["h", "m", "o"]
    assert best[:3] == ["hmm_tagger", f"{100 * figures[0]['valid']:.2f}", f"{100 * figures[0]['test']:.2f}"]
    assert figures[0]["valid"] > figures[1]["valid"]
    assert done.out.startswith("chunk, f1 in %, text ")
    rows = list(csv.DictReader(Path("a.csv").read_text().splitlines()))
    assert sorted((row["corpus"], float(row["test"])) for row in rows) == sorted(
        ("chunk", 100 * figure["test"]) for figure in figures
    )
    assert not Path("a.png").exists()


def test_a_linear_chain_learns_what_it_is_shown(labelled: Path):
    done = command("task=chunk", "labeller=crf", "task.train=train.txt", "task.test=train.txt", main=label.main)
    assert "test f1 100.00" in done.out, done


@pytest.mark.parametrize("labeller", ["perceptron", pytest.param("crf", marks=pytest.mark.slow)])
def test_an_interrupted_run_goes_on_to_the_same_bits(labelled: Path, monkeypatch: pytest.MonkeyPatch, labeller: str):
    options = ["task=chunk", f"labeller={labeller}", "task.train=train.txt", "task.test=train.txt"]
    assert command(*options, "run_dir=whole", main=label.main).code == 0
    kind = labellers.entries[labeller]
    step = kind.step

    def stopping(self: Labeller, number: int) -> dict[str, float]:
        if number == 2:
            signal.raise_signal(signal.SIGTERM)
        return step(self, number)

    with monkeypatch.context() as patch:
        patch.setattr(kind, "step", stopping)
        assert "resumes from here" in command(*options, "run_dir=parts", main=label.main).err
    assert not Path("parts/best.pt").exists()
    monkeypatch.setattr(kind, "start", counted := Counting(kind.start))
    assert "resumed at step 3" in command(*options, "run_dir=parts", main=label.main).out
    assert counted.calls == 1
    one, other = (read_checkpoint(Path(run, "best.pt"))["state"] for run in ("whole", "parts"))
    torch.testing.assert_close(one, other, rtol=0, atol=0)
    points = EventAccumulator("parts").Reload().Scalars("train/loss" if labeller == "crf" else "train/accuracy")
    assert [point.step for point in points] == [5 * n for n in range(1, len(points) + 1)]


class Counting:
    """A method that counts how often it is called."""

    def __init__(self, method: Callable[..., None]):
        self.method, self.calls = method, 0

    def __get__(self, labeller: Labeller, kind: type) -> Callable[..., None]:
        def call(*arguments: object) -> None:
            self.calls += 1
            self.method(labeller, *arguments)

        return call


def test_trees_are_learnt_and_labelled_from_word_vectors(labelled: Path):
    Path("trees.txt").write_text("(3 (2 A) (4 fine))\n(1 (2 A) ( 0 dull))\n")
    Path("v.txt").write_text("2 3\nfine 1 2 3\ndull -3 -2 -1\n")
    files = ["task.train=trees.txt", "task.valid=null", "task.test=trees.txt"]
    options = ["task=trees", "labeller=recursive", *files, "labeller.embedding=3", "labeller.epochs=30"]
    learning = ["labeller.batch=2", "labeller.lr=0.2", "labeller.lr_words=0.2"]
    done = command(*options, *learning, "labeller.vectors=v.txt", "run_dir=r", main=label.main)
    assert "test accuracy 100.00" in done.out, done
    assert "v.txt has vectors of" in Path("r/train.log").read_text()
    Path("new.txt").write_text("(0 (0 a) (0 (0 fine) ( 0 Dull)))\n")
    (line,) = command("r", "new.txt", main=tag.main).out.splitlines()
    assert re.fullmatch(r"\(\d \(2 a\) \(\d \(4 fine\) \( 0 Dull\)\)\)", line)
    assert command("r", "trees.txt", main=tag.main).out == Path("trees.txt").read_text()
    refused = command(*options, "labeller.vectors=none.txt", "run_dir=s", main=label.main).refused()
    assert "labeller.vectors: none.txt: no such" in refused
    refused = command(
        *options, "labeller.vectors=v.txt", "labeller.embedding=4", "run_dir=s", main=label.main
    ).refused()
    assert "labeller.embedding=4: the vectors of v.txt have 3; set it to 3" in refused
    Path("new.txt").write_text("(0 a\n")
    assert "new.txt: line 1 lacks 1 closing brackets" in command("r", "new.txt", main=tag.main).refused()


class Wavering(Labeller):
    """Right after its second step alone."""

    steps, checked, number = 3, True, 0

    def start(self, sentences: Sequence[Sentence], seed: int) -> None:
        self.sentences = sentences

    def step(self, number: int) -> dict[str, float]:
        self.number = number
        return {}

    def state_dict(self) -> dict[str, torch.Tensor]:
        return {"number": torch.tensor(self.number)}

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        self.number = int(state["number"])

    def label(self, sentences: Sequence[Sentence]) -> list[list[str]]:
        return [s.labels if self.number == 1 else ["?"] * len(s.labels) for s in sentences]


@pytest.mark.parametrize("valid", [True, False])
def test_the_best_on_valid_is_kept_or_else_the_last(labelled: Path, monkeypatch: pytest.MonkeyPatch, valid: bool):
    monkeypatch.setitem(labellers.entries, "majority", Wavering)
    files = [*FILES, "task.valid=train.txt"] if valid else FILES
    done = command("task=chunk", "labeller=majority", *files, "run_dir=r", main=label.main)
    assert f"test f1 {100 if valid else 0:.2f}" in done.out, done
    if valid:
        points = EventAccumulator("r").Reload().Scalars("f1/valid")
        assert [(point.step, point.value) for point in points] == [(5, 0), (10, 1), (15, 0)]


@pytest.mark.slow
def test_a_tagger_starts_from_a_language_model_once(labelled: Path, monkeypatch: pytest.MonkeyPatch):
    Path("lm.txt").write_text("the walk ends\nthey walk\n" * 20)
    corpus = [
        "corpus=text",
        "corpus.context=sentence",
        *(f"corpus.{split}=lm.txt" for split in ("train", "valid", "test")),
    ]
    sizes = ["embedding=4", "hidden=4"]
    assert command(*corpus, "model=lstm", *(f"model.{size}" for size in sizes), *QUICK, "run_dir=lm").code == 0
    options = ["task=chunk", "labeller=birnn", *(f"labeller.{size}" for size in sizes), "labeller.epochs=2", *FILES]
    assert "labeller.from: none: not a run" in command(*options, "labeller.from=none", main=label.main).refused()
    inherited = []
    inherit = BiRNN.inherit
    monkeypatch.setattr(BiRNN, "inherit", lambda *given: (inherited.append(given), inherit(*given)))
    assert command(*options, "labeller.from=lm", "run_dir=r", main=label.main).code == 0
    Path("r/results.json").unlink()  # goes on from last.pt
    assert command(*options, "labeller.from=lm", "run_dir=r", main=label.main).code == 0
    assert len(inherited) == 1


def test_a_sweeper_chooses_on_valid_alone():
    assert LABELS.objective({"figures": {"valid": 0.75, "test": 0.5}}) == -0.75
    assert LABELS.objective({"figures": {"test": 0.5}}) is None


def test_folds_are_swept_over_and_another_text_is_labelled(labelled: Path):
    Path("mr.txt").write_text("good\ta fine film\nbad\ta dull film\n" * 4)
    given = ["task=classify", "task.train=mr.txt", "task.folds=2"]
    done = command("-m", *given, "task.fold=0,1", "labeller=naive_bayes", main=label.main)
    assert re.search(r"^ *naive_bayes +2 +100\.00 ± 0\.00", done.out, re.M), done
    header, row = (line.split() for line in command("outputs", main=compare.main).out.splitlines()[1:])
    assert header[:3] == ["labeller", "seeds", "test"]
    assert row[:5] == ["naive_bayes", "2", "100.00", "±", "0.00"]
    (run, _) = sorted(labelled.glob("outputs/classify/naive_bayes*"))
    assert sorted(Path(run, "test.labels").read_text().splitlines())[0] == "bad\ta dull film"
    Path("new.txt").write_text("fine\nbad\tso dull\n")
    assert command(str(run), "new.txt", main=tag.main).out == "good\tfine\nbad\tso dull\n"
    refused = command(*given, "task.fold=0", "labeller=majority", main=label.main).refused()
    assert "task=classify has one label for a text; choose labeller=logistic_regression or naive_bayes" in refused


def test_a_sweep_of_which_some_runs_have_valid_has_a_mean_of_test_alone(labelled: Path):
    Path("mr.txt").write_text("good\ta fine film\nbad\ta dull film\n" * 4)
    given = ["task=classify", "task.train=mr.txt", "task.folds=3", "task.fold=0,1", "task.valid_fold=null,2"]
    done = command("-m", *given, "labeller=naive_bayes", main=label.main)
    header, row = (line.split() for line in done.out.splitlines()[-2:])
    assert header[:3] == ["labeller", "seeds", "test"]
    assert row[1] == "4"


def test_a_pipe_is_refused_as_a_text_is_read_twice(labelled: Path):
    Path("mr.txt").write_text("good\ta fine film\nbad\ta dull film\n")
    pipe, end = os.pipe()
    with os.fdopen(end, "wb") as stream:
        stream.write(Path("mr.txt").read_bytes())
    with os.fdopen(pipe):
        given = ["task=classify", "labeller=naive_bayes", "task.train=mr.txt", f"task.test=/dev/fd/{pipe}"]
        assert "a pipe can be read only once" in command(*given, main=label.main).refused()
