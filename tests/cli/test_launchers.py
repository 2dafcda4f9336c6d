"""Hydra's own launchers and its sweeper by Optuna do a sweep of ours; the extra ``sweep`` installs them."""

import csv
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from command_line import ROOT, TEXT, command
from joblib import cpu_count

from lmzoo.commands import compare, label
from lmzoo.core.configs import CONFIGS

NGRAM = [*TEXT, "model=ngram", "model.order=2", "model.discount_fallback=true"]


def table(folder: Path) -> list[dict[str, str]]:
    """The runs as ``lmzoo compare`` writes them."""
    file = folder / "table.csv"
    assert command(str(folder / "outputs/markov"), "--seeds", "--csv", str(file), main=compare.main).code == 0
    return list(csv.DictReader(file.read_text().splitlines()))


def sweep(folder: Path, *arguments: str) -> tuple[list[dict[str, str]], str]:
    """The runs of a sweep, and what it prints."""
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    environment["PYTHONPATH"] = str(ROOT)
    done = subprocess.run(
        [sys.executable, "-m", "lmzoo.train", "-m", *NGRAM, *arguments],
        capture_output=True, text=True, timeout=300, check=False, cwd=folder, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done
    assert not list(folder.glob(".sweep*"))
    return table(folder), done.stdout


@pytest.mark.parametrize(
    ("launcher", "options", "threads"),
    [
        ("local", ["n_jobs=2"], max(1, cpu_count() // 2)),
        pytest.param("submitit_local", ["timeout_min=5", "cpus_per_task=3"], 3, marks=pytest.mark.slow),
    ],
)
def test_a_launcher_does_two_runs_that_keep_to_their_threads(
    launcher: str, options: list[str], threads: int, tmp_path: Path
):
    plugin = {"local": "joblib", "submitit_local": "submitit"}[launcher]
    pytest.importorskip(f"hydra_plugins.hydra_{plugin}_launcher")
    given = [f"hydra.launcher.{option}" for option in options]
    runs, out = sweep(tmp_path, "model.unknown=false,true", f"hydra/launcher={launcher}", *given)
    assert sorted(line["model.unknown"] for line in runs) == ["false", "true"]
    assert out.count("\nmarkov, context stream, 21 words\n") == 1  # one table
    for line in runs:
        (start,) = json.loads((tmp_path / line["run"] / "provenance.json").read_text())
        assert start["machine"]["threads"] == threads


@pytest.mark.filterwarnings("ignore")  # those of Optuna are no faults of ours
def test_a_search_follows_valid_perplexity_and_finds_its_runs_again(folder: Path):
    pytest.importorskip("hydra_plugins.hydra_optuna_sweeper")
    options = ["hydra/sweeper=search", "hydra.sweeper.n_trials=2", "model.smoothing=additive",
               "model.pseudocount=interval(0.01,1)"]  # fmt: skip
    first = command("-m", *NGRAM, *options)
    rows = table(folder)
    best = yaml.safe_load((folder / "outputs/optimization_results.yaml").read_text())
    assert best["best_value"] == min(float(line["valid"]) for line in rows) < float(rows[1]["valid"])
    again = command("-m", *NGRAM, *options)
    assert first.code == again.code == 0
    assert table(folder) == rows
    assert again.out.count("already finished") == 2


@pytest.mark.filterwarnings("ignore")
def test_a_search_whose_runs_fail_says_so_once(folder: Path):
    pytest.importorskip("hydra_plugins.hydra_optuna_sweeper")
    search = ["-m", "hydra/sweeper=search", "hydra.sweeper.n_trials=2"]
    failed = command(*search, *NGRAM, "model.pseudocount=interval(-2,-1)")
    assert failed.err.count("failed: model.pseudocount=") == 2
    assert failed.err.splitlines()[-1] == "error: the search has no best run, as all its runs failed"
    assert "float-castable" not in failed.err + failed.out
    (folder / "labels").write_text("a\tx y\nb\ty z\n")
    files = ["task=classify", "task.train=labels", "task.test=labels"]
    blind = command(*search, *files, "labeller=nbsvm", "seed=range(0,3)", main=label.main).refused()
    assert ": has neither a figure on valid nor a loss, by which a search chooses; name a valid text" in blind


@pytest.mark.parametrize("preset", ["launcher/local", "launcher/slurm", "sweeper/search"])
def test_a_preset_names_options_of_its_plugin(preset: str):
    """Hydra refuses an option that the plugin does not have; without the plugin, a line says how to get it."""
    group, name = preset.split("/")
    plugin = {"local": "joblib_launcher", "slurm": "submitit_launcher", "search": "optuna_sweeper"}[name]
    arguments = [f"hydra/{group}={name}", "--cfg", "hydra", "-p", f"hydra.{group}"]
    if importlib.util.find_spec("hydra_plugins") and importlib.util.find_spec(f"hydra_plugins.hydra_{plugin}"):
        ours = yaml.safe_load((CONFIGS / "hydra" / f"{preset}.yaml").read_text())
        shown = yaml.safe_load(command(*arguments).out)
        assert {key: shown[key] for key in ours if key not in ("defaults", "sampler")}.items() <= ours.items()
    else:
        missing = {"local": "joblib", "slurm": "submitit_slurm", "search": "optuna"}[name]
        assert command(*arguments).refused() == (
            f"error: In 'hydra/{preset}': Could not load 'hydra/{group}/{missing}'; "
            "other launchers and sweepers come with pip install 'lmzoo-torch[sweep]'"
        )
