"""A row for each word of a text: its surprisal, what was expected in its place, and its frequency."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from math import log, nan
from typing import Any

import torch
from torch import Tensor

from lmzoo.corpus import Context, Vocabulary
from lmzoo.corpus.lines import by_line, log2_shares
from lmzoo.protocol.lines import Lines, Part
from lmzoo.protocol.model import LanguageModel
from lmzoo.protocol.prediction import at_each_token, entropy_and_rank

BEFORE = ("surprisal_1", "surprisal_2")
"""The surprisal of the word before, and of the one before that."""

Row = dict[str, Any]
"""A word's columns by their names; NaN where there is no value."""


def word_rows(
    model: LanguageModel,
    vocabulary: Vocabulary,
    parts: Sequence[Part],
    scored: Iterable[Lines],
    context: Context,
    train: Tensor | None,
) -> Iterator[Row]:
    """Iterate over the words of a text and its ends of lines; sentences and positions are counted from 1.

    Surprisal and entropy are in bits; ``log_frequency`` is log2 of the word's share of ``train``, (c + 1) / (N + V);
    `BEFORE` are those of the same sentence.

    Args:
        scored: `scored_groups` of the parts.
        train: (N,) the tokens of the training text; None: there is none, and no ``log_frequency``.
    """
    read = torch.cat([part.tokens for part in parts])
    log_shares = torch.full((len(vocabulary),), nan) if train is None else log2_shares(train, len(vocabulary))
    order = vocabulary.text_order(read)
    tokens = read[order]
    expected = torch.full((len(read), 2), nan)
    if not model.open_vocabulary:
        expected = at_each_token(model, by_line(read, read), context, entropy_and_rank)[order]
    lines = chain.from_iterable(group.each() for group in scored)
    texts = zip(lines, by_line(tokens, tokens), by_line(expected, tokens), strict=True)
    for number, (line, words, each) in enumerate(texts, start=1):
        for row in line_rows(line.words, line.known, line.logprobs, log_shares[words], each):
            yield {"sentence": number, **row}


def line_rows(
    words: Sequence[str], known: Tensor, logprobs: Tensor, log_shares: Tensor, measures: Tensor
) -> Iterator[Row]:
    """The rows of a line: of its n words (n,) bool, log p in nats, log2 shares, and (n, 2) measures."""
    bits = (0.0 - logprobs / log(2)).tolist()
    columns = zip(words, known.tolist(), bits, log_shares.tolist(), measures.tolist(), strict=True)
    for place, (word, is_known, surprisal, share, (entropy, rank)) in enumerate(columns):
        before = (bits[place - back] if place >= back else nan for back in range(1, len(BEFORE) + 1))
        yield {
            "position": place + 1, "word": word, "known": is_known, "surprisal": surprisal, "entropy": entropy,
            "rank": int(rank) if rank == rank else nan, "log_frequency": share,
            **dict(zip(BEFORE, before, strict=True)),
        }  # fmt: skip
