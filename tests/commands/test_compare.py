"""``lmzoo compare``: runs found, compared, written, drawn; two models word by word."""

import csv
import json
import math
import shutil
import sys
from pathlib import Path

import pytest
from command_line import MODELS, QUICK, command

import lmzoo
from lmzoo.commands import compare, evaluate, export, label
from lmzoo.corpus import EOS_ID
from lmzoo.protocol.perplexity import text_logprobs
from lmzoo.runs.directory import Run
from lmzoo.runs.loading import load


def look(*arguments: str):
    return command(*arguments, main=compare.main)


def test_runs_are_found_by_folder_by_pattern_and_by_default(runs: list[str], folder: Path):
    above = Path(runs[0]).parent
    (folder / "outputs").symlink_to(above)
    by_name, by_pattern, by_folder = look(*runs), look(f"{above}/[nr]*"), look(str(above))
    by_default = look()
    assert by_name.code == by_default.code == 0
    assert by_name.out == by_pattern.out == by_folder.out
    assert by_default.out.replace("outputs/", f"{above}/").split() == by_name.out.split()
    valid = {run: Run(Path(run)).results()["perplexity"]["valid"] for run in runs}  # pyright: ignore
    lines = by_name.out.splitlines()[2:4]
    assert [line.split()[-1] for line in lines] == sorted(runs, key=lambda run: valid[run])
    assert look("nowhere*").refused().startswith("error: nowhere*: no runs found; name ")


def test_files_are_written_and_unfinished_runs_named(runs: list[str], text: list[str], folder: Path):
    command(*text, *MODELS["rnn"], *QUICK, "trainer.clip=-1", "run_dir=refused")
    config = Path("other/config.yaml")
    config.parent.mkdir()
    config.write_bytes((Path(runs[0]) / "config.yaml").read_bytes())
    outcome = look(*runs, "other", "--csv", "a.csv")
    assert (outcome.code, outcome.err) == (0, "other: unfinished\n")
    rows = list(csv.DictReader(Path("a.csv").read_text().splitlines()))
    assert [row["run"] for row in rows] == [line.split()[-1] for line in outcome.out.splitlines()[2:4]]
    more = [*text, *MODELS["rnn"], *QUICK, "trainer.epochs=1", "optimizer.lr=0.5", "run_dir=more"]
    assert command(*more).code == 0
    look(*runs, "more", "--csv", "more.csv")
    options = {row["run"]: row for row in csv.DictReader(Path("more.csv").read_text().splitlines())}
    assert (options["more"]["trainer.epochs"], options["more"]["optimizer.lr"]) == ("1", "0.5")
    steps = {key for key, value in options[runs[0]].items() if value and key.startswith(("trainer", "optimizer"))}
    assert steps == {"trainer.first_tokens", "trainer.from"}  # n-grams take none
    assert "is a part of the run" in look(*runs, "--csv", f"{runs[0]}/results.json").refused()


def test_results_have_what_a_comparison_needs(runs: list[str]):
    ngram, rnn = (json.loads((Path(run) / "results.json").read_text()) for run in runs)
    assert (ngram["train_perplexity"], ngram["best_epoch"], ngram["checks"]) == (None, None, [])
    assert [check["epoch"] for check in rnn["checks"]] == [1, 2]
    assert rnn["train_perplexity"] == rnn["checks"][-1]["train"]
    best = min(rnn["checks"], key=lambda check: check["valid"])
    assert rnn["best_epoch"] == best["epoch"]
    assert rnn["perplexity"]["valid"] == best["valid"]


