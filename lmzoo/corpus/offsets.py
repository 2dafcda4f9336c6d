"""Where the words of a line stand in the line."""

import re
from collections.abc import Iterator, Sequence

from lmzoo.corpus.form import Form
from lmzoo.corpus.subwords import BEGIN, BYTES
from lmzoo.corpus.tokenizer import TOKENIZERS, Places, lowered, traced

_OF_BYTE = {*BYTES}


def word_offsets(line: str, form: Form, tokenizer: str | None = None) -> Places:
    """The beginning and end in a line of each of its words, ``form.without_reverse.words``, and of the end of the line.

    What a tokenizer leaves out lies between words. A piece for a byte of a character is at the character.

    Args:
        tokenizer: the name of the tokenizer that the line goes through before the form's own processing, if any.
    """
    text, places = line, [(i, i + 1) for i in range(len(line))]
    if tokenizer is not None:
        text, places = traced(text, places, tokenizer)
    if form.lower:
        text, places = lowered(text, places)
    if form.tokenizer is not None and form.tokenizer in TOKENIZERS:  # raw text, of transformers, has none of them
        text, places = traced(text, places, form.tokenizer)
    if form.unit == "char":
        found = places[: len(text.removesuffix("\r"))]
    else:
        words = [(match[0], places[match.start() : match.end()]) for match in re.finditer(r"\S+", text)]
        if form.pieces is None:
            found = [(own[0][0], own[-1][1]) for _, own in words]
        else:
            found = [place for word, own in words for place in _of_pieces(word, own, form.pieces.cut(word))]
    return [*found, (len(line), len(line))]


def _of_pieces(word: str, places: Places, pieces: Sequence[str]) -> Iterator[tuple[int, int]]:
    """The places of the pieces of a word, from those of its characters."""
    at, left = 0, 0  # the character that is next, and how many of its bytes have no piece yet
    for number, piece in enumerate(pieces):
        if piece in _OF_BYTE:
            left = left or len(word[at].encode("utf-8", "surrogatepass"))
            yield places[at]
            left -= 1
            at += not left
        else:
            begin, at = at, at + len(piece) - (number == 0 and piece.startswith(BEGIN))
            yield places[min(begin, len(places) - 1)][0], places[at - 1][1] if at > begin else places[begin][0]
