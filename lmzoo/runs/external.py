"""Models of other programs, which stand in the place of a run."""

import glob
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lmzoo.core.errors import UserError
from lmzoo.corpus import Corpus, Vocabulary
from lmzoo.huggingface.causal import load as load_transformer
from lmzoo.models.ngram.arpa import Arpa
from lmzoo.models.ngram.arpa_file import holds_arpa
from lmzoo.protocol.model import LanguageModel
from lmzoo.runs.configuration import Configuration
from lmzoo.runs.device import resolve_device
from lmzoo.runs.directory import Run
from lmzoo.runs.listing import CONFIG, below, find
from lmzoo.runs.loading import load

TRANSFORMER, TRUSTED = "hf:", "hf-code:"
"""The beginnings of the name of a transformer; the second one lets code that comes with it run."""


class ExternalModel(Run):
    """A model of another program in the place of a run. It has a vocabulary, but no text and no results.

    Args:
        path: an ARPA file; or a causal transformer of Hugging Face: a folder, or ``hf:NAME`` for one that transformers
            knows or downloads.
    """

    def __init__(self, path: Path):
        super().__init__(path)
        self.is_arpa = path.is_file()
        self._config = Configuration({
            "corpus": {"name": "text", "context": "sentence"},
            "model": {"name": "arpa" if self.is_arpa else "huggingface", "path": str(path)},
            "trainer": {"first_tokens": None},
            "plugins": [],
        })  # fmt: skip

    def model(self) -> tuple[LanguageModel, Vocabulary]:
        """The model on the CPU, and its words; raise a UserError if it cannot be read."""
        if self.is_arpa:
            return Arpa.of_file(self.path)
        name = str(self.path)
        model = load_transformer(name.removeprefix(TRANSFORMER).removeprefix(TRUSTED), name.startswith(TRUSTED))
        return model, model.vocabulary

    def corpus(self) -> Corpus:
        """Raise a UserError, as there is none."""
        noun, made = "a transformer", ""
        if self.is_arpa:
            noun, made = "an ARPA file", f", or a run: lmzoo train model=arpa model.path={self.path} makes one"
        problem = f"{self.path}: is {noun}, which has no train, valid or test text"
        raise UserError(problem, f"give a file of text{made}")

    def starts(self) -> list[dict[str, Any]]:
        """One start, on a text that is not known."""
        return [{"corpus": {"sha256": {}}, "made_from": {}}]

    def results(self) -> None:
        """None, as nothing was measured."""

    def unfinished(self) -> None:
        """None, as no training is known."""


def is_external(path: Path) -> bool:
    """Whether a path is that of a model of another program; raise a UserError for a binary file of KenLM."""
    if path.is_file():
        return holds_arpa(path)
    return str(path).startswith((TRANSFORMER, TRUSTED)) or (
        (path / "config.json").is_file() and not (path / CONFIG).exists()
    )


def run_at(path: Path) -> Run:
    """The run in a folder, or what stands in the place of one; raises as `is_external` does."""
    return ExternalModel(path) if is_external(path) else Run(path)


def open_model(path: Path, device: str = "cpu") -> tuple[Run, LanguageModel, Vocabulary]:
    """A run, its model in evaluation mode with the best weights, and its vocabulary; or those of another program.

    Raises: as `lmzoo.runs.loading.load`, `read_arpa` and `lmzoo.huggingface.causal.load` do.
    """
    run = run_at(path)
    if isinstance(run, ExternalModel):
        model, vocabulary = run.model()
        return run, model.to(resolve_device(device)).eval(), vocabulary
    return run, *load(path, device)


def require_words(
    run: Run, model: LanguageModel, vocabulary: Vocabulary, advice: str = "give another run", *,
    labels: bool = True, reverse: bool = True,
) -> None:  # fmt: skip
    """Raise a UserError if a model has probabilities only of whole sentences.

    Args:
        labels, reverse: whether labels of lines, and lines that are read backwards, are allowed.
    """
    found = {
        "assigns probabilities only to whole sentences, not to words": model.whole_sentences,
        "has labels of its lines (corpus.condition=true)": not labels and vocabulary.conditions,
        "reads lines backwards (corpus.reverse=true)": not reverse and vocabulary.form.reverse,
    }
    if wrong := [what for what, is_so in found.items() if is_so]:
        raise UserError(f"{run.path}: {wrong[0]}", advice)


def matching(patterns: Sequence[str]) -> list[Path]:
    """The runs given by names or patterns, including all runs below a folder; raise a UserError if there are none."""
    runs: dict[Path, None] = {}
    for pattern in patterns:
        folders = [] if Path(pattern).exists() else sorted(glob.glob(pattern))  # noqa: PTH207 - may be absolute
        paths = map(Path, folders or [find(pattern)])
        matches = [run for path in paths for run in ([path] if is_external(path) else below(path))]
        if not matches:
            raise UserError(f"{pattern}: no runs found", "name folders of runs, or a folder above them")
        runs |= dict.fromkeys(matches)
    return list(runs)
