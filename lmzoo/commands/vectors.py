"""Train word vectors: ``lmzoo vectors method=skipgram corpus=ptb``; see ``--help``."""

from lmzoo.cli.jobs import run_jobs


def main() -> int:
    """Run the command. Returns: the exit code."""
    return run_jobs("vectors")
