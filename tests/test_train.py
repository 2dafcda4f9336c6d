"""The front door end to end on a small text: what a run leaves behind and what reads it."""

import json
import math
from collections.abc import Sequence

import pytest
import torch
from command_line import stop_at
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import lmzoo
from lmzoo.core.configs import CONFIGS
from lmzoo.core.errors import Interrupted, UserError
from lmzoo.corpus import Corpus, Vocabulary
from lmzoo.evaluate import evaluate, main
from lmzoo.models.neural import recurrent
from lmzoo.runs.directory import Run
from lmzoo.runs.settings import run_name
from lmzoo.training.optimization import optimizers, schedules
from lmzoo.training.session import described, train

TEXT = [
    "corpus=markov",
    "corpus.words=20",
    "corpus.states=4",
    "corpus.train=2000",
    "corpus.valid=300",
    "corpus.test=300",
]
QUICK = ["trainer.epochs=2", "trainer.batch_size=10", "trainer.bptt=5", "optimizer.lr=0.02", "device=cpu"]
LSTM = ["model=lstm", "model.embedding=8", "model.hidden=8"]


def configuration(run_dir, *overrides: str, model: Sequence[str] = LSTM) -> dict:
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        config = compose("train", [*TEXT, *QUICK, *model, f"run_dir={run_dir}", *overrides])
    return OmegaConf.to_container(config, resolve=True)  # pyright: ignore[reportReturnType]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory):
    path = tmp_path_factory.mktemp("runs") / "lstm"
    return path, train(configuration(path, "trainer.checks_per_epoch=2"))


def test_results_say_what_was_measured(finished):
    path, results = finished
    assert json.loads((path / "results.json").read_text()) == results
    assert results["model"] == "lstm"
    assert results["corpus"] == "markov"
    assert results["context"] == "stream"
    assert results["seed"] == 0
    assert results["device"] == "cpu"
    assert results["tokens"]["test"] >= 300
    assert results["parameters"] == 21 * 8 + 21 + 4 * 8 * (8 + 8) + 2 * 4 * 8
    assert results["tokens_per_second"] * results["seconds"] > 2 * 2000
    assert results["perplexity"]["test"] > 0.9 * results["true_perplexity"]["test"] > 1


def test_provenance_says_where_it_came_from(finished):
    path, _ = finished
    (entry,) = json.loads((path / "provenance.json").read_text())
    assert {"time", "argv", "git", "versions", "machine", "corpus"} <= set(entry)
    assert entry["versions"]["torch"] == torch.__version__
    assert set(entry["corpus"]["sha256"]) == {"train", "valid", "test"}


def test_tensorboard_has_one_tag_for_all_models(finished):
    path, results = finished
    events = EventAccumulator(str(path))
    events.Reload()
    scalars = set(events.Tags()["scalars"])
    assert {"perplexity/valid", "perplexity/train", "train/learning_rate", "train/gradient_norm"} <= scalars
    assert "train/tokens_per_second" in scalars
    valid = events.Scalars("perplexity/valid")
    assert len(valid) == 4
    assert [point.step for point in valid] == sorted(point.step for point in valid)
    assert 4000 <= valid[-1].step < 4100
    assert min(point.value for point in valid) == pytest.approx(results["perplexity"]["valid"], rel=1e-5)
    assert events.Scalars("final/test")[0].value == pytest.approx(results["perplexity"]["test"], rel=1e-5)
    assert "sample/text_summary" in events.Tags()["tensors"]
    assert any("hparams" in str(tag) for tag in events.summary_metadata)


def test_the_best_weights_are_the_ones_reported(finished):
    path, results = finished
    assert evaluate(path, "test", device="cpu")["perplexity"] == pytest.approx(results["perplexity"]["test"], rel=1e-6)
    model, vocabulary = lmzoo.load(path)
    assert not model.training
    assert len(vocabulary) == 21


def test_a_file_is_evaluated_with_the_run_s_vocabulary(finished, tmp_path):
    path, results = finished
    _, vocabulary = lmzoo.load(path)
    corpus_text = tmp_path / "text.txt"
    split = Run(path).corpus().splits["test"]
    corpus_text.write_text(vocabulary.decode(split.tolist()).replace(" <eos>", "").replace("<eos>", ""))
    figures = evaluate(path, str(corpus_text), device="cpu")
    assert figures["tokens"] == results["tokens"]["test"]
    assert figures["perplexity"] == pytest.approx(results["perplexity"]["test"], rel=1e-6)
    corpus_text.write_text("w1 nonsense\n")
    with pytest.raises(UserError, match="'nonsense' is not in the vocabulary"):
        evaluate(path, str(corpus_text), device="cpu")


