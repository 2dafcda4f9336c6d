"""Word-by-word scores of lines."""

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
from lmzoo.corpus.lines import by_line, line_lengths, line_sums
from lmzoo.corpus.tokenizer import ptb, words
from lmzoo.corpus.vocabulary import UNK, utf8
from lmzoo.protocol.model import LanguageModel
from lmzoo.protocol.perplexity import part_logprobs, text_logprobs, validated

log = logging.getLogger(__name__)


class Line(NamedTuple):
    """A scored line.

    Attributes:
        words: the n words of the line, `<eos>` included.
        logprobs: (n,) log p of each word given the preceding ones, in nats; float64.
        known: (n,) bool, whether the word is among `known_words`.
        logprob: Σ log p in nats.
        logprob_of_known: Σ log p of known words, in nats.
        unknown: the number of unknown words.
    """

    words: list[str]
    logprobs: Tensor
    known: Tensor
    logprob: float
    logprob_of_known: float
    unknown: int


class Part(NamedTuple):
    """A part of a text.

    Attributes:
        text: the UTF-8 text; None if its words are exactly those of the vocabulary, and it is the whole text.
        tokens: (N,) words and line ends.
        conditions: (L,) conditions of its lines, if any, and then it is the whole text.
    """

    text: bytes | None
    tokens: Tensor
    conditions: Tensor | None = None


def known_words(model: LanguageModel, vocabulary: Vocabulary) -> Tensor:
    """(V,) bool: words known to the model, that is all but `<unk>` and words read as `<unk>`."""
    known = ~model.unlisted()
    if UNK in vocabulary.index:
        known[vocabulary.index[UNK]] = False
    return known


def mark_unknown(words: Iterable[str], known: Iterable[bool]) -> list[str]:
    """Words, with the replacement of unknown ones: ``xylophone→<unk>``."""
    pairs = zip(words, known, strict=True)
    return [word if is_known or word == UNK else f"{word}→{UNK}" for word, is_known in pairs]


def unknown_warning(unknown: int, tokens: int, where: str, model: LanguageModel | None = None) -> str | None:
    """Warn of ``unknown`` unknown words in a text, of which a ``model`` gives figures; None if there are none."""
    if not unknown:
        return None
    warning = f"{where}: {unknown:,} of {tokens:,} tokens are unknown words, which the model reads as {UNK}"
    if model is not None and model.whole_sentences:
        warning += "; figures without them mean nothing, as it gives probabilities to whole sentences alone"
    return warning


def stream_warning(model: LanguageModel, lines: int, option: str) -> str | None:
    """Warn that lines are scored as one stream unless ``option`` is set; None if that makes no difference."""
    if lines < 2 or model.forgets_at_eos:
        return None
    return f"lines are scored as one stream; {option} scores each by itself"


def encode_prompt(
    model: LanguageModel, vocabulary: Vocabulary, text: str, where: str
) -> tuple[Tensor | None, str | None]:
    """(N,) words of a prompt, None if it is empty; and a warning of unknown words, if any."""
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
    """Encode a file in parts; a file with labelled lines as one part with conditions.

    Args:
        where: the name of the text for errors; None: that of the file.
        shown: whether to show a progress bar, as in `reading`.
        tokenize: splits plain text into words separated by spaces.

    Raises: UserError as `read_pieces`, `split_labels`, `label_numbers` and `Vocabulary.encode` do.
    """
    where = where or str(file)
    if not vocabulary.conditions:
        pieces = reading(file, shown, vocabulary.form.spaced or tokenize is not None)
        pieces = _tokenized(pieces, tokenize) if tokenize else pieces
        return _warning_of_form(starmap(Part, vocabulary.encode_pieces(pieces, where)), vocabulary, where)
    labels, lines = split_labels(read_lines(file), where)
    text = utf8(map(tokenize, lines) if tokenize else lines, where)
    return [Part(text, vocabulary.encode(text, where), label_numbers(labels, vocabulary.conditions, where))]


def vocabulary_warning(vocabularies: Iterable[Vocabulary]) -> str | None:
    """Warn that models of words know different ones, so that figures of one text are not comparable; None if not."""
    different = {frozenset(each.words) for each in vocabularies if each.form.of_words and UNK in each.index}
    if len(different) < 2:
        return None
    return f"the runs have different vocabularies; one with fewer words reads more as {UNK}, which lowers its figures"


def form_warning(vocabulary: Vocabulary, text: bytes, tokens: Tensor, where: str) -> str | None:
    """Warn if many of the (N,) words of a text are unknown, most of them by their capitals or punctuation."""
    forms: dict[str, Callable[[str], str]] = {
        "in small letters; write it in these": str.lower,
        "in capitals; write it in these": str.upper,
    }
    if not vocabulary.form.tokenizer:
        forms |= {
            "without punctuation; separate it from words, as lmzoo score --tokenize words does": words,
            "in small letters without punctuation; lmzoo score --tokenize ptb writes them so": ptb,
        }
    unk, lines = vocabulary.index.get(UNK, -1), text.decode().split("\n")
    if (unknown := int((tokens == unk).sum())) > len(tokens) // 10:
        for form, change in forms.items():
            with contextlib.suppress(UserError):  # of <EOS>, which becomes <eos>
                if unknown > 2 * int((vocabulary.encode("\n".join(map(change, lines)).encode()) == unk).sum()):
                    return f"{where}: most of its unknown words are known {form}"
    return None


