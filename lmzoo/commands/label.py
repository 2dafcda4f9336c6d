"""Learn to label words, texts or trees: ``lmzoo label task=pos labeller=hmm_tagger``; ``--help`` tells the rest."""

from lmzoo.cli.jobs import run_jobs
from lmzoo.commands import COMMANDS


def main() -> int:
    """The command: returns its exit code."""
    return run_jobs("label", COMMANDS["label"])
