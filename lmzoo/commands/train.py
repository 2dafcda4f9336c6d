"""Train a language model: ``lmzoo train model=lstm corpus=ptb``; ``--help`` tells the rest."""

from lmzoo.cli.jobs import run_jobs
from lmzoo.commands import COMMANDS


def main() -> int:
    """The command: returns its exit code."""
    return run_jobs("train", COMMANDS["train"])
