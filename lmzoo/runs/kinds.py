"""Kinds of run, and their differences."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lmzoo.core.errors import UserError, printable
from lmzoo.runs import results as forms
from lmzoo.words.vectors.formats import VECTORS

Results = Mapping[str, Any]
"""The contents of ``results.json``."""


@dataclass(frozen=True, eq=False)
class Kind:
    """A kind of run.

    Attributes:
        command: ``lmzoo COMMAND`` makes such runs; its configuration is ``configs/COMMAND.yaml``.
        noun: what is trained, for messages.
        learner: the group of options of the learner, and the key of its name in results.
        text: the group of options of the training text.
        weights_file: the file of the trained parameters or vectors.
        higher: whether a higher figure is better.
        figures: the figures for comparing runs: perplexity or the task's measure by split, or the loss of vectors.
        summary: formats the results of a run in a few lines.
    """

    command: str
    noun: str
    learner: str
    text: str
    weights_file: str
    higher: bool
    figures: Callable[[Results], dict[str, float]]
    summary: Callable[[Results], str]

    def objective(self, results: Results) -> float | None:
        """The figure that a search minimizes: that of valid, or the loss. Test is never used for selection."""
        figures = self.figures(results)
        figure = figures.get("valid", figures.get("loss"))
        return -figure if self.higher and figure is not None else figure

    def require(self, folder: object, needed: "Kind") -> None:
        """Raise a UserError if the run in a folder, of this kind, is not of the ``needed`` kind."""
        if self is not needed:
            raise UserError(f"{folder}: is a run of {self.noun}", f"this needs a run of lmzoo {needed.command}")


LANGUAGE_MODEL = Kind("train", "a language model", "model", "corpus", "best.pt", False,
                      forms.perplexities, forms.language_model)  # fmt: skip
WORD_VECTORS = Kind("vectors", "word vectors", "method", "corpus", VECTORS, False,
                    lambda results: {} if results["loss"] is None else {"loss": results["loss"]},
                    forms.word_vectors)  # fmt: skip
LABELS = Kind("label", "labels", "labeller", "task", "best.pt", True,
              lambda results: results["figures"], forms.labels)  # fmt: skip

KINDS = (LANGUAGE_MODEL, WORD_VECTORS, LABELS)


def kind_of(run: Mapping[str, Any]) -> Kind:
    """The kind of run that a configuration or results belong to; raise a UserError if there is none."""
    kinds = [kind for kind in KINDS if kind.learner in run]
    if len(kinds) != 1:
        raise UserError("no configuration of a run")
    return kinds[0]


def summary(results: Results) -> str:
    """Format the results of a run in a few lines, with its warnings."""
    warnings = [f"warning: {warning}" for warning in results.get("warnings", [])]
    return printable("\n".join([kind_of(results).summary(results), *warnings]), "\n")
