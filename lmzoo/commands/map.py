"""Draw word vectors on a plane by t-SNE: ``lmzoo map RUN``."""

from pathlib import Path
from typing import Annotated

from lmzoo.cli.command import CommandParser, check_output
from lmzoo.core.errors import UserError, printable
from lmzoo.core.files import write_output
from lmzoo.core.options import Bounds, Seed, Size
from lmzoo.reports.map import of_run
from lmzoo.runs.directory import Run
from lmzoo.runs.kinds import WORD_VECTORS
from lmzoo.words.vectors.formats import read_vectors


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
    drawn = of_run(run, run.corpus(), vectors, options.words, options.clusters, options.perplexity, options.seed)
    write_output(file, drawn)
    print(printable(str(file)))
