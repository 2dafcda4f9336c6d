"""Rank documents for queries: ``lmzoo retrieve DOCUMENTS QUERIES``."""

import argparse
import itertools
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Annotated, get_args

import numpy as np

from lmzoo.cli.command import CommandParser, check_output, warn
from lmzoo.core.errors import UserError, shortened
from lmzoo.core.files import read_text, write_output
from lmzoo.core.options import Bounds, Size, check
from lmzoo.retrieval.analysis import STOP_WORDS, analysis, stemmer
from lmzoo.retrieval.bm25 import bm25
from lmzoo.retrieval.evaluation import MEASURES, cross_validated, judged_queries, measured
from lmzoo.retrieval.formats import Judgements, Ranking, read_judgements, read_records, run_lines
from lmzoo.retrieval.index import Index, ranked
from lmzoo.retrieval.likelihood import RankingOptions, score

OPTIONS = {field.name: (field.default, get_args(field.type)[-1]) for field in fields(RankingOptions)}
"""The `RankingOptions`, each of which accepts several values: default and description."""

NO_EFFECT = {"nu": ("order", 1), "terms": ("feedback", 0), "weight": ("feedback", 0)}
"""Options without effect if another has only this value."""


def main() -> None:
    """Run the command."""
    parser = CommandParser(
        "retrieve",
        ", smoothed by that of the collection. "
        "Files contain '.I' records as Cranfield's, JSON Lines with 'id' and 'text', or lines 'NAME<TAB>TEXT'. An "
        "option with several values needs --qrels: the best values are chosen by cross-validation over the queries.",
        "examples: lmzoo retrieve docs.jsonl queries.tsv --mu 1000 --run dirichlet.run; "
        "lmzoo retrieve cran.all.1400 cran.qry --qrels cranqrel --mu 100 200 300 --feedback 10",
    )
    parser.add_argument("documents", type=Path, help="a file in one of these formats")
    parser.add_argument("queries", type=Path, help="a file, likewise")
    parser.add_file("--qrels", "relevance judgements in TREC, BEIR or Cranfield format: print measures")
    parser.add_file("--run", "write a TREC run file; without --run and --qrels it is printed")
    for name, (default, what) in OPTIONS.items():
        parser.add_argument(
            _flag(name), dest=name, nargs="+", type=type(default), default=[default],
            metavar=name[0].upper(), help=f"{what} (default: {default:g})",
        )  # fmt: skip
    about = "rank by BM25 instead of query likelihood, such as 1.2 0.75"
    parser.add_argument("--bm25", type=float, nargs=2, metavar=("K1", "B"), help=about)
    about = "prior of documents: uniform (default), or proportional to length"
    parser.add_argument("--prior", default="uniform", choices=("uniform", "length"), help=about)
    parser.add_argument(
        "--stop", default=str(STOP_WORDS), help="file of stop words, or none (default: 318 English ones)"
    )
    parser.add_argument("--stem", default="porter", help="a Snowball stemmer, or none (default: porter)")
    parser.add_number("--depth", Size, "number of documents ranked per query", 1000)
    parser.add_number("--folds", Annotated[int, Bounds(low=2, high=2**31 - 1)], "number of cross-validation folds", 5)
    arguments = parser.parse_args()
    if arguments.run:
        files = (arguments.documents, arguments.queries, arguments.qrels, arguments.stop)
        check_output(arguments.run, inputs=[Path(file) for file in files if file is not None])
    values = itertools.product(*(getattr(arguments, name) for name in OPTIONS))
    grid = [RankingOptions(**dict(zip(OPTIONS, chosen, strict=True))) for chosen in values]
    if arguments.bm25 and (grid != [RankingOptions()] or arguments.prior != "uniform"):
        raise UserError("--bm25: does not use a language model", f"leave out --prior, {', '.join(map(_flag, OPTIONS))}")
    for name, (other, value) in NO_EFFECT.items():
        if getattr(arguments, name) != [OPTIONS[name][0]] and {*getattr(arguments, other)} == {value}:
            problem = f"{_flag(name)}: no effect with {_flag(other)} {value}"
            raise UserError(problem, f"set {_flag(other)}, or leave it out")
    if len(grid) > 1 and not arguments.qrels:
        raise UserError("several values of an option need --qrels, to choose among them", "give one value of each")
    if len(grid) == 1 and arguments.folds != parser.get_default("folds"):
        raise UserError("--folds: no effect where each option has one value", "leave it out")
    weighting: dict[str, float] = dict(zip(("k1", "b"), arguments.bm25, strict=True)) if arguments.bm25 else {}
    if weighting:
        check(bm25, weighting, "--bm25 ")
    judgements = read_judgements(arguments.qrels) if arguments.qrels else {}
    index, queries = _read(arguments, judgements)
    prior = np.log(np.maximum(index.lengths, 1)) if arguments.prior == "length" else np.zeros(len(index.names))
    judged = judged_queries(judgements, queries) if judgements else []
    if len(grid) > 1 and arguments.folds > len(judged):
        raise UserError(f"--folds: there are {len(judged)} judged queries", "ask for fewer")
    print(
        f"{len(index.names):,} documents of {len(index.tokens):,} words, {len(index.words):,} different; "
        f"{len(queries):,} queries, {sum(not query for query in queries.values())} of them without a known word",
        file=sys.stderr,
    )
    warn(_exclusions(judgements, queries, index.names))

    def rank(query: str, options: RankingOptions) -> Ranking:
        words = queries[query]
        scores = bm25(index, words, **weighting) if weighting else score(index, words, options, prior)
        return ranked(index, scores, arguments.depth)

    best = dict.fromkeys(queries, grid[0])
    if len(grid) > 1:
        tried = [measured(judgements, {query: rank(query, options) for query in judged}) for options in grid]
        best |= _selected_options(grid, np.stack(tried), judged, arguments.folds)
    rankings = {query: rank(query, options) for query, options in best.items()}
    figures = measured(judgements, rankings) if judgements else None
    if arguments.run:
        write_output(arguments.run, run_lines(rankings).encode())
    if figures is not None:
        _print_figures(figures, "cross-validated" if len(grid) > 1 else "")
    elif not arguments.run:
        print(run_lines(rankings), end="")


