"""A run from its configuration to its results: prepare, fit, measure, publish."""

import contextlib
import logging
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from lmzoo.core import ranks
from lmzoo.core.errors import UserError, printable
from lmzoo.core.options import Seed, call, check, sources
from lmzoo.core.plugins import load_plugins
from lmzoo.core.registry import models
from lmzoo.corpus import Corpus
from lmzoo.corpus.vocabulary import UNK
from lmzoo.protocol.model import LanguageModel, learnt_numbers
from lmzoo.protocol.partition import HasLogZ, estimated
from lmzoo.protocol.perplexity import Score, fault, score, text_logprobs
from lmzoo.protocol.sampling import sample
from lmzoo.runs.board import Board
from lmzoo.runs.device import resolve_device
from lmzoo.runs.directory import Run, configured_corpus
from lmzoo.runs.loading import build_model
from lmzoo.runs.log import log_warnings, logging_to
from lmzoo.runs.provenance import origins
from lmzoo.runs.results import finite, summary
from lmzoo.training.optimization import optimizers, schedules
from lmzoo.training.options import TrainerOptions
from lmzoo.training.progress import Progress
from lmzoo.training.trainer import Trainer

log = logging.getLogger(__name__)

SAMPLE_TOKENS = 60
STEPS_PER_POINT = 10
"""Training scalars go to TensorBoard once in so many steps."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What ``configs/train.yaml`` sets; see the comments there."""

    seed: Seed
    device: str
    deterministic: bool
    run_dir: str
    plugins: list[str]
    corpus: dict
    model: dict
    optimizer: dict
    schedule: dict
    trainer: dict


