"""Lines of text, scored word by word."""

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, starmap, tee
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from lmzoo.core.errors import UserError, shortened
from lmzoo.core.files import read_lines
from lmzoo.core.progress import reading
from lmzoo.corpus import EOS, Context, Vocabulary
from lmzoo.corpus.conditions import label_numbers, split_labels, unlabelled
from lmzoo.corpus.lines import by_line, line_sums
from lmzoo.corpus.vocabulary import UNK, utf8
from lmzoo.protocol.model import LanguageModel
from lmzoo.protocol.perplexity import checked, part_logprobs, text_logprobs

log = logging.getLogger(__name__)


class Line(NamedTuple):
    """A scored line.

    Attributes:
        words: those of the line and `<eos>`, n in all.
        logprobs: (n,) log p of each given those before it, in nats; float64.
        known: (n,) bool, whether it is one of `known_words`.
        logprob: Σ log p in nats.
        logprob_of_known: Σ log p over the words that the model knows, in nats.
        unknown: how many words the model does not know.
    """

    words: list[str]
    logprobs: Tensor
    known: Tensor
    logprob: float
    logprob_of_known: float
    unknown: int


class Part(NamedTuple):
    """A piece of a text.

    Attributes:
        text: None where the words are those of the vocabulary; then it is the whole text.
        tokens: (N,) its words and ends of lines.
        conditions: (L,) those of its lines, where they have any; then it is the whole text.
    """

    text: bytes | None
    tokens: Tensor
    conditions: Tensor | None = None


def known_words(model: LanguageModel, vocabulary: Vocabulary) -> Tensor:
    """(V,) bool: the words that the model knows, which are all but `<unk>` and those that it reads as `<unk>`."""
    known = ~model.unlisted()
    if UNK in vocabulary.index:
        known[vocabulary.index[UNK]] = False
    return known


def as_read(words: Iterable[str], known: Tensor) -> list[str]:
    """Words, and what the model reads in place of those that it does not know: ``xylophone→<unk>``."""
    pairs = zip(words, known.tolist(), strict=True)
    return [word if is_known or word == UNK else f"{word}→{UNK}" for word, is_known in pairs]


def unknown_warning(unknown: int, tokens: int, where: str) -> str | None:
    """That so many words of a text are unknown; None where none is."""
    if not unknown:
        return None
    return f"{where}: {unknown:,} of {tokens:,} tokens are unknown words, which the model reads as {UNK}"


def stream_warning(model: LanguageModel, lines: int, option: str) -> str | None:
    """That several lines are scored as one stream, unless ``option`` is given; None where that changes nothing."""
    if lines < 2 or model.forgets_at_eos:
        return None
    return f"lines are scored as one stream; {option} scores each by itself"


def encode_prompt(
    model: LanguageModel, vocabulary: Vocabulary, text: str, where: str
) -> tuple[Tensor | None, str | None]:
    """The (N,) words of a prompt, None where there is none; and a warning of those that are unknown, if any."""
    tokens = vocabulary.encode(unlabelled([text], vocabulary, where), where)[:-1]
    known = known_words(model, vocabulary)[tokens].tolist()
    words = zip(vocabulary.form.words(text), known, strict=True)
    unknown = dict.fromkeys(word for word, is_known in words if not is_known and word != UNK)
    warning = f"{where}: {shortened(', '.join(unknown))}: read as {UNK}, since the model does not know it"
    return tokens if len(tokens) else None, warning if unknown else None


def file_parts(
    vocabulary: Vocabulary,
    file: Path,
    where: str | None = None,
    shown: bool = True,
    tokenize: Callable[[str], str] | None = None,
) -> Iterable[Part]:
    """A file part by part; whole and with their conditions where its lines have labels, as the vocabulary says.

    Args:
        where: the name of the text in an error; None is that of the file.
        shown: whether progress is shown, as in `reading`.
        tokenize: cuts plain text into words that spaces separate.

    Raises: UserError as `read_pieces`, `split_labels`, `label_numbers` and `Vocabulary.encode` do.
    """
    where = where or str(file)
    if not vocabulary.conditions:
        pieces = reading(file, shown, vocabulary.form.spaced or tokenize is not None)
        pieces = _tokenized(pieces, tokenize) if tokenize else pieces
        return _warning_of_capitals(starmap(Part, vocabulary.encode_pieces(pieces, where)), vocabulary, where)
    labels, lines = split_labels(read_lines(file), where)
    text = utf8(map(tokenize, lines) if tokenize else lines, where)
    return [Part(text, vocabulary.encode(text, where), label_numbers(labels, vocabulary.conditions, where))]