def _read(arguments: argparse.Namespace, judged: Collection[str]) -> tuple[Index, dict[str, list[int]]]:
    """Index the documents, and the words of each query; ``judged`` as in `read_records`."""
    stop = () if arguments.stop == "none" else read_text(Path(arguments.stop)).decode().lower().split()
    words = analysis(stop, stemmer(arguments.stem))
    queries = read_records(arguments.queries, judged)
    index = Index({name: words(text) for name, text in read_records(arguments.documents).items()})
    if not len(index.tokens):
        unstopped = analysis((), str)
        if not any(map(unstopped, read_records(arguments.documents).values())):
            raise UserError(f"{arguments.documents}: no document has a word")
        raise UserError(f"{arguments.documents}: contains only stop words", "set --stop none")
    return index, {name: index.numbers(words(text)) for name, text in queries.items()}


def _exclusions(judgements: Judgements, queries: Collection[str], documents: Collection[str]) -> str | None:
    """A line about queries and documents excluded from the figures; None if there are none, or no judgements."""
    if not judgements:
        return None
    relevant = {query: [d for d, grade in grades.items() if grade] for query, grades in judgements.items()}
    there = set(documents)
    left_out = {
        "judged queries that the file of queries lacks": [query for query in judgements if query not in queries],
        "queries without relevant documents, not counted": [query for query in queries if not relevant.get(query)],
        "relevant documents that the collection lacks": [
            d for q in queries for d in relevant.get(q, []) if d not in there
        ],
    }
    lines = [f"{what}: {len(names):,}, the first {shortened(names[0])}" for what, names in left_out.items() if names]
    return "; ".join(lines) or None


def _selected_options(
    grid: Sequence[RankingOptions], figures: np.ndarray, queries: Sequence[str], folds: int
) -> Mapping[str, RankingOptions]:
    """Select the options of each judged query by cross-validation, and print the (S, Q, 3) figures and the choices."""
    for options, values in zip(grid, figures, strict=True):
        _print_figures(values, _format_options(options, grid))
    best = cross_validated(figures[:, :, 0], folds)
    for fold in range(folds):
        print(f"fold {fold + 1}, chosen on the others: {_format_options(grid[best[fold]], grid)}")
    return {query: grid[choice] for query, choice in zip(queries, best, strict=True)}


def _format_options(options: RankingOptions, grid: Sequence[RankingOptions]) -> str:
    """The options that vary in a grid, as on a command line."""
    names = [name for name in OPTIONS if len({getattr(each, name) for each in grid}) > 1]
    return " ".join(f"{_flag(name)} {getattr(options, name):g}" for name in names)


def _flag(name: str) -> str:
    return f"--{name.removesuffix('_')}"


def _print_figures(values: np.ndarray, what: str) -> None:
    """Print the means of (Q, 3) measures."""
    means = "  ".join(f"{name} {mean:.4f}" for name, mean in zip(MEASURES, values.mean(0), strict=True))
    print(f"{means}  ({len(values)} queries)  {what}".rstrip())