def _warning_of_form(parts: Iterator[Part], vocabulary: Vocabulary, where: str) -> Iterator[Part]:
    """Pass on parts, with the `form_warning` of the first one."""
    for number, part in enumerate(parts):
        text = None if number else part.text
        if text and (warning := form_warning(vocabulary, text, part.tokens, where)):
            log.warning("%s", warning)
        yield part


def _tokenized(pieces: Iterable[bytes], tokenize: Callable[[str], str]) -> Iterator[bytes]:
    """Tokenize pieces of a text that do not end inside a word."""
    space = b""
    for piece in pieces:
        yield space + "\n".join(map(tokenize, piece.decode().split("\n"))).encode()
        space = b"" if piece.endswith(b"\n") else b" "


def scored_parts(
    model: LanguageModel, vocabulary: Vocabulary, parts: Iterable[Part], context: Context
) -> Iterator[tuple[Part, Tensor]]:
    """Each part of a text, and (N,) log p of its tokens in nats, float64, in the memory of a few parts."""
    if vocabulary.conditions:
        return ((part, text_logprobs(model, part.tokens, context, part.conditions).cpu().double()) for part in parts)
    parts, same = tee(parts)
    scores = part_logprobs(model, (part.tokens for part in same), context)
    return ((part, logprobs.cpu().double()) for part, logprobs in zip(parts, scores, strict=True))


class Lines(NamedTuple):
    """Scored lines of N tokens.

    Attributes:
        words: the words of each line, `<eos>` included; an iterator.
        tokens: (N,) indices of the words.
        logprobs: (N,) log p of each word given the preceding text, in nats; float64.
        known: (N,) bool, whether the word is among `known_words`.
    """

    words: Iterable[list[str]]
    tokens: Tensor
    logprobs: Tensor
    known: Tensor

    def sums(self) -> tuple[list[float], list[float], list[int], list[int]]:
        """`Line.logprob`, `Line.logprob_of_known`, the number of tokens and `Line.unknown` of all lines."""
        logprob = line_sums(self.logprobs, self.tokens).tolist()
        logprob_of_known = line_sums(self.logprobs.where(self.known, 0.0), self.tokens).tolist()
        unknown = line_sums((~self.known).double(), self.tokens).long().tolist()
        return logprob, logprob_of_known, line_lengths(self.tokens).tolist(), unknown

    def each(self) -> Iterator[Line]:
        """Iterate over the lines."""
        logprobs, known = (by_line(column, self.tokens) for column in (self.logprobs, self.known))
        logprob, logprob_of_known, _, unknown = self.sums()
        return map(Line, self.words, logprobs, known, logprob, logprob_of_known, unknown)


def scored_groups(
    model: LanguageModel, vocabulary: Vocabulary, parts: Iterable[Part], context: Context, where: str = "text"
) -> Iterator[Lines]:
    """Score a text word by word, yielding groups of lines as soon as a part ends one; errors begin with ``where``.

    Words are in the order of the text, even if the model reads lines backwards and conditions on following words.

    Raises: UserError if log-probabilities are invalid, and the errors of the parts, after the lines before.
    """
    parts, open_line = iter(parts), []
    words_of = vocabulary.form.without_reverse.words
    if (first := next(parts, None)) is None:
        return
    known = known_words(model, vocabulary)
    for part, logprobs in scored_parts(model, vocabulary, chain([first], parts), context):
        open_line.append((part, validated(logprobs, where)))
        if part.text is None or part.text.endswith(b"\n"):
            tokens = torch.cat([part.tokens for part, _ in open_line])
            logprobs = torch.cat([logprobs for _, logprobs in open_line])
            text = None if part.text is None else b"".join(part.text for part, _ in open_line if part.text is not None)
            open_line.clear()
            if vocabulary.form.reverse:
                order = vocabulary.text_order(tokens)
                tokens, logprobs = tokens[order], logprobs[order]
            if text is None:
                words = ([vocabulary.words[token] for token in line.tolist()] for line in by_line(tokens, tokens))
            else:
                text = text.decode("utf-8", "surrogatepass")
                words = ([*words_of(line), EOS] for line in text.split("\n")[:-1])
            if model.open_vocabulary:
                known = known_words(model, vocabulary)
            yield Lines(words, tokens, logprobs, known[tokens])


def scored(
    model: LanguageModel, vocabulary: Vocabulary, lines: Sequence[str], context: Context, where: str = "text"
) -> Iterator[Line]:
    """Iterate over lines in memory; errors are raised at the first."""
    groups = scored_texts(model, vocabulary, lines, context, where)
    return chain.from_iterable(group.each() for group in groups)


def scored_texts(
    model: LanguageModel,
    vocabulary: Vocabulary,
    lines: Sequence[str],
    context: Context,
    where: str = "text",
    conditions: Tensor | None = None,
) -> Iterator[Lines]:
    """Iterate over `scored_groups` of lines in memory, with (L,) conditions if any; errors are raised at the first."""
    pieces = vocabulary.encode_pieces([unlabelled(lines, vocabulary, where)] if lines else [], where)
    return scored_groups(model, vocabulary, (Part(*piece, conditions) for piece in pieces), context, where)
