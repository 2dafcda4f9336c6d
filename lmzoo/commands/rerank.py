"""Rerank an n-best list with a language model: ``lmzoo rerank RUN [FILE]``."""

import argparse
import math
from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

from lmzoo.cli.command import CommandParser, check_tokenize, text_file, tokenized, warn
from lmzoo.core.errors import UserError, for_output, pluralize
from lmzoo.core.files import NUMBER, read_lines
from lmzoo.protocol.lines import scored, unknown_warning
from lmzoo.runs.external import open_model


class Hypothesis(NamedTuple):
    """An entry of an n-best list."""

    key: str
    """The id of the input."""
    text: str
    scores: list[float]
    """Scores of other models, higher is better."""


def hypotheses(lines: Sequence[str], where: str) -> list[Hypothesis]:
    """Parse ``id ||| text ||| score …``, or, as of Moses and this command, ``id ||| text ||| name= score … ||| total``.

    Names and totals are ignored.

    Raises: UserError if a line is invalid, or has another number of scores.
    """
    entries: list[Hypothesis] = []
    for number, line in enumerate(lines, 1):
        key, *rest = (part.strip() for part in line.split("|||"))
        try:
            text, scores, total = [*rest, *("", "0")[len(rest) - 1 :]]
            float(total)
            entry = Hypothesis(key, text, [float(score) for score in scores.split() if not score.endswith("=")])
        except ValueError:
            raise UserError(f"{where}, line {number}: is not 'id ||| text ||| score … ||| total'") from None
        entries.append(entry)
        if not all(map(math.isfinite, entry.scores)):
            raise UserError(f"{where}, line {number}: has a score that is not finite")
        if len(entry.scores) != len(entries[0].scores):
            wanted = f"and line 1 has {len(entries[0].scores)}"
            raise UserError(f"{where}, line {number}: has {pluralize(len(entry.scores), 'score')}, {wanted}")
    if all(NUMBER.fullmatch(entry.text) for entry in entries):
        raise UserError(f"{where}: every text is a number, so ids are missing", "write 'id ||| text ||| score …'")
    return entries


def totals(entries: Sequence[Hypothesis], logprobs: Sequence[float], weights: Sequence[float]) -> list[float]:
    """Σ weight × score of each hypothesis, where log p under the language model is the first score.

    Args:
        logprobs: log p of each hypothesis in nats.
        weights: the weight of each score. A score of weight 0 is ignored, even if infinite.
    """
    return [
        sum(weight * score for weight, score in zip(weights, (logprob, *entry.scores), strict=True) if weight)
        for entry, logprob in zip(entries, logprobs, strict=True)
    ]


def best_first(entries: Sequence[Hypothesis], total: Sequence[float]) -> list[list[int]]:
    """For each id, in order of the list, the indices of its hypotheses, the best first."""
    places: dict[str, list[int]] = {}
    for place, entry in enumerate(entries):
        places.setdefault(entry.key, []).append(place)
    return [sorted(group, key=lambda place: -total[place]) for group in places.values()]


def main() -> None:
    """Run the command."""
    arguments, entries = _read_command_line()
    texts, weights = tokenized(arguments, [entry.text for entry in entries]), arguments.weights
    run, model, vocabulary = open_model(arguments.run, arguments.device)
    check_tokenize(arguments, vocabulary, arguments.run)
    warn(run.unfinished())
    lines = list(scored(model, vocabulary, texts, "sentence", arguments.text))
    warn(unknown_warning(sum(line.unknown for line in lines), sum(len(line.words) for line in lines), arguments.text))
    logprobs = [line.logprob for line in lines]
    total = totals(entries, logprobs, weights)
    groups = best_first(entries, total)
    for place in chain(*groups):
        key, text, others = entries[place]
        scores = " ".join(f"{score:.12g}" for score in [*others, round(logprobs[place], 4)])
        print(for_output(f"{key} ||| {text} ||| {scores} ||| {total[place]:.4f}"))
    if tied := [entries[first].key for first, *others in groups if total[first] in [total[i] for i in others]]:
        warn(f"{len(tied)} of {len(groups)} ids have several best hypotheses, {tied[0]} the first; ties keep the "
             "order of the list")  # fmt: skip
    of_known = totals(entries, [line.logprob_of_known for line in lines], weights)
    others = best_first(entries, of_known)
    if decided := [entries[group[0]].key for group, other in zip(groups, others, strict=True) if group[0] != other[0]]:
        warn(f"unknown words decide for {len(decided)} of {len(groups)} ids, {decided[0]} the first: without them "
             "another hypothesis is the best")  # fmt: skip


def _read_command_line() -> tuple[argparse.Namespace, list[Hypothesis]]:
    parser = CommandParser(
        "rerank",
        ". Prints the hypotheses of each id, best first, with log p under the "
        "model, in nats, and the weighted sum of all scores appended. Each is scored independently, whatever the run's "
        "context.",
        "example: lmzoo rerank outputs/ptb/lstm nbest.txt --weights 0.8 1",
    )
    parser.add_run("outputs/ptb/lstm")
    parser.add_text(
        "lines 'id ||| text ||| score …', optionally with '||| total', which is ignored, as are names of scores (LM0=)"
    )
    parser.add_argument(
        "--weights", type=float, nargs="+", help="weights of log p and of each score in the list (default: 1)"
    )
    parser.add_device()
    arguments = parser.parse_args()
    entries = hypotheses(read_lines(text_file(arguments)), arguments.text)
    scores = 1 + len(entries[0].scores)
    arguments.weights = arguments.weights or [1.0] * scores
    if len(arguments.weights) != scores or not all(map(math.isfinite, arguments.weights)):
        raise UserError(f"--weights: give {pluralize(scores, 'number')}, the first for log p")
    return arguments, entries
