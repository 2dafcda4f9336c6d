"""Which words follow which in a linear dynamical system: ``lmzoo transitions RUN``."""

from lmzoo.cli.command import CommandParser, open_run, require_kind, warn
from lmzoo.commands import COMMANDS
from lmzoo.core.errors import printable
from lmzoo.models.lds.directions import singular_words
from lmzoo.models.lds.lds import LinearDynamicalSystem

PAIRS, WORDS, COMMON = 10, 6, 3000
"""How many pairs of singular vectors are printed, how many words for each end, and from how many frequent words."""


def main() -> int:
    """The command: returns its exit code."""
    parser = CommandParser(
        prog="lmzoo transitions",
        description=f"{COMMANDS['transitions']}: the words at either end of the leading singular vectors of a trained "
        "linear dynamical system's transition matrix: after the words on the left, those on the right tend to come.",
        epilog="example: lmzoo transitions outputs/ptb/lds",
    )
    parser.add_run("outputs/ptb/lds", "the run directory of model=lds")
    options = parser.parse_args()
    run, opened, vocabulary = open_run(options.run, "cpu")
    model = require_kind(run, opened, LinearDynamicalSystem, "a linear dynamical system, such as model=lds")
    warn(run.unfinished())
    A, C, R = (part.double() for part in (model.A, model.C[:COMMON], model.spherical))
    for sigma, now, following in singular_words(A, C, R, PAIRS, min(WORDS, len(vocabulary))):
        left, right = (" ".join(vocabulary.words[word] for word in end.tolist()) for end in (now, following))
        print(f"{sigma:.2f}  {printable(left)}  →  {printable(right)}")
    return 0
