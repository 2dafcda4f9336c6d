"""Measure a trained model: ``lmzoo evaluate RUN [SPLIT or FILE]``."""

import json
import math
import sys
import time
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lmzoo.cli.command import CommandParser, open_run, warn
from lmzoo.commands import COMMANDS
from lmzoo.core.errors import UserError, printable
from lmzoo.corpus import Context, Vocabulary
from lmzoo.corpus.corpus import SPLITS
from lmzoo.corpus.lines import by_line
from lmzoo.protocol.lines import Part, file_parts, known, scored_parts
from lmzoo.protocol.perplexity import Total, checked, text_logprobs
from lmzoo.runs.directory import Run
from lmzoo.runs.results import finite

MANY_UNKNOWN = 0.01
"""Where a larger share of a text is unknown, its perplexity says less: `<unk>` is easy to predict."""


def evaluate(
    run_dir: Path,
    text: str,
    context: Context | None = None,
    device: str = "auto",
    each: Callable[[dict[str, Any]], None] | None = None,
) -> dict[str, Any]:
    """Score a text with the best weights of a run.

    Args:
        text: ``train``, ``valid`` or ``test``, a split of the run's corpus, as much of it as the run read; else a UTF-8
            file, a sentence a line, words separated by spaces. Words the model does not know count as `<unk>`.
        context: as in `lmzoo.corpus.Context`; None takes the run's own.
        each: is called with logprob, tokens and text of every line, the words as the model reads them, as soon as it
            is scored. In a stream a line is scored given all lines before it.

    Returns: model, text, context, perplexity, logprob (nats), tokens, unknown (words that are not `known`),
        impossible (tokens of probability zero), seconds, device; where words are unknown, impossible_unknown (how many
        of these are impossible), and perplexity_of_known, that of all other tokens; where words are characters,
        bits_per_character; where the file is one that the run was trained on, warning.

    Raises: UserError where the folder is no trained run or the text cannot be read.
    """
    run, model, vocabulary = open_run(run_dir, device)
    config = run.config()
    memory: Context = context or config["corpus"]["context"]
    started, scoring = time.monotonic(), _Scoring(vocabulary, known(model, vocabulary), each)
    shown = each is None or not sys.stdout.isatty()
    for part, logprobs in scored_parts(model, vocabulary, _read(text, run, vocabulary, shown), memory):
        scoring.add(part.tokens, checked(logprobs, run_dir))
        if part.conditions is not None:
            scoring.unconditioned.add(text_logprobs(model, part.tokens, memory))
    measured = scoring.all.score
    figures = {
        "model": config["model"]["name"],
        "text": text,
        "context": memory,
        "perplexity": measured.perplexity,
        "logprob": measured.logprob,
        "tokens": measured.tokens,
        "unknown": measured.tokens - scoring.known.tokens,
        "impossible": measured.impossible,
        "seconds": round(time.monotonic() - started, 3),
        "device": str(model.device),
    }
    if scoring.unconditioned.tokens:
        figures["perplexity_without_condition"] = scoring.unconditioned.score.perplexity
    if vocabulary.form.unit == "char":
        figures["bits_per_character"] = math.log2(measured.perplexity)
    if text not in SPLITS and (warning := run.trained_text(Path(text))):
        figures["warning"] = warning
    if figures["unknown"] and not model.whole_sentences:
        of_known = scoring.known.score
        figures["impossible_unknown"] = measured.impossible - of_known.impossible
        figures["perplexity_of_known"] = of_known.perplexity
    return figures


class _Scoring:
    """The sums of a text that is scored part by part; ``each`` is given its lines."""

    def __init__(self, vocabulary: Vocabulary, is_known: Tensor, each: Callable[[dict[str, Any]], None] | None):
        self.vocabulary, self.is_known, self.each = vocabulary, is_known, each
        self.all, self.known, self.unconditioned = Total(), Total(), Total()
        self.open: tuple[Tensor, Tensor] | None = None  # the tokens of a line that has not ended, and their log p

    def add(self, tokens: Tensor, logprobs: Tensor) -> None:
        """(N,) tokens, and their log-probabilities."""
        self.all.add(logprobs)
        self.known.add(logprobs[self.is_known[tokens]])
        if self.each is None:
            return
        if self.open is not None:
            tokens, logprobs = torch.cat([self.open[0], tokens]), torch.cat([self.open[1], logprobs])
        lines = by_line(tokens, tokens)
        end = sum(map(len, lines))
        for line, scores in zip(lines, by_line(logprobs, tokens), strict=True):
            text = self.vocabulary.decode(line[:-1].tolist())
            self.each({"logprob": float(scores.sum()), "tokens": len(line), "text": text})
        self.open = tokens[end:], logprobs[end:]


