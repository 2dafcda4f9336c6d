"""Learn word vectors: ``lmzoo vectors method=skipgram corpus=ptb``; ``--help`` tells the rest."""

from lmzoo.cli.jobs import run_jobs
from lmzoo.commands import COMMANDS


def main() -> int:
    """The command: returns its exit code."""
    return run_jobs("vectors", COMMANDS["vectors"])
