"""Fill the gaps of a sentence by exact inference: ``lmzoo fill RUN TEXT``."""

import json

from lmzoo.api import questions
from lmzoo.cli.command import CommandParser, warn, warn_of
from lmzoo.core.errors import for_output
from lmzoo.core.options import Size
from lmzoo.runs.external import open_model


def main() -> None:
    """Run the command."""
    parser = CommandParser(
        "fill",
        ". Prints the most likely words of each gap, given all other words, and the "
        "most likely joint fillings that a beam search finds, with their probabilities. ___ is a gap of one word, "
        "[a|b] one of several words, and one … may stand for any number of words; & 10..15 limits the number of words.",
        'example: lmzoo fill outputs/ptb/hmm "the ___ of the company ___ sharply"',
    )
    parser.add_run("outputs/ptb/hmm", "a run directory of a hidden Markov model")
    parser.add_argument("text", help="a sentence with gaps")
    parser.add_number("--top", Size, "number of words per gap, and of joint fillings", 5)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_device()
    options = parser.parse_args()
    run, model, vocabulary = open_model(options.run, options.device)
    found = questions.fill(model, vocabulary, options.text, options.top)
    warn_of(run, vocabulary)
    warn(questions.context_warning(run.path, run.config()["corpus"]["context"]))
    if options.json:
        print(json.dumps(found._asdict(), indent=2))
        return
    print(f"log p = {found.logprob:.4f} nats, summed over all fillings")
    for number, gap in enumerate(found.gaps, 1):
        shown = "any number of words" if gap is None else ", ".join(f"{word} {100 * p:.1f}%" for word, p in gap)
        print(for_output(f"gap {number}: {shown}"))
    for sentence, p in found.best:
        print(for_output(f"{100 * p:.3g}%\t{sentence}", "\t"))
