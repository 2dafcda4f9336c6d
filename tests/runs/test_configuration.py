"""The configuration of a run, and what makes two configurations those of one run."""

import json
from pathlib import Path

import pytest
from command_line import QUICK, TEXT, command, configuration

import lmzoo.models  # noqa: F401 - its import registers them
from lmzoo.core.configs import flatten
from lmzoo.core.errors import UserError
from lmzoo.protocol.model import models
from lmzoo.runs.configuration import Configuration, differing_options, short_names


def parsed(folder: Path, *options: str) -> Configuration:
    return Configuration(configuration(folder, *options))


def test_a_configuration_is_read_as_a_mapping_and_cannot_be_changed(tmp_path: Path):
    config = parsed(tmp_path, "model=rnn", "model.hidden=7")
    assert config["model"]["hidden"] == config.options["model.hidden"] == 7
    assert dict(config) == configuration(tmp_path, "model=rnn", "model.hidden=7")
    with pytest.raises(TypeError):
        config["seed"] = 1  # pyright: ignore[reportIndexIssue]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (None, "no configuration of a run"),
        ({}, "no configuration of a run"),
        ({"model": {}, "corpus": {"name": "a", "context": "stream"}}, "model of a run: must be a group with a name"),
        ({"model": {"name": "a"}}, "corpus of a run: must be a group with a name"),
        ({"model": {"name": "a"}, "labeller": {"name": "a"}}, "no configuration of a run"),
        ({"model": {"name": "a"}, "corpus": {"name": "a", "context": "x"}}, "corpus.context=x: must be one of"),
        ({"model": {"name": "a"}, "corpus": {"name": "a", "context": "stream"}, "plugins": "b"}, "plugins=b: must be"),
        ({"model": {"name": "a"}, "corpus": {"name": "a", "context": "stream"}, "trainer": 3}, "trainer=3: must be"),
    ],
)
def test_settings_that_are_not_those_of_a_run(settings: object, message: str):
    with pytest.raises(UserError) as error:
        Configuration(settings)
    assert message in str(error.value)


def test_differences_are_those_that_results_depend_on(tmp_path: Path):
    old = parsed(tmp_path / "a", "device=cpu", "model=lstm", "model.hidden=8", "corpus=ptb", "optimizer.lr=1")
    new = parsed(tmp_path / "b", "device=cuda", "model=lstm", "model.hidden=9", "corpus=ptb", "corpus.urls=[]")
    assert old.differences(old) == []
    assert old.differences(new) == ["model.hidden: 8 -> 9", "optimizer.lr: 1 -> 0.003"]
    assert "model.order: absent -> 5" in old.differences(parsed(tmp_path, "model=ngram"))


def test_an_automatic_precision_is_the_one_that_a_run_has(tmp_path: Path):
    float32, bfloat16, auto = (parsed(tmp_path, f"trainer.precision={p}") for p in ("float32", "bfloat16", "auto"))
    assert bfloat16.differences(auto) == []
    assert bfloat16.differences(float32) == ["trainer.precision: bfloat16 -> float32"]


@pytest.mark.parametrize(
    "option",
    ["model.gradient=true model=hmm", "model.training=minibatch model=loglinear",
     *(f"model={name}" for name in models.entries)],
)  # fmt: skip
def test_a_model_says_whether_it_takes_steps(option: str, tmp_path: Path):
    """It does where it has parameters."""
    config = parsed(tmp_path, *option.split())
    required = {"path": "a.arpa", "run": "a", "runs": ["a"]}
    options = {name: required.get(name, value) if value is None else value for name, value in config["model"].items()}
    built = models.build(options, vocabulary_size=2000)
    assert config.takes_steps is any(parameter.requires_grad for parameter in built.parameters())


def test_options_of_steps_make_no_other_run_of_a_model_that_takes_none(tmp_path: Path):
    steps = ["trainer.epochs=3", "optimizer=sgd", "schedule=plateau", "trainer.patience=1"]
    ngram, lstm = (parsed(tmp_path, *TEXT, f"model={name}") for name in ("ngram", "lstm"))
    assert ngram.differences(parsed(tmp_path, *TEXT, "model=ngram", *steps)) == []
    assert ngram.differences(parsed(tmp_path, *TEXT, "model=ngram", "trainer.first_tokens=9")) == [
        "trainer.first_tokens: null -> 9"
    ]
    assert len(lstm.differences(parsed(tmp_path, *TEXT, "model=lstm", *steps))) > len(steps)


def test_a_model_of_a_plug_in_may_be_imported_after_the_configuration_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """As where a preset names the plug-in, or a run in the way is read first."""
    config = parsed(tmp_path, "model=ngram")
    monkeypatch.setattr(models, "entries", {name: entry for name, entry in models.entries.items() if name != "ngram"})
    assert config.takes_steps
    assert "optimizer.lr" in config.result_options
    monkeypatch.undo()
    assert not config.takes_steps
    assert config.differences(parsed(tmp_path, "model=ngram", "optimizer.lr=3")) == []


def test_what_is_unlike_the_defaults(tmp_path: Path):
    def unlike(*options: str) -> dict:
        return parsed(tmp_path, *options).unlike_defaults

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


def test_a_configuration_is_flattened():
    assert flatten({"seed": 0, "model": {"name": "lstm", "l2": [1, 2]}}) == {
        "seed": 0,
        "model.name": "lstm",
        "model.l2": [1, 2],
    }


def test_short_names_are_unambiguous():
    assert short_names(["seed", "corpus.seed", "optimizer.lr", "model.states", "corpus.states"]) == {
        "seed": "seed",
        "corpus.seed": "corpus.seed",
        "optimizer.lr": "lr",
        "model.states": "model.states",
        "corpus.states": "corpus.states",
    }


def test_a_model_that_says_otherwise_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch):
    """Else its runs with other rates would be taken for one."""
    monkeypatch.setattr(models.entries["rnn"], "takes_steps", False)
    refused = command(*TEXT, *QUICK, "model=rnn").refused()
    assert "model=rnn: has parameters, and takes_steps is False; set its takes_steps to True" in refused


def test_runs_of_one_model_are_distinguished_by_their_options():
    runs = [("lstm", 32, 0.1), ("lstm", 64, 0.1), ("rnn", 16, 0.2)]
    options = [{"model.name": model, "model.hidden": hidden, "optimizer.lr": lr} for model, hidden, lr in runs]
    names = {"model.name": "name", "model.hidden": "hidden", "optimizer.lr": "lr"}
    assert differing_options(options, "model.name", names) == ["hidden=32", "hidden=64", ""]
    tied = [{"model.name": "lstm", "model.tied": value} for value in (True, None)]
    assert differing_options(tied, "model.name", {"model.tied": "tied"}) == ["tied=true", "tied=null"]
