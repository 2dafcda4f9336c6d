"""Vocabularies: words and their indices."""

import re
import unicodedata
from collections.abc import Container, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from lmzoo.core.errors import UserError
from lmzoo.corpus.form import Form, character
from lmzoo.corpus.lookup import GrowingTable, Words, WordTable, blocks
from lmzoo.corpus.subwords import BEGIN
from lmzoo.corpus.tokenizer import PROSE, STUCK, with_punctuation

EOS = "<eos>"
UNK = "<unk>"
EOS_ID = 0
"""`<eos>`, the end of a line, is word 0 of every vocabulary, and the context at the beginning of a sentence."""

ADDED = {EOS: "the end", "<s>": "the beginning", "</s>": "the end"}
"""Words that texts may not contain, as they are added to each line: ours, and those of SRILM and KenLM."""


_ADDED_BYTES = [word.encode() for word in ADDED]

SHORT = 2**9
"""A text of fewer bytes is encoded word by word, which takes less time than vectorized look-up."""

DOUBLED_QUOTE = re.compile(r'(?<!")""\w|\w""(?!")')
"""A quote inside a cell of a table, where it is written twice."""

LIKE_UNK = re.compile(r"UNK|(?!<unk>)[<\[](?i:unk|unknown|oov)[>\]]")
"""Names of `<unk>` in other programs."""

RawText = bytes | Iterable[str]
"""A text: UTF-8 in which every line ends with a line feed, or a sequence of lines."""


def has_other_normal_form(word: str, words: Container[str]) -> bool:
    """Whether another Unicode normal form of a word, which looks the same, is among ``words``."""
    if word.isascii():
        return False
    return any(form != word and form in words for form in map(unicodedata.normalize, ("NFC", "NFD"), (word, word)))


class UnknownWordError(UserError):
    """A text has a word that a closed vocabulary has not."""


