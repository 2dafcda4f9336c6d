"""Texts that a run has seen through the runs it was made from."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from lmzoo.core.errors import UserError
from lmzoo.corpus import Corpus
from lmzoo.corpus.corpus import SAY_LESS, SPLITS
from lmzoo.runs.directory import Run


def leakage_warnings(sources: Mapping[str, Sequence[str]], corpus: Corpus) -> Iterator[str]:
    """Warn of ``sources``, by option, trained on valid or test text of the corpus, or selected on its test.

    Overlaps among the splits of the corpus are in `Corpus.warnings`.
    """
    own = corpus.texts
    for option, name in ((option, name) for option, names in sources.items() for name in names):
        theirs = _texts(Path(name), set())
        for before, split in itertools.combinations(SPLITS, 2):
            if theirs[before] & own.get(split, set()) - own.get(before, set()):
                yield f"{option}: {name} has text of {split} as its {before}: {SAY_LESS[before]}"


def _texts(folder: Path, seen: set[Path]) -> dict[str, set[str]]:
    """The checksums, by split, of the texts of a run and of its sources, where these still exist."""
    found: dict[str, set[str]] = {split: set() for split in SPLITS}
    if folder in seen or not folder.is_dir():
        return found
    seen.add(folder)
    try:
        of_run, made_from = Run(folder).texts(), Run(folder).origins()
    except UserError:  # not a readable run
        return found
    for part in (of_run, *(_texts(Path(name), seen) for names in made_from.values() for name in names)):
        for split in SPLITS:
            found[split] |= part.get(split, set())
    return found
