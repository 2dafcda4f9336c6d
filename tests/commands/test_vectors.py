"""The commands ``lmzoo vectors`` and ``lmzoo probe``: runs, what they hold, and mistakes."""

import csv
import json
import os
import re
import signal
import time
from pathlib import Path

import pytest
import torch
from command_line import TEXT, command
from scipy.stats import spearmanr

import lmzoo
from lmzoo.commands import compare, evaluate, export, probe, vectors
from lmzoo.core import progress
from lmzoo.corpus import Corpus
from lmzoo.words.vectors import word2vec
from lmzoo.words.vectors.counting import PPMI
from lmzoo.words.vectors.formats import read_vectors
from lmzoo.words.vectors.word_vectors import WordVectors

SMALL = [*TEXT, "method.dim=4", "method.min_count=1"]


@pytest.fixture
def ppmi(folder: Path) -> str:
    done = command(*SMALL, "method=ppmi", "method.window=2", "run_dir=ppmi", main=vectors.main)
    assert done.code == 0, done
    return "ppmi"


def test_load_reads_vectors(ppmi: str):
    vectors = lmzoo.load(ppmi)
    assert isinstance(vectors, WordVectors)
    assert vectors.words == read_vectors(Path(ppmi)).words == lmzoo.load(f"{ppmi}/vectors.bin").words


def test_a_run_has_its_vectors_and_its_results(ppmi: str):
    results = json.loads(Path(ppmi, "results.json").read_text())
    assert (results["method"], results["words"], results["dimensions"]) == ("ppmi", 18, 4)
    found = read_vectors(Path(ppmi))
    assert len(set(found.words) & {f"w{i}" for i in range(20)}) == 18
    assert {"config.yaml", "vocabulary.txt", "provenance.json", "train.log", "last.pt"} <= {
        path.name for path in Path(ppmi).iterdir()
    }
    again = command(*SMALL, "method=ppmi", "method.window=2", "run_dir=ppmi", main=vectors.main)
    assert "already finished: ppmi\nppmi on markov" in again.out


def test_the_folder_is_named_by_corpus_and_method(folder: Path):
    assert command(*TEXT, "method=ppmi", "method.dim=4", main=vectors.main).code == 0
    assert next(path.parent.name for path in folder.glob("outputs/markov/*/vectors.bin")).startswith("ppmi-")


def test_commands_for_language_models_refuse_the_run(ppmi: str):
    assert "x.arpa (--format arpa by its name): ppmi holds word vectors; choose word2vec or" in (
        command(ppmi, "x.arpa", main=export.main).refused()
    )
    assert "ppmi: is a run of word vectors; this needs a run of lmzoo train" in (
        command(ppmi, main=evaluate.main).refused()
    )
    assert command(ppmi, main=compare.main).err == "ppmi: word vectors; lmzoo probe compares them\n"


def test_the_probe_measures_as_the_formulas_do(ppmi: str):
    found = read_vectors(Path(ppmi))
    a, b, c, d, e, f, *_ = found.words
    Path("sets.txt").write_text(f"{a}\t{b.upper()}\t3\n{c} {d} 1\n{e}\t{f}\t2\n{a}\tnone\t2\n")
    Path("questions.txt").write_text(f": first\n{a} {b} {c} {d}\n{a} {b} {c} none\n: second\n{c} {d} {e} {f}\n")
    options = ["--sets", "sets.txt", "--analogies", "questions.txt", "--csv", "t.csv"]
    done = command(ppmi, *options, main=probe.main)
    assert done.code == 0, done
    rows = list(csv.DictReader(Path("t.csv").read_text().splitlines()))
    assert [(row["set"], row["measure"], row["covered"], row["of"]) for row in rows] == [
        ("sets", "spearman", "3", "4"), ("first", "3CosAdd", "1", "2"), ("first", "3CosMul", "1", "2"),
        ("second", "3CosAdd", "1", "1"), ("second", "3CosMul", "1", "1"),
        ("total", "3CosAdd", "2", "3"), ("total", "3CosMul", "2", "3"),
    ]  # fmt: skip
    unit = torch.nn.functional.normalize(found.matrix)
    cosines = [float(unit[i] @ unit[i + 1]) for i in (0, 2, 4)]
    assert float(rows[0]["value"]) == pytest.approx(spearmanr(cosines, [3, 1, 2]).statistic)
    assert "3 of 4" in done.out
    few = "fewer than 10 are covered, so their figures are mostly noise: 3 of sets under ppmi, 1 of first under ppmi, "
    assert done.err.startswith(f"warning: {few}")