def test_two_models_are_compared_word_by_word(runs: list[str]):
    outcome = look("--tokens", *runs, "--split", "test", "--device", "cpu")
    assert outcome.code == 0
    assert outcome.out == look("--tokens", *runs, "--split", "test", "--device", "cpu").out
    a, b = (evaluate.evaluate(Path(run), "test", device="cpu") for run in runs)
    first, second, between, *_ = outcome.out.splitlines()
    assert first.startswith(f"A  {a['perplexity']:.2f}  {runs[0]} ")
    assert second.startswith(f"B  {b['perplexity']:.2f}  {runs[1]} ")
    assert f"test: {a['perplexity'] - b['perplexity']:+.2f}, 95% interval" in between
    listed = [line.split() for line in outcome.out.split("A is better on")[1].splitlines() if line.startswith("  ")]
    words = {line[-1]: (float(line[0]), int(line[1].replace(",", ""))) for line in listed if line[0] != "bits"}
    corpus = Run(Path(runs[0])).corpus()
    counts = corpus.splits["test"].bincount()
    assert f"{counts[EOS_ID]:,} sentences" in between
    assert len(words) == 2 * compare.SHOWN
    assert all(counts[corpus.vocabulary.index[word]] == count for word, (_, count) in words.items())
    a, b = (text_logprobs(load(Path(run), "cpu")[0], corpus.splits["test"], corpus.context) for run in runs)
    for word, (bits, _) in words.items():
        gained = (a - b)[corpus.splits["test"] == corpus.vocabulary.index[word]].sum() / math.log(2)
        assert bits == pytest.approx(abs(float(gained)), abs=0.06)


def test_the_difference_is_reported_and_drawn_by_the_frequency_of_words(runs: list[str], folder: Path):
    outcome = look("--tokens", *runs, "--split", "test", "--device", "cpu", "--plot", "a.svg")
    _, bands = outcome.out.split("by occurrences in train of markov, A gains\n")  # whose, as runs may differ in it
    bands = [line.split() for line in bands.split("\n\n")[0].splitlines()[1:]]
    tokens = Run(Path(runs[0])).corpus().splits["test"]
    assert sum(int(cells[4].replace(",", "")) for cells in bands) == len(tokens)
    a, b = (math.log(evaluate.evaluate(Path(run), "test", device="cpu")["perplexity"]) for run in runs)
    mean = sum(float(cells[0]) * int(cells[4].replace(",", "")) for cells in bands) / len(tokens)
    assert mean == pytest.approx((b - a) / math.log(2), abs=1e-3)
    assert Path("a.svg").read_text().startswith("<?xml")


def test_several_models_read_a_sentence(runs: list[str], folder: Path):
    corpus = Run(Path(runs[0])).corpus()
    sentence = " ".join(corpus.vocabulary.words[word] for word in (1, 2, 1))
    outcome = look(*runs, "--sentence", sentence, "--plot", "a.png", "--device", "cpu", "--csv", "a.csv")
    assert outcome.code == 0
    rows = [line.split() for line in outcome.out.splitlines()[4:]]
    assert [row[0] for row in rows] == [*sentence.split(), "<eos>", "all"]
    for column, run in enumerate(runs, 1):
        lm = lmzoo.load(run)
        assert [float(row[column]) for row in rows[:-1]] == [round(bits, 2) for _, bits in lm.surprisal(sentence)]
        assert float(rows[-1][column]) == pytest.approx(-lm.score(sentence) / math.log(2), abs=0.006)
    header, *words = csv.reader(Path("a.csv").read_text("utf-8").splitlines())
    assert header == ["run", "position", "word", "known", "surprisal"]
    expected = [(Path(run).name, *pair) for run in runs for pair in lmzoo.load(run).surprisal(sentence)]
    assert [(run, word, float(bits)) for run, _, word, _, bits in words] == [
        (run, word, pytest.approx(bits, abs=1e-4)) for run, word, bits in expected
    ]
    assert [int(position) for _, position, *_ in words] == [1, 2, 3, 4] * len(runs)
    assert Path("a.png").read_bytes().startswith(b"\x89PNG")
    assert "no runs found" in look("nothing", "--sentence", sentence).refused()
    assert (
        f"error: {runs[0]}: --sentence, line 1: 'xyz' is not in the vocabulary"
        in look(*runs, "--sentence", "xyz").refused()
    )
    Path("text").write_text("a b\n")
    characters = ["corpus=text", "corpus.train=text", "corpus.valid=text", "corpus.unit=char"]
    assert command(*characters, *MODELS["ngram"], "run_dir=c").code == 0
    assert "--sentence: has no word; " in look(runs[0], "c", "--sentence", " ").refused()


