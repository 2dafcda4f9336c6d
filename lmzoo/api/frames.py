"""Data frames of pandas or polars."""

import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from lmzoo.api.texts import Texts
from lmzoo.core.errors import UserError
from lmzoo.core.extras import import_optional
from lmzoo.corpus.offsets import word_offsets
from lmzoo.protocol.prediction import at_each_token, entropy_and_rank
from lmzoo.reports.surprisal import BEFORE

log = logging.getLogger(__name__)


def data_frame(columns: Mapping[str, Sequence[Any]]) -> Any:
    """A data frame of pandas, or of polars where pandas is not installed; a UserError where neither is."""
    try:
        return import_optional("pandas", "a data frame", "pandas").DataFrame(dict(columns))
    except UserError:
        polars = import_optional("polars", "a data frame", "pandas or polars", "'lmzoo-torch[frames]'")
        return polars.DataFrame(dict(columns), strict=False).fill_nan(None)


def word_columns(
    texts: Texts, originals: Sequence[str], tokenize: str | None, known: Tensor, log_shares: Tensor | None
) -> dict[str, list[Any]]:
    """The columns of `lmzoo.api.Loaded.frame`.

    Args:
        originals: the lines as they were given.
        known: (V,) bool, the words that the model knows.
        log_shares: (V,) log2 of the share of each word in the training text; None: it is not there.
    """
    sizes = [len(row) for row in texts.rows]
    measured = torch.full((sum(sizes), 2), math.nan)
    if texts.model.open_vocabulary:
        log.warning("entropy and rank are missing: a transformer has no word vocabulary")
    elif sizes:
        measured = at_each_token(texts.model, texts.rows, "sentence", entropy_and_rank)
    names = ("text", "position", "word", "known", "surprisal", "entropy", "rank", "log_frequency")
    columns: dict[str, list[Any]] = {name: [] for name in (*names, *BEFORE, "start", "end")}
    rows = texts.ordered(measured.split(sizes))
    each = zip(texts.words(), texts.ordered(texts.rows), texts.logprobs(), rows, originals, strict=True)
    for number, (words, tokens, logprobs, measures, line) in enumerate(each):
        bits, n = (0.0 - logprobs / math.log(2)).tolist(), len(words)
        starts, ends = zip(*word_offsets(line, texts.vocabulary.form, tokenize), strict=True)
        frequencies = [math.nan] * n if log_shares is None else log_shares[tokens].tolist()
        before = ([*[math.nan] * back, *bits][:n] for back in range(1, len(BEFORE) + 1))
        ranks = [math.nan] * n if texts.model.open_vocabulary else measures[:, 1].long().tolist()
        own = ([number] * n, [*range(1, n + 1)], words, known[tokens].tolist(), bits, measures[:, 0].tolist(),
               ranks, frequencies, *before, starts, ends)  # fmt: skip
        for column, values in zip(columns.values(), own, strict=True):
            column += values
    return columns
