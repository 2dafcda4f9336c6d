"""What makes two configurations those of one run."""

import json
from pathlib import Path

import pytest
from command_line import QUICK, TEXT, command, configuration

from lmzoo.protocol.model import models
from lmzoo.runs.identity import differences, unlike_defaults, without_effect

READERS = {"arpa", "mixture", "cache", "dynamic", "whole_sentence"}
"""Models that take what others have learnt, and no steps."""


def test_differences_are_those_that_results_depend_on():
    old = {"seed": 0, "run_dir": "a", "device": "cpu", "model": {"name": "lstm", "hidden": 8}}
    new = {"seed": 0, "run_dir": "b", "device": "cuda", "model": {"name": "rnn", "order": 2}}
    assert differences(old, old) == []
    assert differences(old, new) == [
        "model.name: lstm -> rnn",
        "model.hidden: 8 -> absent",
        "model.order: absent -> 2",
    ]


def test_an_automatic_precision_is_the_one_that_a_run_has():
    float32, bfloat16, auto = ({"trainer": {"precision": p}} for p in ("float32", "bfloat16", "auto"))
    assert differences(bfloat16, auto) == []
    assert differences(bfloat16, float32) == ["trainer.precision: bfloat16 -> float32"]
    assert differences({}, auto) == ["trainer.precision: absent -> auto"]


@pytest.mark.parametrize(
    ("option", "steps"),
    [
        ("model=ngram", False),
        ("model=lstm", True),
        ("model=lds", True),
        ("model=hmm", False),
        ("model.gradient=true model=hmm", True),
        ("model=loglinear", False),
        ("model.training=minibatch model=loglinear", True),
        ("model=hmm model.states=0", True),  # which is refused elsewhere
    ],
)
def test_a_model_takes_steps_where_it_has_parameters(option: str, steps: bool, tmp_path: Path):
    assert ("optimizer.lr" not in without_effect(configuration(tmp_path, *option.split()))) is steps


def test_every_model_says_whether_it_takes_steps(tmp_path: Path):
    """What is told of a model without a text holds for the one that is trained."""
    idle = {name: without_effect(configuration(tmp_path, f"model={name}")) for name in models.entries}
    counted = {name for name in models.entries if "optimizer.lr" in idle[name]}
    assert counted == {*READERS, "ngram", "infinigram", "hmm", "loglinear", "model_m"}


def test_options_of_steps_make_no_other_run_of_a_model_that_takes_none(tmp_path: Path):
    def config(*options: str) -> dict:
        return configuration(tmp_path, *TEXT, *options)

    steps = ["trainer.epochs=3", "optimizer=sgd", "schedule=plateau", "trainer.patience=1"]
    assert differences(config("model=ngram"), config("model=ngram", *steps)) == []
    assert differences(config("model=hmm"), config("model=hmm", *steps, "seed=1")) == ["seed: 0 -> 1"]
    assert differences(config("model=ngram"), config("model=ngram", "trainer.first_tokens=9")) == [
        "trainer.first_tokens: null -> 9"
    ]
    assert len(differences(config("model=lstm"), config("model=lstm", *steps))) > len(steps)


def test_what_is_unlike_the_defaults(tmp_path: Path):
    def unlike(*options: str) -> dict:
        return unlike_defaults(configuration(tmp_path, *options))

    assert unlike("model=ngram", "corpus=ptb", "device=cpu", "trainer.epochs=3", "optimizer=sgd") == {}
    assert unlike("model=rnn", "seed=1", "trainer=debug")["trainer.epochs"] == 1
    assert unlike("model=rnn", "optimizer=sgd") == {"optimizer.name": "sgd"}
    assert unlike("model=rnn", "optimizer=sgd", "optimizer.lr=3") == {"optimizer.name": "sgd", "optimizer.lr": 3}
    assert unlike("model=ngram", "model.order=3") == {"model.order": 3}
    preset = unlike("experiment=lstm_ptb", "model.hidden=200", "model.embedding=200")
    assert preset["trainer.epochs"] == 8
    assert "model.hidden" not in preset


def test_an_n_gram_is_trained_once_whatever_the_epochs(folder: Path):
    line = [*TEXT, *QUICK[-1:], "model=ngram", "model.order=2", "model.discount_fallback=true"]
    assert command(*line).code == 0
    again = command(*line, "trainer.epochs=3", "optimizer.lr=0.5")
    assert "already finished" in again.out
    (results,) = Path("outputs").rglob("results.json")
    named = command(*line, "trainer.epochs=3", f"run_dir={results.parent}")
    assert "already finished" in named.out
    assert json.loads(results.read_text())["model"] == "ngram"
