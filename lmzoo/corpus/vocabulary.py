"""Words and their numbers."""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import count, islice

import numpy as np
import torch
from torch import Tensor

from lmzoo.core.errors import UserError
from lmzoo.corpus.form import Form, character
from lmzoo.corpus.lookup import Words, WordTable, blocks
from lmzoo.corpus.subwords import BEGIN

EOS = "<eos>"
UNK = "<unk>"
EOS_ID = 0
"""`<eos>`, the end of a line, is word 0 of every vocabulary. It also stands before a sentence."""

ADDED = {EOS: "the end", "<s>": "the beginning", "</s>": "the end"}
"""Words that no text may have, and where each line has them anyway: ours, and those of SRILM and KenLM."""


LIKE_UNK = re.compile(r"UNK|(?!<unk>)[<\[](?i:unk|unknown|oov)[>\]]")
"""Words by which other programs mean `<unk>`."""

RawText = bytes | Iterable[str]
"""UTF-8 in which each line ends with a line feed, or lines."""


def in_another_form(word: str, words: Container[str]) -> bool:
    """Whether a word is among some in another Unicode normal form, which looks the same."""
    if word.isascii():
        return False
    return any(form != word and form in words for form in map(unicodedata.normalize, ("NFC", "NFD"), (word, word)))


