"""Models in files of other programs, which stand in the place of a run."""

import glob
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lmzoo.core.errors import UserError
from lmzoo.corpus import Corpus, Vocabulary
from lmzoo.models.ngram.arpa import Arpa
from lmzoo.models.ngram.arpa_file import holds_arpa
from lmzoo.protocol.model import LanguageModel
from lmzoo.runs.configuration import Configuration
from lmzoo.runs.device import resolve_device
from lmzoo.runs.directory import Run
from lmzoo.runs.listing import below, find
from lmzoo.runs.loading import load


class ArpaRun(Run):
    """An ARPA file in the place of a run. It has a model and a vocabulary, but no text and no results."""

    def __init__(self, path: Path):
        super().__init__(path)
        self._config = Configuration({
            "corpus": {"name": "text", "context": "sentence"},
            "model": {"name": "arpa", "path": str(path)},
            "trainer": {"first_tokens": None},
        })  # fmt: skip

    def model(self) -> tuple[LanguageModel, Vocabulary]:
        """The model of the file on the CPU, and the words of the file; raises as `read_arpa` does."""
        return Arpa.of_file(self.path)

    def vocabulary(self) -> Vocabulary:
        return self.model()[1]

    def corpus(self, downloaded: bool = True) -> Corpus:
        """Raise a UserError, as there is none."""
        raise UserError(f"{self.path}: is an ARPA file, which has no train, valid or test text", "name a file of text")

    def starts(self) -> list[dict[str, Any]]:
        """One start, on a text that is not known."""
        return [{"corpus": {"sha256": {}}, "made_from": {}}]

    def results(self) -> None:
        """None, as nothing was measured."""

    def unfinished(self) -> None:
        """None, as no training is known."""


def run_at(path: Path) -> Run:
    """The run in a folder, or an ARPA file in the place of one; raise a UserError for a binary file of KenLM."""
    return ArpaRun(path) if path.is_file() and holds_arpa(path) else Run(path)


def open_model(path: Path, device: str = "cpu") -> tuple[Run, LanguageModel, Vocabulary]:
    """A run, its model in evaluation mode with the best weights, and its vocabulary; or those of an ARPA file.

    Raises: as `lmzoo.runs.loading.load` and `read_arpa` do.
    """
    run = run_at(path)
    if isinstance(run, ArpaRun):
        model, vocabulary = run.model()
        return run, model.to(resolve_device(device)).eval(), vocabulary
    return run, *load(path, device)


def matching(patterns: Sequence[str]) -> list[Path]:
    """The runs given by names or patterns, including all runs below a folder; raise a UserError if there are none."""
    runs: dict[Path, None] = {}
    for pattern in patterns:
        folders = [] if Path(pattern).exists() else sorted(glob.glob(pattern))  # noqa: PTH207 - may be absolute
        matches = [run for folder in folders or [find(pattern)] for run in _runs(Path(folder))]
        if not matches:
            raise UserError(f"{pattern}: no run is there", "name folders of runs, or a folder above them")
        runs |= dict.fromkeys(matches)
    return list(runs)


def _runs(path: Path) -> list[Path]:
    """The runs below a folder, or an ARPA file, which stands for a run."""
    return [path] if path.is_file() and holds_arpa(path) else below(path)
