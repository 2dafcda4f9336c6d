"""Learn to label words or texts: ``lmzoo label task=pos labeller=hmm_tagger``; ``--help`` tells the rest."""

import json
import statistics
from collections import defaultdict
from pathlib import Path
from typing import Any

from lmzoo.cli.jobs import run_jobs
from lmzoo.core.errors import printable


def main() -> int:
    """The command: returns its exit code."""
    return run_jobs("label", _report)


def _report(done: list[Path]) -> None:
    """Print mean and standard deviation over the runs of a sweep that are alike but for fold and seed."""
    from lmzoo.runs.directory import Run
    from lmzoo.runs.settings import decisive

    alike: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for run in map(Run, done):
        options = {k: v for k, v in decisive(run.config()).items() if k not in ("seed", "task.fold", "task.valid_fold")}
        if results := run.results():
            alike[json.dumps(options, sort_keys=True)].append(results)
    for runs in alike.values():
        for split in ("valid", "test"):
            values = [100 * results["figures"][split] for results in runs if split in results["figures"]]
            if len(values) > 1:
                first, mean, spread = runs[0], statistics.mean(values), statistics.stdev(values)
                told = f"{first['labeller']}, {len(values)} runs: {split} {first['measure']} {mean:.2f} ± {spread:.2f}"
                print(printable(told))