class Vocabulary:
    """A bijection between V words and 0 … V-1, `<eos>` first.

    A vocabulary without `<unk>` is closed: an unknown word is an error.

    Args:
        form: how texts become words before they are looked up.
        conditions: the labels that lines may have; none where they have no label.

    Raises: ValueError if a word is there twice or `<eos>` is not the first word.
    """

    def __init__(self, words: Sequence[str], form: Form = Form(), conditions: Sequence[str] = ()):  # noqa: B008
        self.words, self.form, self.conditions = list(words), form, list(conditions)
        self.index = {word: number for number, word in enumerate(self.words)}
        if self.words[:1] != [EOS] or len(self.index) != len(self.words):
            raise ValueError(f"a vocabulary is a list of distinct words, {EOS} first")

    @classmethod
    def of(cls, text: RawText, min_count: int = 1, max_size: int | None = None, unknown: bool = False) -> "Vocabulary":
        """`<eos>` and the words of a text, the most frequent first; among equals, the first seen is first.

        If a word is left out, or where ``unknown`` asks for it, the vocabulary has `<unk>`.

        Args:
            text: as in `encode`.
            min_count: a word with fewer occurrences is left out.
            max_size: the most words of the vocabulary, `<eos>` and `<unk>` included; rarer words are left out.
        """
        lexicon = Lexicon()
        for _, block in blocks(utf8(text)):
            lexicon.find(Words(block))
        return lexicon.ranked(min_count, max_size, unknown)

    def __len__(self) -> int:
        return len(self.words)

    @cached_property
    def _table(self) -> WordTable:
        return _table({word: number for word, number in self.index.items() if word.split() == [word]})

    def find(self, words: Words) -> np.ndarray:
        """(W,) int64 numbers of words; -1 for those that have none."""
        return self._table.find(words)

    def encode(self, text: RawText, where: str = "text", line: int = 1) -> Tensor:
        """A text -> the (N,) int64 numbers of its words, each line closed by `<eos>`; `<unk>` for unknown words.

        Args:
            text: lines of words that white space parts, as `str.split` has it; or UTF-8, in which a line ends with a
                line feed alone.
            where: the name of the text in an error.
            line: the number of its first line in an error.

        Raises: UserError that names the line, for a word of `ADDED`, and for an unknown word if the vocabulary has no
            `<unk>`.
        """
        data, parts = self.form.prepared(utf8(text, where)), [torch.empty(0, dtype=torch.int64)]
        for begin, block in blocks(data):
            words = Words(block)
            numbers = self.find(words)
            refused = numbers == EOS_ID if UNK in self.index else numbers <= EOS_ID
            if refused.any():
                raise self._refusal(data, begin + int(words.begin[refused.argmax()]), where, line)
            numbers[numbers < 0] = self.index.get(UNK, -1)
            parts.append(torch.from_numpy(np.insert(numbers, words.line_ends(), EOS_ID)))
        return torch.cat(parts)

    def encode_pieces(self, pieces: Iterable[bytes], where: str) -> Iterator[tuple[bytes, Tensor]]:
        """Each piece of a text that comes in those of `read_pieces`, and its numbers; errors as `encode` has them.

        A piece of blanks within a line, which has no number, is left out.
        """
        line = 1
        for piece in _whole_lines(pieces) if self.form.reverse else pieces:
            numbers = self.encode(piece, where, line)
            numbers = numbers if piece.endswith(b"\n") else numbers[:-1]
            if len(numbers):
                yield piece, numbers
            line += piece.count(b"\n")

    def _refusal(self, data: bytes, place: int, where: str, first: int) -> UserError:
        """What is wrong with the line of a text that has a wrong word at this place; its lines count from ``first``."""
        number = data.count(b"\n", 0, place) + first
        line = data[data.rfind(b"\n", 0, place) + 1 : data.find(b"\n", place)]
        words = line.decode("utf-8", "surrogatepass").split()
        if added := next((word for word in words if word in ADDED), None):
            return UserError(
                f"{where}, line {number}: {added} is added at {ADDED[added]} of each line",
                "remove it there, or write it in another way where it is a word of the text",
            )
        word = next(word for word in words if word not in self.index)
        problem = f"{where}, line {number}: '{word}' is not in the vocabulary"
        if in_another_form(word, self.index):
            return UserError(f"{problem} but in another Unicode normal form", "bring the texts to one")
        return UserError(
            f"{problem}, which has no {UNK}",
            f"replace it, or train with corpus.unknown=true, which adds {UNK}, or corpus.min_count=2, which makes "
            "rare words of train unknown",
        )

    @property
    def warnings(self) -> list[str]:
        """What changes figures unseen: known words that mean the unknown, and words in two spellings."""
        found = [f"'{word}' is a word like others; only {UNK} stands for unknown words, so write it so in the texts"
                 for word in self.words if LIKE_UNK.fullmatch(word)]  # fmt: skip
        if twice := [word for word in self.words if in_another_form(word, self.index)]:
            found.append(f"{len(twice)} words are there in another Unicode normal form, too, such as '{twice[0]}'; "
                         "bring the texts to one")  # fmt: skip
        return found

    def decode(self, tokens: Iterable[int]) -> str:
        """Word numbers -> text, with a new line after each `<eos>`; where words are characters or pieces of words, in
        place of it. Lines that are read backwards are written forwards."""
        if self.form.reverse:
            read = torch.tensor([*tokens], dtype=torch.int64)
            tokens = read[self.text_order(read)].tolist()
        if self.form.of_words:
            return self.form.line(self.words[token] for token in tokens).replace(f"{EOS} ", f"{EOS}\n")
        lines: list[list[str]] = [[]]
        for token in tokens:
            lines.append([]) if token == EOS_ID else lines[-1].append(self.words[token])
        return "\n".join(map(self.form.line, lines))

    def text_order(self, tokens: Tensor) -> Tensor:
        """(N,) tokens as they are read -> (N,) the indices that bring them into the order of the text.

        They change it where lines are read backwards (corpus.reverse), and then bring the text into that of reading.
        """
        return reversed_order(tokens) if self.form.reverse else torch.arange(len(tokens))

    def word_begins(self, tokens: Tensor, before: int = EOS_ID) -> Tensor:
        """(N,) tokens of a text -> (N,) bool, whether each is `<eos>` or the first of a word that white space parts.

        So their number is that of words and ends of lines, by which perplexity per word is counted.

        Args:
            before: the token that the text goes on from.
        """
        if self.form.of_words:
            return torch.ones_like(tokens, dtype=torch.bool)
        begins = self._begins[tokens]
        if self.form.unit == "char":  # a sign that is no space, after a space or the beginning of a line
            apart = (~self._begins).index_fill(0, torch.tensor(EOS_ID), True)
            begins &= torch.cat([apart[torch.tensor([before])], apart[tokens[:-1]]])
        return begins | (tokens == EOS_ID)

    @cached_property
    def _begins(self) -> Tensor:
        """(V,) bool: the pieces that begin a word; the characters that are no white space."""
        if self.form.of_pieces:
            return torch.tensor([word.startswith(BEGIN) for word in self.words])
        return torch.tensor([not character(word).isspace() for word in self.words])


