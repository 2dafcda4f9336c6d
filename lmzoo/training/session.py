"""A run from its configuration to its results: prepare, restore, begin, fit, measure, publish."""

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
from lmzoo.core.options import Options, Seed, call
from lmzoo.core.plugins import load_plugins
from lmzoo.core.registry import Registry
from lmzoo.corpus import Corpus
from lmzoo.reports.board import Board
from lmzoo.runs.configuration import Configuration
from lmzoo.runs.directory import Run
from lmzoo.runs.kinds import LABELS, LANGUAGE_MODEL, Kind, summary
from lmzoo.runs.lineage import leakage_warnings
from lmzoo.runs.listing import LATEST, OUTPUTS, note
from lmzoo.runs.log import logging_to
from lmzoo.runs.provenance import origins
from lmzoo.training.progress import Progress

log = logging.getLogger(__name__)

LEARNERS = {"train": "language_models", "vectors": "vectors", "label": "labels"}
"""The module of each kind of run, by its command. It is imported when it is needed, as each imports its registry."""


commands = Registry("command")
"""The options of every command that makes runs, beside their groups; the defaults are in ``configs/COMMAND.yaml``."""


class RunOptions(Options):
    """What the configuration of every kind of run sets."""

    seed: Seed
    """of all that is drawn: first weights and vectors, dropout, noise, the order of sentences."""
    device: str
    """auto, cpu, cuda, cuda:1, mps. auto: a GPU where there is one and what learns can use it."""
    run_dir: str
    """the folder of the run; None: one under outputs, named by the text, what learns, and what is unlike the defaults.
    The same folder again resumes."""
    plugins: Sequence[str]
    """modules that register models, labellers or methods of your own, such as [my.module]."""


class Learner(ABC):
    """What learns in a run.

    Its constructor takes the options and the run, checks what can be checked, and reads the text. It writes nothing.

    Attributes:
        corpus: the text; of labelled texts its words.
        progress: how far it has come, known after `restore`.
        sources: what its options name it to be made from; see `lmzoo.core.options.sources`.
        resumed: whether `restore` has found a checkpoint.
        unsealed: files of what is learnt that have no checksum of their own, as checkpoints do.
    """

    corpus: Corpus
    progress: Progress
    sources: Mapping[str, Sequence[str]]
    resumed: bool = False
    unsealed: Sequence[str] = ()

    @abstractmethod
    def prepare(self, board: Board) -> dict[str, Any]:
        """Build what learns, and find every bad option that is left. Returns: groups of options settled by that."""

    @abstractmethod
    def restore(self) -> None:
        """Go on from ``last.pt`` where there is one; a UserError for a damaged one. Only the log is written."""

    @abstractmethod
    def described(self) -> Iterable[str]:
        """The first lines of the log."""

    @abstractmethod
    def fit(self) -> None:
        """Learn until the end; Interrupted after SIGINT or SIGTERM, when what is learnt by then is saved."""

    @abstractmethod
    def measure(self) -> dict[str, Any]:
        """The results of what was learnt. What is learnt is written beside them."""

    def images(self) -> Mapping[str, tuple[Tensor, Sequence[str]]]:
        """Pictures of what was learnt; see `lmzoo.protocol.model.LanguageModel.images`."""
        return {}


@ranks.process_group()
def train(config: Configuration, given: Collection[str] = ()) -> dict[str, Any]:
    """Do the run that a configuration describes, or go on with it. A finished run is only reported.

    Args:
        given: the options and groups that the user gave, to note those that have no effect.

    Returns: the contents of ``results.json``.

    Raises: UserError for a mistake in the configuration or its surroundings. Interrupted after SIGINT or SIGTERM once
        there is something to save; before that the signals act as in any program.
    """
    kind = config.kind
    module = importlib.import_module(f"lmzoo.training.{LEARNERS[kind.command]}")
    options: RunOptions = call(module.Options, config, "")
    run = Run(Path(options.run_dir))
    run.check(config)
    load_plugins(options.plugins)
    learner: Learner = module.Learning(options, run)
    notes = [*config.notes_on(given)]
    corpus = learner.corpus
    made_from = origins(learner.sources, corpus.vocabulary.form.unit)
    warnings = [*corpus.warnings, *leakage_warnings(learner.sources, corpus)]

    def finished() -> dict[str, Any] | None:
        run.check(config)
        run.check_text(corpus)
        run.check_made_from(made_from)
        if (results := run.results()) and ranks.is_main():
            print(*map(printable, [*notes, f"already finished: {run.path}"]), summary(results), sep="\n")
        return results

    if results := finished():
        return results
    board = Board(run.path)
    config = Configuration({**config, **learner.prepare(board)})
    with contextlib.ExitStack() as stack:
        if ranks.is_main():
            stack.enter_context(run.exclusive_lock())
            if results := finished():  # again, as another process may have worked here since
                return results
            stack.enter_context(logging_to(run.path / "train.log"))
            stack.enter_context(contextlib.closing(board))
        learner.restore()
        ranks.require_same("configuration", dict(config))
        ranks.require_same("text", corpus.sha256)
        ranks.require_same("checkpoint", learner.progress.step)
        if ranks.is_main():
            run.begin(config, corpus, made_from)
        for line in (*learner.described(), *notes, *(f"warning: {warning}" for warning in warnings)):
            log.info("%s", line)
        if learner.resumed:
            done = learner.progress
            log.info("resumed at step %d, %.1f s of training behind it", done.step, done.seconds)
        learner.fit()
        ranks.barrier()
        learnt = {kind.learner: config[kind.learner]["name"], "seed": options.seed, "warnings": warnings}
        results = {**learner.measure(), **learnt}
        if ranks.is_main():
            _publish(config, results, learner, board)
            run.finish(results, *learner.unsealed)
            if OUTPUTS.absolute() in run.path.absolute().parents:
                note(LATEST, [run.path])
    if ranks.is_main():
        print(printable(kind.summary(results), "\n"))  # the log has the warnings
    return results


def _publish(config: Configuration, results: Mapping[str, Any], learner: Learner, board: Board) -> None:
    """Show a finished run in TensorBoard. This comes before ``results.json``, after which nothing is done again."""
    kind, options = config.kind, dict(config.result_options)
    first = {"Kind": kind.noun.removeprefix("a "), "Name": options.pop(f"{kind.learner}.name")}
    metrics = {
        _tag(kind, name, results): value for name, value in kind.figures(results).items() if math.isfinite(value)
    }
    tokens = learner.progress.tokens
    board.hyperparameters(first | options, metrics, tokens)
    for name, (matrix, labels) in learner.images().items():
        board.image(name, matrix, tokens, labels)
    board.close()  # what is not on the disk yet would be lost if ``results.json`` were there first


def _tag(kind: Kind, figure: str, results: Mapping[str, Any]) -> str:
    """Of a figure of a finished run. TensorBoard sorts tags, so those of perplexity come first."""
    if kind is LANGUAGE_MODEL:
        return f"perplexity/{'best_valid' if figure == 'valid' else figure}"
    return "/".join(["result", *([results["measure"]] if kind is LABELS else []), figure])
