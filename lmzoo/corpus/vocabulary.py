"""Words and their numbers."""

from collections import Counter
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from lmzoo.core.errors import UserError

EOS = "<eos>"
UNK = "<unk>"
EOS_ID = 0
"""The end of a line is word 0 of every vocabulary; it also stands for what precedes a sentence."""


class Vocabulary:
    """A bijection between V words and 0 … V-1, `<eos>` first.

    A text without `<unk>` among its words has a closed vocabulary: an unknown word is then an error.
    """

    def __init__(self, words: Sequence[str]):
        self.words = list(words)
        self.index = {word: number for number, word in enumerate(self.words)}
        if self.words[:1] != [EOS] or len(self.index) != len(self.words):
            raise ValueError(f"a vocabulary is a list of distinct words, {EOS} first")

    @classmethod
    def of(cls, lines: Iterable[str], min_count: int = 1, max_size: int | None = None) -> "Vocabulary":
        """The words of a text, most frequent first (ties: first seen first), after `<eos>`.

        Words seen fewer than ``min_count`` times or beyond the ``max_size`` most frequent (`<eos>`
        and `<unk>` included) are left out, and `<unk>` is added where that leaves any out.
        """
        counts = Counter(word for line in lines for word in line.split())
        counts.pop(EOS, None)
        ranked = sorted(counts, key=lambda word: -counts[word])
        kept = [word for word in ranked if counts[word] >= min_count or word == UNK]
        if max_size is not None and len(kept) + 1 > max_size:
            kept = kept[: max_size - 1]
        if len(kept) < len(ranked) and UNK not in kept:
            kept = [UNK, *(kept if max_size is None or len(kept) + 2 <= max_size else kept[:-1])]
        return cls([EOS, *kept])

    def __len__(self) -> int:
        return len(self.words)

    def encode(self, lines: Iterable[str], where: str = "text") -> Tensor:
        """Lines of space-separated words -> (N,) int64, each line closed by `<eos>`.

        Raises: UserError naming an unknown word's line where the vocabulary has no `<unk>`.
        """
        if isinstance(lines, str):
            raise TypeError("encode takes lines, such as ['one line'], and not one string")
        unk = self.index.get(UNK, -1)
        numbers: list[int] = []
        for line_number, line in enumerate(lines, start=1):
            words = line.split()
            row = [self.index.get(word, unk) for word in words]
            if EOS_ID in row:
                raise UserError(
                    f"{where}, line {line_number}: {EOS} is added at the end of each line", "remove it there"
                )
            if -1 in row:
                word = words[row.index(-1)]
                raise UserError(
                    f"{where}, line {line_number}: '{word}' is not in the vocabulary, which has no {UNK}",
                    f"map unknown words before, or raise corpus.min_count, which makes the rare words of train {UNK}",
                )
            numbers += row
            numbers.append(EOS_ID)
        return torch.tensor(numbers, dtype=torch.int64)

    def decode(self, tokens: Iterable[int]) -> str:
        """Word numbers -> text, a new line after each `<eos>`."""
        text = " ".join(self.words[token] for token in tokens)
        return text.replace(f"{EOS} ", f"{EOS}\n")
