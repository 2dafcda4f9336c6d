"""Words and their numbers."""

from collections import Counter
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from lmzoo.core.errors import UserError

EOS = "<eos>"
UNK = "<unk>"
EOS_ID = 0
"""`<eos>`, the end of a line, is word 0 of every vocabulary. It also stands before a sentence."""


class Vocabulary:
    """A bijection between V words and 0 … V-1, `<eos>` first.

    A vocabulary without `<unk>` is closed: an unknown word is an error.

    Raises: ValueError if a word is there twice or `<eos>` is not the first word.
    """

    def __init__(self, words: Sequence[str]):
        self.words = list(words)
        self.index = {word: number for number, word in enumerate(self.words)}
        if self.words[:1] != [EOS] or len(self.index) != len(self.words):
            raise ValueError(f"a vocabulary is a list of distinct words, {EOS} first")

    @classmethod
    def of(cls, lines: Iterable[str], min_count: int = 1, max_size: int | None = None) -> "Vocabulary":
        """`<eos>` and the words of a text, the most frequent first; among equals, the first seen is first.

        If a word is left out, the vocabulary has `<unk>`.

        Args:
            min_count: a word with fewer occurrences is left out.
            max_size: the most words of the vocabulary, `<eos>` and `<unk>` included; rarer words are left out.
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

        Args:
            where: the name of the text in an error.

        Raises: UserError that names the line, for `<eos>` inside a line, and for an unknown word if the vocabulary has
            no `<unk>`.
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
                    f"replace unknown words before, or raise corpus.min_count: then rare words of train become {UNK}",
                )
            numbers += row
            numbers.append(EOS_ID)
        return torch.tensor(numbers, dtype=torch.int64)

    def decode(self, tokens: Iterable[int]) -> str:
        """Word numbers -> text, with a new line after each `<eos>`."""
        text = " ".join(self.words[token] for token in tokens)
        return text.replace(f"{EOS} ", f"{EOS}\n")
