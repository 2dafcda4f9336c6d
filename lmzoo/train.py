"""Train a model: ``python -m lmzoo.train model=lstm corpus=ptb``; ``--help`` tells the rest."""

if __name__ == "__main__":
    from lmzoo.cli.start import start

    start("lmzoo.train")

import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from lmzoo.cli.hydra import run_hydra
from lmzoo.cli.start import INTERRUPTED, leaving_at_once
from lmzoo.core.errors import Interrupted, one_line
from lmzoo.core.files import write_output
from lmzoo.runs.log import log_failure
from lmzoo.runs.results import perplexities

Train = Callable[[Mapping[str, Any], Mapping[str, Any]], dict[str, Any]]


def main() -> int:
    """The command: returns its exit code."""
    notes = Path(f".sweep-{os.getpid()}.part").absolute()  # a launcher may have its jobs done by other processes

    def job(options: dict[str, Any], told: dict[str, Any], number: int | None) -> float | None:
        """Returns the valid perplexity, for a sweeper that searches; None after a failure."""
        with leaving_at_once():  # not above, since --help and a misspelt option need no PyTorch
            from lmzoo.training.session import train
        if number is None:
            results = train(options, told)
        else:
            print(f"\n[{number}] {options['run_dir']}", flush=True)
            results = _noting_failure(train, options, told)
            with notes.open("a", encoding="utf-8") as file:
                file.write(json.dumps([options["run_dir"], results is not None]) + "\n")
        return perplexities(results)["valid"] if results else None

    try:
        run_hydra(job, "train")
        outcomes = [json.loads(line) for line in notes.read_text("utf-8").splitlines()] if notes.exists() else []
    except Interrupted:
        print("interrupted: everything is saved; the same command goes on from here", file=sys.stderr)
        return INTERRUPTED
    finally:
        notes.unlink(missing_ok=True)
    return _report([folder for folder, done in outcomes if done], [folder for folder, done in outcomes if not done])


def _noting_failure(train: Train, options: Mapping[str, Any], told: Mapping[str, Any]) -> dict[str, Any] | None:
    """`train` in a sweep, where a failure is noted in the run's own folder, and None is returned."""
    try:
        return train(options, told)
    except Interrupted:
        raise
    except Exception as error:
        log_failure(Path(str(options["run_dir"])), error)
        print(f"failed: {one_line(error)}", file=sys.stderr)
        return None


def _report(done: list[str], failed: list[str]) -> int:
    """Compare the runs of a sweep, on the terminal and in a file beside them; returns the exit code."""
    if len(done) > 1:
        from lmzoo.runs.comparison import as_csv, as_text, collect, groups

        entries, _ = collect([Path(folder) for folder in done])
        print("\n" + as_text(groups(entries)))
        table = Path(os.path.commonpath([Path(folder).absolute().parent for folder in done]), "sweep.csv")
        write_output(table, as_csv(groups(entries, seeds=True)))
    if failed:
        print(f"\n{len(failed)} failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


class _Callable(ModuleType):
    """`lmzoo.train` is this module, and ``lmzoo.train("model=ngram")`` is `lmzoo.api.train`."""

    def __call__(self, *overrides: str):
        from lmzoo.api import train

        return train(*overrides)


sys.modules[__name__].__class__ = _Callable
