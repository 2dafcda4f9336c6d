"""Hydra's own launchers and its sweeper by Optuna do a sweep of ours; the extra ``sweep`` installs them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import ROOT, TEXT

NGRAM = [*TEXT, "model=ngram", "model.order=2", "model.discount_fallback=true"]


def sweep(folder: Path, *arguments: str) -> str:
    """What a sweep of two runs prints."""
    done = subprocess.run(
        [sys.executable, "-m", "lmzoo.train", "-m", *NGRAM, *arguments],
        capture_output=True, text=True, timeout=300, check=False, cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done
    assert len(list((folder / "outputs/markov").glob("*/results.json"))) == 2
    return (folder / "outputs/markov/sweep.csv").read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("launcher", "options"), [("joblib", ["n_jobs=2"]), ("submitit_local", ["timeout_min=5", "cpus_per_task=1"])]
)
def test_a_launcher_does_two_runs(launcher: str, options: list[str], tmp_path: Path):
    pytest.importorskip(f"hydra_plugins.hydra_{launcher.partition('_')[0]}_launcher")
    given = [f"hydra.launcher.{option}" for option in options]
    assert sweep(tmp_path, "seed=0,1", f"hydra/launcher={launcher}", *given).count("\n") == 3


@pytest.mark.slow
def test_optuna_searches_by_valid_perplexity(tmp_path: Path):
    pytest.importorskip("hydra_plugins.hydra_optuna_sweeper")
    options = ["hydra/sweeper=optuna", "hydra.sweeper.n_trials=2", "hydra.sweeper.n_jobs=1"]
    sweep(tmp_path, *options, "model.smoothing=choice(additive)", "model.pseudocount=interval(0.01,1)")
