"""Learn to label words: ``python -m lmzoo.label task=pos labeller=hmm_tagger``; ``--help`` tells the rest."""

if __name__ == "__main__":
    from lmzoo.cli.start import start

    start("lmzoo.label")

from typing import Any

from lmzoo.cli.jobs import Train, run_jobs


def main() -> int:
    """The command: returns its exit code."""
    return run_jobs("label", _session, _figure, lambda folders: None)


def _figure(results: dict[str, Any]) -> float | None:
    """What a sweeper makes small; nothing chooses on test."""
    valid = results["figures"].get("valid")
    return None if valid is None else -valid


def _session() -> Train:
    from lmzoo.training.labels import learn

    return learn