def test_sets_of_one_name_have_a_line_each(ppmi: str):
    for folder, pairs in (("one", "w1 w2 3\nw2 w3 4\n"), ("other", "w1 w2 3\nnone w3 4\n")):
        Path(folder).mkdir()
        Path(folder, "set.txt").write_text(pairs)
    Path("questions.txt").write_text("w1 w2 w3 w4\n")
    options = ["--sets", "one/set.txt", "other/set.txt", "--analogies", "questions.txt"]
    lines = command(ppmi, *options, main=probe.main).out.splitlines()
    assert [line.split()[-3:] for line in lines[1:3]] == [["2", "of", "2"], ["1", "of", "2"]]


def test_neighbours_are_the_nearest_by_cosine(ppmi: str):
    found = read_vectors(Path(ppmi))
    unit = torch.nn.functional.normalize(found.matrix)
    cosines = {word: float(unit[i] @ unit[found.index["w3"]]) for i, word in enumerate(found.words) if word != "w3"}
    nearest = sorted(cosines, key=lambda word: -cosines[word])[:2]
    done = command(ppmi, "--neighbours", "W3", "--top", "2", "--csv", "t.csv", main=probe.main)
    header, *lines = [line.split() for line in done.out.splitlines()]
    assert header == ["set", "measure", "ppmi", "neighbour"]
    assert lines == [["w3", "cosine", f"{cosines[word]:.3f}", word] for word in nearest]
    rows = list(csv.DictReader(Path("t.csv").read_text().splitlines()))
    assert [(row["vectors"], row["set"], row["measure"], row["neighbour"]) for row in rows] == [
        ("ppmi", "w3", "cosine", word) for word in nearest
    ]
    assert [float(row["value"]) for row in rows] == pytest.approx([cosines[word] for word in nearest])


def test_neighbours_and_measures_are_in_one_table_of_all_vectors(ppmi: str):
    Path("set.txt").write_text("w1 w2 3\nw2 w3 4\n")
    Path("few.txt").write_text("w3 1 2\nw1 2 1\nw2 1 1\n")
    options = ["--neighbours", "w3", "--neighbours", "w1", "--sets", "set.txt", "--csv", "t.csv"]
    done = command(ppmi, "few.txt", *options, main=probe.main)
    near, measured = done.out.split("\n\n")
    assert len(near.splitlines()) == 1 + 2 * 2
    assert measured.splitlines()[0].split() == ["set", "measure", "ppmi", "covered", "few.txt", "covered"]
    rows = list(csv.DictReader(Path("t.csv").read_text().splitlines()))
    assert [row["neighbour"] for row in rows if (row["vectors"], row["set"]) == ("few.txt", "w3")] == ["w2", "w1"]
    assert [(row["vectors"], row["covered"]) for row in rows if row["set"] == "set"] == [
        ("ppmi", "2"),
        ("few.txt", "2"),
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["method=pmi"], "method=pmi: no such method; did you mean 'ppmi'?"),
        (["method=ppmi", "method.shift=0"], "method.shift=0: must be at least 1"),
        (["method=cbow", "method.exponent=2"], "method.exponent=2: must be at most 1"),
        (["method=cbow", "method.sample=1e-20"], "method.sample=1e-20: leaves too few words of the text; raise it"),
        (["method=ppmi", "method.windo=3"], "method.windo: no such option"),
        (["method=cbow", "trainer.epochs=3"], "trainer.epochs: no such option; did you mean 'method.epochs'?"),
        (
            ["method=cbow", "tken=3"],
            "tken: no such option; choose from: checkpoint_seconds, corpus, device, hydra, method, plugins, run_dir, ",
        ),
        (["method=ppmi", "method.dim=0"], "method.dim=0: must be at least 1"),
        (["method=ppmi", "method.dim=21"], "method.dim=21: the text has only 14 such words"),
        (["method=ppmi", "method.min_count=1000"], "method.min_count=1000: fewer than two words"),
        (["method=type"], "method=type needs method.run=FOLDER"),
        (["method=type", "method.run=none"], "method.run: none: not a run directory"),
    ],
)
def test_mistakes_in_options_are_reported_in_a_line(folder: Path, arguments: list[str], message: str):
    assert message in command(*TEXT, "run_dir=new", *arguments, main=vectors.main).refused()
    assert not Path("new").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ppmi", "--sets", "absent"], "absent: no such file"),
        (["ppmi", "--sets", "sets.txt"], "sets.txt, line 1: 'one two' is not two words and a number"),
        (["ppmi", "--sets", "--analogies", "sets.txt"], "sets.txt, line 1: 'one two' is not four words"),
        (["ppmi"], "no similarity sets and no analogies are there; name them"),
        (["ppmi", "--top", "3"], "--top: needs --neighbours; add --neighbours, or leave --top out"),
        (["ppmi", "--neighbours", "w33"], "--neighbours w33: has no vector in ppmi; did you mean 'w3'?"),
        (["sets.txt"], "sets.txt: not a file of word vectors"),
        (["absent"], "absent: no such file"),
        (["."], ".: has no vectors.bin; lmzoo vectors makes one; with method=type, of a language model"),
    ],
)
def test_mistakes_in_probing_are_reported_in_a_line(ppmi: str, arguments: list[str], message: str):
    Path("sets.txt").write_text("one two\n")
    assert message in command(*arguments, main=probe.main).refused()


