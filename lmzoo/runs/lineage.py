"""Texts that a run has seen through the runs it was made from."""

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lmzoo.core.errors import UserError
from lmzoo.corpus import Corpus
from lmzoo.corpus.corpus import SAY_LESS, SPLITS
from lmzoo.runs.directory import Run, texts_of


def leakage_warnings(sources: Mapping[str, Sequence[str]], corpus: Corpus) -> Iterator[str]:
    """Warn of ``sources``, by option, trained on valid or test text of the corpus, or selected on its test.

    A split that is held out from a file is compared with runs that have read the file, too. Overlaps among the splits
    of the corpus are in `Corpus.warnings`.
    """
    own = corpus.texts
    for option, name in ((option, name) for option, names in sources.items() for name in names):
        starts = _starts(Path(name))
        for before, split in itertools.combinations(SPLITS, 2):
            new = own.get(split, set()) - own.get(before, set())
            if any(texts_of(start).get(before, set()) & new for start in starts):
                yield f"{option}: {name} has text of {split} as its {before}: {SAY_LESS[before]}"
        for split, files in corpus.cut_from.items():
            others = [start for start in starts if start["corpus"]["sha256"].get(split) != corpus.sha256[split]]
            if any(texts_of(start).get("train", set()) & files for start in others):
                yield f"{option}: {name} has read the file that {split} is held out from: {SAY_LESS['train']}"


def _starts(folder: Path) -> Collection[Mapping[str, Any]]:
    """The first start of a run and of all that it was made from; none if it is not a readable run."""
    try:
        return Run(folder).lineage().values() if folder.is_dir() else ()
    except UserError:
        return ()
