"""Reading times, and how well the surprisal of words predicts them.

Reading time grows with surprisal: Hale (2001), "A probabilistic Earley parser as a psycholinguistic model"; Smith &
Levy (2013), "The effect of word predictability on reading time is logarithmic". The quality of a language model as a
model of readers is its gain in log-likelihood of their times: Goodkind & Bicknell (2018), "Predictive power of word
surprisal for reading times is a linear function of language model quality".
"""

import contextlib
import csv
import math
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from lmzoo.core.errors import UserError, nearest, pluralize, shortened
from lmzoo.core.files import NUMBER, read_lines, text_ending
from lmzoo.corpus import EOS_ID, Context, Vocabulary
from lmzoo.corpus.form import NAMES
from lmzoo.corpus.lines import log2_shares
from lmzoo.corpus.subwords import BEGIN
from lmzoo.huggingface.causal import CausalTransformer
from lmzoo.protocol.difference import block_length
from lmzoo.protocol.lines import scored
from lmzoo.protocol.model import LanguageModel
from lmzoo.protocol.prediction import at_each_token
from lmzoo.reports.charts import charts, legend, logarithmic, rendered

SPILLOVER = 2
"""The number of preceding words that affect the reading time of a word."""

FOLDS = 10

DRAWS = 2000
"""The number of bootstrap samples."""

SPACE = NAMES[" "]

_END = re.compile(r"[.?!]['\"’”)\]]*$")
_ABBREVIATION = re.compile(r"^\W*(?:mr|mrs|ms|dr|st)\.$", re.IGNORECASE)

Tokenize = Callable[[str], str]


class Times(NamedTuple):
    """Words in reading order.

    Attributes:
        words: the n words as displayed.
        stories: (n,) index of each word's text, from 0, ascending.
        sentences: (n,) index of its sentence, likewise.
        times: (n,) in the unit of the table, such as ms; NaN if missing.
        ids: n pairs of the word's text and position, as in the table.
    """

    words: list[str]
    stories: np.ndarray
    sentences: np.ndarray
    times: np.ndarray
    ids: Sequence[tuple[str, str]] = ()


def read_times(file: Path, *, word: str, time: str, story: str, place: str, sentence: str | None = None) -> Times:
    """Read times from a table with a header and columns separated by tabs, or by commas in a ``.csv``.

    Args:
        word, time, story, place, sentence: names of columns: the word; its reading time, empty or NA if missing; its
            text; its position there; its sentence. Without the last, a sentence ends with a word that ends with a full
            stop, a question mark or an exclamation mark.

    Raises: UserError with the name of a missing column, or the line of an invalid number or an unclosed quote.
    """
    header, *rows = _rows(file)
    if not rows:
        raise UserError(f"{file}: has no words", "give a table with a header, a word a line")
    for number, row in enumerate(rows, 2):
        if len(row) != len(header):
            raise UserError(f"{file}, line {number}: has {len(row)} columns, and the header has {len(header)}")
    asked = [column for column in (word, time, story, place, sentence) if column is not None]
    for column in asked:
        if header.count(column) != 1:
            several = f"has {header.count(column) or 'no'} column{'s' * (column in header)} {shortened(column)}"
            raise UserError(f"{file}: {several}", "name each once" if column in header else nearest(column, header))
    columns = {column: [row[header.index(column)] for row in rows] for column in asked}
    places, times = _numbers(columns[place], place, file), _numbers(columns[time], time, file, missing=("", "NA"))
    by_size = sorted({*columns[story]}, key=lambda name: (float(name) if NUMBER.fullmatch(name) else math.inf, name))
    names = {name: number for number, name in enumerate(by_size)}
    stories = np.array([names[name] for name in columns[story]])
    order = np.lexsort((places, stories))
    stories, places, words = stories[order], places[order], [columns[word][i] for i in order]
    new_story = stories[1:] != stories[:-1]
    if (twice := np.flatnonzero((places[1:] == places[:-1]) & ~new_story)).size:
        name = columns[story][order[twice[0]]]
        raise UserError(f"{file}: {story} {name} has two words at {place} {places[twice[0]]:g}", "one row a word")
    if sentence is None:
        ends = np.array([bool(_END.search(shown)) and not _ABBREVIATION.match(shown) for shown in words])
    else:
        marks = np.array([columns[sentence][i] for i in order])
        ends = np.append(marks[1:] != marks[:-1], True)
    ends |= np.append(new_story, True)
    ids = [(columns[story][i], columns[place][i]) for i in order]
    return Times(words, stories, np.cumsum(ends) - ends, times[order], ids)


