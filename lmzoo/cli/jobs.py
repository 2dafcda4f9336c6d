"""A single run or the runs of a sweep, started by Hydra, and the report of their ends."""

import json
import os
import secrets
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig

from lmzoo.cli.hydra import run_hydra
from lmzoo.core.errors import Interrupted, UserError, one_line, printable
from lmzoo.core.registry import plugin_error
from lmzoo.runs.log import log_failure


def run_jobs(command: str) -> int:
    """Run the configuration of the command line, or each one of a sweep. Returns: the exit code.

    The configuration is ``configs/COMMAND.yaml``.
    """
    reports = Path(f".sweep-{secrets.token_hex(4)}.part").absolute()  # of each job, which another process may run
    first = os.environ.get("RANK", "0") == "0"  # whether this is the process of torchrun that prints

    def job(train: Callable[[], dict[str, Any]], folder: str, number: int | None, chosen: list[str]) -> float | None:
        """Returns: the figure of the run; None after a failure."""
        from lmzoo.runs.kinds import kind_of  # not at the top, since --help and misspelt options need no PyTorch

        if number is not None and first:
            print(printable(f"\n[{number}] {' '.join(chosen)}: {folder}", "\n"), flush=True)
        results = None
        try:
            results = train()
        except Exception as error:
            if number is None or isinstance(error, Interrupted):
                raise
            log_failure(Path(folder), error)
            print(f"failed: {one_line(plugin_error(error) or error)}", file=sys.stderr)
        if number is not None:
            reports.mkdir(exist_ok=True)
            (reports / f"{number}.json").write_text(json.dumps([folder, results is not None]), "utf-8")
        figure = kind_of(results).objective(results) if results else None
        searching = number is not None and HydraConfig.get().runtime.choices["hydra/sweeper"] != "basic"
        if searching and results and figure is None:
            problem = f"{folder}: has neither a figure on valid nor a loss, by which a search chooses"
            raise UserError(problem, "name a valid text, or a method with a loss")
        return figure

    try:
        run_hydra(job, command)
        files = sorted(reports.glob("*.json"), key=lambda file: int(file.stem))
        outcomes = [json.loads(file.read_text("utf-8")) for file in files]
    finally:
        shutil.rmtree(reports, ignore_errors=True)
    done = list(dict.fromkeys(Path(folder) for folder, ended in outcomes if ended))
    if len(done) > 1 and first:
        from lmzoo.reports.comparison import as_text, collect, groups

        entries, _ = collect(done)
        if entries:  # word vectors have no such table
            print("\n" + as_text(groups(entries)))
    if failed := [folder for folder, ended in outcomes if not ended]:
        print(f"\n{len(failed)} failed: {printable(', '.join(failed))}", file=sys.stderr)
    return 1 if failed else 0
