"""A corpus: three token streams over one vocabulary."""

import itertools
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from lmzoo.core.errors import UserError
from lmzoo.corpus.conditions import header_warning
from lmzoo.corpus.vocabulary import EOS_ID, UNK, Vocabulary

SPLITS = ("train", "valid", "test")

Context = Literal["stream", "sentence"]
"""``stream``: the state is carried across `<eos>`. ``sentence``: lines are independent."""


EMPTY = 0.2
"""The share of empty lines from which on a warning says that they lower perplexity."""

SAY_LESS = {
    "train": "its figures do not tell how good the model is with other text",
    "valid": "its figures are of a text that the model was chosen with",
}
"""The consequence of an overlap of this split with a later one."""


class Splits(dict[str, Tensor]):
    """The tokens of each split; raises a UserError for a missing split."""

    def __init__(self, corpus: str, splits: Mapping[str, Tensor]):
        super().__init__(splits)
        self.corpus = corpus

    def __missing__(self, split: str) -> Tensor:
        raise UserError(f"corpus {self.corpus} has no {split} split", f"choose from: {', '.join(self)}")


@dataclass(frozen=True)
class Corpus:
    """A text in three splits, of which test may be absent.

    Attributes:
        name: the name in the configuration, or the label of a user's text.
        splits: ``train``, ``valid`` and ``test``, each (N,) int64, or int32 if mapped from a file. Every line ends with
            `<eos>` (word 0), so N counts every word and one `<eos>` per line.
        context: see `Context`; recorded with every figure.
        sha256: the SHA-256 of each split's text, which results record.
        true_perplexity: the perplexities of valid and test under the source of the text, if known.
        conditions: the (L,) int64 conditions of each split's L lines, as indices of the vocabulary's conditions; empty
            if lines have no labels.
        of_files: the SHA-256 of each file of a split, for users' texts.
        cut_from: where splits are held out from train, for each split the SHA-256 of the files that it has a part of:
            in train with the number of their lines there, else with that of the lines before.
        notes: further facts for provenance, such as the version of the source; ``unknown`` is a warning.
    """

    name: str
    context: Context
    vocabulary: Vocabulary
    splits: dict[str, Tensor]
    sha256: dict[str, str]
    true_perplexity: dict[str, float] = field(default_factory=dict)
    conditions: dict[str, Tensor] = field(default_factory=dict)
    of_files: dict[str, list[str]] = field(default_factory=dict)
    cut_from: dict[str, dict[str, int]] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "splits", Splits(self.name, self.splits))

    @property
    def texts(self) -> dict[str, set[str]]:
        """The SHA-256 of each split, and of its files."""
        return {split: {self.sha256[split], *self.of_files.get(split, ())} for split in SPLITS if split in self.sha256}

    @property
    def warnings(self) -> list[str]:
        """Warnings of misleading figures: repeated texts, and different spellings of a word."""
        texts, tokens = self.texts, self.splits
        found = [
            f"{split} has text of {before}: {SAY_LESS[before]}"
            for before, split in itertools.combinations(texts, 2)
            if texts[before] & texts[split] or (tokens and tokens[before].equal(tokens[split]))  # but for white space
        ]
        files = self.of_files.get("train", [])
        if repeated := len(files) - len({*files}):
            found.append(f"{repeated} of the files of train are duplicates, which are counted, too")
        if labels := self.labels("train"):
            found += filter(None, [header_warning(labels[0], Counter(labels))])
        for split, text in tokens.items() if self.of_files else ():
            ends = text.numpy() == EOS_ID
            lines, empty = np.count_nonzero(ends), np.count_nonzero(ends[1:] & ends[:-1])
            if empty > EMPTY * lines:
                found.append(f"{split}: {empty:,} of {lines:,} lines are empty; each counts as a token that is easy to "
                             "predict, so perplexity is lower than of the text without them")  # fmt: skip
        if unknown := self.notes.get("unknown"):
            found.append(unknown)
        return found + (self.vocabulary.warnings if self.vocabulary.form.of_words else [])

    def labels(self, split: str) -> list[str]:
        """The label of each line of a split; empty if lines have no labels."""
        return [self.vocabulary.conditions[number] for number in self.conditions.get(split, torch.empty(0)).tolist()]

    def truncated(self, tokens: int | None) -> "Corpus":
        """The first lines of each split with at most ``tokens`` tokens, at least one line; the name says so.

        The whole corpus if None.
        """
        if tokens is None:
            return self
        splits, conditions = {}, {}
        for split, text in self.splits.items():
            ends = (text == EOS_ID).nonzero().flatten() + 1
            lines = max(1, int((ends <= tokens).sum()))
            splits[split] = text[: int(ends[lines - 1])]
            if split in self.conditions:
                conditions[split] = self.conditions[split][:lines]
        if all(len(splits[split]) == len(text) for split, text in self.splits.items()):
            return self
        name = f"{self.name}, first {tokens:,} tokens"
        notes = {name: re.sub(f"{UNK}: [^;]*;", f"{UNK};", note)  # without shares, and line numbers, of the whole text
                 for name, note in self.notes.items() if name not in SPLITS}  # fmt: skip
        return replace(self, name=name, splits=splits, conditions=conditions, true_perplexity={}, notes=notes)
