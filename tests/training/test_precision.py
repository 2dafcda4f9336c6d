"""The type that a run is trained in: chosen where it begins, kept where it goes on."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from command_line import MODELS, QUICK, SMALL, TEXT, configuration, edit, stop_at, train
from omegaconf import OmegaConf
from torch import Tensor

from lmzoo.core.errors import Interrupted, UserError
from lmzoo.training import trainer
from lmzoo.training.trainer import faster_in_bfloat16

CPU = torch.device("cpu")


def let_bfloat16_be_faster(patch: pytest.MonkeyPatch, faster: bool) -> None:
    patch.setattr(trainer, "faster_in_bfloat16", lambda _: faster)


@pytest.mark.parametrize(("half", "faster"), [(40.0, False), (2.0, False), (0.9, False), (0.8, True), (0.05, True)])
def test_noise_does_not_decide(half: float, faster: bool, monkeypatch: pytest.MonkeyPatch):
    drawn = torch.Generator().manual_seed(0)

    def seconds(matrix: Tensor) -> float:
        disturbed = 20.0 if torch.rand((), generator=drawn) < 0.5 else 1.0
        return disturbed * (half if matrix.dtype == torch.bfloat16 else 1.0)

    monkeypatch.setattr(trainer, "_seconds", seconds)
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


def test_a_damaged_type_is_reported_in_one_line(tmp_path: Path):
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


CELLS = {
    "rnn": [*MODELS["rnn"]],
    "gru": [*MODELS["gru"]],
    "lstm": [*MODELS["lstm"], "model.layers=2"],
    "stack": [*MODELS["lstm"], "model.weight_drop=0.2", "model.locked=true"],
    "lds_rnn": [*MODELS["lds_rnn"]],
}


def stopped(folder: Path, options: list[str]) -> dict[str, Any]:
    """The configuration of a run in bfloat16 that was stopped inside an epoch."""
    config = configuration(folder, *TEXT, *QUICK, *options, "trainer.precision=bfloat16")
    with pytest.MonkeyPatch.context() as patch:
        stop_at(patch, 3)
        with pytest.raises(Interrupted):
            train(config)
    return config


def kinds(run: Path) -> set[torch.dtype]:
    """The types of the numbers that a run carries from window to window."""
    state = torch.load(run / "last.pt", weights_only=True)["state"]
    return {part.dtype for part in state if part.is_floating_point()}


def save_state(run: Path, kind: torch.dtype) -> None:
    """Let the last checkpoint be one of a device whose cells compute in another type."""

    def change(saved: dict[str, Any]) -> None:
        saved["state"] = tuple(part.to(kind) if part.is_floating_point() else part for part in saved["state"])

    edit(run / "last.pt", change)


@pytest.fixture
def _with_bfloat16_cells(monkeypatch: pytest.MonkeyPatch):
    """Of the cells, PyTorch runs Elman's in bfloat16 on every CPU."""
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: True)


@pytest.mark.parametrize("cell", CELLS)
def test_cells_in_float32_go_on_from_a_state_in_bfloat16(cell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: False)
    same = train(stopped(tmp_path / "same", CELLS[cell]))
    config = stopped(tmp_path / "moved", CELLS[cell])
    save_state(tmp_path / "moved", torch.bfloat16)
    moved = train(config)
    assert kinds(tmp_path / "moved") == {torch.float32}
    assert moved["perplexity"] == pytest.approx(same["perplexity"], rel=1e-3)


@pytest.mark.usefixtures("_with_bfloat16_cells")
def test_cells_in_bfloat16_go_on_from_a_state_in_float32(tmp_path: Path):
    config = stopped(tmp_path / "moved", CELLS["rnn"])
    save_state(tmp_path / "moved", torch.float32)
    train(config)
    assert kinds(tmp_path / "moved") == {torch.bfloat16}


@pytest.mark.usefixtures("_with_bfloat16_cells")
def test_cells_in_bfloat16_go_on_to_the_bit(tmp_path: Path):
    config = stopped(tmp_path / "stopped", CELLS["rnn"])
    assert kinds(tmp_path / "stopped") == {torch.bfloat16}
    assert train(config)["perplexity"] == train(config | {"run_dir": str(tmp_path / "peace")})["perplexity"]