class Vocabulary:
    """A bijection between V words and 0 … V-1, `<eos>` first.

    In a vocabulary without `<unk>` an unknown word is an error.

    Args:
        form: the processing of texts before words are looked up.
        conditions: the possible labels of lines; empty if lines have no labels.
        closed: whether an unknown word is an error even if `<unk>` is a word.

    Raises: ValueError if a word is repeated or `<eos>` is not the first word.
    """

    def __init__(
        self,
        words: Sequence[str],
        form: Form = Form(),  # noqa: B008
        conditions: Sequence[str] = (),
        closed: bool = False,
    ):
        self.words, self.form, self.conditions, self.closed = list(words), form, list(conditions), closed
        self.index = {word: number for number, word in enumerate(self.words)}
        if self.words[:1] != [EOS] or len(self.index) != len(self.words):
            raise ValueError(f"a vocabulary is a list of distinct words, {EOS} first")

    @classmethod
    def of(cls, text: RawText, min_count: int = 1, max_size: int | None = None, unknown: bool = False) -> "Vocabulary":
        """Collect `<eos>` and the words of a text by falling frequency, ties by first occurrence.

        If a word is left out, or if ``unknown``, the vocabulary includes `<unk>`.

        Args:
            text: as in `encode`.
            min_count: the minimum number of occurrences of a word.
            max_size: the maximum size of the vocabulary, `<eos>` and `<unk>` included; rare words are left out.
        """
        lexicon = Lexicon()
        for _, block in blocks(utf8(text)):
            lexicon.find(Words(block))
        return lexicon.ranked(min_count, max_size, unknown)

    def __len__(self) -> int:
        return len(self.words)

    @cached_property
    def _table(self) -> WordTable:
        index = {word: number for word, number in self.index.items() if word.split() == [word]}
        return WordTable(index | dict.fromkeys(ADDED, EOS_ID))  # `encode` rejects the words of `ADDED`

    def find(self, words: Words) -> np.ndarray:
        """(W,) int64 indices of words; -1 for unknown words."""
        return self._table.find(words)

    @property
    def _replacement(self) -> int:
        """The index of `<unk>`, as which unknown words are read; -1 if they are errors."""
        return -1 if self.closed else self.index.get(UNK, -1)

    def encode(self, text: RawText, where: str = "text", line: int = 1) -> Tensor:
        """Encode a text as (N,) int64 indices of words, each line followed by `<eos>`, unknown words as `<unk>`.

        Args:
            text: lines of words separated by white space, as in `str.split`; or UTF-8 with lines terminated by line
                feeds only.
            where: the name of the text for errors.
            line: the number of its first line for errors.

        Raises: UserError, with the line number, for a word of `ADDED`, or an unknown word if the vocabulary has no
            `<unk>` or is closed.
        """
        data = self.form.prepared(utf8(text, where))
        numbers = self._encode_short(data) if 0 < len(data) < SHORT else None
        tokens = self._encode_long(data, where, line) if numbers is None else torch.from_numpy(np.array(numbers))
        return tokens[reversed_order(tokens)] if self.form.reverse else tokens

    def _encode_long(self, data: bytes, where: str, line: int) -> Tensor:
        """`encode` of a prepared text, in the order of the text."""
        parts = [torch.empty(0, dtype=torch.int64)]
        for begin, block in blocks(data):
            words = Words(block)
            ends = words.line_ends()
            if self.form.pieces is not None:
                numbers, begins = self.form.pieces.table.find(words)
                ends = begins[ends]
            else:
                numbers = self.find(words)
                refused = numbers == EOS_ID if self._replacement >= 0 else numbers <= EOS_ID
                if refused.any():
                    raise self._refusal(data, begin + int(words.begin[refused.argmax()]), where, line)
                numbers[numbers < 0] = self._replacement
            parts.append(torch.from_numpy(np.insert(numbers, ends, EOS_ID)))
        return torch.cat(parts)

    def _encode_short(self, data: bytes) -> list[int] | None:
        """`encode` of a text for which vectorized look-up has too high a fixed cost; None if a word is refused."""
        index, unk, numbers, pieces = self.index, self._replacement, list[int](), self.form.pieces
        if any(word in data for word in _ADDED_BYTES):  # perhaps in a longer word
            return None
        for line in data.decode("utf-8", "surrogatepass").removesuffix("\n").split("\n"):
            words = line.split() if pieces is None else chain.from_iterable(map(pieces.cut, line.split()))
            numbers += [index.get(word, unk) for word in words]
            numbers.append(EOS_ID)
        return None if -1 in numbers else numbers

    def encode_pieces(self, pieces: Iterable[bytes], where: str) -> Iterator[tuple[bytes, Tensor]]:
        """Encode the pieces of `read_pieces` one by one. Yields: each piece and its indices. Raises as `encode` does.

        A piece of only blanks within a line, which has no tokens, is omitted.
        """
        line = 1
        for piece in _whole_lines(pieces) if self.form.reverse else pieces:
            numbers = self.encode(piece, where, line)
            numbers = numbers if piece.endswith(b"\n") else numbers[:-1]
            if len(numbers):
                yield piece, numbers
            line += piece.count(b"\n")

    def _refusal(self, data: bytes, place: int, where: str, first: int) -> UserError:
        """The error for a line with an invalid word at offset ``place``; the first line has the number ``first``."""
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
        if has_other_normal_form(word, self.index):
            return UserError(f"{problem} but in another Unicode normal form", "normalize the texts")
        return UnknownWordError(
            problem if UNK in self.index else f"{problem}, which has no {UNK}",
            f"replace it, or train with corpus.unknown=true, which reads such words as {UNK}, or corpus.min_count=2, "
            "which makes rare words of train unknown",
        )

    @property
    def warnings(self) -> list[str]:
        """Warnings of words that affect figures: other names of `<unk>`, words in two Unicode normal forms, quotes
        of a table's cells, and words with punctuation, such as "end." beside "end", which are those of raw prose."""
        found = [f"'{word}' is a word like others; only {UNK} stands for unknown words, so write it so in the texts"
                 for word in self.words if LIKE_UNK.fullmatch(word)]  # fmt: skip
        if twice := [word for word in self.words if has_other_normal_form(word, self.index)]:
            found.append(f"words present in another Unicode normal form, too: {len(twice):,}, such as '{twice[0]}'; "
                         "normalize the texts")  # fmt: skip
        if quoted := [word for word in self.words if DOUBLED_QUOTE.search(word)]:
            found.append(f"words with doubled quotes, as in cells of a table: {len(quoted):,}, such as '{quoted[0]}'; "
                         "write the texts alone, without the quotes of the table")  # fmt: skip
        return found + ([] if self.form.tokenizer else self._prose())

    def _prose(self) -> list[str]:
        """A warning if many words are others with punctuation attached to them."""
        stuck = [word for word in with_punctuation(self.words) if word.strip(STUCK) in self.index]
        if len(stuck) <= PROSE * len(self.words):
            return []
        capital = [word for word in self.words if (small := word.lower()) != word and small in self.index]
        capitals = f", and {len(capital):,} have capitals, such as '{capital[0]}'" if capital else ""
        lower = ", corpus.lower=true makes letters small" if capital else ""
        return [f"{len(stuck):,} of {len(self.words):,} words are others with punctuation attached to them, such as "
                f"'{stuck[0]}'{capitals}; corpus.tokenizer=words parts punctuation{lower}, and corpus.tokenizer=ptb "
                "leaves punctuation and capitals out"]  # fmt: skip

    def decode(self, tokens: Iterable[int]) -> str:
        """Decode word indices to text, with a line feed after each `<eos>`, or in its place if words are characters or
        subwords. Lines that were read backwards are reversed."""
        if self.form.reverse:
            read = torch.tensor([*tokens], dtype=torch.int64)
            tokens = read[self.text_order(read)].tolist()
        if self.form.of_words:
            return re.sub(rf"(?<!\S){EOS} ", f"{EOS}\n", self.form.line(self.words[token] for token in tokens))
        lines: list[list[str]] = [[]]
        for token in tokens:
            lines.append([]) if token == EOS_ID else lines[-1].append(self.words[token])
        return "\n".join(map(self.form.line, lines))

    def text_order(self, tokens: Tensor) -> Tensor:
        """(N,) tokens in reading order -> (N,) indices that restore the order of the text.

        They are the identity unless lines are read backwards (corpus.reverse), and then also their own inverse.
        """
        return reversed_order(tokens) if self.form.reverse else torch.arange(len(tokens))

    def word_begins(self, tokens: Tensor, before: int = EOS_ID) -> Tensor:
        """(N,) tokens -> (N,) bool, whether each is `<eos>` or the first token of a word separated by white space.

        Their number, of words and line ends, is the denominator of perplexity per word.

        Args:
            before: the token before the text.
        """
        if self.form.of_words:
            return torch.ones_like(tokens, dtype=torch.bool)
        begins = self._begins[tokens]
        if self.form.unit == "char":  # non-space characters after a space or at the beginning of a line
            apart = (~self._begins).index_fill(0, torch.tensor(EOS_ID), True)
            begins &= torch.cat([apart[torch.tensor([before])], apart[tokens[:-1]]])
        return begins | (tokens == EOS_ID)

    @cached_property
    def _begins(self) -> Tensor:
        """(V,) bool: pieces that begin a word, or characters that are not white space."""
        if self.form.of_pieces:
            return torch.tensor([word.startswith(BEGIN) for word in self.words])
        return torch.tensor([not character(word).isspace() for word in self.words])


