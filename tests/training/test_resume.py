"""A run that was stopped or killed goes on as if nothing had happened: the same bits in the end."""

import contextlib
import io
import runpy
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pytest
import torch
from command_line import MODELS as SMALL_MODELS
from command_line import QUICK, ROOT, TEXT, configuration, edit, stop_at, train

from lmzoo.core.checksums import CHECKSUM
from lmzoo.core.errors import Interrupted
from lmzoo.core.files import atomic_stream
from lmzoo.models.ngram.ngram import NGram
from lmzoo.protocol.model import models
from lmzoo.runs import files
from lmzoo.runs.directory import Run
from lmzoo.training.trainer import Trainer

SCRIPT = runpy.run_path(str(ROOT / "scripts" / "checks" / "kill_resume.py"))
SCHEDULES = {
    "cosine": ["schedule=cosine", "schedule.warmup=3"],
    "averaged": ["schedule=constant", "trainer.average=tail", "trainer.average_after=1", "trainer.random_bptt=true"],
    "plateau": ["schedule=plateau", "optimizer=sgd", "optimizer.momentum=0.5", "trainer.checks_per_epoch=2"],
}


READERS = {"arpa", "mixture", "cache", "dynamic", "whole_sentence"}
"""Models that read what others wrote."""

MODELS = SMALL_MODELS | {
    "hmm": ["model=hmm", "model.states=8", "model.iterations=3"],
    "neural_hmm": ["model=neural_hmm", "model.states=24", "model.dim=8"],
    "twolevel_hmm": ["model=twolevel_hmm", "model.states=24", "model.clusters=6", "model.dim=8"],
    "lowrank_hmm": ["model=lowrank_hmm", "model.states=24", "model.clusters=6", "model.dim=8", "model.features=8"],
    "nnlm": ["model=nnlm", "model.embedding=8", "model.hidden=8"],
    "logbilinear": ["model=logbilinear", "model.embedding=8"],
    "model_m": ["model=model_m", "model.classes=8"],
}
LONGER = [*TEXT, *QUICK, "trainer.epochs=3", "trainer.bptt=25", "trainer.max_tokens=120"]


def state_of(run: Path) -> dict[str, Any]:
    """What two runs must agree in."""
    saved = {name: torch.load(run / name, weights_only=True) for name in ("last.pt", "best.pt")}
    return {"results": Run(run).results(), **{k: v | {"config": None, CHECKSUM: None} for k, v in saved.items()}}


def assert_same(run: Path, other: Path) -> None:
    differing = SCRIPT["differences"](state_of(run), state_of(other), "")
    assert not [name for name in differing if not name.endswith("tokens_per_second")], differing


@pytest.mark.parametrize(
    ("model", "context", "schedule"),  # every two of them meet
    [
        ("lstm", "stream", "cosine"),
        ("lstm", "sentence", "plateau"),
        ("lstm", "stream", "averaged"),
        ("vlhmm", "stream", "plateau"),
        ("vlhmm", "sentence", "cosine"),
    ],
)
def test_a_stopped_run_goes_on_exactly(model: str, context: str, schedule: str, tmp_path: Path):
    config = configuration(
        tmp_path / "peace", *LONGER, *MODELS[model], *SCHEDULES[schedule], f"corpus.context={context}"
    )
    train(config)
    stopped = config | {"run_dir": str(tmp_path / "stopped")}
    for step, number in ((3, signal.SIGTERM), (6, signal.SIGINT), (11, signal.SIGTERM)):
        with pytest.MonkeyPatch.context() as patch:
            stop_at(patch, step, number)
            with pytest.raises(Interrupted):
                train(stopped)
        assert torch.load(tmp_path / "stopped" / "last.pt", weights_only=True)["progress"]["step"] == step
    train(stopped)
    assert_same(tmp_path / "peace", tmp_path / "stopped")