def time_warnings(times: Times) -> Iterator[str]:
    """Warn of gaps in a table: omitted words within a text, and times that are not positive."""
    steps = np.diff([float(place) for _, place in times.ids])
    steps[np.diff(times.stories) > 0] = 0  # between texts
    larger = np.flatnonzero(steps > min(steps[steps > 0], default=0))
    if larger.size:
        text, place = times.ids[larger[0]]
        where = f"in {larger.size:,} places, after {place} of {shortened(text, 40)} the first"
        yield f"words are left out {where}, so that models read a text without them"
    if count := int((times.times <= 0).sum()):
        yield f"{count:,} times are not above 0 and count as they are; leave them empty where a word was not read"


def _rows(file: Path) -> list[list[str]]:
    """The cells of each line. A cell may be quoted, as a word with a comma is, but not across lines."""
    rows, delimiter = [], "," if text_ending(file) == ".csv" else "\t"
    for number, line in enumerate(read_lines(file), 1):
        try:
            rows += csv.reader([line], delimiter=delimiter, strict=True)
        except csv.Error:
            advice = 'a word that begins with a quote is """word" in a table'
            raise UserError(f"{file}, line {number}: a quote before a cell is not closed after it", advice) from None
        if len(rows[0]) == 1:
            problem = f"{file}: '{shortened(rows[0][0])}' is one column"
            raise UserError(problem, "part them by tabs, or by commas in a .csv")
    return rows


def _numbers(values: Sequence[str], column: str, file: Path, missing: Sequence[str] = ()) -> np.ndarray:
    """(n,) numbers of a column; NaN for missing values."""
    numbers = np.full(len(values), np.nan)
    for i, value in enumerate(values):
        if value not in missing:
            with contextlib.suppress(ValueError):
                numbers[i] = float(value)
            if not math.isfinite(numbers[i]):
                raise UserError(f"{file}, line {i + 2}: {column} is {shortened(value)}, which is not a number")
    return numbers


class Surprisal(NamedTuple):
    """The surprisal of n words under a model.

    Attributes:
        bits: (n,) -log2 p of the word given those before it.
        known: (n,) whether all tokens of the word, at least one, are known to the model.
    """

    bits: np.ndarray
    known: np.ndarray


def surprisal(
    model: LanguageModel, vocabulary: Vocabulary, times: Times, context: Context, tokenize: Tokenize | None = None
) -> Surprisal:
    """The surprisal of words as displayed, with each text read separately; by a transformer, as one line.

    For a word of several tokens (*country* and *,*) it is their sum. With a model of characters or subwords, the word
    must also end, before a space, the first piece of another word or the end of the line: Pimentel & Meister (2024),
    "How to compute the probability of a word". With w_k the tokens
    of word k, including a preceding space for characters,

        p(w_k | w_<k) = p(w_k | …) p(over | … w_k) / p(over | …),

    where the divisor is 1 for the first word of characters, which no space precedes.

    Args:
        tokenize: splits a word into words of the vocabulary; None: only the run's own text processing.

    Raises: UserError if a word is tokenized differently next to its neighbours, and as `scored` does.
    """
    form = vocabulary.form
    bits, is_known = np.zeros(len(times.words)), np.zeros(len(times.words), dtype=bool)
    pieces = [tokenize(word) if tokenize else word for word in times.words]
    counts = np.array([len(form.words(piece)) for piece in pieces])
    for story in range(times.stories[-1] + 1):
        sentences = np.unique(times.sentences[times.stories == story])
        members = [np.flatnonzero(times.sentences == sentence) for sentence in sentences]
        if isinstance(model, CausalTransformer):  # it reads each line by itself
            members = [np.concatenate(members)]
        texts = [" ".join(pieces[i] for i in each if counts[i]) for each in members]
        word_ends = [np.zeros(0)] * len(texts) if form.of_words else _word_ends(model, vocabulary, texts, context)
        lines = scored(model, vocabulary, texts, context, f"the sentences of text {story + 1}")
        for each, line, end_logprobs in zip(members, lines, word_ends, strict=True):
            each = each[counts[each] > 0]
            spaces = (np.arange(len(each)) > 0) * (not form.spaced)
            ends = np.cumsum(counts[each] + spaces)
            if len(each) and ends[-1] != len(line.words) - 1:
                raise UserError(
                    f"'{shortened(' '.join(line.words))}': words are tokenized differently next to their neighbours"
                )
            logprobs, begin = line.logprobs.numpy(), 0
            for i, end in zip(each, ends, strict=True):
                nats = logprobs[begin:end].sum()
                if not form.of_words:
                    nats += end_logprobs[end] - (end_logprobs[begin] if begin or form.spaced else 0)
                bits[i], is_known[i] = -nats / math.log(2), bool(line.known[begin:end].all())
                begin = end
    return Surprisal(bits, is_known)


