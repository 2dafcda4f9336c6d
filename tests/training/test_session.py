"""A run from its configuration to its results: what it measures, publishes, reports and refuses."""

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest
import torch
from command_line import MODELS, QUICK, SMALL, TEXT, configuration, stop_at, train
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from lmzoo.commands.evaluate import evaluate
from lmzoo.core.checksums import CHECKSUM
from lmzoo.core.errors import Interrupted, UserError
from lmzoo.corpus import Corpus, Vocabulary
from lmzoo.reports.board import Board
from lmzoo.training import language_models
from lmzoo.training.language_models import describe_corpus
from lmzoo.training.trainer import Trainer

CHECKS = [*SMALL, "trainer.checks_per_epoch=2"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    path = tmp_path_factory.mktemp("runs") / "lstm"
    return path, train(configuration(path, *CHECKS))


def test_results_say_what_was_measured(finished):
    path, results = finished
    assert {**results, CHECKSUM: ANY, "files": ANY} == json.loads((path / "results.json").read_text())
    assert results["model"] == "lstm"
    assert results["corpus"] == "markov"
    assert results["context"] == "stream"
    assert results["seed"] == 0
    assert results["device"] == "cpu"
    assert results["tokens"]["test"] >= 60
    assert results["parameters"] == 21 * 8 + 21 + 4 * 8 * (8 + 8) + 2 * 4 * 8
    assert results["perplexity"]["test"] > 0.9 * results["true_perplexity"]["test"] > 1
    progress = torch.load(path / "last.pt", weights_only=True)["progress"]
    assert results["seconds"] == round(progress["seconds"], 3) > progress["step_seconds"]
    assert results["tokens_per_second"] == round(progress["tokens"] / progress["step_seconds"], 1)


def test_the_best_weights_are_measured_and_not_the_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    take = Trainer._step

    def step(self: Trainer, *arguments: Any) -> dict[str, float]:
        metrics = take(self, *arguments)
        if self.progress.epoch == 2:  # the last epoch is sure of one word
            self.model.get_parameter("output.bias").data[1] = 20.0
        return metrics

    monkeypatch.setattr(Trainer, "_step", step)
    results = train(configuration(tmp_path / "run", *SMALL, "trainer.epochs=3"))
    events = EventAccumulator(str(tmp_path / "run"))
    events.Reload()
    checks = [point.value for point in events.Scalars("perplexity/valid")]
    assert checks[-1] > 1.01 * min(checks)
    assert results["perplexity"]["valid"] == pytest.approx(min(checks), rel=1e-5)
    assert evaluate(tmp_path / "run", "valid", device="cpu")["perplexity"] == pytest.approx(min(checks), rel=1e-5)


def test_figures_that_are_no_numbers_are_no_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(language_models, "text_logprobs", lambda *_: torch.full((60,), math.nan))
    with pytest.raises(UserError, match="the model's log-probabilities are not numbers"):
        train(configuration(tmp_path / "run", *SMALL))
    assert not (tmp_path / "run" / "results.json").exists()


def test_an_estimated_model_scores_each_split_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    score, scored = language_models.text_logprobs, []

    def scoring(model: Any, tokens: torch.Tensor, *arguments: Any) -> torch.Tensor:
        scored.append(len(tokens))
        return score(model, tokens, *arguments)

    monkeypatch.setattr(language_models, "text_logprobs", scoring)
    monkeypatch.setattr("lmzoo.protocol.perplexity.text_logprobs", scoring)
    results = train(configuration(tmp_path / "run", *TEXT, "model=ngram"))
    assert scored == [results["tokens"]["valid"], results["tokens"]["test"]]
    events = EventAccumulator(str(tmp_path / "run"))
    events.Reload()
    valid = results["perplexity"]["valid"]
    assert [point.value for point in events.Scalars("perplexity/valid")] == [pytest.approx(valid)]
    assert f"valid perplexity {valid:.2f}\n" in (tmp_path / "run" / "train.log").read_text()


def test_a_finished_run_is_reported_and_not_repeated(finished, capsys):
    path, results = finished
    before = (path / "last.pt").stat().st_mtime_ns
    assert train(configuration(path, *CHECKS)) == results
    assert (path / "last.pt").stat().st_mtime_ns == before
    assert "already finished" in capsys.readouterr().out


def test_the_log_ends_with_what_ended_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    config = configuration(tmp_path / "run", *SMALL)
    with monkeypatch.context() as patch:
        stop_at(patch, 3)
        with pytest.raises(Interrupted):
            train(config)
    log = (tmp_path / "run" / "train.log").read_text()
    assert log.endswith(" interrupted\n")
    train(config)
    assert (tmp_path / "run" / "train.log").read_text().startswith(log)


def test_bfloat16_is_for_models_that_allow_it(tmp_path: Path):
    exact = [*TEXT, *QUICK, "model=loglinear", "model.training=minibatch"]
    with pytest.raises(UserError, match=r"^trainer\.precision=bfloat16: the model supports only float32; set "):
        train(configuration(tmp_path / "exact", *exact, "trainer.precision=bfloat16"))
    assert not (tmp_path / "exact").exists()


def test_what_the_vocabulary_does_not_know_is_said():
    corpus = Corpus("two", "sentence", Vocabulary(["<eos>", "<unk>", "a"]), {}, {})
    corpus.splits["train"], corpus.splits["test"] = torch.tensor([2, 2, 0, 1]), torch.tensor([1, 1, 0])
    assert describe_corpus(corpus) == "4 tokens of 3 words; <unk> is 25.0% of train, 66.7% of test"


@pytest.mark.parametrize("deterministic", [True, False])
def test_algorithms_are_deterministic_where_that_is_asked_for(
    deterministic: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    seen, take = [], Trainer._step

    def step(self: Trainer, *arguments: Any) -> dict[str, float]:
        seen.append(torch.are_deterministic_algorithms_enabled())
        return take(self, *arguments)

    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # else the run would set it for all tests after this one
    monkeypatch.setattr(Trainer, "_step", step)
    torch.use_deterministic_algorithms(not deterministic)
    try:
        train(configuration(tmp_path / "run", *SMALL, f"deterministic={str(deterministic).lower()}"))
    finally:
        torch.use_deterministic_algorithms(False)
    assert set(seen) == {deterministic}


WITHOUT_SYMPY = pytest.mark.skipif(
    torch.__version__.startswith("2.6."), reason="PyTorch 2.6 itself imports sympy for operations on the device meta"
)


@WITHOUT_SYMPY
def test_a_model_that_takes_no_steps_imports_no_compiler(tmp_path: Path):
    code = "import sys, lmzoo; lmzoo.train(*sys.argv[1:]); print(*sys.modules)"
    options = [*TEXT, *MODELS["ngram"], f"run_dir={tmp_path / 'run'}"]
    done = subprocess.run([sys.executable, "-c", code, *options], capture_output=True, text=True, check=True)
    assert not {"torch._dynamo", "torch._inductor", "sympy"} & set(done.stdout.split())


@WITHOUT_SYMPY
def test_a_model_is_loaded_without_a_compiler(finished):
    code = "import sys, lmzoo; lmzoo.load(sys.argv[1]); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code, finished[0]], capture_output=True, text=True, check=True)
    assert not {"torch._dynamo", "torch._inductor", "sympy"} & set(done.stdout.split())


def test_what_a_run_shows_as_it_learns_is_drawn_in_its_context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    contexts, draw = [], language_models.sample
    monkeypatch.setattr(
        language_models,
        "sample",
        lambda *arguments, context: contexts.append(context) or draw(*arguments, context=context),
    )
    for context in ("sentence", "stream"):
        train(configuration(tmp_path / context, *TEXT, *QUICK, *MODELS["rnn"], f"corpus.context={context}"))
    assert contexts == ["sentence"] * 2 + ["stream"] * 2


class Killed(BaseException):
    """Nothing that runs after it may matter."""


def test_images_are_drawn_before_a_run_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    config = configuration(tmp_path / "run", *TEXT, *QUICK, *MODELS["vlhmm"])
    names, draw = [], Board.image

    def killed(*_: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Board, "image", killed)
        with pytest.raises(Killed):
            train(config)
    assert (tmp_path / "run" / "last.pt").exists()
    assert not (tmp_path / "run" / "results.json").exists()

    def image(self: Board, name: str, *arguments: Any) -> None:
        assert not (tmp_path / "run" / "results.json").exists()
        names.append(name)
        draw(self, name, *arguments)

    monkeypatch.setattr(Board, "image", image)
    train(config)
    events = EventAccumulator(str(tmp_path / "run"))
    events.Reload()
    assert names
    assert set(events.Tags()["images"]) == set(names)


@pytest.mark.parametrize(
    "option",
    ["trainer.epochs=1000000000000", "model.hidden=0", "optimizer.lr=-1", "schedule.warmup=-1", "model.name=lsmt"],
)
def test_bad_options_are_refused_before_the_corpus_is_read(
    option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(language_models, "load_corpus", lambda *_: pytest.fail("it was read"))
    with pytest.raises(UserError, match=option.partition("=")[0]):
        train(configuration(tmp_path / "run", *SMALL, option))
