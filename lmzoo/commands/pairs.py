"""Evaluate models on minimal pairs of sentences: ``lmzoo pairs RUN FILE…``."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from lmzoo.cli.command import CommandParser, check_tokenize, tokenized, warn
from lmzoo.core.errors import UserError, pluralize, printable
from lmzoo.core.files import decompressed_name, read_lines
from lmzoo.huggingface.causal import CausalTransformer
from lmzoo.protocol.lines import Line, scored, unknown_warning
from lmzoo.runs.external import open_model
from lmzoo.runs.results import finite


class Pair(NamedTuple):
    """A grammatical and an ungrammatical sentence that differ minimally; BLiMP (Warstadt et al. 2020)."""

    paradigm: str
    good: str
    bad: str


class Preference(NamedTuple):
    """The preferences of a model in a paradigm, in numbers of pairs.

    Attributes:
        pairs: all pairs.
        right: pairs whose good sentence is more probable; ties are excluded, as in BLiMP's published figures.
        ties: pairs of equal probability, such as those that differ only in unknown words.
        by_unknown: pairs whose preference would change without unknown words.
    """

    pairs: int
    right: int
    ties: int
    by_unknown: int


def read_pairs(file: Path) -> list[Pair]:
    """Read JSON Lines with ``sentence_good``, ``sentence_bad`` and, for several paradigms in a file, ``UID``.

    Raises: UserError as `read_lines` does, and with the number of an invalid line.
    """
    pairs = []
    for number, line in enumerate(read_lines(file), 1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
            pair = Pair(entry.get("UID", decompressed_name(file).stem), entry["sentence_good"], entry["sentence_bad"])
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            pair = Pair("", "", "")
        if not all(isinstance(part, str) and part.strip() and "\n" not in part for part in pair[1:]):
            what = "is not JSON with sentence_good and sentence_bad, each a line that is not empty"
            raise UserError(f"{file}, line {number}: {what}")
        if not isinstance(pair.paradigm, str):
            raise UserError(f"{file}, line {number}: its UID is no string", "it names the paradigm")
        pairs.append(pair)
    return pairs


def preferences(pairs: Sequence[Pair], lines: Iterator[Line]) -> dict[str, Preference]:
    """The preferences by paradigm, in order of the pairs; ``lines`` alternate between good and bad sentences."""
    preferences: dict[str, Preference] = {}
    for pair, good, bad in zip(pairs, lines, lines, strict=True):
        differ = _read(good) != _read(bad)  # identical input is a tie despite rounding
        chosen = differ * _sign(good.logprob, bad.logprob)
        of_known = differ * _sign(good.logprob_of_known, bad.logprob_of_known)
        one = Preference(1, chosen > 0, chosen == 0, chosen != of_known)
        before = preferences.get(pair.paradigm, Preference(0, 0, 0, 0))
        preferences[pair.paradigm] = Preference(*map(sum, zip(before, one, strict=True)))
    return preferences


def _read(line: Line) -> list[str | None]:
    """The words as the model reads them."""
    return [word if known else None for word, known in zip(line.words, line.known.tolist(), strict=True)]


def _sign(good: float, bad: float) -> int:
    return (good > bad) - (good < bad)


def main() -> None:
    """Run the command."""
    parser = CommandParser(
        "pairs",
        ". Prints, for each paradigm of minimal pairs, the percentage of pairs in "
        "which the good sentence has a higher probability, the number of pairs, of ties, and of pairs in which unknown "
        "words decide. A tie counts as wrong. The last line is the mean over paradigms. Each sentence is scored "
        "independently, whatever the run's context.",
        "example: lmzoo pairs outputs/ptb/lstm blimp/*.jsonl --tokenize ptb",
    )
    parser.add_run("outputs/ptb/lstm")
    parser.add_argument("files", type=Path, nargs="+", help="JSON Lines with sentence_good, sentence_bad, as in BLiMP")
    parser.add_tokenize()
    parser.add_argument("--json", action="store_true", help="print JSON, with log p of both sentences in nats")
    parser.add_device()
    arguments = parser.parse_args()
    pairs = [pair for file in arguments.files for pair in read_pairs(file)]
    sentences = tokenized(arguments, [text for pair in pairs for text in (pair.good, pair.bad)])
    run, model, vocabulary = open_model(arguments.run, arguments.device)
    check_tokenize(arguments, vocabulary, arguments.run)
    warn(run.unfinished())
    lines = list(scored(model, vocabulary, sentences, "sentence", "the sentences of the pairs"))
    if isinstance(model, CausalTransformer):  # whose end is that of a document, and not in published figures
        ends = [float(line.logprobs[-1]) for line in lines]
        lines = [line._replace(logprob=line.logprob - end, logprob_of_known=line.logprob_of_known - end)
                 for line, end in zip(lines, ends, strict=True)]  # fmt: skip
    unknown, tokens = sum(line.unknown for line in lines), sum(len(line.words) for line in lines)
    warn(unknown_warning(unknown, tokens, "pairs", model))
    if repeated := len(pairs) - len({*pairs}):
        warn(f"{repeated:,} of {len(pairs):,} pairs are duplicates, which are counted, too")
    paradigms = preferences(pairs, iter(lines))
    mean = sum(each.right / each.pairs for each in paradigms.values()) / len(paradigms)
    if arguments.json:
        by_name = {name: each._asdict() for name, each in paradigms.items()}
        logprobs = [finite(line.logprob) for line in lines]
        each = [{"UID": pair.paradigm, "logprob_good": good, "logprob_bad": bad}
                for pair, good, bad in zip(pairs, logprobs[::2], logprobs[1::2], strict=True)]  # fmt: skip
        print(json.dumps({"mean": mean, "paradigms": by_name, "pairs": each}, indent=2))
        return
    print("percent\tpairs\tties\tby_unknown\tparadigm")
    for name, each in paradigms.items():
        print(f"{100 * each.right / each.pairs:5.1f}\t{each.pairs}\t{each.ties}\t{each.by_unknown}\t{printable(name)}")
    of_all = Preference(*map(sum, zip(*paradigms.values(), strict=True)))
    number = pluralize(len(paradigms), "paradigm")
    print(f"{100 * mean:5.1f}\t{of_all.pairs}\t{of_all.ties}\t{of_all.by_unknown}\tmean of {number}")
