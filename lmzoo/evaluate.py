"""Measure a trained model: ``python -m lmzoo.evaluate RUN [SPLIT or FILE]``."""

if __name__ == "__main__":
    from lmzoo.cli.start import start

    start("lmzoo.evaluate")

import json
import math
import sys
import time
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lmzoo.cli.command import CommandParser, open_run, warn
from lmzoo.core.errors import UserError, printable
from lmzoo.corpus import Context, Vocabulary
from lmzoo.corpus.conditions import read_conditioned
from lmzoo.corpus.corpus import SPLITS
from lmzoo.protocol.perplexity import Score, by_line, fault, score, text_logprobs
from lmzoo.runs.directory import Run
from lmzoo.runs.results import finite

MANY_UNKNOWN = 0.01
"""Where a larger share of a text is unknown, its perplexity says less: `<unk>` is easy to predict."""


def evaluate(
    run_dir: Path, text: str, context: Context | None = None, device: str = "auto", lines: bool = False
) -> dict[str, Any]:
    """Score a text with the best weights of a run.

    Args:
        text: ``train``, ``valid`` or ``test``, a split of the run's corpus; else a UTF-8 file, a sentence a
            line, words separated by spaces. Words the model does not know count as `<unk>`.
        context: as in `lmzoo.corpus.Context`; None takes the run's own.
        lines: whether to give the score of every line, too. In a stream a line is scored given all lines before it.

    Returns: model, text, context, perplexity, logprob (nats), tokens, unknown (words read as `<unk>`),
        impossible (tokens of probability zero), seconds, device; where words are unknown, perplexity_of_known, that
        of all other tokens; where words are characters, bits_per_character; and where asked for, lines: the logprob,
        the number of tokens and the words of every line, as the model reads them.

    Raises: UserError where the folder is no trained run or the text cannot be read.
    """
    run, model, vocabulary = open_run(run_dir, device)
    config = run.config()
    memory: Context = context or config["corpus"]["context"]
    tokens, known, conditions = _read(text, run, vocabulary)
    started = time.monotonic()
    logprobs = text_logprobs(model, tokens, memory, conditions).cpu().double()
    measured = Score.of(logprobs)
    if problem := fault(logprobs):
        raise UserError(f"{run_dir}: {problem}", "train it again")
    figures = {
        "model": config["model"]["name"],
        "text": text,
        "context": memory,
        "perplexity": measured.perplexity,
        "logprob": measured.logprob,
        "tokens": measured.tokens,
        "unknown": int((~known).sum()),
        "impossible": measured.impossible,
        "seconds": round(time.monotonic() - started, 3),
        "device": str(model.device),
    }
    if conditions is not None:
        figures["perplexity_without_condition"] = score(model, tokens, memory).perplexity
    if vocabulary.form.unit == "char":
        figures["bits_per_character"] = math.log2(measured.perplexity)
    if figures["unknown"]:
        figures["perplexity_of_known"] = Score.of(logprobs[known]).perplexity
    if lines:
        figures["lines"] = [
            {"logprob": float(scores.sum()), "tokens": len(line), "text": vocabulary.decode(line[:-1].tolist())}
            for scores, line in zip(by_line(logprobs, tokens), by_line(tokens, tokens), strict=True)
        ]
    return figures


def _read(text: str, run: Run, vocabulary: Vocabulary) -> tuple[Tensor, Tensor, Tensor | None]:
    """The (N,) tokens of a split or a file; whether each was known, (N,), and not read as `<unk>`; (L,) conditions."""
    if text in SPLITS:
        corpus = run.corpus()
        tokens = corpus.tokens(text)
        return tokens, torch.ones_like(tokens, dtype=torch.bool), corpus.conditions.get(text)
    if not Path(text).exists():
        meant = get_close_matches(text, SPLITS, n=1)
        advice = f"did you mean '{meant[0]}'?" if meant else None
        raise UserError(f"{text}: neither a split ({', '.join(SPLITS)}) nor a file", advice)
    conditions, lines = read_conditioned(Path(text), vocabulary)
    numbers = vocabulary.look_up(lines, text)
    return vocabulary.read(numbers), numbers >= 0, conditions


def _for_json(value: Any) -> Any:
    """With None for infinity, which JSON cannot hold."""
    if isinstance(value, dict):
        return {name: _for_json(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_for_json(part) for part in value]
    return finite(value) if isinstance(value, float) else value


def main() -> int:
    """The command: returns its exit code."""
    parser = CommandParser(
        prog="python -m lmzoo.evaluate",
        description="Print the perplexity of a text under a trained model: exp(-(1/N) Σ log p), with N every word "
        "and one <eos> per line.",
        epilog="examples: python -m lmzoo.evaluate outputs/pydoc/lstm          the run's test split; "
        "python -m lmzoo.evaluate outputs/pydoc/lstm book.txt --context sentence",
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
    figures = evaluate(arguments.run, arguments.text, arguments.context, arguments.device, arguments.lines)
    warn(unfinished)
    if arguments.json:
        print(json.dumps(_for_json(figures), indent=2, allow_nan=False))
        return 0
    for line in figures.get("lines", []):
        print(f"{line['logprob']:.4f}\t{line['tokens']}\t{printable(line['text'])}")
    bits = f" ({figures['bits_per_character']:.4f} bits per character)" if "bits_per_character" in figures else ""
    summary = [
        f"{figures['model']} on {figures['text']} (context {figures['context']}): perplexity "
        f"{figures['perplexity']:.2f}{bits} over {figures['tokens']:,} tokens in {figures['seconds']:.1f} s"
    ]
    if "perplexity_without_condition" in figures:
        summary.append(f"without the labels of the lines: perplexity {figures['perplexity_without_condition']:.2f}")
    if figures["unknown"]:
        told = f"{figures['unknown']:,} words are not in the model's vocabulary and were read as <unk>"
        if figures["unknown"] > MANY_UNKNOWN * figures["tokens"]:
            told += f"; without them the perplexity is {figures['perplexity_of_known']:.2f}"
        summary.append(told)
    if figures["impossible"]:
        summary.append(f"{figures['impossible']:,} tokens have probability 0")
    print("\n".join(summary), file=sys.stderr if arguments.lines else sys.stdout)
    return 0
