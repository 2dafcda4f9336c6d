"""Pictures of a trained block-sparse HMM for docs/hmm.md: ``python docs/pictures/hmm_pictures.py RUN FOLDER``.

Needs matplotlib (``pip install -e '.[bench]'``).
"""

import math
from pathlib import Path

import matplotlib as mpl
import torch

import lmzoo
from lmzoo.cli.command import CommandParser
from lmzoo.cli.ending import run_command
from lmzoo.core.errors import UserError
from lmzoo.corpus import Vocabulary
from lmzoo.models.hmm.block_hmm import BlockHMM
from lmzoo.models.hmm.usage import entropy, expected_visits
from lmzoo.runs.directory import Run

mpl.use("Agg")
from matplotlib import pyplot as plt

SHOWN = 28
"""How many clusters the picture of transitions shows."""


def names(model: BlockHMM, vocabulary: Vocabulary, tokens: torch.Tensor) -> list[str]:
    """The most frequent word of each cluster, or the first two where one has less than nine tenths of its tokens."""
    counts = tokens.bincount(minlength=len(vocabulary))
    found = []
    for c in range(model.clusters):
        own = counts * (model.cluster == c)
        top = own.topk(2).indices.tolist()
        alone = own[top[0]] >= 0.9 * own.sum()
        found.append(vocabulary.words[top[0]] if alone else " ".join(vocabulary.words[word] for word in top) + " …")
    return found


def draw_transitions(model: BlockHMM, labels: list[str], visits: torch.Tensor, path: Path) -> None:
    """p(c′ | c) between the clusters that the text visits most."""
    order = visits.view(model.clusters, -1).sum(1).argsort(descending=True)[:SHOWN]
    matrix = model.cluster_transitions(visits)[order][:, order].sqrt()
    figure, axes = plt.subplots(figsize=(8, 7.4), layout="constrained")
    axes.imshow(matrix.numpy(), cmap="magma")
    shown = [labels[c].replace("$", r"\$") for c in order.tolist()]
    axes.set_xticks(range(len(shown)), shown, rotation=90, fontsize=7)
    axes.set_yticks(range(len(shown)), shown, fontsize=7)
    axes.set_xlabel("next cluster")
    axes.set_ylabel("cluster")
    figure.savefig(path, dpi=110)


def draw_usage(visits: torch.Tensor, path: Path) -> None:
    """The expected visits of all states, the most visited state first."""
    figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
    axes.semilogy(range(1, len(visits) + 1), visits.sort(descending=True).values.clamp_min(1e-3).numpy())
    axes.axhline(float(visits.mean()), color="grey", linewidth=1, linestyle=":")
    axes.annotate("all alike", (len(visits) * 0.86, float(visits.mean()) * 1.2), color="grey", fontsize=8)
    axes.set_xlabel(f"states, the most visited first; as many as {math.exp(entropy(visits)):,.0f} used alike")
    axes.set_ylabel("expected visits")
    figure.savefig(path, dpi=110)


def main() -> int:
    parser = CommandParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    model, vocabulary = lmzoo.load(options.run)
    if not isinstance(model, BlockHMM):
        raise UserError(f"{options.run}: its model, {type(model).__name__}, is not a block-sparse HMM")
    options.folder.mkdir(parents=True, exist_ok=True)
    corpus = Run(options.run).corpus()
    with torch.no_grad(), model.frozen():
        visits = expected_visits(model, corpus.splits["valid"])
        labels = names(model, vocabulary, corpus.train)
        draw_transitions(model, labels, visits, options.folder / "hmm-transitions.png")
    draw_usage(visits, options.folder / "hmm-usage.png")
    return 0


if __name__ == "__main__":
    run_command(main)
