"""Learn word vectors: ``lmzoo vectors method=skipgram corpus=ptb``; ``--help`` tells the rest."""

from lmzoo.cli.jobs import Train, run_jobs


def main() -> int:
    """The command: returns its exit code."""
    return run_jobs("vectors", _session, lambda results: results["loss"], lambda folders: None)


def _session() -> Train:
    from lmzoo.training.vectors import learn

    return learn
