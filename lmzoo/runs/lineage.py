"""Texts that a run has seen through the runs it was made from."""

import contextlib
import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lmzoo.core.errors import UserError
from lmzoo.corpus import Corpus
from lmzoo.corpus.corpus import SAY_LESS, SPLITS
from lmzoo.corpus.encoded import text_checksums
from lmzoo.corpus.form import Form
from lmzoo.runs.directory import Run


def leakage_warnings(sources: Mapping[str, Sequence[str]], corpus: Corpus) -> Iterator[str]:
    """Warn of ``sources``, by option, trained on valid or test text of the corpus, or selected on its test.

    Lines held out from a file are compared with the lines of it that a source was trained on. Overlaps among the splits
    of the corpus are in `Corpus.warnings`.
    """
    own = corpus.texts
    for option, name in ((option, name) for option, names in sources.items() for name in names):
        starts = _starts(Path(name))
        for before, split in itertools.combinations(SPLITS, 2):
            new = dict.fromkeys(own.get(split, set()) - own.get(before, set()), 0) | corpus.cut_from.get(split, {})
            if any(first < _lines(start, before).get(text, 0) for start in starts for text, first in new.items()):
                yield f"{option}: {name} has text of {split} as its {before}: {SAY_LESS[before]}"


def _lines(start: Mapping[str, Any], split: str) -> dict[str, float]:
    """The number of lines that a split of a start has of each text, from its beginning; infinite if it has all."""
    whole = dict.fromkeys(texts_of(start).get(split, ()), math.inf)
    return whole | start["corpus"].get("lines_of", {}) if split == "train" else whole


def training_text_warning(run: Run, file: Path) -> str | None:
    """A warning if a file is text of train, or one of its files, of a run or of a run that it was made from."""
    text = text_checksums([file], Form.of(run.config()["corpus"]))
    if text is None:
        return None
    for folder, start in lineage(run).items():
        if text.sha256 in texts_of(start).get("train", ()):
            by = str(folder) if folder == run.path else f"{folder}, which {run.path} was made from,"
            return f"{file}: is text that {by} was trained on, so its figures are better than those of others"
    return None


def texts_of(start: Mapping[str, Any]) -> dict[str, set[str]]:
    """The SHA-256 of each split, and of its files, in a record of `Run.starts`."""
    files = start["corpus"].get("files", {})
    return {split: {checksum, *files.get(split, ())} for split, checksum in start["corpus"]["sha256"].items()}


def lineage(run: Run) -> dict[Path, dict[str, Any]]:
    """The first start, as in `Run.starts`, of a run and of all readable runs that it was made from, by folder."""
    found = {run.path: run.starts()[0]}
    folders = [run.path]
    for folder in folders:  # which grows
        for source in (Path(name) for names in found[folder]["made_from"].values() for name in names):
            if source not in found and source.is_dir():
                with contextlib.suppress(UserError):
                    found[source] = Run(source).starts()[0]
                    folders.append(source)
    return found


def _starts(folder: Path) -> Collection[Mapping[str, Any]]:
    """The first start of a run and of all that it was made from; none if it is not a readable run."""
    try:
        return lineage(Run(folder)).values() if folder.is_dir() else ()
    except UserError:
        return ()
