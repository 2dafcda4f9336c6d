"""Pictures of hidden Markov models."""

import math
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from lmzoo.core.errors import printable
from lmzoo.corpus import Vocabulary
from lmzoo.models.hmm.block_hmm import BlockHMM
from lmzoo.models.hmm.hidden_markov import HiddenMarkovModel
from lmzoo.models.hmm.reading import entropy
from lmzoo.reports.charts import charts, format_tick, heat_map, logarithmic, rendered

SHOWN = 24
"""The number of clusters or states in the picture of transitions."""


@torch.no_grad()
def transitions(
    model: HiddenMarkovModel, vocabulary: Vocabulary, frequency: Tensor, visits: Tensor
) -> tuple[list[str], Tensor]:
    """The names of the most visited clusters, or states without clusters, and their (n, n) p(c′ | c).

    Args:
        frequency: (V,) occurrences of each word in the training text.
        visits: (Z,) expected visits of each state.
    """
    if isinstance(model, BlockHMM):
        order = visits.view(model.clusters, -1).sum(1).argsort(descending=True)[:SHOWN]
        emitted = [frequency * (model.cluster.cpu() == c) for c in order.tolist()]
        return [_name(counts, vocabulary) for counts in emitted], model.cluster_transitions(visits).cpu()[order][
            :, order
        ]
    order = visits.argsort(descending=True)[:SHOWN]
    names = [f"{z}: {_name(model.words(z).exp().cpu(), vocabulary)}" for z in order.tolist()]
    return names, torch.stack([model.successors(z).exp().cpu()[order] for z in order.tolist()])


def _name(weights: Tensor, vocabulary: Vocabulary) -> str:
    """The likeliest word, or the first two if it has less than nine tenths of the weight."""
    first, *others = (vocabulary.words[word] for word in weights.topk(min(2, len(weights))).indices.tolist())
    return printable(first if not others or weights.max() >= 0.9 * weights.sum() else f"{first} {others[0]} …")


def picture_of_states(names: Sequence[str], matrix: Tensor, visits: Tensor, text: str, file: Path) -> bytes:
    """Draw p(next | this) of the most visited clusters or states, and the visits of each state.

    Args:
        names, matrix: as returned by `transitions`.
        text: the text that is visited.
    """
    with charts("--plot") as pyplot:
        figure, (left, right) = pyplot.subplots(1, 2, figsize=(10.5, 5.2), width_ratios=(1.25, 1))
        bar = heat_map(left, matrix.numpy(), names, "Blues", 1, ticks=[0, 0.01, 0.05, 0.1, 0.2, 0.4, 0.7, 1])
        bar.ax.set_yticklabels([format_tick(tick) for tick in bar.get_ticks()], fontsize=7)
        left.tick_params(labelsize=6.5)
        left.set(title="p(next | this)", xlabel="next", ylabel="this; the most visited first")
        right.plot(range(1, len(visits) + 1), visits.sort(descending=True).values.clamp_min(1e-3).numpy())
        mean = float(visits.mean())
        right.axhline(mean, color="#888888", linewidth=0.8, linestyle=(0, (4, 2)))
        right.annotate(
            "all alike", (len(visits), mean), (0, 3), textcoords="offset points", ha="right", color="#666666"
        )
        logarithmic(right, "y")
        equal = f"as even as {math.exp(entropy(visits)):,.0f} of {len(visits):,} used alike"
        right.set(title="visits of each state", xlabel=f"states, the most visited first;\n{equal}", xlim=(0, None))
        right.set_ylabel(f"expected visits, {printable(text)}", parse_math=False)
        return rendered(figure, file)
