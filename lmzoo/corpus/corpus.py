"""A corpus: three token streams over one vocabulary."""

import itertools
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import torch
from torch import Tensor

from lmzoo.core.errors import UserError
from lmzoo.corpus.conditions import header_warning
from lmzoo.corpus.vocabulary import EOS_ID, Vocabulary

SPLITS = ("train", "valid", "test")

Context = Literal["stream", "sentence"]
"""``stream``: a model's memory crosses `<eos>`. ``sentence``: each line stands alone."""


SAY_LESS = {
    "train": "its figures do not tell how good the model is with other text",
    "valid": "its figures are of a text that the model was chosen with",
}
"""What figures of a later split mean that has text of this one."""


class Splits(dict[str, Tensor]):
    """The tokens of each split; a UserError for one that the corpus does not have."""

    def __init__(self, corpus: str, splits: Mapping[str, Tensor]):
        super().__init__(splits)
        self.corpus = corpus

    def __missing__(self, split: str) -> Tensor:
        raise UserError(f"corpus {self.corpus} has no {split} split", f"there are: {', '.join(self)}")


@dataclass(frozen=True)
class Corpus:
    """Three splits of one text, of which test may be absent.

    Attributes:
        name: what it is called: its name in the configuration, or the label of a text of one's own.
        splits: ``train``, ``valid`` and ``test``, each (N,) int64, or int32 where they are mapped from a file. Every
            line is closed by `<eos>` (word 0), so N counts every word and one `<eos>` per line.
        context: see `Context`. Every reported figure records it.
        sha256: the SHA-256 of each split's text. A result records the text that it was measured on by it.
        true_perplexity: the perplexities of valid and test under the source of the text, where that is known.
        conditions: the (L,) int64 conditions of each split's L lines, by their places in those of the vocabulary; none
            where lines have no labels.
        files: how many tokens of train come from each of its files, in their order.
        of_files: the SHA-256 of each file of a split, where it is of files of one's own.
        notes: what else provenance records, such as the version that a text comes from.
    """

    name: str
    context: Context
    vocabulary: Vocabulary
    splits: dict[str, Tensor]
    sha256: dict[str, str]
    true_perplexity: dict[str, float] = field(default_factory=dict)
    conditions: dict[str, Tensor] = field(default_factory=dict)
    files: list[int] = field(default_factory=list)
    of_files: dict[str, list[str]] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "splits", Splits(self.name, self.splits))

    @property
    def texts(self) -> dict[str, set[str]]:
        """The SHA-256 of each split, and of its files."""
        return {split: {self.sha256[split], *self.of_files.get(split, ())} for split in SPLITS if split in self.sha256}

    @property
    def warnings(self) -> list[str]:
        """What makes figures say less than they seem to: texts that are there twice, words that are one."""
        texts, tokens = self.texts, self.splits
        found = [
            f"{split} has text of {before}: {SAY_LESS[before]}"
            for before, split in itertools.combinations(texts, 2)
            if texts[before] & texts[split] or (tokens and tokens[before].equal(tokens[split]))  # but for white space
        ]
        files = self.of_files.get("train", [])
        if repeated := len(files) - len({*files}):
            found.append(f"{repeated} of the files of train have the text of another, which counts once more")
        if labels := self.labels("train"):
            found += filter(None, [header_warning(labels[0], Counter(labels))])
        return found + (self.vocabulary.warnings if self.vocabulary.form.of_words else [])

    def labels(self, split: str) -> list[str]:
        """The label of each line of a split; none where lines have no labels."""
        return [self.vocabulary.conditions[number] for number in self.conditions.get(split, torch.empty(0)).tolist()]

    def truncated(self, tokens: int) -> "Corpus":
        """The first whole lines of each split, of at most so many tokens; at least one line. The name tells it."""
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
        return replace(self, name=name, splits=splits, conditions=conditions, files=[], true_perplexity={})
