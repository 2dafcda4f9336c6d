"""Answer exact questions about sentences by a hidden Markov model: ``lmzoo ask RUN PATTERN``."""

import json
import math

from lmzoo.api import questions
from lmzoo.cli.command import CommandParser, warn, warn_of
from lmzoo.core.errors import printable
from lmzoo.runs.external import open_model
from lmzoo.runs.results import finite

PATTERNS = (
    "A pattern consists of words; _ for any word; … or ... for any number of words; [a|b] for one of several, not "
    "[a|b] for any other. & is the conjunction of patterns, such as 10..15, a number of words; not (…) negates one."
)


def main() -> None:
    """Run the command."""
    parser = CommandParser(
        "ask",
        f": that a sentence matches it. {PATTERNS}",
        'example: lmzoo ask outputs/ptb/hmm "… profit … fell …" --given "… profit …" --words sharply,slightly',
    )
    parser.add_run("outputs/ptb/hmm", "a run directory of a hidden Markov model")
    parser.add_argument("pattern", help="pattern of the whole sentence")
    parser.add_argument("--given", metavar="PATTERN", help="print the probability given that the sentence matches this")
    parser.add_argument(
        "--words", metavar="WORD,…", help="print the expected count of each word in a matching sentence"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_device()
    options = parser.parse_args()
    run, model, vocabulary = open_model(options.run, options.device)
    words = options.words.split(",") if options.words else None
    answer = questions.ask(model, vocabulary, options.pattern, options.given, words)
    warn_of(run, vocabulary)
    warn(questions.context_warning(run.path, run.config()["corpus"]["context"]))
    if options.json:
        figures = {"probability": math.exp(answer.logprob), "logprob": finite(answer.logprob), "words": answer.counts}
        print(json.dumps(figures, indent=2))
        return
    print(f"p = {math.exp(answer.logprob):.6g}, log p = {answer.logprob:.4f} nats")
    for word, count in answer.counts.items():
        print(f"{count:.6g}\t{printable(word)}")
