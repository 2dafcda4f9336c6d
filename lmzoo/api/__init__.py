"""lmzoo in a notebook: `load` a trained model, or `train` one."""

import contextlib
import io
import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from lmzoo.api.frames import data_frame
from lmzoo.api.model import Loaded
from lmzoo.api.predictor import warn
from lmzoo.cli.hydra import run_hydra
from lmzoo.core.errors import UserError
from lmzoo.core.plugins import load_plugins, split_names
from lmzoo.labels.tagger import Tagger
from lmzoo.models.ngram.arpa_file import holds_arpa
from lmzoo.reports.comparison import as_columns, collect, groups
from lmzoo.runs.external import matching, open_model, run_at
from lmzoo.runs.kinds import LABELS, WORD_VECTORS
from lmzoo.runs.labellers import load_labeller
from lmzoo.runs.listing import OUTPUTS, find
from lmzoo.words.vectors.formats import read_vectors
from lmzoo.words.vectors.word_vectors import WordVectors

log = logging.getLogger(__name__)

__all__ = ["Loaded", "compare", "load", "train"]


def load(source: str | os.PathLike[str], device: str = "cpu", plugins: Sequence[str] = ()) -> Loaded | Any:
    """Load a run with its best weights, an ARPA file, or a file of word vectors.

        >>> lm = lmzoo.load("outputs/pydoc/ngram")
        >>> lm.surprisal("the value")
        [('the', ...), ('value', ...), ('<eos>', ...)]

    Args:
        source: the folder of a run, or what `lmzoo.runs.listing.find` makes of a name; an ARPA file of any toolkit; or
            a file of word vectors in word2vec's or GloVe's format. Files may be compressed.
        plugins: the names of modules that the run needs, if they are not imported yet; see `lmzoo.core.plugins`.

    Returns: a `Loaded` language model; for a run of labels its `Tagger`, on the CPU; for vectors `WordVectors`.

    Raises: UserError for a folder without weights, and for a file of another kind, such as a binary file of KenLM.
    """
    load_plugins(split_names(plugins) if isinstance(plugins, str) else plugins)
    path = find(os.fspath(source))
    if path != Path(source):
        log.warning("%s is %s", source, path)
    if path.is_file() and not holds_arpa(path):
        return _vectors(path)
    run = run_at(path)
    kind = run.config().kind
    if kind is WORD_VECTORS:
        return read_vectors(run.path)
    if kind is LABELS:
        warn(run.unfinished())
        return Tagger(load_labeller(run.path))
    run, model, vocabulary = open_model(run.path, device)
    warn(run.unfinished())
    return Loaded(model, vocabulary, run, run.config()["corpus"]["context"])


def _vectors(file: Path) -> WordVectors:
    """The word vectors of a file; raise a UserError for a file of another kind."""
    try:
        return read_vectors(file)
    except UserError as error:
        problem = error.problem.replace("not a file of word vectors", "neither an ARPA file nor one of word vectors")
        raise UserError(problem, error.advice) from None


def train(*overrides: str, quiet: bool = False) -> Loaded:
    """Do the run that ``lmzoo train OVERRIDES`` does, or go on with it, and load it.

        >>> lm = lmzoo.train("model=ngram", "model.order=3", quiet=True)
        >>> lm
        <ngram of ... words in outputs/pydoc/..., valid perplexity ..., test perplexity ...>

    Args:
        overrides: options as on the command line, except sweeps.
        quiet: print no log and no progress, which are in the run's ``train.log``; warnings are logged at the end.

    Raises: UserError as ``lmzoo train`` does.
    """
    if wrong := [given for given in overrides if not isinstance(given, str)]:
        raise UserError(
            f"{wrong[0]}: is no option", 'give each as a string: lmzoo.train("model=ngram", "model.order=3")'
        )
    if flags := [given for given in overrides if given.startswith("-") and given not in ("-m", "--multirun")]:
        raise UserError(f"{flags[0]}: works only for lmzoo train in a shell", "give options as key=value")
    folders: list[str] = []

    def job(train: Callable[[], dict[str, Any]], folder: str, number: int | None, _: list[str]) -> dict[str, Any]:
        if number is not None:
            raise UserError("a sweep has more than one model", "call this for each, or sweep by lmzoo train -m")
        folders.append(folder)
        return train()

    with contextlib.ExitStack() as around:
        around.enter_context(torch.random.fork_rng(range(torch.cuda.device_count())))  # a run seeds them
        if quiet:
            for redirect in (contextlib.redirect_stdout, contextlib.redirect_stderr):
                around.enter_context(redirect(io.StringIO()))
        run_hydra(job, "train", line=["lmzoo.train", *overrides])
        lm = load(folders[-1])
    for warning in (lm.results or {}).get("warnings", []) if quiet else ():
        log.warning("%s", warning)
    return lm


def compare(
    runs: str | os.PathLike[str] | Loaded | Sequence[str | os.PathLike[str] | Loaded] | None = None, seeds: bool = False
) -> Any:
    """Tabulate finished runs, the best on valid first: a data frame of pandas.

    Runs of other texts follow each other. Runs that differ in the seed alone are a row, with means and the standard
    deviations of their figures. Columns are corpus, context, the options in which runs differ, seeds, the figures of
    ``lmzoo compare``, and the folder.

        >>> lmzoo.compare(["outputs/pydoc/ngram", "outputs/pydoc/hmm"])[["model.name", "run"]]
          model.name                  run
        0      ngram  outputs/pydoc/ngram
        1        hmm    outputs/pydoc/hmm

    Args:
        runs: loaded models, runs, patterns, or folders above runs, one or several; None: all of outputs.
        seeds: whether to show the runs of each seed.

    Raises: UserError if there is no run, or neither package is installed.
    """
    runs = [OUTPUTS] if runs is None else [runs] if isinstance(runs, str | os.PathLike | Loaded) else runs
    if not runs:
        raise UserError("there is no run to compare", "name some; all of outputs where nothing is given")
    given = [str(run.run.path) if isinstance(run, Loaded) else os.fspath(run) for run in runs]
    entries, others = collect(matching(given))
    for folder, reason in others.items():
        log.warning("%s: %s", folder, reason)
    return data_frame(as_columns(groups(entries, seeds)))
