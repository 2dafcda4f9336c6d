"""Cluster the words of a text: ``lmzoo cluster --corpus ptb --clusters 128 ptb-clusters.tsv``."""

from pathlib import Path

from lmzoo.cli.command import CommandParser, bounded, check_output
from lmzoo.core.configs import choices, defaults
from lmzoo.core.errors import UserError, pluralize, printable
from lmzoo.core.files import read_pieces, write_output
from lmzoo.core.options import Size
from lmzoo.corpus import Vocabulary, load_corpus
from lmzoo.words.brown import average_mutual_information, cached_brown_clusters
from lmzoo.words.merging import paths

SHOWN = 12
"""The maximum number of words printed per cluster."""


def main() -> None:
    """Run the command."""
    parser = CommandParser(
        "cluster",
        ", maximizing the average mutual information of adjacent clusters (Brown et al. 1992) "
        "by annealed exchange of words. Prints the most frequent words of each cluster. The result is "
        "deterministic. <eos>, the end of a line, counts as a word and is in the last cluster.",
        "examples: lmzoo cluster --corpus ptb --clusters 128 ptb-clusters.tsv; "
        "lmzoo cluster --text book.txt --clusters 50 book-clusters.tsv",
    )
    names = [name for name in choices("corpus") if name != "text"]
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--corpus", choices=names, help="cluster the training text of a corpus of lmzoo")
    source.add_argument(
        "--text", type=Path, metavar="FILE", help="text file, one sentence per line, words separated by spaces, UTF-8"
    )
    parser.add_argument("--clusters", type=bounded(Size), required=True, help="number of clusters, such as 128")
    parser.add_argument("out", type=Path, help="file to write: a line 'word<TAB>cluster<TAB>count' for each word")
    parser.add_argument(
        "--paths", action="store_true", help="write 'path<TAB>word<TAB>count': similar clusters share path prefixes"
    )
    options = parser.parse_args()
    if options.paths and options.clusters == 1:
        raise UserError("--paths: a single cluster has none", "ask for two --clusters or more")
    check_output(options.out, inputs=filter(None, [options.text]))
    if options.text:
        text = b"".join(read_pieces(options.text))
        vocabulary = Vocabulary.of(text)
        tokens = vocabulary.encode(text, str(options.text))
    else:
        corpus = load_corpus(defaults("corpus", options.corpus))
        vocabulary, tokens = corpus.vocabulary, corpus.splits["train"]
    cluster_of = cached_brown_clusters(tokens, len(vocabulary), options.clusters, "--clusters")
    counts = tokens.bincount(minlength=len(vocabulary))
    path_of = paths(tokens, cluster_of) if options.paths else None
    order = counts.argsort(descending=True, stable=True)
    lines: list[str] = []
    for number in range(options.clusters):
        words = order[cluster_of[order] == number].tolist()  # the most frequent first
        more = f" … ({len(words)} words)" if len(words) > SHOWN else ""
        print(f"{number:4d}  {printable(' '.join(vocabulary.words[word] for word in words[:SHOWN]))}{more}")
        for word in words:
            name = vocabulary.words[word]
            fields = f"{path_of[number]}\t{name}" if path_of else f"{name}\t{number}"
            lines.append(f"{fields}\t{counts[word]}\n")
    write_output(options.out, "".join(lines).encode())
    information = average_mutual_information(tokens, cluster_of)
    print(
        f"{pluralize(options.clusters, 'cluster')} of {len(vocabulary):,} words in {len(tokens):,} tokens: "
        f"average mutual information {information:.4f} nats; written to {printable(str(options.out))}"
    )
