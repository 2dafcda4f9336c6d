"""Weights of a run that have numbers or sizes that a model does not have."""

import functools
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from command_line import MODELS, QUICK, TEXT, command, edit, put

from lmzoo.commands import evaluate

CLASSES = ["model.embedding=8", "model.hidden=8", "model.classes=4"]
LOGLINEAR = ["model=loglinear", "model.order=2", "model.max_iterations=3", "model.templates=[c1]", "model.classes=4"]
MODEL_M = ["model=model_m", "model.order=2", "model.classes=4", "model.max_iterations=3"]
NUMBERED = {
    "cluster": (MODELS["vlhmm"], "cluster"),
    "class": (["model=gru", *CLASSES], "output.classes.word_class"),
    "loglinear": (LOGLINEAR, "word_class"),
    "model_m": (MODEL_M, "word_class"),
    "keys": (MODELS["ngram"], "keys"),
    "features": (LOGLINEAR, "exponential.pairs"),
    "places": (LOGLINEAR, "exponential.place"),
    "nodes": (LOGLINEAR, "exponential.nodes"),
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Sequence[str]], Path]:
    """A run with the given options, trained once."""

    @functools.cache
    def train(options: tuple[str, ...]) -> Path:
        folder = tmp_path_factory.mktemp("numbered") / "run"
        assert command(*TEXT, *QUICK, *options, f"run_dir={folder}").code == 0
        return folder

    return lambda options: train(tuple(options))


@pytest.fixture(scope="module", params=NUMBERED)
def numbered(request: pytest.FixtureRequest, trained: Callable[[Sequence[str]], Path]) -> tuple[Path, str]:
    """A trained run, and the name of a tensor whose numbers stand for something."""
    options, name = NUMBERED[request.param]
    return trained(options), name


CHANGES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "too high": lambda t: t + 10**6,
    "too low": lambda t: t - 10**6,
    "one": lambda t: torch.tensor(1),
    "a column": lambda t: t[:, None],
    "shorter": lambda t: t[1:],
    "fractions": lambda t: t + 0.5,
    "nan": lambda t: t * torch.nan,
    "complex": lambda t: t * 1j,
}


@pytest.mark.parametrize("change", CHANGES)
def test_numbers_that_a_model_does_not_have(numbered: tuple[Path, str], change: str, tmp_path: Path):
    folder, name = numbered
    run = Path(shutil.copytree(folder, tmp_path / "run"))
    edit(run / "best.pt", lambda saved: saved["model"].update({name: CHANGES[change](saved["model"][name])}))
    told = f"weights of {name} are no numbers (NaN)" if change == "nan" else "not this model's weights ("
    assert f"{run / 'best.pt'}: {told}" in command(str(run), main=evaluate.main).refused()


def test_keys_that_would_never_end(tmp_path: Path):
    """Each n-gram goes on from one that comes after it, so that no order is the last."""
    run = tmp_path / "run"
    assert command(*TEXT, *QUICK, *MODELS["ngram"], f"run_dir={run}").code == 0
    edit(run / "best.pt", lambda saved: saved["model"].update(keys=saved["model"]["keys"] + (1 << 40)))
    assert "the n-grams are in no order" in command(str(run), main=evaluate.main).refused()


def test_a_mixture_has_a_weight_for_each_model(runs: list[str], text: list[str], tmp_path: Path):
    run = tmp_path / "mixture"
    assert command(*text, *QUICK, "model=mixture", f"model.runs=[{','.join(runs)}]", f"run_dir={run}").code == 0
    edit(run / "best.pt", put("model", "weights", value=torch.ones(3) / 3))
    assert "best.pt: the mixture has 2 models and 3 weights" in command(str(run), main=evaluate.main).refused()
    edit(run / "best.pt", put("model", "_extra_state", value=[3, 3, 3]))
    assert "best.pt: the models that it is made of have no options" in command(str(run), main=evaluate.main).refused()


def test_probabilities_above_one_are_told(tmp_path: Path):
    run = tmp_path / "run"
    assert command(*TEXT, *QUICK, *MODELS["ngram"], f"run_dir={run}").code == 0
    edit(run / "best.pt", lambda saved: saved["model"].update(logprob=saved["model"]["logprob"] + 9))
    assert "the model gives a word the probability" in command(str(run), main=evaluate.main).refused()
