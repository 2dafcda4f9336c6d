"""What a run takes from another: the options of its model, and how its text becomes words."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from command_line import MODELS, QUICK, command, stop_at
from omegaconf import OmegaConf

from lmzoo import api
from lmzoo.commands import label, score, vectors
from lmzoo.core.configs import saved
from lmzoo.runs.directory import Run

LINES = "The Cat sat, ends.\na cat Sat here!\n" * 30
GRU = ["model=gru", "model.embedding=6", "model.hidden=6", "model.dropout=0.25", "model.layers=2"]
ONCE = [*QUICK, "trainer.epochs=1"]


def own(name: str, *options: str) -> list[str]:
    return ["corpus=text", *(f"corpus.{split}={name}" for split in ("train", "valid")), *options]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of plain text with options of its own."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "text").write_text(LINES)
    form = ["corpus.lower=true", "corpus.tokenizer=words", "corpus.unknown=true"]
    assert command(*own(str(folder / "text"), *form), *ONCE, *GRU, f"run_dir={folder / 'source'}").code == 0
    return folder


@pytest.fixture
def source(made: Path, folder: Path) -> str:
    """That run in the current folder."""
    shutil.copytree(made / "source", "source")
    Path("other").write_text(LINES.replace("here", "there"))
    return "source"


ON = [*own("other"), *ONCE, "corpus.vocabulary=source", "trainer.from=source"]


def begun(run: str, *options: str) -> dict[str, Any]:
    """The configuration of a run that must have been trained."""
    done = command(*options, f"run_dir={run}")
    assert done.code == 0, done
    return saved(run)


def test_a_run_goes_on_without_the_run_whose_words_it_has(source: str, monkeypatch: pytest.MonkeyPatch):
    options = [*own("other"), *ONCE, *GRU, f"corpus.vocabulary={source}", "run_dir=on"]
    with monkeypatch.context() as patch:
        stop_at(patch, 3)
        assert command(*options, "trainer.epochs=2").code == 130
    shutil.rmtree(source)
    assert command(*options, "trainer.epochs=2").code == 0
    assert "already finished" in command(*options, "trainer.epochs=2").out
    assert "source: no such file" in command(*options[:-1], "run_dir=new").refused()


def test_a_run_has_the_options_of_the_one_that_it_starts_from_but_for_those_given(source: str):
    theirs = saved(source)["model"]
    config = begun("on", *ON)
    assert config["model"] == theirs
    assert {name: config["corpus"][name] for name in ("lower", "tokenizer")} == {"lower": True, "tokenizer": "words"}
    given = begun("given", *ON, "model.dropout=0.3", "model=gru")
    assert given["model"] == theirs | {"dropout": 0.3}  # which is the default
    Path("mine/experiment").mkdir(parents=True)
    preset = {"defaults": [{"override /model": "gru"}], "model": {"dropout": 0.3, "ar": 1.0}, "trainer": {"epochs": 1}}
    Path("mine/experiment/again.yaml").write_text(f"# @package _global_\n{OmegaConf.to_yaml(preset)}")
    again = begun("preset", "--config-dir", "mine", "experiment=again", *ON, "model.ar=0.5")
    assert again["model"] == theirs | {"dropout": 0.3, "ar": 0.5}


def test_what_is_given_and_does_not_fit_is_refused(source: str):
    wrong = command(*ON, "model.hidden=8", "model.embedding=8", "run_dir=no").refused()
    assert "trainer.from: source has other weights" in wrong
    assert wrong.endswith("or leave them out: model.embedding=6 model.hidden=6")
    assert command(*ON, "model=lstm", "run_dir=no").refused().endswith("or leave them out: model=gru")
    both = command(*ON, "model.embedding_from=source", "run_dir=no").refused()
    assert "trainer.from=source: is where the model starts, and so is model.embedding_from; leave one out" in both
    for option, told in (
        ("corpus.lower=false", "lower=true, and here it is false"),
        ("corpus.tokenizer=ptb", "tokenizer=words, and here it is ptb"),
        ("corpus.tokenizer=null", "tokenizer=words, and here it is null"),
        ("corpus.unit=char", "unit=word, and here it is char"),
    ):
        refused = command(*ON, option, "run_dir=no").refused()
        assert f"corpus.vocabulary: source has corpus.{told}; repeat its option" in refused
        assert "corpus.vocabulary=source/vocabulary.txt" in refused
    assert not Path("no").exists()


def test_a_run_goes_on_and_is_found_again_also_without_its_source(source: str):
    shutil.copytree(source, "words")
    options = [*own("other"), *ONCE, "corpus.vocabulary=words", "trainer.from=source", "optimizer.lr=0.01"]
    with pytest.MonkeyPatch.context() as patch:
        stop_at(patch, 2)
        assert command(*options).code == 130
    (run,) = Path("outputs/other").iterdir()
    assert re.fullmatch(r"\w+-[0-9a-f]{6}", run.name)
    again = command(*options)
    assert "resumed at step" in again.out, again
    assert [*Path("outputs/other").iterdir()] == [run]
    shutil.rmtree(source)
    reported = command(*options, f'run_dir="{run}"')
    assert "already finished" in reported.out, reported


def folders() -> set[Path]:
    """Those of runs that have no folder by name."""
    return {path.parent for path in Path("outputs/other").glob("*/config.yaml")}


def test_each_run_of_a_sweep_takes_from_its_own_source(source: str):
    second = [*own("other"), *ONCE, "corpus.vocabulary=source", *GRU, "model.tied=false", "run_dir=second"]
    assert command(*second).code == 0
    sweep = [*own("other"), *ONCE, "corpus.vocabulary=source", "trainer.from=source,second", "-m"]
    done = command(*sweep)
    assert done.code == 0, done
    found = {saved(run)["trainer"]["from"]: saved(run)["model"] for run in folders()}
    assert found == {name: saved(name)["model"] for name in ("source", "second")}
    before = folders()
    assert command(*sweep).code == 0
    assert folders() == before


def test_python_takes_as_the_command_does(source: str):
    found = api.train(*ON, "run_dir=on")
    assert found.run.config()["model"] == saved(source)["model"]


def test_vectors_read_their_text_as_the_run_whose_words_they_have(source: str):
    options = [*own("other"), "corpus.vocabulary=source", "method=ppmi", "method.dim=3", "method.min_count=1"]
    done = command(*options, "run_dir=vectors", main=vectors.main)
    assert done.code == 0, done
    assert saved("vectors")["corpus"]["lower"] is True
    assert "has corpus.lower=true" in command(*options, "corpus.lower=false", main=vectors.main).refused()


def test_the_words_alone_can_be_taken_and_another_form_is_reported(source: str):
    words = "corpus.vocabulary=source/vocabulary.txt"
    config = begun("words", *own("other"), *ONCE, words, "corpus.tokenizer=words", "trainer.from=source")
    assert config["corpus"]["lower"] is False
    assert Run(Path("words")).vocabulary().words == Run(Path(source)).vocabulary().words
    assert "source has corpus.lower=true, and here it is false" in Path("words/train.log").read_text()


def test_words_are_not_taken_for_characters(source: str):
    letters = [*own("other"), "corpus.unit=char"]
    done = command(*letters, "method=ppmi", "method.dim=3", "method.min_count=1", "run_dir=letters", main=vectors.main)
    assert done.code == 0, done
    Path("tagged").write_text("a X\nhere Y\n\n")
    labels = ["task=pos", "task.word=0", "task.label=1", "task.train=tagged", "task.test=tagged", "run_dir=no"]
    told = "letters has corpus.unit=char, and here it is word; choose another run"
    refused = command(*labels, "labeller=crf", "labeller.vectors=letters", main=label.main).refused()
    assert f"labeller.vectors: {told}" in refused
    network = [*ONCE, *MODELS["rnn"], "model.embedding_from=letters", "run_dir=no"]
    assert f"model.embedding_from: {told}" in command(*own("other"), *network).refused()
    joined = [*own("other"), "method=joined", "method.runs=[letters]", "method.weights=[1]", "run_dir=no"]
    assert f"method.runs: {told}" in command(*joined, main=vectors.main).refused()
    named = ["corpus=pydoc", "corpus.vocabulary=letters", "run_dir=no"]
    assert f"corpus.vocabulary: {told[:-20]}" in command(*named).refused()


def test_a_labeller_tells_how_many_words_a_source_has(folder: Path):
    Path("tagged").write_text("The X\n12 Y\nrare X\n\n")
    Path("vectors").write_text("the 1 2\nN 2 1\n<unk> 1 1\n")
    labels = ["task=pos", "task.word=0", "task.label=1", "task.train=tagged", "task.test=tagged", "run_dir=run"]
    assert (
        "vectors has 2 of 3 words of train"
        in command(*labels, "labeller=crf", "labeller.iterations=2", "labeller.vectors=vectors", main=label.main).out
    )


def test_a_text_is_not_cut_twice(source: str):
    refused = command(source, "other", "--tokenize", "words", main=score.main).refused()
    assert "tokenize=words: source tokenizes text itself (corpus.tokenizer=words); leave it out" in refused


def test_a_configuration_of_a_stranger_is_taken_as_text(source: str):
    config = saved(source)
    config["model"]["clustering"] = "${oc.env:HOME}"
    Path(source, "config.yaml").write_text(json.dumps(config))
    refused = command(*ON, "run_dir=on").refused()
    assert str(Path.home()) not in refused
