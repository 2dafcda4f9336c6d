"""Train a language model: ``lmzoo train model=lstm corpus=ptb``; see ``--help``."""

from lmzoo.cli.jobs import run_jobs


def main() -> int:
    """Run the command. Returns: the exit code."""
    return run_jobs("train")
