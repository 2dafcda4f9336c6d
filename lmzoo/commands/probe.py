"""Evaluate word vectors on similarity and analogy: ``lmzoo probe RUN``."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lmzoo.cli.command import CommandParser, RunFolder, check_output, warn
from lmzoo.core.errors import UserError, nearest, printable
from lmzoo.core.files import write_output
from lmzoo.core.options import Size
from lmzoo.corpus.sources import data_folders
from lmzoo.reports.table import aligned, csv_bytes
from lmzoo.words.vectors.formats import read_vectors
from lmzoo.words.vectors.measures import Pairs, Questions, answered, read_questions
from lmzoo.words.vectors.word_vectors import WordVectors

COLUMNS = ("vectors", "set", "measure", "value", "covered", "of", "neighbour")

FEW = 10
"""With fewer pairs, chance gives a Spearman correlation beyond ±0.6 in 9 cases of 100 or more."""


def probe(name: str, vectors: WordVectors, sets: Sequence[Pairs], questions: Questions | None) -> list[dict[str, Any]]:
    """A row per similarity set, and two per section of analogies; without a value if words lack vectors."""
    rows = []
    for pairs in sets:
        rho, covered, number = pairs.measure(vectors)
        rows.append((name, pairs.name, "spearman", None if math.isnan(rho) else rho, covered, number))
    for section, add, mul, covered, number in answered(questions, vectors) if questions else ():
        for measure, right in (("3CosAdd", add), ("3CosMul", mul)):
            rows.append((name, section, measure, right / covered if covered else None, covered, number))
    return [dict(zip(COLUMNS, (*row, None), strict=True)) for row in rows]


def neighbours(name: str, vectors: WordVectors, word: str, count: int) -> list[dict[str, Any]]:
    """A row per nearest neighbour of ``word``, which is in the column of sets; raise a UserError without a vector."""
    if (place := vectors.row(word)) is None:
        raise UserError(f"--neighbours {word}: has no vector in {name}", nearest(word, vectors.words))
    near = vectors.most_similar(vectors.words[place], count)
    rows = [(name, vectors.words[place], "cosine", cosine, None, None, other) for other, cosine in near]
    return [dict(zip(COLUMNS, row, strict=True)) for row in rows]


def as_text(rows: Sequence[dict[str, Any]], names: Sequence[str], what: str) -> str:
    """Format a table with two columns per vectors, and a line per measure or rank of a neighbour.

    Args:
        rows: rows of all vectors, equally many and in the same order for each.
        names: the names of the vectors.
        what: the header of the second columns: neighbours, or the number of pairs or questions covered.
    """
    columns = [[row for row in rows if row["vectors"] == name] for name in names]
    lines = [["set", "measure", *(cell for name in names for cell in (name, what))]]
    for measure in zip(*columns, strict=True):
        cells = [measure[0]["set"], measure[0]["measure"]]
        for row in measure:
            covered = f"{row['covered']:,} of {row['of']:,}" if row["neighbour"] is None else row["neighbour"]
            cells += ["" if row["value"] is None else f"{row['value']:.3f}", covered]
        lines.append(cells)
    return "\n".join(map(printable, aligned(lines)))


def _in_data(pattern: str) -> list[Path]:
    """The files that match a pattern under the first data folder that has any."""
    return next(filter(None, (sorted(root.glob(pattern)) for root in data_folders())), [])


def main() -> None:
    """Run the command."""
    parser = CommandParser(
        "probe",
        ". Similarity: Spearman correlation of cosines with human judgements. "
        "Analogies: accuracy, where the words of the question are excluded as answers. Words are compared in lower "
        "case; pairs and questions with unknown words are left out, and the number of the others is given.",
        "examples: lmzoo probe outputs/ptb/skipgram outputs/ptb/ppmi --csv table.csv; "
        "lmzoo probe vectors.txt --neighbours bank",
    )
    what = "runs of lmzoo vectors, or files in word2vec's or GloVe's formats"
    parser.add_argument("vectors", action=RunFolder, nargs="+", help=what)
    parser.add_argument("--sets", type=Path, nargs="*", metavar="FILE", help="similarity sets, two words and a number "
                        "per line (default: those in wordsim and wordsim-more under $LMZOO_DATA or data)")  # fmt: skip
    about = "analogy questions in word2vec's format (default: analogies/questions-words.txt under $LMZOO_DATA or data)"
    parser.add_file("--analogies", about)
    parser.add_argument("--neighbours", action="append", default=[], metavar="WORD", help="print the nearest words, "
                        "without measures unless --sets or --analogies is given; may be repeated")  # fmt: skip
    parser.add_number("--top", Size, "number of neighbours", 10)
    parser.add_file("--csv", "write a line for each measure and neighbour")
    options = parser.parse_args()
    if options.top != parser.get_default("top") and not options.neighbours:
        raise UserError("--top: needs --neighbours", "add --neighbours, or leave --top out")
    measured = not options.neighbours or options.sets or options.analogies
    sets, analogies = options.sets, options.analogies
    if measured and sets is None:
        sets = _in_data("wordsim/*.txt") + _in_data("wordsim-more/*.txt")
    if measured and analogies is None:
        analogies = next(iter(_in_data("analogies/questions-words.txt")), None)
    check_output(options.csv, inputs=[*options.vectors, *(sets or []), *filter(None, [analogies])])
    opened = {str(path): read_vectors(path) for path in options.vectors}
    names, tables = list(opened), {}
    if options.neighbours:
        count = min(options.top, *(len(vectors.words) - 1 for vectors in opened.values()))
        tables["neighbour"] = [row for each in opened.items() for word in options.neighbours
                               for row in neighbours(*each, word, count)]  # fmt: skip
    if measured:
        if not sets and analogies is None:
            problem = "no similarity sets and no analogies are there"
            raise UserError(problem, "name them: --sets FILE …, --analogies FILE")
        pairs, questions = [Pairs.read(file) for file in sets], read_questions(analogies) if analogies else None
        tables["covered"] = rows = [row for each in opened.items() for row in probe(*each, pairs, questions)]
        few = {f"{r['covered']} of {r['set']} under {r['vectors']}": r for r in rows if 0 < r["covered"] < FEW}
        warn(f"fewer than {FEW} are covered, so their figures are mostly noise: {', '.join(few)}" if few else None)
    print("\n\n".join(as_text(rows, names, what) for what, rows in tables.items()))
    rows = [row for table in tables.values() for row in table]
    if options.csv:
        write_output(options.csv, csv_bytes([COLUMNS, *(row.values() for row in rows)]))
