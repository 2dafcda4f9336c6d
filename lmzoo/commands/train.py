"""Train a model: ``lmzoo train model=lstm corpus=ptb``; ``--help`` tells the rest."""

import os
from pathlib import Path

from lmzoo.cli.jobs import run_jobs
from lmzoo.core.files import write_output


def main() -> int:
    """The command: returns its exit code."""
    return run_jobs("train", _report)


def _report(done: list[Path]) -> None:
    """Compare the runs of a sweep, on the terminal and in a file beside them."""
    from lmzoo.runs.comparison import as_csv, as_text, collect, groups

    entries, _ = collect(done)
    print("\n" + as_text(groups(entries)))
    table = Path(os.path.commonpath([folder.absolute().parent for folder in done]), "sweep.csv")
    write_output(table, as_csv(groups(entries, seeds=True)), followed=False)