def test_every_line_has_its_own_score(finished, tmp_path, monkeypatch, capsys):
    path, _ = finished
    file = tmp_path / "text.txt"
    file.write_text("w1 w2  w3\n\nw4\n")
    figures = evaluate(path, str(file), "sentence", "cpu", lines=True)
    alone = []
    for row in ("w1 w2 w3", "w4"):
        (tmp_path / "alone.txt").write_text(f"{row}\n")
        alone.append(evaluate(path, str(tmp_path / "alone.txt"), "sentence", "cpu")["logprob"])
    assert [line["text"] for line in figures["lines"]] == ["w1 w2 w3", "", "w4"]
    assert [line["tokens"] for line in figures["lines"]] == [4, 1, 2]
    assert [line["logprob"] for line in figures["lines"] if line["text"]] == pytest.approx(alone, rel=1e-6)
    assert sum(line["logprob"] for line in figures["lines"]) == pytest.approx(figures["logprob"], rel=1e-9)
    monkeypatch.setattr("sys.argv", ["evaluate", str(path), str(file), "--context", "sentence", "--lines"])
    assert main() == 0
    printed = capsys.readouterr()
    rows = printed.out.splitlines()
    assert rows[2] == f"{figures['lines'][2]['logprob']:.4f}\t2\tw4"
    assert len(rows) == 3
    assert printed.err.startswith("lstm on ")


def test_a_finished_run_is_reported_and_not_repeated(finished, capsys):
    path, results = finished
    before = (path / "last.pt").stat().st_mtime_ns
    assert train(configuration(path, "trainer.checks_per_epoch=2")) == results
    assert (path / "last.pt").stat().st_mtime_ns == before
    assert "already finished" in capsys.readouterr().out


def test_training_learns_and_follows_the_seed(finished, tmp_path):
    _, first = finished
    again = train(configuration(tmp_path / "again", "trainer.checks_per_epoch=2"))
    other = train(configuration(tmp_path / "other", "trainer.checks_per_epoch=2", "seed=1"))
    assert again["perplexity"] == first["perplexity"]
    assert other["perplexity"] != first["perplexity"]
    assert first["perplexity"]["valid"] < 15


def test_early_stopping_counts_checks_without_a_better_one(tmp_path):
    overrides = ["trainer.patience=2", "trainer.epochs=50", "optimizer.lr=0", "schedule=constant"]
    train(configuration(tmp_path / "run", *overrides))
    saved = torch.load(tmp_path / "run" / "last.pt", weights_only=True)["progress"]
    assert saved["epoch"] == 3  # the first check is the best, then two that are not better
    assert saved["finished"]


def test_a_gradient_that_is_not_finite_stops_before_the_step(tmp_path, monkeypatch):
    def poisoned(self):
        return (next(self.parameters()) * math.inf).sum()

    monkeypatch.setattr(recurrent.LSTM, "penalty", poisoned)
    with pytest.raises(UserError, match=r"the gradient is (nan|inf) at step 1; the last good checkpoint is .*last\.pt"):
        train(configuration(tmp_path / "run"))
    saved = torch.load(tmp_path / "run" / "last.pt", weights_only=True)
    assert saved["progress"]["step"] == 0
    assert all(torch.isfinite(weight).all() for weight in saved["model"].values())


def test_a_loss_that_is_not_finite_stops_before_the_step(tmp_path, monkeypatch):
    forward = recurrent.LSTM.forward

    def poisoned(self, tokens, state):
        logprobs, state = forward(self, tokens, state)
        return logprobs * math.inf, state

    monkeypatch.setattr(recurrent.LSTM, "forward", poisoned)
    with pytest.raises(UserError, match=r"the loss is inf at step 1; the last good checkpoint is .*last\.pt"):
        train(configuration(tmp_path / "run"))


def test_weights_that_a_step_ruined_are_not_saved(tmp_path):
    ruinous = ["optimizer=sgd", "optimizer.lr=1e30", "schedule=constant", "trainer.clip=null", "trainer.bptt=500"]
    with pytest.raises(UserError, match=r"validation perplexity is (nan|inf) at step 1; the last good checkpoint"):
        train(configuration(tmp_path / "run", *ruinous))
    saved = torch.load(tmp_path / "run" / "last.pt", weights_only=True)
    assert saved["progress"]["step"] == 0


def test_bfloat16_is_for_models_that_allow_it(tmp_path):
    assert train(configuration(tmp_path / "run", "trainer.precision=bfloat16"))["perplexity"]["valid"] < 15
    exact = ["model=loglinear", "model.training=minibatch"]
    with pytest.raises(UserError, match=r"trainer\.precision=bfloat16"):
        train(configuration(tmp_path / "exact", "trainer.precision=bfloat16", model=exact))
    assert not (tmp_path / "exact").exists()


