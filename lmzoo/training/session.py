"""A run from configuration to results: prepare, restore, begin, fit, measure, publish."""

import contextlib
import importlib
import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from lmzoo.core import ranks
from lmzoo.core.errors import printable
from lmzoo.core.plugins import load_plugins
from lmzoo.corpus import Corpus
from lmzoo.reports.board import Board
from lmzoo.runs.configuration import Configuration
from lmzoo.runs.directory import Run
from lmzoo.runs.kinds import LABELS, LANGUAGE_MODEL, summary
from lmzoo.runs.lineage import leakage_warnings
from lmzoo.runs.listing import OUTPUTS, write_latest
from lmzoo.runs.log import logging_to
from lmzoo.runs.provenance import origins
from lmzoo.training.progress import Progress

log = logging.getLogger(__name__)

LEARNERS = {"train": "language_models", "vectors": "vectors", "label": "labels"}
"""The module of each kind of run, by command. It is imported on demand, as each imports its registry."""


class Learner(ABC):
    """The training part of a run.

    The constructor takes the options and the run, validates the options, and reads the text. It writes nothing.

    Attributes:
        corpus: the text; for labelled texts their words.
        progress: the progress of training, available after `restore`.
        sources: the source runs and files by option; see `lmzoo.core.registry.Registry.sources`.
        resolved: the groups of options in which ``auto`` is resolved, available after `prepare`.
        resumed: whether `restore` found a checkpoint.
        unsealed: files of trained parameters whose checksums `Run.finish` records; checkpoints contain theirs.
    """

    corpus: Corpus
    progress: Progress
    sources: Mapping[str, Sequence[str]]
    resolved: Mapping[str, Any] = {}
    resumed: bool = False
    unsealed: Sequence[str] = ()

    @abstractmethod
    def prepare(self, board: Board) -> None:
        """Build the model and validate the remaining options."""

    @abstractmethod
    def restore(self) -> None:
        """Restore ``last.pt`` if it exists; raise a UserError if it is damaged. Only the log is written."""

    @abstractmethod
    def describe(self) -> Iterable[str]:
        """The first lines of the log."""

    @abstractmethod
    def fit(self) -> None:
        """Train to the end; Interrupted after SIGINT or SIGTERM, once a checkpoint is saved."""

    @abstractmethod
    def measure(self) -> dict[str, Any]:
        """Evaluate and save the trained model. Returns: its results."""

    def images(self) -> Mapping[str, Tensor]:
        """Matrices to show as images; see `lmzoo.protocol.model.LanguageModel.images`."""
        return {}


@ranks.process_group()
def train(config: Configuration, given: Collection[str] = ()) -> dict[str, Any]:
    """Start or resume the run of a configuration; of a finished run, only report the results.

    Args:
        given: the options and groups set by the user, to report those without effect.

    Returns: the contents of ``results.json``.

    Raises: UserError if the configuration or its environment is invalid. Interrupted after SIGINT or SIGTERM once there
        is something to save; before that, signals have their usual effect.
    """
    kind, options = config.kind, config.run_options
    run = Run(Path(options.run_dir))
    run.check(config)
    load_plugins(options.plugins)
    module = importlib.import_module(f"lmzoo.training.{LEARNERS[kind.command]}")
    learner: Learner = module.Learning(options, run)
    notes = [*config.notes_on(given)]
    corpus = learner.corpus
    made_from = origins(learner.sources, corpus.vocabulary.form.unit)
    leakage = [*leakage_warnings(learner.sources, corpus)]

    def finished() -> dict[str, Any] | None:
        run.check(config)
        run.check_text(corpus)
        run.check_origins(made_from)
        if (results := run.results()) and ranks.is_main():
            print(*map(printable, [*notes, f"already finished: {run.path}"]), summary(results), sep="\n")
        return results

    if results := finished():
        return results
    board = Board(run.path)
    learner.prepare(board)
    with contextlib.ExitStack() as stack:
        if ranks.is_main():
            stack.enter_context(run.exclusive_lock())
            if results := finished():  # again, since another process may have run in the meantime
                return results
            stack.enter_context(logging_to(run.path / "train.log"))
            stack.enter_context(contextlib.closing(board))
        learner.restore()
        ranks.require_same("checkpoint", learner.progress.step)
        run.begin({**config, **learner.resolved}, corpus, made_from)
        for line in (*learner.describe(), *notes):
            log.info("%s", line)
        warnings = [*corpus.warnings, *leakage]
        for warning in warnings:
            log.warning("%s", warning)
        if learner.resumed:
            done = learner.progress
            log.info("resumed at step %d, %.1f s of training before it", done.step, done.seconds)
        learner.fit()
        ranks.all_gather(None)  # wait for all
        common = {kind.learner: config[kind.learner]["name"], "seed": options.seed, "warnings": warnings}
        results = {**learner.measure(), **common}
        if ranks.is_main():
            _publish(run.config(), results, learner, board)
            run.finish(results, *learner.unsealed)
            if OUTPUTS.absolute() in run.path.absolute().parents:
                write_latest(run.path)
    if ranks.is_main():
        print(printable(kind.summary(results), "\n"))  # the log contains the warnings
    return results


def _publish(config: Configuration, results: Mapping[str, Any], learner: Learner, board: Board) -> None:
    """Write a finished run to TensorBoard, before ``results.json``, after which nothing is repeated."""
    kind, options = config.kind, dict(config.result_options)
    first = {"Kind": kind.noun.removeprefix("a "), "Name": options.pop(f"{kind.learner}.name")}
    prefix = "/".join(["result", *([results["measure"]] if kind is LABELS else [])])
    tags = {"valid": "perplexity/best_valid", "test": "perplexity/test"}  # first, as TensorBoard sorts tags
    metrics = {tags[name] if kind is LANGUAGE_MODEL else f"{prefix}/{name}": value
               for name, value in kind.figures(results).items() if math.isfinite(value)}  # fmt: skip
    tokens = learner.progress.tokens
    board.hyperparameters(first | options, metrics, tokens)
    for name, matrix in learner.images().items():
        board.image(name, matrix, tokens)
    board.close()  # flush to disk before ``results.json`` is written
