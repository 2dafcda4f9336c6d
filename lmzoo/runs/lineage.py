"""Texts that a run has seen through the runs it was made from."""

import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lmzoo.core.errors import UserError
from lmzoo.corpus import Corpus
from lmzoo.corpus.corpus import SAY_LESS, SPLITS
from lmzoo.runs.directory import Run, texts_of


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


def _starts(folder: Path) -> Collection[Mapping[str, Any]]:
    """The first start of a run and of all that it was made from; none if it is not a readable run."""
    try:
        return Run(folder).lineage().values() if folder.is_dir() else ()
    except UserError:
        return ()
