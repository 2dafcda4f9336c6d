"""Estimation that iterates is saved, and goes on bit for bit; what is saved of another estimation is refused."""

import os
import signal
from pathlib import Path

import pytest
import torch
from command_line import MODELS, QUICK, TEXT, command

from lmzoo.core.progress import Bar
from lmzoo.models.lds.estimation import fit
from lmzoo.numerics.owlqn import Search
from lmzoo.runs.checkpoint import read_checkpoint

OPTIONS = {
    "hmm": ["model=hmm", "model.states=4", "model.iterations=6"],
    "hmm then gradient": ["model=hmm", "model.states=4", "model.iterations=6", "model.gradient=true"],
    "lds": ["model=lds", "model.hidden=4", "model.iterations=6"],
    "lds_rnn": ["model=lds_rnn", "model.hidden=4", "model.iterations=6"],
    "loglinear": ["model=loglinear", "model.order=2", "model.tolerance=0"],
    "distillation": [
        "model=twolevel_hmm",
        "model.states=6",
        "model.clusters=3",
        "model.dim=8",
        "model.dropout=0.1",
        "model.distilled_from=encoder",
        "model.distillation_epochs=2",
    ],
    "model_m": ["model=model_m", "model.classes=3", "model.order=2"],
}
STOPPED = 3


def stop(patch: pytest.MonkeyPatch, at: int) -> None:
    """Send SIGTERM while an iteration of estimation is under way; Brown clusters have no iterations."""
    update, seen = Bar.update, []

    def watched(self: Bar, *notes: str, steps: int = 1) -> None:
        if self.unit == "iteration":
            seen.append(self)
            if len(seen) == at:
                os.kill(os.getpid(), signal.SIGTERM)
        update(self, *notes, steps=steps)

    patch.setattr(Bar, "update", watched)


def learnt(run: str) -> dict[str, torch.Tensor]:
    return read_checkpoint(Path(run, "best.pt"))["model"]


@pytest.mark.parametrize("name", OPTIONS)
def test_a_stopped_estimation_goes_on_to_the_same_weights(name: str, folder: Path):
    line = [*TEXT, *QUICK, *OPTIONS[name]]
    if name == "distillation":
        assert command(*TEXT, *QUICK, *MODELS["lstm"], "run_dir=encoder").code == 0
    assert command(*line, "run_dir=whole").code == 0
    with pytest.MonkeyPatch.context() as patch:
        stop(patch, STOPPED)
        stopped = command(*line, "run_dir=parts")
    assert stopped.code == 130, stopped
    assert "everything is saved" in stopped.err
    saved = read_checkpoint(Path("parts/last.pt"))["estimation"]
    assert [state["done"] for state in saved.values()] == [STOPPED]
    with pytest.MonkeyPatch.context() as patch:
        stop(patch, 1)  # twice in one estimation
        assert command(*line, "run_dir=parts").code == 130
    with pytest.MonkeyPatch.context() as patch:  # what comes before the iterations is not done again
        patch.setattr(fit, "identify", lambda *_: pytest.fail("it is identified again"))
        done = command(*line, "run_dir=parts")
    assert done.code == 0, done
    whole, parts = learnt("whole"), learnt("parts")
    assert whole.keys() == parts.keys()
    assert all(torch.equal(whole[key], parts[key]) for key in whole if isinstance(whole[key], torch.Tensor))


@pytest.mark.parametrize("name", ["loglinear", "model_m"])
def test_a_signal_in_the_iteration_that_converges_is_not_lost(name: str, folder: Path):
    line, take, taken = [*TEXT, *QUICK, *OPTIONS[name]], Search.step, []

    def step(self: Search) -> float | None:
        taken.append(self)
        if len(taken) == at:
            os.kill(os.getpid(), signal.SIGTERM)
        return take(self)

    at = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Search, "step", step)
        assert command(*line, "run_dir=whole").code == 0
        first = sum(search is taken[0] for search in taken)  # of model_m's two searches
        taken.clear()
        at = first
        assert command(*line, "run_dir=parts").code == 130
    assert command(*line, "run_dir=parts").code == 0
    whole, parts = learnt("whole"), learnt("parts")
    assert all(torch.equal(whole[key], parts[key]) for key in whole if isinstance(whole[key], torch.Tensor))
