"""Train a model: ``python -m lmzoo.train model=lstm corpus=ptb``; ``--help`` tells the rest."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from lmzoo.cli.command import INTERRUPTED, run_command
from lmzoo.cli.hydra import run_hydra
from lmzoo.core.errors import Interrupted, UserError, one_line
from lmzoo.runs.log import log_failure
from lmzoo.runs.results import comparison
from lmzoo.training.session import train


def main() -> int:
    """The command: returns its exit code."""
    done: dict[str, dict[str, Any]] = {}
    failed: list[str] = []
    stop: Exception | None = None  # Hydra would print what a job raises, and go on with the next

    def job(config: DictConfig) -> None:
        nonlocal stop
        if stop:
            return
        try:
            options: Any = OmegaConf.to_container(config, resolve=True)
            if HydraConfig.get().mode == RunMode.MULTIRUN:
                folder = str(options["run_dir"])
                if results := _train_in_sweep(options):
                    done[folder] = results
                else:
                    failed.append(folder)
            else:
                train(options)
        except Exception as error:
            stop = error

    run_hydra(job, "train")
    if isinstance(stop, Interrupted):
        print("interrupted: everything is saved; the same command goes on from here", file=sys.stderr)
        return INTERRUPTED
    if isinstance(stop, OmegaConfBaseException):  # an interpolation that leads nowhere
        raise UserError(str(stop))
    if stop:
        raise stop
    if len(done) > 1:
        print(f"\n{comparison(done)}")
    if failed:
        print(f"\n{len(failed)} failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _train_in_sweep(options: Mapping[str, Any]) -> dict[str, Any] | None:
    """`train`, where a failure is noted in the run's own folder, and None is returned."""
    print(f"\n[{HydraConfig.get().job.num}] {options['run_dir']}", flush=True)
    try:
        return train(options)
    except Interrupted:
        raise
    except Exception as error:
        log_failure(Path(str(options["run_dir"])), error)
        print(f"failed: {one_line(error)}", file=sys.stderr)
        return None


if __name__ == "__main__":
    run_command(main)
