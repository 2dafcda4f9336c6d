"""Pictures of word vectors on a plane."""

import colorsys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from lmzoo.core.errors import UserError, printable, shortened
from lmzoo.core.extras import import_optional
from lmzoo.corpus import Corpus
from lmzoo.reports.charts import charts, legend, rendered
from lmzoo.runs.directory import Run
from lmzoo.words.brown import cached_brown_clusters
from lmzoo.words.vectors.formats import VECTORS
from lmzoo.words.vectors.word_vectors import WordVectors, unit

LETTER, LINE = 0.0055, 0.011
"""The width of a letter and the height of a line in the picture, in units of the map."""

NAMING = 3
"""The number of frequent words that name a cluster."""


def picture(title: str, words: Sequence[str], places: np.ndarray, clusters: Sequence[int]) -> bytes:
    """Render a PNG: a point for each word, names where there is room, and a legend of colours.

    Args:
        words: N, the most frequent first.
        places: (N, 2) coordinates from 0 to 1.
        clusters: the Brown cluster of each word.

    Raises: UserError if Matplotlib is missing.
    """
    with charts("lmzoo map") as pyplot:
        figure, axes = pyplot.subplots(figsize=(11.2, 9.4))
        for cluster in sorted({*clusters}):
            rows = np.flatnonzero(np.array(clusters) == cluster).tolist()
            label = " ".join(words[row] for row in rows[:NAMING])
            colour = colorsys.hls_to_rgb(cluster / (max(clusters) + 1), 0.5, 0.7)
            axes.scatter(*places[rows].T, color=colour, s=7, linewidth=0, alpha=0.7, label=label)
        for row in named(words, places):
            name, place = printable(words[row]), places[row]
            axes.annotate(name, place, (0, 1), textcoords="offset points", fontsize=5.3, ha="center", parse_math=False)
        axes.set_title(printable(title), parse_math=False)
        axes.set(xticks=[], yticks=[], xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
        axes.spines[:].set_visible(False)
        legend(axes, loc="upper left", bbox_to_anchor=(1, 1), markerscale=2, title="Brown clusters")
        return rendered(figure, Path("map.png"))


def named(words: Sequence[str], places: np.ndarray) -> list[int]:
    """The words whose names fit without overlap, in order of frequency."""
    width = LETTER * np.array([len(printable(word)) for word in words])
    found: list[int] = []
    for row, (x, y) in enumerate(places):
        near = np.abs(places[found] - (x, y))
        if not ((near[:, 0] < (width[found] + width[row]) / 2) & (near[:, 1] < LINE)).any():
            found.append(row)
    return found


def tsne(matrix: Tensor, perplexity: float, seed: int) -> np.ndarray:
    """(N, d) vectors -> (N, 2) coordinates from 0 to 1 by cosine (van der Maaten & Hinton, JMLR 2008).

    Raises: UserError if scikit-learn is missing, the perplexity too large, or the vectors one-dimensional.
    """
    if matrix.shape[1] < 2:
        raise UserError("the vectors have a single dimension, and a map has two", "learn vectors of more dimensions")
    if perplexity >= len(matrix):
        raise UserError(f"--perplexity {perplexity:g}: must be below the number of words, {len(matrix)}", "lower it")
    manifold: Any = import_optional("sklearn.manifold", "lmzoo map", "scikit-learn")
    found = manifold.TSNE(2, perplexity=perplexity, init="pca", random_state=seed).fit_transform(unit(matrix).numpy())
    low, high = found.min(0), found.max(0)
    return (found - low) / (high - low)


def of_run(
    run: Run, corpus: Corpus, vectors: WordVectors, words: int, clusters: int, perplexity: float, seed: int
) -> bytes:
    """The picture of the most frequent words of a run of ``lmzoo vectors``, by `tsne`, coloured by Brown cluster.

    Raises: UserError as `tsne` and `picture` do, and if a word with a vector is not in the run's corpus.
    """
    shown = vectors.words[:words]
    if absent := [word for word in shown if word not in corpus.vocabulary.index]:
        raise run.unusable(VECTORS, f"'{shortened(absent[0])}' is no word of corpus {corpus.name}")
    rows = [corpus.vocabulary.index[word] for word in shown]
    places = tsne(vectors.matrix[:words], perplexity, seed)
    of_word = cached_brown_clusters(corpus.splits["train"], len(corpus.vocabulary), clusters, "--clusters")
    title = f"{run.config()['method']['name']} on {corpus.name}"
    return picture(title, shown, places, of_word[rows].tolist())
