"""Draw word vectors on a plane by t-SNE: ``lmzoo map RUN``."""

from pathlib import Path
from typing import Annotated

from lmzoo.cli.command import CommandParser, bounded, check_output
from lmzoo.commands import COMMANDS
from lmzoo.core.errors import printable, shortened
from lmzoo.core.files import write_output
from lmzoo.core.options import Bounds, Seed, Size
from lmzoo.reports.map import PROJECTED, Map, projector, tsne
from lmzoo.runs.directory import Run
from lmzoo.words.cache import cached_brown_clusters
from lmzoo.words.vectors.formats import VECTORS, read_vectors


def main() -> int:
    """The command: returns its exit code."""
    parser = CommandParser(
        prog="lmzoo map",
        description=f"{COMMANDS['map']}, of the commonest words: a picture, and a page that tells words on hover. "
        "TensorBoard's projector gets the vectors with words, frequencies and Brown clusters.",
        epilog="example: lmzoo map outputs/ptb/skipgram --words 2000; then open "
        "outputs/ptb/skipgram/map.html, or tensorboard --logdir outputs/ptb/skipgram",
    )
    parser.add_run("outputs/ptb/skipgram", "a run of lmzoo vectors")
    parser.add_argument(
        "--words",
        type=bounded(Annotated[int, Bounds(low=3, high=2**31 - 1)]),
        default=1500,
        help="how many of the commonest words (1500)",
    )
    parser.add_argument("--clusters", type=bounded(Size), default=20, help="how many Brown clusters colour them (20)")
    parser.add_argument(
        "--perplexity",
        type=bounded(Annotated[float, Bounds(low=1)]),
        default=30,
        help="of t-SNE: about how many neighbours (30)",
    )
    parser.add_argument("--seed", type=bounded(Seed), default=0, help="of t-SNE (0)")
    parser.add_argument("--out", type=Path, help="where map.png and map.html go (the run)")
    options = parser.parse_args()
    run = Run(options.run)
    config, vectors = run.config(), read_vectors(run.path)
    files = [(options.out or run.path) / name for name in ("map.png", "map.html")]
    check_output(*files)
    for name in PROJECTED:
        run.place(name)
    corpus = run.corpus()
    words, matrix = vectors.words[: options.words], vectors.matrix[: options.words]
    if absent := [word for word in words if word not in corpus.vocabulary.index]:
        raise run.unusable(VECTORS, f"'{shortened(absent[0])}' is no word of corpus {corpus.name}")
    rows = [corpus.vocabulary.index[word] for word in words]
    counts = corpus.train.bincount(minlength=len(corpus.vocabulary))[rows].tolist()
    places = tsne(matrix, options.perplexity, options.seed)
    of_word = cached_brown_clusters(corpus.train, len(corpus.vocabulary), options.clusters, "--clusters")
    clusters = of_word[rows].tolist()
    drawn = Map(f"{config['method']['name']} on {corpus.name}", words, places, counts, clusters)
    for file, contents in zip(files, (drawn.png(), drawn.page()), strict=True):
        write_output(file, contents)
        print(printable(str(file)))
    projector(run.path, matrix, words, counts, clusters)
    print(printable(f"tensorboard --logdir {run.path}: PROJECTOR"))
    return 0
