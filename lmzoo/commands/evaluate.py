"""Measure a trained model: ``lmzoo evaluate RUN [SPLIT or FILE]``."""

import json
import math
import time
from pathlib import Path
from typing import Any

from lmzoo.cli.command import CommandParser, warn
from lmzoo.core.checksums import RESULTS
from lmzoo.core.errors import printable
from lmzoo.corpus import Context
from lmzoo.corpus.corpus import SPLITS
from lmzoo.corpus.vocabulary import EOS_ID
from lmzoo.protocol.lines import known_words, scored_parts, stream_warning
from lmzoo.protocol.perplexity import Score, perplexity, text_logprobs, validated
from lmzoo.runs.external import open_model, run_at
from lmzoo.runs.lineage import training_text_warning
from lmzoo.runs.results import finite, perplexities

ROUNDED = 0.01
"""The relative difference of perplexities that devices and precisions do not explain."""

MANY_UNKNOWN = 0.01
"""The share of unknown words that makes perplexity less meaningful, since `<unk>` is easy to predict."""


def evaluate(run_dir: Path, text: str, context: Context | None = None, device: str = "auto") -> dict[str, Any]:
    """Score a text with the best weights of a run.

    Args:
        text: ``train``, ``valid`` or ``test``, a split of the run's corpus as the run read it; else a UTF-8 file, one
            sentence per line, words separated by spaces. Unknown words count as `<unk>`.
        context: as in `lmzoo.corpus.Context`; None: that of the run.

    Returns: model, text, context, perplexity, logprob (nats), tokens, unknown (words that are not `known`), impossible
        (tokens of probability zero), seconds, device; if there are unknown words, impossible_unknown (the number of
        impossible ones) and perplexity_of_known, that of all other tokens; for characters, bits_per_character; for
        characters and subwords, perplexity_per_word, per word separated by white space or line end (for subwords, under
        one segmentation), and words, their number; if the file is training text of the run, or the figure differs from
        that in its results, warning.

    Raises: UserError if the folder is not a trained run or the text cannot be read.
    """
    run, model, vocabulary = open_model(run_dir, device)
    config = run.config()
    memory: Context = context or config["corpus"]["context"]
    started, is_known = time.monotonic(), known_words(model, vocabulary)
    measured, of_known, unconditioned, words, lines, last = Score(), Score(), Score(), 0, 0, EOS_ID
    for part, logprobs in scored_parts(model, vocabulary, run.parts(text, vocabulary), memory):
        measured.add(validated(logprobs, run_dir))
        if model.open_vocabulary:
            is_known = known_words(model, vocabulary)
        of_known.add(logprobs[is_known[part.tokens]])
        words += int(vocabulary.word_begins(part.tokens, last).sum())
        lines += int((part.tokens == EOS_ID).sum())
        last = int(part.tokens[-1]) if len(part.tokens) else last
        if part.conditions is not None:
            unconditioned.add(text_logprobs(model, part.tokens, memory))
    figures = {
        "model": config["model"]["name"],
        "text": text,
        "context": memory,
        "perplexity": measured.perplexity,
        "logprob": measured.logprob,
        "tokens": measured.tokens,
        "unknown": measured.tokens - of_known.tokens,
        "impossible": measured.impossible,
        "seconds": round(time.monotonic() - started, 3),
        "device": str(model.device),
    }
    if unconditioned.tokens:
        figures["perplexity_without_condition"] = unconditioned.perplexity
    if vocabulary.form.unit == "char":
        figures["bits_per_character"] = math.log2(measured.perplexity)
    if not vocabulary.form.of_words:
        figures |= {"words": words, "perplexity_per_word": perplexity(measured.logprob, words)}
    warning = None
    if text not in SPLITS:
        advice = stream_warning(model, lines, "--context sentence") if memory == "stream" and not context else None
        warning = "; ".join(filter(None, [training_text_warning(run, Path(text)), advice]))
    elif memory == config["corpus"]["context"] and (results := run.results()):
        recorded = perplexities(results).get(text, measured.perplexity)
        if not math.isclose(recorded, measured.perplexity, rel_tol=ROUNDED):
            warning = f"{run.path}/{RESULTS}: has {recorded:.2f}, so a file of the run was changed, or the code since"
    if warning:
        figures["warning"] = warning
    if figures["unknown"] and not model.whole_sentences:
        figures["impossible_unknown"] = measured.impossible - of_known.impossible
        figures["perplexity_of_known"] = of_known.perplexity
    return figures


def main() -> None:
    """Run the command."""
    parser = CommandParser(
        "evaluate",
        ": exp(-(1/N) Σ log p), with N every word and one <eos> per line.",
        "examples: lmzoo evaluate outputs/pydoc/lstm; lmzoo evaluate outputs/pydoc/lstm book.txt --context sentence",
    )
    parser.add_run("outputs/pydoc/lstm")
    parser.add_argument("text", nargs="?", default="test", help="train, valid, test (the default) or a text file")
    parser.add_argument("--context", choices=["stream", "sentence"], help="default: that of the run")
    parser.add_device()
    parser.add_argument("--json", action="store_true", help="print every figure as JSON, infinity as null")
    arguments = parser.parse_args()
    unfinished = run_at(arguments.run).unfinished()
    figures = evaluate(arguments.run, arguments.text, arguments.context, arguments.device)
    warn(unfinished)
    warn(figures.get("warning"))
    if arguments.json:
        print(json.dumps(finite(figures), indent=2, allow_nan=False))
        return
    bits = f" ({figures['bits_per_character']:.4f} bits per character)" if "bits_per_character" in figures else ""
    summary = [
        f"{figures['model']} on {figures['text']} (context {figures['context']}): perplexity "
        f"{figures['perplexity']:.2f}{bits} over {figures['tokens']:,} tokens in {figures['seconds']:.1f} s"
    ]
    if "perplexity_per_word" in figures:
        label = "per word" if bits else "per word, of one segmentation"
        summary.append(f"{label}: perplexity {figures['perplexity_per_word']:.2f} over {figures['words']:,} words")
    if "perplexity_without_condition" in figures:
        summary.append(f"without the labels of the lines: perplexity {figures['perplexity_without_condition']:.2f}")
    if figures["unknown"]:
        line = f"{figures['unknown']:,} of the tokens are unknown words, which the model reads as <unk>"
        if "perplexity_of_known" in figures and figures["unknown"] > MANY_UNKNOWN * figures["tokens"]:
            line += f"; without them the perplexity is {figures['perplexity_of_known']:.2f}"
        summary.append(line)
    if figures["impossible"]:
        line = f"{figures['impossible']:,} of the tokens have probability 0"
        if figures.get("impossible_unknown"):
            line += f", {figures['impossible_unknown']:,} of them unknown words, as the model has no <unk>"
        summary.append(line)
    print(printable("\n".join(summary), "\n"))