def _read(text: str, run: Run, vocabulary: Vocabulary, shown: bool) -> Iterable[Part]:
    """A split, or a file whose lines have labels, which are one part; any other file part by part."""
    if text in SPLITS:
        corpus = run.corpus()
        return [Part(b"", corpus.tokens(text), corpus.conditions.get(text))]
    if not Path(text).exists():
        meant = get_close_matches(text, SPLITS, n=1)
        advice = f"did you mean '{meant[0]}'?" if meant else None
        raise UserError(f"{text}: neither a split ({', '.join(SPLITS)}) nor a file", advice)
    return file_parts(vocabulary, Path(text), shown)


def _for_json(value: Any) -> Any:
    """With None for infinity, which JSON cannot hold."""
    if isinstance(value, dict):
        return {name: _for_json(part) for name, part in value.items()}
    return finite(value) if isinstance(value, float) else value


def _print_line(line: dict[str, Any]) -> None:
    sys.stdout.write(f"{line['logprob']:.4f}\t{line['tokens']}\t{printable(line['text'])}\n")


class _JsonLines:
    """Prints lines as the beginning of an object of JSON, as they come."""

    def __init__(self) -> None:
        self.begin = '{\n  "lines": [\n'

    def add(self, line: dict[str, Any]) -> None:
        """Print a line."""
        sys.stdout.write(f"{self.begin}    {json.dumps(_for_json(line), allow_nan=False)}")
        self.begin = ",\n"

    @staticmethod
    def close(figures: str) -> None:
        """Print the end of the lines and another object's JSON as the rest of this one."""
        print(f"\n  ],{figures.removeprefix('{')}")


def main() -> int:
    """The command: returns its exit code."""
    parser = CommandParser(
        prog="lmzoo evaluate",
        description=f"{COMMANDS['evaluate']}: exp(-(1/N) Σ log p), with N every word and one <eos> per line.",
        epilog="examples: lmzoo evaluate outputs/pydoc/lstm; "
        "lmzoo evaluate outputs/pydoc/lstm book.txt --context sentence",
    )
    parser.add_run("outputs/pydoc/lstm")
    parser.add_argument("text", nargs="?", default="test", help="train, valid, test (the default) or a text file")
    parser.add_argument("--context", choices=["stream", "sentence"], help="the run's own where not given")
    parser.add_device()
    parser.add_argument(
        "--lines",
        action="store_true",
        help="print, for each line, log p in nats (in a stream given the "
        "lines before it), tokens and the words as read; the rest goes to stderr",
    )
    parser.add_argument("--json", action="store_true", help="print every figure as JSON, infinity as null")
    arguments = parser.parse_args()
    unfinished = Run(arguments.run).unfinished()
    lines = _JsonLines()
    each = None if not arguments.lines else lines.add if arguments.json else _print_line
    figures = evaluate(arguments.run, arguments.text, arguments.context, arguments.device, each)
    warn(unfinished)
    warn(figures.get("warning"))
    if arguments.json:
        told = json.dumps(_for_json(figures), indent=2, allow_nan=False)
        (lines.close if arguments.lines else print)(told)
        return 0
    bits = f" ({figures['bits_per_character']:.4f} bits per character)" if "bits_per_character" in figures else ""
    summary = [
        f"{figures['model']} on {figures['text']} (context {figures['context']}): perplexity "
        f"{figures['perplexity']:.2f}{bits} over {figures['tokens']:,} tokens in {figures['seconds']:.1f} s"
    ]
    if "perplexity_without_condition" in figures:
        summary.append(f"without the labels of the lines: perplexity {figures['perplexity_without_condition']:.2f}")
    if figures["unknown"]:
        told = f"{figures['unknown']:,} words are not in the model's vocabulary, or <unk> in the text: read as <unk>"
        if "perplexity_of_known" in figures and figures["unknown"] > MANY_UNKNOWN * figures["tokens"]:
            told += f"; without them the perplexity is {figures['perplexity_of_known']:.2f}"
        summary.append(told)
    if figures["impossible"]:
        told = f"{figures['impossible']:,} tokens have probability 0"
        if figures.get("impossible_unknown"):
            told += f", {figures['impossible_unknown']:,} of them unknown words, as the model has no <unk>"
        summary.append(told)
    print(printable("\n".join(summary), "\n"), file=sys.stderr if arguments.lines else sys.stdout)
    return 0