def train(config: Mapping[str, Any], told: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Do the run that a resolved configuration describes, or go on with it. A finished run is only reported.

    Args:
        told: the options that tell the run from others, which TensorBoard shows; see `lmzoo.runs.naming.telling`.

    Returns: the contents of ``results.json``.

    Raises: UserError for a mistake in the configuration or its surroundings. Interrupted after SIGINT or SIGTERM once
        estimation is over; before that there is nothing to save, and the signals act as in any program.
    """
    settings: Settings = call(Settings, config, "")
    with ranks.joined():
        return _train(settings, config, told or {})


def _train(settings: Settings, config: Mapping[str, Any], told: Mapping[str, Any]) -> dict[str, Any]:
    run = Run(Path(settings.run_dir))
    run.check(config)
    _check_options(settings)
    corpus = configured_corpus(config)
    named = models.sources(settings.model) | sources(TrainerOptions, settings.trainer, "trainer.")
    made_from = origins(named, corpus.vocabulary.form.unit)
    run.check_text(corpus)
    run.check_made_from(made_from)
    if results := run.results():
        return _report_finished(run, results)
    board = Board(run.path)
    trainer = _prepare(settings, corpus, run, board)
    config = {**config, "trainer": {**config["trainer"], "precision": trainer.options.precision}}
    if not ranks.first():
        trainer.restore()
        _require_same(trainer, config)
        return _work(trainer, settings, told, board)
    with run.alone():
        run.check(config)  # again, as another process may have worked here since
        run.check_text(corpus)
        run.check_made_from(made_from)
        if results := run.results():
            return _report_finished(run, results)
        trainer.restore()
        _require_same(trainer, config)
        run.begin(config, corpus, made_from)
        with logging_to(run.path / "train.log"), contextlib.closing(board):
            results = _work(trainer, settings, told, board)
    print(summary(results))
    return results


def _require_same(trainer: Trainer, config: Mapping[str, Any]) -> None:
    """Raise a UserError where the ranks do not work on the same run."""
    ranks.require_same("configuration", config)
    ranks.require_same("text", trainer.corpus.sha256)
    ranks.require_same("checkpoint", trainer.progress.step)


def _check_options(settings: Settings) -> None:
    """Find bad options before a corpus is read, which may take long; `_prepare` finds those that depend on it."""
    check(TrainerOptions, settings.trainer, "trainer.")
    load_plugins(settings.plugins)
    models.check(settings.model, "vocabulary_size")
    begun, others = settings.trainer["from"], models.sources(settings.model)
    if begun is not None and others:
        option = next(iter(others))
        raise UserError(f"trainer.from={begun}: is where the model starts, and so is {option}", "leave one out")
    optimizers.check(settings.optimizer, "parameters")
    schedules.check(settings.schedule, "optimizer", "steps_per_epoch", "steps")


def _work(trainer: Trainer, settings: Settings, told: Mapping[str, Any], board: Board) -> dict[str, Any]:
    """Fit, measure, publish."""
    model, corpus, run = trainer.model, trainer.corpus, trainer.run
    device = f"{model.device}" if trainer.descent is None else f"{model.device} in {trainer.options.precision}"
    log.info("%s on %s, context %s, %s: %s", settings.model["name"], corpus.name, corpus.context, device, run.path)
    log.info("%s", described(corpus))
    log_warnings(corpus.warnings)
    trainer.fit()
    ranks.agreed("the best weights are written")
    best = None if trainer.descent is None else run.restore("best.pt", model.device, "model")
    if best is not None:
        run.load_weights(model, best, "best.pt")
    results = {**_measure(model, corpus, trainer.progress), "model": settings.model["name"], "seed": settings.seed}
    if trainer.descent is not None:
        results["precision"] = trainer.options.precision
    if ranks.first():
        _publish(results, told, model, corpus, trainer.progress.tokens, board)
        run.finish(results)
    return results


def _prepare(settings: Settings, corpus: Corpus, run: Run, board: Board) -> Trainer:
    """Build the model and its trainer. Every bad option is found here, before a file of the run is written."""
    device = resolve_device(settings.device)
    options = call(TrainerOptions, settings.trainer, "trainer.")
    if settings.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # CUDA refuses to be deterministic without
    if settings.deterministic != torch.are_deterministic_algorithms_enabled():  # setting it imports a compiler, 1.3 s
        torch.use_deterministic_algorithms(settings.deterministic)
    torch.manual_seed(settings.seed)
    model = build_model({"model": settings.model, "plugins": settings.plugins}, corpus.vocabulary).to(device)

    def observe(progress: Progress, metrics: dict[str, float]) -> None:
        if not ranks.first():
            return
        if "perplexity/valid" in metrics:
            log.info("%s tokens, %.0f s: valid perplexity %.2f",
                     f"{progress.tokens:,}", progress.seconds, metrics["perplexity/valid"])  # fmt: skip
            with contextlib.suppress(UserError):  # some n-gram models cannot be drawn from
                drawn = sample(model, SAMPLE_TOKENS, settings.seed, context=corpus.context)
                board.text("sample", corpus.vocabulary.decode(drawn.tokens[0].tolist()), progress.tokens)
        if "perplexity/valid" in metrics or progress.step % STEPS_PER_POINT == 0:
            board.scalars(metrics, progress.tokens)

    return Trainer(
        model, corpus, run, options,
        optimizer=settings.optimizer, schedule=settings.schedule, seed=settings.seed, observe=observe,
    )  # fmt: skip


def described(corpus: Corpus) -> str:
    """The size of a text, and the share of `<unk>` in it: the larger that share, the lower perplexity is."""
    told = f"{len(corpus.splits['train']):,} tokens of {len(corpus.vocabulary):,} words"
    unknown = corpus.vocabulary.index.get(UNK)
    if unknown is None:
        return told
    shares = [f"{100 * int((tokens == unknown).sum()) / len(tokens):.1f}% of {name}"
              for name, tokens in corpus.splits.items()]  # fmt: skip
    return f"{told}; {UNK} is {', '.join(shares)}"


def _report_finished(run: Run, results: dict[str, Any]) -> dict[str, Any]:
    if ranks.first():
        print(f"already finished: {printable(str(run.path))}\n{summary(results)}")
    return results


def _measure(model: LanguageModel, corpus: Corpus, progress: Progress) -> dict[str, Any]:
    """The figures of a trained model."""
    scores = {}
    for split in ("valid", "test"):
        if split in corpus.splits:
            logprobs = text_logprobs(model, corpus.splits[split], corpus.context, corpus.conditions.get(split))
            if problem := fault(logprobs):
                raise UserError(problem, "choose other options and another run_dir")
            scores[split] = Score.of(logprobs)
    figures: dict[str, Any] = {
        "corpus": corpus.name,
        "context": corpus.context,
        "parameters": learnt_numbers(model),
        "perplexity": {split: finite(measured.perplexity) for split, measured in scores.items()},
        "tokens": {split: measured.tokens for split, measured in scores.items()},
        "train_perplexity": progress.checks[-1]["train"] if progress.checks else None,
        "best_epoch": progress.best_epoch,
        "checks": progress.checks,
        "seconds": round(progress.seconds, 3),
        "tokens_per_second": round(progress.tokens / max(progress.step_seconds, 1e-9), 1),
        "device": str(model.device),
        "warnings": corpus.warnings,
    }
    if impossible := {split: measured.impossible for split, measured in scores.items() if measured.impossible}:
        figures["impossible_tokens"] = impossible
    if corpus.vocabulary.form.unit == "char":
        bits = {split: -measured.logprob / measured.tokens / math.log(2) for split, measured in scores.items()}
        figures["bits_per_character"] = {split: finite(value) for split, value in bits.items()}
    if corpus.conditions:
        without = {split: score(model, corpus.splits[split], corpus.context).perplexity for split in scores}
        figures["perplexity_without_condition"] = {split: finite(value) for split, value in without.items()}
    if isinstance(model, HasLogZ):
        measured = {split: value.perplexity for split, value in scores.items()}
        figures |= estimated(model, corpus.splits, measured)
    if corpus.true_perplexity:
        figures["true_perplexity"] = corpus.true_perplexity
    return figures


def _publish(
    results: Mapping[str, Any], told: Mapping[str, Any], model: LanguageModel, corpus: Corpus, step: int, board: Board
) -> None:
    """Show a finished run in TensorBoard. This comes before ``results.json``, after which nothing is done again."""
    metrics = {f"result/{split}": value for split, value in results["perplexity"].items() if value is not None}
    board.hyperparameters({"model": results["model"], **told}, metrics, step)
    for name, (matrix, labels) in model.images(corpus).items():
        board.image(name, matrix, step, labels)
    board.close()  # what is not on the disk yet would be lost if ``results.json`` were there first
