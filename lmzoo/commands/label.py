"""Train labellers of words, texts or trees: ``lmzoo label task=pos labeller=hmm_tagger``; see ``--help``."""

from lmzoo.cli.jobs import run_jobs


def main() -> int:
    """Run the command. Returns: the exit code."""
    return run_jobs("label")
