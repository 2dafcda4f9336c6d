"""Words cut into pieces: byte-pair encoding and unigram pieces, which SentencePiece learns and which cut here.

Sennrich et al. (2016), "Neural machine translation of rare words with subword units"; Kudo (2018), "Subword
regularization"; Kudo & Richardson (2018), "SentencePiece". A run keeps the pieces and their scores as text, so that
reading it needs no other package and executes nothing.
"""

import heapq
import io
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from lmzoo.core.errors import UserError

Kind = Literal["bpe", "unigram"]

BEGIN = "▁"
"""The first character of the first piece of each word."""

BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
"""Pieces of characters that have none: the bytes of their UTF-8."""

_BYTE = {name: bytes([byte]) for byte, name in enumerate(BYTES)}

_END, _NO_PIECES = "<eos>", {"<s>", "</s>", "<unk>"}
"""What SentencePiece's own piece is called, so that no text has it; and pieces that a vocabulary has for itself."""

_STANDS_FOR_BEGIN = "\n"
"""`BEGIN` inside a word, where it is a character without a piece. No word has a line feed."""

UNKNOWN_PENALTY = 10.0
"""A character without a piece costs so much more than the least likely piece in the search for the best pieces."""

_NO_TEXT = bytes.maketrans(b"\0\n\r", b"\xff\xff\xff")
"""Bytes that no line of words has, as one that no UTF-8 has."""

REMEMBERED = 1 << 18
"""So many words are cut once alone."""


@dataclass(frozen=True)
class Subwords:
    """Pieces, and how they cut a word.

    Args:
        kind: ``bpe``: the pair of neighbouring pieces whose whole has the highest score is joined, the leftmost of
            several, until none is left. ``unigram``: of all ways to cut a word the one whose scores have the highest
            sum.
        scores: that of each piece; of ``bpe`` minus the number of the merge, of ``unigram`` log p.
    """

    kind: Kind
    scores: Mapping[str, float]
    _cut: dict[str, list[str]] = field(default_factory=dict, init=False, repr=False, compare=False)

    @classmethod
    def of(cls, kind: Kind, words: Sequence[str], scores: Sequence[str]) -> "Subwords":
        """Those of a run.

        Args:
            words: its vocabulary, as `words` has it.
            scores: a number each for the pieces.

        Raises: ValueError where they do not fit.
        """
        pieces, numbers = words[1 : -len(BYTES)], [float(score) for score in scores]
        if list(words[-len(BYTES) :]) != BYTES or len(numbers) != len(pieces) or BEGIN not in pieces:
            raise ValueError("the pieces and their scores do not fit")
        if not all(map(math.isfinite, numbers)):
            raise ValueError("a score is no number")
        return cls(kind, dict(zip(pieces, numbers, strict=True)))

    @property
    def words(self) -> list[str]:
        """The vocabulary: `<eos>`, the pieces, and `BYTES`."""
        return [_END, *self.scores, *BYTES]

    @cached_property
    def _longest(self) -> int:
        return max(map(len, self.scores))

    def cut(self, word: str) -> list[str]:
        """The pieces of a word, bytes for characters that have none."""
        if (pieces := self._cut.get(word)) is None:
            if len(self._cut) >= REMEMBERED:
                self._cut.clear()
            characters = [BEGIN, *word.replace(BEGIN, _STANDS_FOR_BEGIN)]
            found = (self._merged if self.kind == "bpe" else self._likeliest)(characters)
            pieces = self._cut[word] = [part for each in found for part in self._or_bytes(each)]
        return pieces

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
                continue  # one of the two was joined with another piece before
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
        unknown = min(self.scores.values()) - UNKNOWN_PENALTY
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
    """The words of some pieces, a space between them; the sign � for bytes of no UTF-8, and those that no line has."""
    parts = (_BYTE.get(piece) or piece.replace(BEGIN, " ").encode("utf-8", "surrogatepass") for piece in pieces)
    return b"".join(parts).translate(_NO_TEXT).decode(errors="replace").removeprefix(" ")


def learnt(lines: Iterable[str], kind: Kind, size: int) -> Subwords:
    """The pieces that SentencePiece finds in a text.

    A piece never goes beyond white space; anything else may be in one. Characters that are rarer together than 0.05%
    of all have no piece, so that a model learns from train what bytes are.

    Args:
        lines: of words that white space parts, of whatever kind: SentencePiece itself knows the space alone.
        size: the number of pieces, `<eos>` and bytes included.

    Raises: UserError where SentencePiece is missing, or where no so many pieces can be found in the text.
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