class Lexicon(Vocabulary):
    """A growing vocabulary that adds and counts all words it looks up.

    Attributes:
        counts: (V,) int64 number of lookups of each word.
    """

    def __init__(self, form: Form = Form()):  # noqa: B008
        super().__init__([EOS], form)
        self.counts = np.zeros(1, np.int64)
        self.table = GrowingTable(self.words, ADDED)  # `encode` rejects the words of `ADDED`
        self.index = self.table.index

    def _encode_short(self, data: bytes) -> None:
        """None, as new words are added by `find`."""

    def find(self, words: Words) -> np.ndarray:
        """(W,) int64 indices of words, after adding new ones."""
        numbers = self.table.find(words)
        counts = np.bincount(numbers, minlength=len(self.words))
        counts[: len(self.counts)] += self.counts
        self.counts = counts
        return numbers

    def ranked(self, min_count: int, max_size: int | None, unknown: bool) -> Vocabulary:
        """The vocabulary that `Vocabulary.of` returns for the words looked up."""
        counts = dict(zip(self.words[1:], self.counts[1:].tolist(), strict=True))
        ranked = sorted(counts, key=lambda word: -counts[word])
        selected = [word for word in ranked if counts[word] >= min_count or word == UNK]
        if max_size is not None and len(selected) + 1 > max_size:
            selected = selected[: max_size - 1]
        if (unknown or len(selected) < len(ranked)) and UNK not in selected:
            selected = [UNK, *(selected if max_size is None or len(selected) + 2 <= max_size else selected[:-1])]
        return Vocabulary([EOS, *selected], self.form)


def reversed_order(tokens: Tensor) -> Tensor:
    """(N,) tokens -> (N,) the indices that reverse the words of each line, before its `<eos>`.

    The last line may lack `<eos>`. Reversing twice restores the order.
    """
    places, is_end = torch.arange(len(tokens)), tokens == EOS_ID
    ends = torch.cat([places[is_end], torch.tensor([len(tokens)])])
    begins, line = torch.cat([torch.tensor([0]), ends[:-1] + 1]), is_end.cumsum(0) - is_end.long()
    return torch.where(is_end, places, begins[line] + ends[line] - 1 - places)


def _whole_lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Join pieces of a text into pieces of whole lines."""
    begun: list[bytes] = []
    for piece in pieces:
        begun.append(piece)
        if piece.endswith(b"\n"):
            yield b"".join(begun)
            begun.clear()


def utf8(text: RawText, where: str = "text") -> bytes:
    """Convert a text to UTF-8 with terminated lines; raise a UserError if an item is not one line."""
    if isinstance(text, str):
        raise TypeError("a text is lines, such as ['one line'], or UTF-8 bytes, and not one string")
    if isinstance(text, bytes):
        return text if text.endswith(b"\n") else text + b"\n"
    lines = list(text)
    if wrong := next((n for n, line in enumerate(lines, 1) if not isinstance(line, str) or "\n" in line), None):
        raise UserError(f"{where}, line {wrong}: is not one line of text", "give each line by itself, as a string")
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass")