def _warning_of_capitals(parts: Iterator[Part], vocabulary: Vocabulary, where: str) -> Iterator[Part]:
    """Parts of a text; a warning where many words of the first are unknown, and most of these by their capitals."""
    for number, part in enumerate(parts):
        if not number and part.text and UNK in vocabulary.index:
            with contextlib.suppress(UserError):  # of <EOS>
                small = vocabulary.encode(part.text.decode().lower().encode())
                unknown, still = (int((tokens == vocabulary.index[UNK]).sum()) for tokens in (part.tokens, small))
                if unknown > max(2 * still, len(part.tokens) // 10):
                    log.warning("%s: most of its unknown words are known in small letters; write it in these", where)
        yield part


def _tokenized(pieces: Iterable[bytes], tokenize: Callable[[str], str]) -> Iterator[bytes]:
    """Pieces of a text, none of which ends inside a word, with other words."""
    space = b""
    for piece in pieces:
        yield space + "\n".join(map(tokenize, piece.decode().split("\n"))).encode()
        space = b"" if piece.endswith(b"\n") else b" "


def scored_parts(
    model: LanguageModel, vocabulary: Vocabulary, parts: Iterable[Part], context: Context
) -> Iterator[tuple[Part, Tensor]]:
    """Each part of a text and log p of its tokens, (N,) in nats; float64. A few parts are in memory at once."""
    if vocabulary.conditions:
        return ((part, text_logprobs(model, part.tokens, context, part.conditions).cpu().double()) for part in parts)
    parts, same = tee(parts)
    scores = part_logprobs(model, (part.tokens for part in same), context)
    return ((part, logprobs.cpu().double()) for part, logprobs in zip(parts, scores, strict=True))


class Lines(NamedTuple):
    """Scored lines, N tokens in all.

    Attributes:
        words: those of each line and `<eos>`; they can be read once.
        tokens: (N,) their numbers.
        logprobs: (N,) log p of each given those before it in the text, in nats; float64.
        known: (N,) bool, whether it is one of `known_words`.
    """

    words: Iterable[list[str]]
    tokens: Tensor
    logprobs: Tensor
    known: Tensor

    def sums(self) -> tuple[list[float], list[float], list[int]]:
        """Of each line `Line.logprob`, `Line.logprob_of_known` and `Line.unknown`."""
        columns = (self.logprobs, self.logprobs.where(self.known, 0.0), (~self.known).long())
        logprob, of_known, unknown = (line_sums(column, self.tokens).tolist() for column in columns)
        return logprob, of_known, unknown

    def each(self) -> Iterator[Line]:
        """One line after the other."""
        logprobs, known = (by_line(column, self.tokens) for column in (self.logprobs, self.known))
        return map(Line, self.words, logprobs, known, *self.sums())


def scored_groups(
    model: LanguageModel, vocabulary: Vocabulary, parts: Iterable[Part], context: Context, where: str = "text"
) -> Iterator[Lines]:
    """The lines of a text, which errors call ``where``, scored word by word as soon as a part that ends one is read.

    Words are in the order of the text, also where a model reads lines backwards and has each given those behind it.

    Raises: UserError where log-probabilities are none, and what the parts raise, after the lines before.
    """
    known, parts, open_line = known_words(model, vocabulary), iter(parts), []
    words_of = vocabulary.form.forwards.words
    if (first := next(parts, None)) is None:
        return
    for part, logprobs in scored_parts(model, vocabulary, chain([first], parts), context):
        open_line.append((part, checked(logprobs, where)))
        if part.text is None or part.text.endswith(b"\n"):
            tokens = torch.cat([part.tokens for part, _ in open_line])
            logprobs = torch.cat([logprobs for _, logprobs in open_line])
            order = vocabulary.text_order(tokens)
            tokens, logprobs = tokens[order], logprobs[order]
            if part.text is None:
                words = ([vocabulary.words[token] for token in line.tolist()] for line in by_line(tokens, tokens))
            else:
                text = b"".join(part.text for part, _ in open_line).decode("utf-8", "surrogatepass")
                words = ([*words_of(line), EOS] for line in text.removesuffix("\n").split("\n"))
            yield Lines(words, tokens, logprobs, known[tokens])
            open_line.clear()


def scored(
    model: LanguageModel,
    vocabulary: Vocabulary,
    lines: Sequence[str],
    context: Context,
    where: str = "text",
    conditions: Tensor | None = None,
) -> Iterator[Line]:
    """`scored_groups` of lines in memory, which may have (L,) conditions, one by one; errors come with the first."""
    pieces = vocabulary.encode_pieces([unlabelled(lines, vocabulary, where)] if lines else [], where)
    groups = scored_groups(model, vocabulary, (Part(*piece, conditions) for piece in pieces), context, where)
    return chain.from_iterable(group.each() for group in groups)
