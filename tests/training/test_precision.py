"""The type that a run is trained in: chosen where it begins, kept where it goes on."""

import json
from pathlib import Path

import pytest
import torch
from command_line import QUICK, SMALL, TEXT, configuration, stop_at
from omegaconf import OmegaConf
from torch import Tensor

from lmzoo.core.errors import Interrupted, UserError
from lmzoo.training import precision
from lmzoo.training.precision import faster_in_bfloat16
from lmzoo.training.session import train

CPU = torch.device("cpu")


def let_bfloat16_be_faster(patch: pytest.MonkeyPatch, faster: bool) -> None:
    patch.setattr(precision, "faster_in_bfloat16", lambda _: faster)


@pytest.mark.parametrize(("half", "faster"), [(40.0, False), (2.0, False), (0.9, False), (0.8, True), (0.05, True)])
def test_noise_does_not_decide(half: float, faster: bool, monkeypatch: pytest.MonkeyPatch):
    drawn = torch.Generator().manual_seed(0)

    def seconds(matrix: Tensor) -> float:
        disturbed = 20.0 if torch.rand((), generator=drawn) < 0.5 else 1.0
        return disturbed * (half if matrix.dtype == torch.bfloat16 else 1.0)

    monkeypatch.setattr(precision, "_seconds", seconds)
    assert faster_in_bfloat16.__wrapped__(CPU) == faster


def test_the_measurement_is_made_once():
    assert faster_in_bfloat16(CPU) == faster_in_bfloat16(CPU)
    assert faster_in_bfloat16.cache_info().hits > 0


@pytest.mark.parametrize(("faster", "chosen"), [(False, "float32"), (True, "bfloat16")])
def test_a_run_begins_in_the_faster_type_and_says_so(
    faster: bool, chosen: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    let_bfloat16_be_faster(monkeypatch, faster)
    results = train(configuration(tmp_path / "run", *SMALL))
    assert results["precision"] == chosen
    assert f"cpu in {chosen}: " in (tmp_path / "run" / "train.log").read_text()
    let_bfloat16_be_faster(monkeypatch, not faster)
    assert train(configuration(tmp_path / "run", *SMALL)) == results  # a finished run is reported
    other = {"float32": "bfloat16", "bfloat16": "float32"}[chosen]
    with pytest.raises(UserError, match=f"trainer.precision: {chosen} -> {other}"):
        train(configuration(tmp_path / "run", *SMALL, f"trainer.precision={other}"))


def test_a_run_goes_on_in_the_type_it_began_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    peace = train(configuration(tmp_path / "peace", *SMALL, "trainer.precision=bfloat16"))
    let_bfloat16_be_faster(monkeypatch, True)
    with monkeypatch.context() as patch:
        stop_at(patch, 3)
        with pytest.raises(Interrupted):
            train(configuration(tmp_path / "run", *SMALL))
    let_bfloat16_be_faster(monkeypatch, False)
    resumed = train(configuration(tmp_path / "run", *SMALL))
    assert resumed["precision"] == "bfloat16"
    assert resumed["perplexity"] == peace["perplexity"]


def test_a_damaged_type_is_told_in_one_line(tmp_path: Path):
    config = configuration(tmp_path / "run", *SMALL)
    broken = config | {"trainer": config["trainer"] | {"precision": "float7"}}
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.yaml").write_text(OmegaConf.to_yaml(OmegaConf.create(broken)))
    with pytest.raises(UserError, match=r"config\.yaml: trainer\.precision=float7: must be one of"):
        train(config)


def test_a_model_that_needs_float32_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    let_bfloat16_be_faster(monkeypatch, True)
    exact = [*TEXT, *QUICK, "model=loglinear", "model.training=minibatch"]
    train(configuration(tmp_path / "run", *exact))
    assert json.loads((tmp_path / "run" / "results.json").read_text())["precision"] == "float32"
    assert "precision" not in train(configuration(tmp_path / "counted", *TEXT, "model=ngram", "model.order=2",
                                                  "model.discount_fallback=true"))  # fmt: skip
