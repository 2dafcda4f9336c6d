"""Subwords by byte-pair encoding or unigram models, trained by SentencePiece and applied here.

Sennrich et al. (2016), "Neural machine translation of rare words with subword units"; Kudo (2018), "Subword
regularization"; Kudo & Richardson (2018), "SentencePiece". A run stores pieces and scores as text, so that loading
it needs no other package and runs no code.
"""

import heapq
import io
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Literal

from lmzoo.core.errors import UserError
from lmzoo.corpus.lookup import PieceTable

Kind = Literal["bpe", "unigram"]

BEGIN = "▁"
"""The first character of the first piece of a word."""

BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
"""Byte fallback: pieces for the UTF-8 bytes of characters without a piece."""

_BYTE = {name: bytes([byte]) for byte, name in enumerate(BYTES)}

_END, _NO_PIECES = "<eos>", {"<s>", "</s>", "<unk>"}
"""The name of SentencePiece's unknown piece, which no text contains; and pieces excluded from vocabularies."""

_STANDS_FOR_BEGIN = "\n"
"""A substitute for `BEGIN` inside a word, which no word contains."""

UNKNOWN_PENALTY = 10.0
"""The amount by which a character without a piece scores below the lowest score, in log p."""

_NO_TEXT = bytes.maketrans(b"\0\n\r", b"\xff\xff\xff")
"""Maps bytes that no line of words contains to a byte that is invalid in UTF-8."""

REMEMBERED = 1 << 18
"""The maximum number of cached words."""


@dataclass(frozen=True)
class Subwords:
    """Pieces and the segmentation of words into them.

    Args:
        kind: ``bpe``: repeatedly merge the neighbouring pieces whose concatenation has the highest score, the leftmost
            first. ``unigram``: choose the segmentation with the highest sum of scores.
        scores: the score of each piece: for ``bpe``, minus the number of the merge; for ``unigram``, log p.
    """

    kind: Kind
    scores: Mapping[str, float]

    @classmethod
    def of(cls, kind: Kind, words: Sequence[str], scores: Sequence[str]) -> "Subwords":
        """Build the subwords of a run.

        Args:
            words: the vocabulary of the run, as in `words`.
            scores: the score of each piece.

        Raises: ValueError if they are inconsistent.
        """
        pieces, numbers = words[1 : -len(BYTES)], [float(score) for score in scores]
        if list(words[-len(BYTES) :]) != BYTES or len(numbers) != len(pieces) or BEGIN not in pieces:
            raise ValueError("the pieces and their scores do not fit")
        if not all(map(math.isfinite, numbers)):
            raise ValueError("a score is not a number")
        return cls(kind, dict(zip(pieces, numbers, strict=True)))

    @property
    def words(self) -> list[str]:
        """The vocabulary: `<eos>`, the pieces, and `BYTES`."""
        return [_END, *self.scores, *BYTES]

    @cached_property
    def _longest(self) -> int:
        return max(map(len, self.scores))

    @cached_property
    def _unknown(self) -> float:
        return min(self.scores.values()) - UNKNOWN_PENALTY

    @cached_property
    def cut(self) -> Callable[[str], list[str]]:
        """The pieces of a word, with bytes for characters that have none, cached."""
        return lru_cache(REMEMBERED)(self._pieces)

    @cached_property
    def table(self) -> PieceTable:
        """The indices of the pieces of words among `words`."""
        index = {piece: number for number, piece in enumerate(self.words)}
        return PieceTable(lambda word: [index[piece] for piece in self._pieces(word)])

    def __getstate__(self) -> dict[str, Any]:
        return {"kind": self.kind, "scores": self.scores}  # caches cannot be pickled

    def _pieces(self, word: str) -> list[str]:
        characters = [BEGIN, *word.replace(BEGIN, _STANDS_FOR_BEGIN)]
        found = (self._merged if self.kind == "bpe" else self._likeliest)(characters)
        return [part for each in found for part in self._or_bytes(each)]

    def _or_bytes(self, piece: str) -> list[str]:
        if piece in self.scores:
            return [piece]
        return [BYTES[byte] for byte in piece.replace(_STANDS_FOR_BEGIN, BEGIN).encode("utf-8", "surrogatepass")]

    def _merged(self, pieces: list[str]) -> list[str]:
        after, before = list(range(1, len(pieces) + 1)), list(range(-1, len(pieces) - 1))
        queue: list[tuple[float, int, str]] = []

        def offer(left: int) -> None:
            if left >= 0 and after[left] < len(pieces):
                whole = pieces[left] + pieces[after[left]]
                if whole in self.scores:
                    heapq.heappush(queue, (-self.scores[whole], left, whole))

        for left in range(len(pieces)):
            offer(left)
        gone: set[int] = set()
        while queue:
            _, left, whole = heapq.heappop(queue)
            if left in gone or after[left] == len(pieces) or pieces[left] + pieces[after[left]] != whole:
                continue  # one of the two has been merged with another piece
            right = after[left]
            gone.add(right)
            pieces[left], after[left] = whole, after[right]
            if after[left] < len(pieces):
                before[after[left]] = left
            offer(before[left])
            offer(left)
        return [piece for place, piece in enumerate(pieces) if place not in gone]

    def _likeliest(self, characters: list[str]) -> list[str]:
        best, begins = [0.0] + [-math.inf] * len(characters), [0] * (len(characters) + 1)
        unknown = self._unknown
        for begin in range(len(characters)):
            piece = ""
            for end in range(begin + 1, min(begin + self._longest, len(characters)) + 1):
                piece += characters[end - 1]
                score = self.scores.get(piece, unknown if end == begin + 1 else -math.inf)
                if best[begin] + score > best[end]:
                    best[end], begins[end] = best[begin] + score, begin
        pieces, end = [], len(characters)
        while end:
            pieces.append("".join(characters[begins[end] : end]))
            end = begins[end]
        return pieces[::-1]


