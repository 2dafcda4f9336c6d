"""Data frames of pandas."""

import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from lmzoo.api.texts import Texts
from lmzoo.core.extras import import_optional
from lmzoo.corpus.offsets import word_offsets
from lmzoo.protocol.lines import known_words
from lmzoo.protocol.prediction import at_each_token, entropy_and_rank
from lmzoo.reports.surprisal import BEFORE, Row, line_rows

log = logging.getLogger(__name__)


def data_frame(columns: Mapping[str, Sequence[Any]]) -> Any:
    """A data frame of pandas; a UserError where that is not installed."""
    return import_optional("pandas", "a data frame", "pandas", "'lmzoo-torch[frames]'").DataFrame(dict(columns))


def word_columns(
    texts: Texts, originals: Sequence[str], tokenize: str | None, log_shares: Tensor | None
) -> dict[str, list[Any]]:
    """The columns of `lmzoo.api.Loaded.frame`.

    Args:
        originals: the lines as they were given.
        log_shares: (V,) log2 of the share of each word in the training text; None: it is not there.
    """
    sizes, known = [len(row) for row in texts.rows], known_words(texts.lm.model, texts.lm.vocabulary)
    measured = torch.full((sum(sizes), 2), math.nan)
    if texts.lm.model.open_vocabulary:
        log.warning("entropy and rank are missing: a transformer has no word vocabulary")
    elif sizes:
        measured = at_each_token(texts.lm.model, texts.rows, "sentence", entropy_and_rank)
    shares = torch.full((len(known),), math.nan) if log_shares is None else log_shares
    rows: list[Row] = []
    measures = texts.ordered(measured.split(sizes))
    each = zip(texts.words(), texts.ordered(texts.rows), texts.logprobs(), measures, originals, strict=True)
    for number, (words, tokens, logprobs, own, line) in enumerate(each):
        places = word_offsets(line, texts.lm.vocabulary.form, tokenize)
        found = line_rows(words, known[tokens], logprobs, shares[tokens], own)
        rows += [row | {"text": number, "start": start, "end": end}
                 for row, (start, end) in zip(found, places, strict=True)]  # fmt: skip
    names = ("text", "position", "word", "known", "surprisal", "entropy", "rank", "log_frequency")
    return {name: [row[name] for row in rows] for name in (*names, *BEFORE, "start", "end")}