@pytest.mark.parametrize("context", ["stream", "sentence"])
def test_counting_needs_no_gradient(tmp_path, context: str):
    ngram = ["model=ngram", "model.order=2", f"corpus.context={context}"]
    results = train(configuration(tmp_path / "run", model=ngram))
    assert results["parameters"] == 0
    assert results["perplexity"]["test"] < 15
    assert not torch.load(tmp_path / "run" / "last.pt", weights_only=True).get("optimizer")


def rates(schedule: dict, steps: int = 12, steps_per_epoch: int = 3) -> list[float]:
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = optimizers.build({"name": "sgd", "lr": 2.0, "momentum": 0.0, "weight_decay": 0.0}, parameters=[weight])
    plan = schedules.build(schedule, optimizer=optimizer, steps_per_epoch=steps_per_epoch, steps=steps)
    seen = []
    for _ in range(steps):
        seen.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        plan.step()
    return seen


def test_what_the_vocabulary_does_not_know_is_said():
    corpus = Corpus("two", "sentence", Vocabulary(["<eos>", "<unk>", "a"]), {}, {})
    corpus.splits["train"], corpus.splits["test"] = torch.tensor([2, 2, 0, 1]), torch.tensor([1, 1, 0])
    assert described(corpus) == "4 tokens of 3 words; <unk> is 25.0% of train, 66.7% of test"


def test_an_unfinished_run_is_evaluated_and_called_so(tmp_path, monkeypatch, capsys):
    with monkeypatch.context() as patch:
        stop_at(patch, 70)
        with pytest.raises(Interrupted):
            train(configuration(tmp_path / "run"))
    assert (tmp_path / "run" / "train.log").read_text().endswith(" interrupted\n")
    monkeypatch.setattr("sys.argv", ["evaluate", str(tmp_path / "run"), "valid"])
    assert main() == 0
    assert (
        capsys.readouterr().err == f"{tmp_path}/run: its training is not finished; these are the best weights so far\n"
    )


def test_schedules_by_hand():
    assert rates({"name": "constant", "warmup": 0}) == [2.0] * 12
    assert rates({"name": "constant", "warmup": 3})[:5] == [0.5, 1.0, 1.5, 2.0, 2.0]
    assert rates({"name": "step", "hold_epochs": 2, "factor": 0.5}) == [2.0] * 6 + [1.0] * 3 + [0.5] * 3
    cosine = rates({"name": "cosine", "warmup": 0, "floor": 0.0})
    assert cosine == pytest.approx([1 + math.cos(math.pi * step / 12) for step in range(12)])
    assert rates({"name": "cosine", "warmup": 0, "floor": 0.5})[6] == pytest.approx(1.5)


def test_run_names_are_short_and_fit_for_a_file_system():
    assert run_name([]) == ""
    assert run_name(["seed=3", "optimizer.lr=0.1"]) == ",optimizer.lr=0.1,seed=3"
    assert run_name(["model=lstm", "seed=3", "corpus=ptb", "device=cpu", "trainer.checkpoint_seconds=9"]) == ",seed=3"
    assert run_name(["model.tied=True", "seed=3", "a=False"]) == run_name(["model.tied=true", "seed=3", "a=false"])
    assert run_name(["corpus.train=Truest"]) == ",corpus.train=Truest"
    assert "/" not in run_name(["corpus.train=/a/b.txt"])
    long = run_name(["corpus.train=" + "x" * 300])
    assert len(long) <= 100
    assert long != run_name(["corpus.train=" + "x" * 301])


@pytest.mark.slow
def test_a_vlhmm_comes_within_3_percent_of_the_text_s_own_model(tmp_path):
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        config = compose("train", ["experiment=vlhmm_markov", "device=cpu", f"run_dir={tmp_path}/run"])
    results = train(OmegaConf.to_container(config, resolve=True))  # pyright: ignore[reportArgumentType]
    assert 0.99 < results["perplexity"]["test"] / results["true_perplexity"]["test"] < 1.03


def test_an_impossible_token_makes_perplexity_infinite_and_is_counted(tmp_path, capsys, monkeypatch):
    results = train(configuration(tmp_path / "run", model=["model=ngram", "model.smoothing=mle", "model.order=4"]))
    assert results["perplexity"]["test"] is None
    assert 0 < results["impossible_tokens"]["test"] < results["tokens"]["test"]
    assert "Infinity" not in (tmp_path / "run" / "results.json").read_text()
    assert "test perplexity inf" in capsys.readouterr().out
    monkeypatch.setattr("sys.argv", ["evaluate", str(tmp_path / "run"), "--json"])
    assert main() == 0
    printed = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert printed["perplexity"] is None
    assert printed["impossible"] == results["impossible_tokens"]["test"]
    monkeypatch.setattr("sys.argv", ["evaluate", str(tmp_path / "run"), "--json", "--lines"])
    assert main() == 0
    lines = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)["lines"]
    assert None in {line["logprob"] for line in lines}
    assert sum(line["tokens"] for line in lines) == results["tokens"]["test"]
