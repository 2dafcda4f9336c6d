"""Draw word vectors on a plane by t-SNE: ``lmzoo map RUN``."""

from pathlib import Path
from typing import Annotated

from lmzoo.cli.command import CommandParser, check_output
from lmzoo.core.errors import UserError, printable, shortened
from lmzoo.core.files import write_output
from lmzoo.core.options import Bounds, Seed, Size
from lmzoo.reports.map import picture, tsne
from lmzoo.runs.directory import Run
from lmzoo.runs.kinds import WORD_VECTORS
from lmzoo.words.brown import cached_brown_clusters
from lmzoo.words.vectors.formats import VECTORS, read_vectors


def main() -> None:
    """Run the command."""
    parser = CommandParser(
        "map",
        ", of the most frequent words, coloured by Brown cluster.",
        "example: lmzoo map outputs/ptb/skipgram --words 2000; then open outputs/ptb/skipgram/map.png",
    )
    parser.add_run("outputs/ptb/skipgram", "a run of lmzoo vectors")
    parser.add_number("--words", Annotated[int, Bounds(low=3, high=2**31 - 1)], "number of most frequent words", 1500)
    parser.add_number("--clusters", Size, "number of Brown clusters, shown as colours", 20)
    parser.add_number(
        "--perplexity", Annotated[float, Bounds(low=1)], "perplexity of t-SNE, about the number of neighbours", 30
    )
    parser.add_number("--seed", Seed, "random seed of t-SNE", 0)
    parser.add_argument("--out", type=Path, help="folder for map.png (the run)")
    options = parser.parse_args()
    if options.run.is_file():
        needs = "a map needs the run that made them, with its text for Brown clusters"
        raise UserError(f"{options.run}: is a file of vectors", needs)
    run = Run(options.run)
    run.config()  # reject folders that are not runs first
    vectors = read_vectors(run.path)
    run.config().kind.require(run.path, WORD_VECTORS)
    file = (options.out or run.path) / "map.png"
    check_output(picture=file)
    corpus, shown = run.corpus(), vectors.words[: options.words]
    if absent := [word for word in shown if word not in corpus.vocabulary.index]:
        raise run.unusable(VECTORS, f"'{shortened(absent[0])}' is no word of corpus {corpus.name}")
    rows = [corpus.vocabulary.index[word] for word in shown]
    places = tsne(vectors.matrix[: options.words], options.perplexity, options.seed)
    of_word = cached_brown_clusters(corpus.splits["train"], len(corpus.vocabulary), options.clusters, "--clusters")
    title = f"{run.config()['method']['name']} on {corpus.name}"
    write_output(file, picture(title, shown, places, of_word[rows].tolist()))
    print(printable(str(file)))
