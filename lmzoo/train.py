"""Train a model: ``python -m lmzoo.train model=lstm corpus=ptb``; ``--help`` tells the rest."""

if __name__ == "__main__":
    from lmzoo.cli.start import start

    start("lmzoo.train")

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from lmzoo.cli.hydra import run_hydra
from lmzoo.cli.start import INTERRUPTED, leaving_at_once
from lmzoo.core.errors import Interrupted, UserError, one_line
from lmzoo.runs.log import log_failure
from lmzoo.runs.results import comparison

Train = Callable[[Mapping[str, Any]], dict[str, Any]]


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
            with leaving_at_once():  # not above, since --help and a misspelt option need no PyTorch
                from lmzoo.training.session import train
            options: Any = OmegaConf.to_container(config, resolve=True)
            if HydraConfig.get().mode == RunMode.MULTIRUN:
                folder = str(options["run_dir"])
                if results := _noting_failure(train, options):
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


def _noting_failure(train: Train, options: Mapping[str, Any]) -> dict[str, Any] | None:
    """`train` in a sweep, where a failure is noted in the run's own folder, and None is returned."""
    print(f"\n[{HydraConfig.get().job.num}] {options['run_dir']}", flush=True)
    try:
        return train(options)
    except Interrupted:
        raise
    except Exception as error:
        log_failure(Path(str(options["run_dir"])), error)
        print(f"failed: {one_line(error)}", file=sys.stderr)
        return None
