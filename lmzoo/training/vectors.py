"""A run of word vectors from its configuration to its results; as `lmzoo.training.session` for language models."""

import contextlib
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import lmzoo.runs.type_vectors  # noqa: F401 - its import registers the method
from lmzoo.core.errors import UserError, printable
from lmzoo.core.options import NonNegative, Seed, call
from lmzoo.core.plugins import load_plugins
from lmzoo.corpus import Corpus, load_corpus
from lmzoo.runs.board import Board
from lmzoo.runs.checkpoint import same_form
from lmzoo.runs.directory import Run
from lmzoo.runs.log import log_warnings, logging_to
from lmzoo.runs.provenance import origins
from lmzoo.runs.results import summary
from lmzoo.training.steps import Position, take_steps
from lmzoo.words.vectors.formats import VECTORS, encoded
from lmzoo.words.vectors.method import Method, methods
from lmzoo.words.vectors.word_vectors import WordVectors

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What ``configs/vectors.yaml`` sets; see the comments there."""

    seed: Seed
    run_dir: str
    plugins: list[str]
    checkpoint_seconds: NonNegative
    corpus: dict
    method: dict


def learn(config: Mapping[str, Any], told: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Do the run that a resolved configuration describes, or go on with it. A finished run is only reported.

    Args:
        told: the options that tell the run from others, which TensorBoard shows; see `lmzoo.runs.naming.telling`.

    Returns: the contents of ``results.json``.

    Raises: UserError for a mistake in the configuration or its surroundings. Interrupted after SIGINT or SIGTERM.
    """
    settings: Settings = call(Settings, config, "")
    run = Run(Path(settings.run_dir))
    run.check(config)
    load_plugins(settings.plugins)
    method: Method = methods.build(settings.method)
    corpus = load_corpus(settings.corpus)
    made_from = origins(methods.sources(settings.method), corpus.vocabulary.form.unit)
    with run.alone():
        run.check(config)
        run.check_text(corpus)
        run.check_made_from(made_from)
        if results := run.results():
            print(f"already finished: {printable(str(run.path))}\n{summary(results)}")
            return results
        position = _started(run, method, corpus, settings.seed)
        run.begin(config, corpus, made_from)
        board = Board(run.path)
        with logging_to(run.path / "train.log"), contextlib.closing(board):
            log.info("%s on %s: %s", settings.method["name"], corpus.name, run.path)
            log.info("%s words of %s tokens", f"{len(method.words):,}", f"{len(corpus.train):,}")
            log_warnings(corpus.warnings)

            def save() -> None:
                run.save("last.pt", {"position": vars(position), "state": dict(method.state())})

            take_steps(method, position, board, save, settings.checkpoint_seconds, "lower method.lr")
            vectors = _vectors(method)
            results = _results(settings, corpus, vectors, method, position)
            run.write(VECTORS, encoded(vectors, "binary"))
            loss = {} if results["loss"] is None else {"result/loss": results["loss"]}
            step = method.tokens(position.step)
            board.hyperparameters({"method": results["method"], **(told or {})}, loss, step)
            board.close()
            run.finish(results, VECTORS)
    print(summary(results))
    return results


def _started(run: Run, method: Method, corpus: Corpus, seed: int) -> Position:
    """Start the method, and go on from ``last.pt`` where there is one: where that stands, else the beginning.

    Raises: UserError as `Method.start` does, and for a checkpoint that holds nothing of this method.
    """
    started = time.monotonic()
    method.start(corpus, seed)
    saved = run.restore("last.pt", torch.device("cpu"), "position", "state")
    if saved is None:
        return Position(seconds=time.monotonic() - started)
    with run.reading("last.pt"):
        if not isinstance(saved["position"], dict) or not same_form(saved["state"], method.state()):
            raise UserError("holds nothing of this method")
        for name, tensor in method.state().items():
            tensor.copy_(saved["state"][name])
        position: Position = call(Position, saved["position"], "position.")
    return position


def _vectors(method: Method) -> WordVectors:
    """What was learnt; a UserError where a number is not finite, since no program reads such vectors."""
    matrix = method.vectors()
    if not bool(matrix.float().isfinite().all()):
        raise UserError("the vectors are not finite", "choose other options of the method and another run_dir")
    return WordVectors(method.words, matrix)


def _results(
    settings: Settings, corpus: Corpus, vectors: WordVectors, method: Method, position: Position
) -> dict[str, Any]:
    return {
        "method": settings.method["name"],
        "corpus": corpus.name,
        "context": corpus.context,
        "words": len(vectors.words),
        "dimensions": vectors.matrix.shape[1],
        "loss": position.metrics.get("train/loss"),
        "seconds": round(position.seconds, 3),
        "tokens_per_second": round(method.tokens(position.step) / max(position.seconds, 1e-9), 1),
        "seed": settings.seed,
        "warnings": corpus.warnings,
    }
