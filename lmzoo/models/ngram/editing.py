"""New backoff tables from others: with fewer n-grams, mixed, or of other words.

Where n-grams leave or come, backoffs are computed anew, so that the probabilities of all words sum to 1 after each
context:

    backoff(h) = (1 - Σ p(w | h)) / (1 - Σ p(w | h'))                              (1)

with the sums over the words listed after h, and h' the context h without its oldest word.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import torch
from torch import Tensor

from lmzoo.models.ngram.smoothing import selected
from lmzoo.models.ngram.suffixes import Suffixes
from lmzoo.models.ngram.table import NGramTable

NOTHING = 1e-7
"""What is left of 1 by a sum of probabilities that are kept in float32, and below this, is rounding."""


def normalised(table: NGramTable) -> NGramTable:
    """The table with the backoffs of (1). A context after which all words are listed has backoff 1: none needs it."""
    machine = Suffixes(table)
    machine.backoff.zero_()
    for rows, context, word in machine.orders():
        _, below = machine.read(machine.back[context], word)  # with backoffs of lower orders, which are ready
        first, end = int(context.min()), int(context.max()) + 1
        left, free = (_left(logprob, context - first) for logprob in (machine.logprob[rows], below))
        machine.backoff[first:end] = torch.where(free > NOTHING, left.log() - free.log(), 0.0)
    return replace(table, backoff=machine.backoff[: table.first_rows()[-2]].float())


def _left(logprob: Tensor, context: Tensor) -> Tensor:
    """What the words listed after each context leave of 1, from the (M,) log p of the words and their (M,) contexts."""
    left = 1 - torch.bincount(context, weights=logprob.exp())
    return torch.where(left > NOTHING, left, 0.0)


def pruned(table: NGramTable, threshold: float) -> NGramTable:
    """A table without the n-grams whose loss changes perplexity by a smaller share than a threshold.

    Stolcke, *Entropy-based pruning of backoff language models*, 1998, as SRILM does it (``ngram -prune``). If hw alone
    leaves, the model's entropy grows by

        D = -P(h) { p(w | h) [log p(w | h') + log α'(h) - log p(w | h)] + left(h) [log α'(h) - log α(h)] }

    where left(h) is the numerator of (1), α'(h) the backoff without hw, and P(h) the product of the probabilities of
    the words of h; the perplexity of text from the model itself is then exp(D) times what it was. An n-gram that is the
    context of one that stays, stays. Unigrams do.

    P(h) is meant to be the share of h in a text. In Kneser-Ney models it is not, since their lower orders are no
    marginals, so that more is lost than the threshold says (Chelba, Brants, Neveitt & Xu, *Study on interaction
    between entropy pruning and Kneser-Ney smoothing*, 2010).
    """
    V, machine = table.vocabulary_size, Suffixes(table)
    history = machine.logprob.clone()  # (V + K,) log P of all words of each n-gram; `<s>` has that of `</s>`
    for rows, context, _ in machine.orders():
        history[rows] += history[context]
    below = [machine.read(machine.back[context], word)[1] for _, context, word in machine.orders()]
    below = torch.cat([machine.logprob[:0], *below])  # (K,) log p of the last words, were these n-grams not listed
    context, logprob = table.keys // V, machine.logprob[V:]
    left, free = (_left(values, context)[context] for values in (logprob, below))
    after = (left + logprob.exp()).log() - (free + below.exp()).log()
    backoff = machine.backoff[context]
    listed = torch.where(logprob.isneginf(), 0.0, logprob.exp() * (below + after - logprob))
    others = torch.where((left > 0) & ~backoff.isneginf(), left * (after - backoff), 0.0)
    growth = -history[context].exp() * (listed + others)  # no number where nothing can take the place of hw
    kept = torch.ones_like(table.logprob, dtype=torch.bool)
    kept[V:] = ~(growth.clamp(min=0).expm1() < threshold)  # below 0 it is by rounding
    for rows, context, _ in reversed([*machine.orders()]):
        kept[context[kept[rows]]] = True
    return normalised(selected(V, [table.keys], table.logprob, table.backoff, kept))


def renumbered(table: NGramTable, numbers: Tensor, size: int) -> NGramTable:
    """The table with other numbers of its words, and without the n-grams of words that have none.

    Probabilities and backoffs stay as they are.

    Args:
        numbers: (V,) the new number of each word, that of word 0 being 0; -1 for a word that leaves.
        size: of the new vocabulary. A number that no word has is of an impossible one.
    """
    V, old = table.vocabulary_size, (numbers >= 0).nonzero()[:, 0]
    logprob, backoff = table.logprob.new_full((size,), -torch.inf), table.logprob.new_zeros(size)
    logprob[numbers[old]] = table.logprob[old]
    if len(table.backoff):
        backoff[numbers[old]] = table.backoff[old]
    row = torch.full_like(table.logprob, -1, dtype=torch.int64)  # of each n-gram in the new table
    row[:V] = numbers
    keys, logprobs, backoffs = [], [logprob], [backoff]
    first = size
    for begin, stop in pairwise(table.first_rows()[1:]):
        prefix, word = row[table.keys[begin - V : stop - V] // V], numbers[table.keys[begin - V : stop - V] % V]
        stays = ((prefix >= 0) & (word >= 0)).nonzero()[:, 0]
        key, order = (prefix[stays] * size + word[stays]).sort()
        rows = begin + stays[order]
        row[rows] = first + torch.arange(len(rows), device=rows.device)
        first += len(rows)
        keys.append(key)
        logprobs.append(table.logprob[rows])
        backoffs.append(table.backoff[rows[rows < len(table.backoff)]])
    made = NGramTable(size, torch.cat([table.keys[:0], *keys]), torch.cat(logprobs), torch.cat(backoffs))
    return replace(made, backoff=made.backoff[: made.first_rows()[-2]])


def mixed(tables: Sequence[NGramTable], weights: Tensor) -> NGramTable:
    """One table of all n-grams of several, each with p(w | h) = Σ_i λ_i p_i(w | h); backoffs as in (1).

    So other words after h, which back off, have not quite the probability of the mixture (Stolcke 2002, SRILM's
    ``ngram -mix-lm``).

    Args:
        tables: of the same words. One of fewer words gives the further ones no probability.
        weights: λ, one for each table.
    """
    V = max(table.vocabulary_size for table in tables)
    machines = [Suffixes(renumbered(t, torch.arange(t.vocabulary_size, device=t.keys.device), V)) for t in tables]
    log_weights = weights.double().log()
    words = torch.arange(V, device=weights.device)
    rows = [words for _ in machines]  # of a machine's n-grams, in the mixture
    places = [words for _ in machines]  # the row of a machine that has read a new n-gram
    unigrams = torch.stack([machine.logprob[:V] for machine in machines])
    keys, logprobs = [], [(unigrams + log_weights[:, None]).logsumexp(0)]
    first, begin = V, 0
    steps = [[*machine.orders()] for machine in machines]
    for n in range(max(map(len, steps))):
        own = [  # keys of each machine's n-grams in the mixture
            rows[i][context] * V + word for i, step in enumerate(steps) for _, context, word in step[n : n + 1]
        ]
        key = torch.cat(own).unique()
        having = [i for i, step in enumerate(steps) if n < len(step)]
        for i, part in zip(having, own, strict=True):
            rows[i] = torch.cat([rows[i], first + torch.searchsorted(key, part)])
        context, word = key // V - begin, key % V
        read = [machine.read(place[context], word) for machine, place in zip(machines, places, strict=True)]
        places = [after for after, _ in read]
        logprobs.append((torch.stack([logprob for _, logprob in read]) + log_weights[:, None]).logsumexp(0))
        keys.append(key)
        begin, first = first, first + len(key)
    logprob = torch.cat(logprobs).float()
    whole = NGramTable(V, torch.cat([tables[0].keys[:0], *keys]), logprob, torch.zeros_like(logprob))
    return normalised(whole)