def test_without_names_runs_that_lack_a_word_of_the_sentence_are_left_out(runs: list[str], folder: Path):
    (folder / "outputs").mkdir()
    shutil.copytree(runs[0], folder / "outputs" / "first")
    Path("text").write_text("w1 xyz\n" * 20)
    options = [
        "corpus=text",
        "corpus.train=text",
        "corpus.valid=text",
        *MODELS["ngram"],
        "model.discount_fallback=true",
    ]
    assert command(*options, "run_dir=outputs/other").code == 0
    outcome = look("--sentence", "xyz", "--device", "cpu")
    assert outcome.err.startswith("warning: left out: outputs/first: --sentence, line 1: 'xyz' is not in the vocab"), (
        outcome
    )
    assert outcome.out.startswith("1  outputs/other\n")


def test_without_names_the_models_that_read_a_sentence_have_the_order_of_the_table(runs: list[str], folder: Path):
    (folder / "outputs").symlink_to(Path(runs[0]).parent)
    sentence = Run(Path(runs[0])).corpus().vocabulary.words[1]
    table = [line.split()[-1] for line in look().out.splitlines()[2:4]]
    read = [line.split()[-1] for line in look("--sentence", sentence, "--device", "cpu").out.splitlines()[:2]]
    assert read == table


def test_models_of_different_texts_are_refused(runs: list[str], text: list[str], folder: Path):
    assert command(*text, *MODELS["ngram"], "corpus.seed=5", "device=cpu", "run_dir=other").code == 0
    assert "other: reads another text" in look("--tokens", runs[0], "other").refused()
    assert "name both after --tokens" in look(runs[0], "--tokens", *runs).refused()
    assert "--split: is of --tokens; leave it out" in look(*runs, "--split", "valid").refused()
    assert "--seeds: is of the table of runs; " in look(*runs, "--sentence", "w1", "--seeds").refused()
    assert "--csv: is of the table of runs, --sentence" in look("--tokens", *runs, "--csv", "a").refused()


def test_perplexity_is_drawn_by_epochs_seconds_and_parameters(runs: list[str], folder: Path):
    assert look(*runs, "--plot", "a.png").code == 0
    assert Path("a.png").read_bytes().startswith(b"\x89PNG")


def test_a_picture_needs_matplotlib(runs: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    message = look(*runs, "--plot", "a.png").refused()
    assert message == "error: a.png needs matplotlib, which is not installed; pip install matplotlib"
    assert not Path("a.png").exists()


def test_the_numbers_of_counted_models_are_those_of_their_tables(runs: list[str], folder: Path):
    """Those of the ARPA file, in which `<s>` is never predicted and `</s>` never read."""
    assert command(runs[0], "a.arpa", main=export.main).code == 0
    entries = [line.split("\t") for line in Path("a.arpa").read_text().splitlines() if "\t" in line]
    numbers = sum(len(entry) - 1 for entry in entries)
    ends = [entry for entry in entries if entry[1] in ("<s>", "</s>")]
    assert [len(entry) for entry in ends] == [3, 3]
    assert Run(Path(runs[0])).results()["parameters"] == numbers - 2  # pyright: ignore[reportOptionalSubscript]


def test_a_picture_without_language_models_is_refused(folder: Path):
    Path("train.txt").write_text("they PRP B-NP\nwalk VBP B-VP\n\n")
    line = ["task=chunk", "labeller=majority", "task.train=train.txt", "task.valid=train.txt", "task.test=train.txt"]
    assert command(*line, "run_dir=labels", main=label.main).code == 0
    refused = look("labels", "--plot", "a.png").refused()
    assert "--plot a.png: there are no finished runs of language models to plot" in refused
    assert not Path("a.png").exists()


def test_a_picture_of_both_says_that_labels_are_left_out(runs: list[str], folder: Path):
    Path("train.txt").write_text("they PRP B-NP\nwalk VBP B-VP\n\n")
    line = ["task=chunk", "labeller=majority", "task.train=train.txt", "task.valid=train.txt", "task.test=train.txt"]
    assert command(*line, "run_dir=labels", main=label.main).code == 0
    outcome = look(*runs, "labels", "--plot", "a.png")
    assert outcome.code == 0
    assert outcome.err == "warning: --plot: runs of labels have no perplexity, so they are not in the picture\n"
