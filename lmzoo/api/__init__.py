"""lmzoo in a notebook: `load` a trained model, or `train` one."""

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lmzoo.api.model import Loaded
from lmzoo.cli.hydra import run_hydra
from lmzoo.core.errors import UserError
from lmzoo.core.plugins import load_plugins
from lmzoo.labels.tagger import Tagger
from lmzoo.models.ngram.arpa_file import holds_arpa
from lmzoo.runs.configuration import Configuration
from lmzoo.runs.external import open_model, run_at
from lmzoo.runs.kinds import LABELS, WORD_VECTORS
from lmzoo.runs.labellers import load_labeller
from lmzoo.runs.listing import find
from lmzoo.training import session
from lmzoo.words.vectors.formats import read_vectors
from lmzoo.words.vectors.word_vectors import WordVectors

log = logging.getLogger(__name__)

__all__ = ["Loaded", "load", "train"]


def load(
    source: str | os.PathLike[str], device: str = "cpu", plugins: Sequence[str] = ()
) -> Loaded | Tagger | WordVectors | Any:
    """Load a run with its best weights, an ARPA file, or a file of word vectors.

        >>> lm = lmzoo.load("outputs/pydoc/ngram")
        >>> lm.next_words("the", 2)
        [('same', 0.036...), ('first', 0.018...)]

    Args:
        source: the folder of a run, or what `lmzoo.runs.listing.find` makes of a name; an ARPA file of any toolkit; or
            a file of word vectors in word2vec's, GloVe's or fastText's format. Files may be compressed.
        plugins: the modules that the run needs, if they are not imported yet; see `lmzoo.core.plugins`.

    Returns: a `Loaded` language model; for a run of labels its `Tagger`, on the CPU; for vectors `WordVectors`.

    Raises: UserError for a folder without weights, and for a file of another kind, such as a binary file of KenLM.
    """
    load_plugins(plugins)
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
        return Tagger(load_labeller(run.path))
    run, model, vocabulary = open_model(run.path, device)
    return Loaded(model, vocabulary, run, run.config()["corpus"]["context"])


def _vectors(file: Path) -> WordVectors:
    """The word vectors of a file; raise a UserError for a file of another kind."""
    try:
        return read_vectors(file)
    except UserError as error:
        problem = error.problem.replace("no file of word vectors", "neither an ARPA file nor one of word vectors")
        raise UserError(problem, error.advice) from None


def train(*overrides: str) -> Loaded:
    """Do the run that ``lmzoo train OVERRIDES`` does, or go on with it: ``lmzoo.train("model=ngram")``. No sweeps."""
    if wrong := [given for given in overrides if not isinstance(given, str)]:
        raise UserError(
            f"{wrong[0]}: is no option", 'give each as a string: lmzoo.train("model=ngram", "model.order=3")'
        )
    if flags := [given for given in overrides if given.startswith("-") and given not in ("-m", "--multirun")]:
        raise UserError(f"{flags[0]}: is for lmzoo train in a shell alone", "give options as key=value")
    folders: list[str] = []

    def job(config: Configuration, number: int | None, _: list[str], given: list[str]) -> dict[str, Any]:
        if number is not None:
            raise UserError("a sweep has more than one model", "call this for each, or sweep by lmzoo train -m")
        folders.append(config["run_dir"])
        return session.train(config, given)

    run_hydra(job, "train", line=["lmzoo.train", *overrides])
    return load(folders[-1])