def test_the_vectors_of_a_language_model_are_its_own(runs: list[str], text: list[str], tmp_path: Path):
    from lmzoo.runs.loading import load

    done = command(*text, "method=type", f"method.run={runs[1]}", "method.min_count=1", f"run_dir={tmp_path / 'type'}",
                   main=vectors.main)  # fmt: skip
    assert done.code == 0, done
    found, (model, vocabulary) = read_vectors(tmp_path / "type"), load(runs[1])
    assert torch.equal(found.matrix[3], model.embedding.weight[vocabulary.index[found.words[3]]])
    refused = command(*text, "method=type", f"method.run={runs[0]}", f"run_dir={tmp_path / 'no'}", main=vectors.main)
    assert "method.part=input: the model of" in refused.refused()


def test_a_stopped_run_goes_on_exactly_where_it_was(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(word2vec, "STEP_TOKENS", 100)
    options = [*SMALL, "method=skipgram", "method.epochs=3", "method.sample=0"]
    assert command(*options, "run_dir=whole", main=vectors.main).code == 0
    whole = word2vec.Word2Vec.step

    def step(self: word2vec.Word2Vec, number: int) -> dict[str, float]:
        if number == 5:
            os.kill(os.getpid(), signal.SIGTERM)
        return whole(self, number)

    with monkeypatch.context() as patch:
        patch.setattr(word2vec.Word2Vec, "step", step)
        stopped = command(*options, "run_dir=stopped", main=vectors.main)
    assert (stopped.code, Path("stopped/vectors.bin").exists()) == (130, False)
    assert "interrupted: everything is saved" in stopped.err
    again = command(*options, "run_dir=stopped", main=vectors.main)
    assert again.code == 0, again
    assert Path("stopped/vectors.bin").read_bytes() == Path("whole/vectors.bin").read_bytes()
    refused = command(*options, "seed=1", "run_dir=stopped", main=vectors.main).refused()
    assert "contains a run with another configuration (seed: 0 -> 1)" in refused


def test_vectors_that_are_not_finite_are_not_written(folder: Path):
    options = ["method=lsa", "method.eigenvalue=1e30", "run_dir=large"]
    assert "the vectors are not finite" in command(*SMALL, *options, main=vectors.main).refused()
    assert not Path("large/vectors.bin").exists()


def test_seconds_count_what_a_method_does_before_its_first_step(folder: Path, monkeypatch: pytest.MonkeyPatch):
    start = PPMI.start

    def slow(self: PPMI, corpus: Corpus, seed: int) -> None:
        time.sleep(0.2)
        start(self, corpus, seed)

    monkeypatch.setattr(PPMI, "start", slow)
    assert command(*SMALL, "method=ppmi", "run_dir=slow", main=vectors.main).code == 0
    assert json.loads(Path("slow/results.json").read_text())["seconds"] >= 0.2


def test_the_log_tells_how_far_a_run_has_come(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(progress, "SECONDS", 0)
    options = ["method=skipgram", "method.epochs=2", "run_dir=told"]
    assert command(*SMALL, *options, main=vectors.main).code == 0
    assert "step 2 of 2, train/loss" in Path("told/train.log").read_text()


def test_vectors_side_by_side_have_mean_cosines(ppmi: str):
    assert command(*SMALL, "method=ppmi", "method.window=3", "run_dir=wide", main=vectors.main).code == 0
    done = command(*TEXT, "method=joined", "method.runs=[ppmi,wide]", "method.weights=[1,2]", "method.min_count=1",
                   "run_dir=both", main=vectors.main)  # fmt: skip
    assert done.code == 0, done
    a, b, both = (read_vectors(Path(run)).unit for run in (ppmi, "wide", "both"))
    torch.testing.assert_close(both @ both.T, (a @ a.T + 4 * b @ b.T) / 5)
    short = ["method=joined", "method.runs=[ppmi]", "method.weights=[1,2]", "run_dir=no"]
    assert "as many method.runs as method.weights" in command(*TEXT, *short, main=vectors.main).refused()


def test_words_that_a_part_lacks_are_counted(ppmi: str):
    Path("few.txt").write_text("2 1\nw1 1\nw2 2\n")
    done = command(*TEXT, "method=joined", "method.runs=[ppmi,few.txt]", "method.weights=[1,1]", "run_dir=few",
                   main=vectors.main)  # fmt: skip
    assert done.code == 0, done
    log = Path("few/train.log").read_text()
    assert re.search(r"ppmi has vectors of (\d+) of \1 words", log)
    assert re.search(r"few.txt has vectors of 2 of \d\d words", log)