def _word_ends(
    model: LanguageModel, vocabulary: Vocabulary, texts: Sequence[str], context: Context
) -> list[np.ndarray]:
    """For each text of characters or subwords, (n,) log p that a word ends before each token."""
    pieces = vocabulary.form.of_pieces
    follows = [word.startswith(BEGIN) if pieces else word == SPACE for word in vocabulary.words]
    follows[EOS_ID] = True
    over = torch.tensor(follows)
    lines = [vocabulary.encode([text]) for text in texts]

    def measure(logprobs: Tensor, _: Tensor) -> Tensor:
        return logprobs.double()[:, over.to(logprobs.device)].logsumexp(1)[:, None]

    logprobs = at_each_token(model, lines, context, measure)[:, 0].numpy()
    return np.split(logprobs, np.cumsum([len(line) for line in lines])[:-1])


def unigram_surprisal(
    train: Tensor, vocabulary: Vocabulary, times: Times, tokenize: Tokenize | None = None
) -> np.ndarray:
    """(n,) -log2 relative frequency of each word in a (N,) text, see `log2_shares`; summed over tokens."""
    own = -log2_shares(train, len(vocabulary))
    pieces = (tokenize(word) if tokenize else word for word in times.words)
    return np.array([float(own[vocabulary.encode([piece])[:-1]].sum()) for piece in pieces])


class Gain(NamedTuple):
    """The contribution of a model's surprisal beyond length and frequency.

    Attributes:
        nats: mean gain in log-likelihood of a word's reading time, on held-out stories.
        low, high: the ends of its 95% confidence interval.
        slope: the increase in reading time per bit, in the unit of the times; regression on all stories.
        each: (m,) the gain of each word.
    """

    nats: float
    low: float
    high: float
    slope: float
    each: np.ndarray

    def difference_from(self, other: "Gain") -> tuple[float, float, float]:
        """The mean difference from another gain on the same words, and its 95% interval; paired."""
        more = self.each - other.each
        return more.mean(), *_interval(more)


def sentence_edges(times: Times) -> np.ndarray:
    """(n,) bool: first and last words of sentences."""
    new = times.sentences[1:] != times.sentences[:-1]
    return np.append(True, new) | np.append(new, True)


def comparable_words(times: Times, known: np.ndarray, edges: bool = False) -> np.ndarray:
    """(n,) bool: words whose times are compared; they and the `SPILLOVER` words before are known and of one text.

    Args:
        edges: whether to include first and last words of sentences, which Oh & Schuler (2023), "Why does surprisal from
            larger transformer-based language models provide a poorer fit to human reading times?", exclude.
    """
    timed, same = np.isfinite(times.times), np.ones(len(known), dtype=bool)
    for lag in range(SPILLOVER + 1):
        same &= _before(known, lag, False) & (_before(times.stories, lag, -1) == times.stories)
    return timed & same & (edges | ~sentence_edges(times))


