"""Lines as a language model reads them, each after other text."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import torch
from torch import Tensor

from lmzoo.api.predictor import Predictor
from lmzoo.core.errors import UserError, pluralize
from lmzoo.corpus import EOS, EOS_ID, Context
from lmzoo.corpus.conditions import unlabelled
from lmzoo.corpus.form import NAMES, require_tokenizer
from lmzoo.corpus.tokenizer import TOKENIZERS
from lmzoo.corpus.vocabulary import utf8
from lmzoo.protocol.perplexity import row_logprobs, validated

log = logging.getLogger(__name__)


def tokenized(lm: Predictor, texts: Sequence[str], tokenize: str | None) -> Sequence[str]:
    """Lines of words, from plain text if ``tokenize`` names a tokenizer; raise a UserError if the run has its own."""
    if tokenize is None:
        return texts
    require_tokenizer(tokenize, lm.vocabulary.form, lm.run.path)
    utf8(texts)  # an error for a text of several lines, whose ends tokenizers drop
    return [TOKENIZERS[tokenize](text) for text in texts]


@dataclass(frozen=True)
class Texts:
    """Lines and the words before them.

    Attributes:
        lines: the lines, words separated by spaces.
        tokens: (n,) the words of each line and its `<eos>`, in reading order.
        rows: the same after the words of its context.
    """

    lm: Predictor
    lines: Sequence[str]
    tokens: Sequence[Tensor]
    rows: Sequence[Tensor]

    @classmethod
    def read(
        cls, lm: Predictor, texts: Sequence[str], context: str | Sequence[str] | None, tokenize: str | None
    ) -> "Texts":
        """Encode texts, each after its context; see `lmzoo.api.Loaded.surprisal`."""
        lines, vocabulary = tokenized(lm, texts, tokenize), lm.vocabulary
        rows = tokens = [vocabulary.encode(unlabelled([line], vocabulary, "text"), "text") for line in lines]
        if context is not None:
            if isinstance(context, str) and context in get_args(Context):
                problem = f'context="{context}": is here the text before each line'
                raise UserError(problem, f'leave it out, or write context=["{context}"] for the word')
            one = isinstance(context, str) or not isinstance(context, Iterable)
            given: list[Any] = [context] * len(lines) if one else [*context]
            before = _before(lm, given, len(lines), tokenize)
            rows = list(map(torch.cat, zip(before, tokens, strict=True)))
        return cls(lm, lines, tokens, rows)

    def ordered(self, values: Sequence[Tensor]) -> Iterator[Tensor]:
        """Values of the words of each row -> (n, …) values of those of each line in the order of the text."""
        for tokens, each in zip(self.tokens, values, strict=True):
            before = len(each) - len(tokens)
            own = each[before:] if before else each
            yield own[self.lm.vocabulary.text_order(tokens)] if self.lm.vocabulary.form.reverse else own

    def logprobs(self) -> Iterator[Tensor]:
        """(n,) log p in nats of the words of each line."""
        for logprobs in self.ordered(row_logprobs(self.lm.model, self.rows)):
            yield validated(logprobs, self.lm.run.path)

    def words(self) -> Iterator[list[str]]:
        """The words of each line, and `<eos>`."""
        words_of = self.lm.vocabulary.form.without_reverse.words
        return ([*words_of(line), EOS] for line in self.lines)


def _before(lm: Predictor, contexts: Sequence[str], number: int, tokenize: str | None) -> list[Tensor]:
    """The words before each of so many lines that affect them."""
    vocabulary, run = lm.vocabulary, lm.run.path
    alone = lm.context == "sentence" or lm.model.forgets_at_eos
    if wrong := [text for text in contexts if not isinstance(text, str)]:
        raise UserError(f"context: {wrong[0]!r} is no text", 'write "" where there is none')
    if len(contexts) != number:
        raise UserError(f"context: has {pluralize(len(contexts), 'text')} for {number}", "give one, or one for each")
    if vocabulary.conditions or (any(contexts) and vocabulary.form.reverse):
        what = "lines with labels" if vocabulary.conditions else "lines from their end to their beginning"
        raise UserError(f"context: {run} reads {what}", "leave it out")
    found, dropped = dict[str, Tensor](), False
    for text in dict.fromkeys(contexts):
        lines = text.split("\n")
        if alone and len(lines) > 1:
            dropped, lines = dropped or any(lines[:-1]), lines[-1:]
        tokens = vocabulary.encode(tokenized(lm, lines, tokenize), "context")[:-1]
        space = vocabulary.index.get(NAMES[" "], EOS_ID) if vocabulary.form.unit == "char" else EOS_ID
        if space != EOS_ID and len(tokens) and int(tokens[-1]) not in (space, EOS_ID):
            tokens = torch.cat([tokens, torch.tensor([space])])
        found[text] = tokens
    if dropped:
        log.warning("context: %s reads each sentence by itself, so its sentences before have no effect", run)
    return [found[text] for text in contexts]
