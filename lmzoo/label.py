"""Learn to label words: ``python -m lmzoo.label task=pos labeller=hmm_tagger``; ``--help`` tells the rest."""

if __name__ == "__main__":
    from lmzoo.cli.start import start

    start("lmzoo.label")

from lmzoo.cli.jobs import Train, run_jobs


def main() -> int:
    """The command: returns its exit code."""
    return run_jobs("label", _session, lambda results: -next(iter(results["figures"].values())), lambda folders: None)


def _session() -> Train:
    from lmzoo.training.labels import learn

    return learn