def joined(pieces: Iterable[str]) -> str:
    """Join pieces to text, with spaces between words and � for invalid UTF-8 and bytes that no line contains."""
    parts = (_BYTE.get(piece) or piece.replace(BEGIN, " ").encode("utf-8", "surrogatepass") for piece in pieces)
    return b"".join(parts).translate(_NO_TEXT).decode(errors="replace").removeprefix(" ")


def learn_subwords(lines: Iterable[str], kind: Kind, size: int) -> Subwords:
    """Train subwords with SentencePiece.

    A piece does not cross white space, but may contain all other characters. The rarest 0.05% of characters in train
    have no piece, so that models learn to use bytes.

    Args:
        lines: words with any white space between them; SentencePiece itself splits only at spaces.
        size: the vocabulary size, `<eos>` and bytes included.

    Raises: UserError if SentencePiece is missing, or the text does not have ``size`` pieces.
    """
    try:
        from sentencepiece import SentencePieceProcessor, SentencePieceTrainer
    except ImportError:
        raise UserError(f"corpus.unit={kind}: needs another package", "pip install 'lmzoo-torch[subwords]'") from None
    model = io.BytesIO()
    try:
        SentencePieceTrainer.train(  # pyright: ignore[reportAttributeAccessIssue]
            sentence_iterator=(" ".join(line.replace(BEGIN, " ").split()) for line in lines),
            model_writer=model, model_type=kind, vocab_size=size, byte_fallback=True, unk_id=0, unk_piece=_END,
            bos_id=-1, eos_id=-1, pad_id=-1, normalization_rule_name="identity", split_by_unicode_script=False,
            split_by_number=False, max_sentence_length=1 << 30, num_threads=1, minloglevel=2,
        )  # fmt: skip
    except RuntimeError as error:
        sizes = re.search(r"<= (\d+)\.|vs (\d+)\.", str(error))
        if sizes is None:
            raise UserError(f"corpus.unit={kind}: SentencePiece finds no pieces in train ({error})") from None
        bound = f"at most {sizes[1]}" if sizes[1] else f"at least {sizes[2]}"
        raise UserError(f"corpus.subwords={size}: train has pieces for {bound}", "choose another number") from None
    found = SentencePieceProcessor(model_proto=model.getvalue())
    ids = range(1 + len(BYTES), found.get_piece_size())
    scores = {found.id_to_piece(i): found.get_score(i) for i in ids}
    return Subwords(kind, {piece: score for piece, score in scores.items() if piece not in _NO_PIECES})
