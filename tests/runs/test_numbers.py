"""A table of a run whose numbers are no probabilities."""

from pathlib import Path

from command_line import MODELS, QUICK, TEXT, command, edit

from lmzoo.commands import evaluate


def test_probabilities_above_one_are_reported(tmp_path: Path):
    run = tmp_path / "run"
    assert command(*TEXT, *QUICK, *MODELS["ngram"], f"run_dir={run}").code == 0
    edit(run / "best.pt", lambda saved: saved["model"].update(logprob=saved["model"]["logprob"] + 9))
    assert "the model gives a word the probability" in command(str(run), main=evaluate.main).refused()