class Lexicon(Vocabulary):
    """A vocabulary that takes up every word it looks up, numbers them as they come, and counts them.

    Attributes:
        counts: (V,) int64 how often each was looked up.
    """

    def __init__(self, form: Form = Form()):  # noqa: B008
        super().__init__([EOS], form)
        self.index = defaultdict(count(1).__next__, self.index)
        self.counts = np.zeros(1, np.int64)
        self.table = _table(self.index)

    def find(self, words: Words) -> np.ndarray:
        """(W,) int64 numbers of words, new ones among them."""
        if len(self.words) > 2 * len(self.table.numbers):
            self.table = _table(self.index)
        numbers = self.table.find(words)
        unlisted = np.flatnonzero(numbers < 0)
        numbers[unlisted] = [*map(self.index.__getitem__, words[unlisted])]
        self.words += [*islice(reversed(self.index), len(self.index) - len(self.words))][::-1]
        counts = np.bincount(numbers, minlength=len(self.words))
        counts[: len(self.counts)] += self.counts
        self.counts = counts
        return numbers

    def ranked(self, min_count: int, max_size: int | None, unknown: bool) -> Vocabulary:
        """The vocabulary that `Vocabulary.of` makes of what was looked up."""
        counts = dict(zip(self.words[1:], self.counts[1:].tolist(), strict=True))
        ranked = sorted(counts, key=lambda word: -counts[word])
        kept = [word for word in ranked if counts[word] >= min_count or word == UNK]
        if max_size is not None and len(kept) + 1 > max_size:
            kept = kept[: max_size - 1]
        if (unknown or len(kept) < len(ranked)) and UNK not in kept:
            kept = [UNK, *(kept if max_size is None or len(kept) + 2 <= max_size else kept[:-1])]
        return Vocabulary([EOS, *kept], self.form)


def _table(index: Mapping[str, int]) -> WordTable:
    """That of a vocabulary, and `EOS_ID` for the words of `ADDED`, which `encode` refuses."""
    return WordTable({**index, **dict.fromkeys(ADDED, EOS_ID)})


def reversed_order(tokens: Tensor) -> Tensor:
    """(N,) tokens -> (N,) the indices that reverse the words of each line, before its `<eos>`.

    The last line may lack `<eos>`. Reversing twice restores the order.
    """
    places, is_end = torch.arange(len(tokens)), tokens == EOS_ID
    ends = torch.cat([places[is_end], torch.tensor([len(tokens)])])
    begins, line = torch.cat([torch.tensor([0]), ends[:-1] + 1]), is_end.cumsum(0) - is_end.long()
    return torch.where(is_end, places, begins[line] + ends[line] - 1 - places)


def _whole_lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Pieces of a text, joined where a line goes on."""
    begun: list[bytes] = []
    for piece in pieces:
        begun.append(piece)
        if piece.endswith(b"\n"):
            yield b"".join(begun)
            begun.clear()


def utf8(text: RawText, where: str = "text") -> bytes:
    """A text in UTF-8, each of its lines closed by a line feed; a UserError for what is not one line."""
    if isinstance(text, str):
        raise TypeError("a text is lines, such as ['one line'], or UTF-8 bytes, and not one string")
    if isinstance(text, bytes):
        return text if text.endswith(b"\n") else text + b"\n"
    lines = list(text)
    if wrong := next((n for n, line in enumerate(lines, 1) if not isinstance(line, str) or "\n" in line), None):
        raise UserError(f"{where}, line {wrong}: is not one line of text", "give each line by itself")
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass")