GOING_ON = {"hmm", "lds", "lds_rnn", "loglinear", "lstm", "ngram", "vlhmm"}
"""A model of each way of learning; the others are slow."""


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name not in GOING_ON))
        for name in sorted(set(models.entries) - READERS)
    ],
)
def test_every_model_goes_on_exactly_from_where_it_was(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Compared with the run that it was a part of: two runs' estimates may differ in LAPACK's last bits."""
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"

    def step(self: Trainer, *arguments: Any) -> dict[str, float]:
        if self.progress.step == 5:
            self.save()
            shutil.copytree(whole, resumed)
        return take(self, *arguments)

    take = Trainer._step
    small = MODELS.get(model, [f"model={model}"])
    config = configuration(whole, *LONGER, "trainer.epochs=2", "corpus.words=60", "corpus.train=1000", *small)
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_step", step)
        train(config)
    if not resumed.exists():  # no gradient: a run can be killed only while it is measured
        shutil.copytree(whole, resumed)
        (resumed / "results.json").unlink()
    train(config | {"run_dir": str(resumed)})
    assert_same(whole, resumed)


class Killed(BaseException):
    """Nothing that runs after it may matter."""


def kill_at(patch: pytest.MonkeyPatch, number: int, after: bool) -> None:
    """Die in the middle of the ``number``-th file that is saved, or just after it."""
    saved = 0

    @contextlib.contextmanager
    def stream(path: Path) -> Iterator[BinaryIO]:
        nonlocal saved
        saved += 1
        if saved == number and not after:
            yield (half := io.BytesIO())
            path.with_name(f".{path.name}.0.part").write_bytes(half.getvalue()[: half.tell() // 2])
            raise Killed
        with atomic_stream(path) as whole:
            yield whole
        if saved == number:
            raise Killed

    patch.setattr(files, "atomic_stream", stream)


@pytest.fixture(scope="module")
def peace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nothing disturbed."""
    path = tmp_path_factory.mktemp("runs") / "peace"
    train(configuration(path, *LONGER, *MODELS["lstm"], *SCHEDULES["cosine"], "trainer.epochs=2"))
    return path


@pytest.mark.parametrize("after", [False, True])
def test_a_run_killed_at_any_file_goes_on_exactly(after: bool, peace: Path, tmp_path: Path):
    config = configuration(tmp_path, *LONGER, *MODELS["lstm"], *SCHEDULES["cosine"], "trainer.epochs=2")
    number = 1
    while True:
        run = tmp_path / f"killed at {number}"
        with pytest.MonkeyPatch.context() as patch:
            kill_at(patch, number, after)
            try:
                train(config | {"run_dir": str(run)})
                break
            except Killed:
                pass
        train(config | {"run_dir": str(run)})
        assert_same(peace, run)
        assert not list(run.glob(".*"))
        number += 1
    assert number > 8  # vocabulary, provenance, configuration, the start, two an epoch, results


def test_a_checkpoint_holds_the_state_and_not_the_text_it_is_a_view_of(tmp_path: Path):
    long = ["corpus.train=200000", "trainer.batch_size=200", "trainer.bptt=1000"]
    with pytest.MonkeyPatch.context() as patch:
        stop_at(patch, 1)
        with pytest.raises(Interrupted):
            train(configuration(tmp_path / "run", *LONGER, *MODELS["lstm"], *long))
    assert (tmp_path / "run" / "last.pt").stat().st_size < 200_000 * 8


def test_estimation_ends_at_once_and_is_begun_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    config = configuration(tmp_path / "run", *LONGER, "model=ngram")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's background jobs lack
    try:
        with monkeypatch.context() as patch:
            patch.setattr(NGram, "estimate", lambda *_: signal.raise_signal(signal.SIGINT))
            with pytest.raises(KeyboardInterrupt):
                train(config)
    finally:
        signal.signal(signal.SIGINT, before)
    changed = configuration(tmp_path / "run", *LONGER, "model=ngram", "model.order=2")
    assert train(changed)["perplexity"]["test"] < 20  # nothing stands in the way of another choice


@pytest.mark.slow
@pytest.mark.parametrize("model", ["lstm", "vlhmm"])
def test_a_run_killed_ten_times_ends_with_the_same_bits(model: str, tmp_path: Path):
    assert SCRIPT["kill_and_resume"](SCRIPT["TEXT"] + SCRIPT["MODELS"][model], 10, tmp_path) == []


def test_a_checkpoint_of_before_checks_were_kept_goes_on(tmp_path: Path):
    config = configuration(tmp_path / "run", *LONGER, *MODELS["lstm"])
    with pytest.MonkeyPatch.context() as patch:
        stop_at(patch, 8)
        with pytest.raises(Interrupted):
            train(config)

    def forget(saved: dict[str, Any]) -> None:
        for name in ("nats", "trained", "checks"):
            del saved["progress"][name]

    edit(tmp_path / "run" / "last.pt", forget)
    results = train(config)
    assert [check["epoch"] for check in results["checks"]] == [2, 3]
    assert 1 < results["checks"][0]["train"] < 50
