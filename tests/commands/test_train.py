"""Training end to end: what is learnt, from which seed, and how near it comes to the text's own model."""

from pathlib import Path

import pytest
import torch
from command_line import MODELS, configuration, train

from lmzoo.core.errors import UserError

TEXT = [
    "corpus=markov",
    "corpus.words=20",
    "corpus.states=4",
    "corpus.train=2000",
    "corpus.valid=300",
    "corpus.test=300",
]
QUICK = ["trainer.epochs=2", "trainer.batch_size=10", "trainer.bptt=5", "optimizer.lr=0.02", "device=cpu"]
LSTM = [*TEXT, *QUICK, "model=lstm", "model.embedding=8", "model.hidden=8"]


def test_training_learns_and_follows_the_seed(tmp_path: Path):
    seeds = {"first": 0, "again": 0, "other": 1}
    runs = {name: train(configuration(tmp_path / name, *LSTM, f"seed={seed}")) for name, seed in seeds.items()}
    assert runs["again"]["perplexity"] == runs["first"]["perplexity"]
    assert runs["other"]["perplexity"] != runs["first"]["perplexity"]
    assert runs["first"]["perplexity"]["valid"] < 15


def test_training_learns_in_bfloat16(tmp_path: Path):
    results = train(configuration(tmp_path / "run", *LSTM, "trainer.precision=bfloat16"))
    assert results["perplexity"]["valid"] < 15


@pytest.mark.parametrize("context", ["stream", "sentence"])
def test_counting_needs_no_gradient(context: str, tmp_path: Path):
    results = train(configuration(tmp_path / "run", *TEXT, *QUICK, *MODELS["ngram"], f"corpus.context={context}"))
    assert results["parameters"] > 0  # counts
    assert results["tokens_per_second"] > 0
    assert results["perplexity"]["test"] < 15


def test_weights_that_no_step_changes_are_on_the_disk_once(tmp_path: Path):
    run, config = tmp_path / "run", configuration(tmp_path / "run", *TEXT, *QUICK, *MODELS["ngram"])
    results = train(config)
    assert not {"model", "optimizer"} & torch.load(run / "last.pt", weights_only=True).keys()
    (run / "results.json").unlink()
    assert train(config)["perplexity"] == results["perplexity"]  # goes on with the weights of best.pt
    (run / "results.json").unlink()
    (run / "best.pt").unlink()
    with pytest.raises(UserError, match=r"best\.pt: is missing, and last\.pt has no weights"):
        train(config)
    assert not (run / "results.json").exists()


@pytest.mark.parametrize("model", ["hmm", "lstm"])
def test_a_debug_run_reads_the_beginning_of_every_split(model: str, tmp_path: Path):
    config = configuration(tmp_path / "whole", *TEXT, "device=cpu", f"model={model}", "trainer=debug")
    assert config["trainer"]["first_tokens"] == 20_000
    config["trainer"]["first_tokens"] = 100
    results = train(config)
    assert all(0 < results["tokens"][split] <= 100 for split in ("valid", "test"))
    progress = torch.load(tmp_path / "whole" / "last.pt", weights_only=True)["progress"]
    assert 0 < progress["tokens"] <= 100
    assert "true_perplexity" not in results


@pytest.mark.slow
def test_a_vlhmm_comes_within_3_percent_of_the_text_s_own_model(tmp_path: Path):
    results = train(configuration(tmp_path / "run", "experiment=vlhmm_markov", "device=cpu"))
    assert 0.99 < results["perplexity"]["test"] / results["true_perplexity"]["test"] < 1.03