def gain(times: Times, unigram_bits: np.ndarray, bits: np.ndarray, rows: np.ndarray) -> Gain:
    """The gain of a linear regression with surprisal over one with length and frequency only.

    Both include these predictors of the `SPILLOVER` words before. Errors are normal with the variance of the training
    stories. Stories are divided into `FOLDS` folds, each predicted by a regression on the others. The interval is a
    circular block bootstrap over consecutive words; see `lmzoo.protocol.difference.bootstrap`.

    Args:
        unigram_bits, bits: (n,) as returned by `unigram_surprisal` and `surprisal`.
        rows: (n,) bool, as returned by `comparable_words`.

    Raises: UserError if there are too few stories or words, or all times are the same.
    """
    length = np.array([len(word) for word in times.words], dtype=float)
    baseline = np.column_stack([np.ones(len(rows)), *_lags(length), *_lags(unigram_bits)])[rows]
    whole = np.column_stack([baseline, np.column_stack(_lags(bits))[rows]])
    y, stories = times.times[rows], times.stories[rows]
    texts, place = np.unique(stories, return_inverse=True)
    folds = place % FOLDS
    if len(texts) < 2 or len(y) - np.bincount(folds).max() < 10 * whole.shape[1]:
        few = f"{pluralize(len(y), 'word')} of {pluralize(len(texts), 'text')}"
        problem = f"{few}: too few for a regression on all but a fold of the texts"
        raise UserError(problem, "give more words, of two texts or more")
    if np.ptp(y) == 0:
        raise UserError(f"all reading times are {y[0]:g}, which leaves nothing to predict", "name another column")
    gains = np.zeros(len(y))
    for fold in np.unique(folds):
        seen, new = folds != fold, folds == fold
        gains[new] = _held_out(whole, y, seen, new) - _held_out(baseline, y, seen, new)
    slope = np.linalg.lstsq(whole, y, rcond=None)[0][-1 - SPILLOVER]
    return Gain(gains.mean(), *_interval(gains), slope, gains)


def _before(values: np.ndarray, lag: int, missing: float) -> np.ndarray:
    """(n,) value of the word ``lag`` positions before."""
    return np.concatenate([np.full(lag, missing, values.dtype), values])[: len(values)]


def _lags(values: np.ndarray) -> list[np.ndarray]:
    """The values of each word, of the word before, and so on."""
    return [_before(values, lag, 0) for lag in range(SPILLOVER + 1)]


def _held_out(X: np.ndarray, y: np.ndarray, seen: np.ndarray, new: np.ndarray) -> np.ndarray:
    """(m,) log-likelihoods of ``new`` times by least squares on ``seen`` ones."""
    weights = np.linalg.lstsq(X[seen], y[seen], rcond=None)[0]
    variance = np.square(y[seen] - X[seen] @ weights).mean()
    return -0.5 * (np.log(2 * np.pi * variance) + np.square(y[new] - X[new] @ weights) / variance)


def _interval(gains: np.ndarray) -> tuple[float, float]:
    """The percentiles 2.5 and 97.5 of the mean over blocks drawn with replacement."""
    n, generator = len(gains), np.random.default_rng(0)
    block = block_length(torch.from_numpy(gains))
    begins = generator.integers(n, size=(DRAWS, math.ceil(n / block), 1))
    means = [gains[(begin + np.arange(block)).ravel()[:n] % n].mean() for begin in begins]
    low, high = np.quantile(means, [0.025, 0.975])
    return low, high


def picture(readers: Sequence[tuple[str, float, Gain]], file: Path) -> bytes:
    """Plot the gain of each model against its perplexity per word, like Goodkind & Bicknell (2018).

    Args:
        readers: name, perplexity per word and gain of each model.
        file: the output; its suffix determines the format.
    """
    with charts(f"--plot {file}") as pyplot:
        figure, axes = pyplot.subplots(figsize=(6, 4))
        for name, perplexity, gain in readers:
            low, nats, high = (1000 * value for value in (gain.low, gain.nats, gain.high))
            axes.errorbar(perplexity, nats, [[nats - low], [high - nats]], fmt="o", elinewidth=1, label=name)
        axes.axhline(0, color="0.4", linewidth=0.7)
        axes.set(xlabel="perplexity per word", ylabel="gain in log-likelihood, nats per 1,000 words",
                 title="What surprisal tells of reading times")  # fmt: skip
        logarithmic(axes, "x")
        legend(axes)
        return rendered(figure, file)
