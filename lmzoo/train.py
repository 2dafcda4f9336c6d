"""Train a model: ``python -m lmzoo.train model=lstm corpus=ptb``; ``--help`` tells the rest."""

import contextlib
import logging
import math
import os
import re
import sys
import time
import traceback
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from tqdm import tqdm

from lmzoo.board import Board
from lmzoo.commands import INTERRUPTED, one_line, run_command, run_hydra
from lmzoo.corpus import Corpus, load_corpus
from lmzoo.corpus.vocabulary import UNK
from lmzoo.errors import UserError
from lmzoo.generate import sample
from lmzoo.models import LanguageModel
from lmzoo.perplexity import score
from lmzoo.registry import Seed, call
from lmzoo.run import Run, build_model, finite, flatten, resolve_device
from lmzoo.trainer import Interrupted, Progress, Trainer, TrainerOptions

log = logging.getLogger("lmzoo")

SAMPLE_TOKENS = 60
STEPS_PER_POINT = 10
"""Training scalars go to TensorBoard once in so many steps."""


def train(config: Mapping[str, Any]) -> dict[str, Any]:
    """Do, or go on with, the run that a resolved configuration describes; a finished one is only reported.

    Returns: what ``results.json`` holds.

    Raises: UserError for a mistake in the configuration or its surroundings, Interrupted after SIGINT or SIGTERM once
        estimation is over (until then there is nothing to save, and they act as anywhere).
    """
    return call(_train, config, "", config=config)


def _train(
    *,
    seed: Seed,
    device: str,
    deterministic: bool,
    run_dir: str,
    corpus: dict,
    model: dict,
    optimizer: dict,
    schedule: dict,
    trainer: dict,
    config: Mapping[str, Any],
) -> dict[str, Any]:
    run = Run(Path(run_dir))
    run.check(config)
    text = load_corpus(corpus)
    run.check_text(text)
    if results := run.results():
        return _report_finished(run, results)
    where = resolve_device(device)
    options = call(TrainerOptions, trainer, "trainer.")
    if deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # CUDA refuses to be deterministic without
    torch.use_deterministic_algorithms(deterministic)
    torch.manual_seed(seed)
    learner = build_model(config, text.vocabulary).to(where)
    board = Board(run.path)

    def observe(progress: Progress, metrics: dict[str, float]) -> None:
        if "perplexity/valid" in metrics:
            log.info("%s tokens, %.0f s: valid perplexity %.2f",
                     f"{progress.tokens:,}", progress.seconds, metrics["perplexity/valid"])  # fmt: skip
            drawn = sample(learner, SAMPLE_TOKENS, seed, context=text.context)
            board.text("sample", text.vocabulary.decode(drawn.tolist()), progress.tokens)
        if "perplexity/valid" in metrics or progress.step % STEPS_PER_POINT == 0:
            board.scalars(metrics, progress.tokens)

    fitting = Trainer(learner, text, run, options, optimizer=optimizer, schedule=schedule, seed=seed, observe=observe)
    with run.open(config, text), _logging_to(run.path / "train.log"), contextlib.closing(board):
        if results := run.results():  # another process has finished it since
            return _report_finished(run, results)
        log.info("%s on %s, context %s, %s: %s", model["name"], text.name, text.context, where, run.path)
        log.info("%s", described(text))
        fitting.fit()
        best = run.restore("best.pt", where, "model")
        if best is not None:
            run.load_weights(learner, best, "best.pt")
        results = _measure(learner, text, fitting.progress) | {"model": model["name"], "seed": seed}
        metrics = {f"final/{split}": value for split, value in results["perplexity"].items() if value is not None}
        board.hyperparameters(flatten(config), metrics, fitting.progress.tokens)
        run.write_json("results.json", results)
        for name, matrix in learner.images(text).items():
            board.image(name, matrix, fitting.progress.tokens)
    print(summary(results))
    return results


def described(corpus: Corpus) -> str:
    """How much text there is, and how much of it the vocabulary does not know: perplexities with more are lower."""
    said = f"{len(corpus.train):,} tokens of {len(corpus.vocabulary):,} words"
    unknown = corpus.vocabulary.index.get(UNK)
    if unknown is None:
        return said
    shares = [f"{100 * float((tokens == unknown).double().mean()):.1f}% of {name}"
              for name, tokens in corpus.splits.items()]  # fmt: skip
    return f"{said}; {UNK} is {', '.join(shares)}"


def _report_finished(run: Run, results: dict[str, Any]) -> dict[str, Any]:
    print(f"already finished: {run.path}\n{summary(results)}")
    return results


def _measure(model: LanguageModel, corpus: Corpus, progress: Progress) -> dict[str, Any]:
    """The figures of a trained model."""
    scores = {split: score(model, corpus.splits[split], corpus.context) for split in ("valid", "test")}
    figures: dict[str, Any] = {
        "corpus": corpus.name,
        "context": corpus.context,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "perplexity": {split: finite(measured.perplexity) for split, measured in scores.items()},
        "tokens": {split: measured.tokens for split, measured in scores.items()},
        "seconds": round(progress.seconds, 3),
        "tokens_per_second": round(progress.tokens / max(progress.step_seconds, 1e-9), 1),
        "device": str(model.device),
    }
    if impossible := {split: measured.impossible for split, measured in scores.items() if measured.impossible}:
        figures["impossible_tokens"] = impossible
    if corpus.true_perplexity:
        figures["true_perplexity"] = corpus.true_perplexity
    return figures


def _perplexity(results: Mapping[str, Any]) -> dict[str, float]:
    """Of each split, infinity where `finite` made it None."""
    return {split: math.inf if value is None else value for split, value in results["perplexity"].items()}


def summary(results: Mapping[str, Any]) -> str:
    """A finished run in a few lines."""
    perplexity = _perplexity(results)
    lines = [
        f"{results['model']} on {results['corpus']} (context {results['context']}): "
        f"valid perplexity {perplexity['valid']:.2f}, test perplexity {perplexity['test']:.2f}",
        f"{results['parameters']:,} parameters, {results['seconds']:.0f} s of training "
        f"at {results['tokens_per_second']:,.0f} tokens/s on {results['device']}, seed {results['seed']}",
    ]
    for split, number in results.get("impossible_tokens", {}).items():
        lines.append(f"{number:,} of {results['tokens'][split]:,} {split} tokens have probability 0: try smoothing")
    if true := results.get("true_perplexity"):
        lines.append(f"the text's own model: valid perplexity {true['valid']:.2f}, test perplexity {true['test']:.2f}")
    return "\n".join(lines)


class _Console(logging.Handler):
    """Standard output, above the progress bar."""

    def emit(self, record: logging.LogRecord) -> None:
        tqdm.write(self.format(record))
        sys.stdout.flush()


class _LogFile(logging.FileHandler):
    """A log whose errors, such as a full disk, are not printed but raised."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        raise


@contextlib.contextmanager
def _logging_to(path: Path) -> Iterator[None]:
    """Log to the console and to a file."""
    console, file = _Console(), _LogFile(path, encoding="utf-8")
    file.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    log.setLevel(logging.INFO)
    log.handlers[:], log.propagate = [console, file], False
    try:
        yield
    except Exception as error:
        log.handlers[:] = [file]
        log.error("interrupted" if isinstance(error, Interrupted) else f"failed: {_reason(error)}")
        raise
    finally:
        log.handlers.clear()
        file.close()


def _reason(error: Exception) -> str:
    """What a log says of a failure: a user's mistake in a line, anything else with its traceback."""
    return str(error) if isinstance(error, UserError) else "".join(traceback.format_exception(error))


def run_name(overrides: str) -> str:
    """What tells a run from its default in the name of its folder: ``,`` and its overrides, or nothing."""
    overrides = re.sub(r"=(True|False)(?=,|$)", lambda word: word[0].lower(), overrides)  # as a sweep spells them
    name = re.sub(r"[^\w.,=+-]+", "-", overrides)
    if len(name) > 100:
        name = f"{name[:90]}-{sha256(overrides.encode()).hexdigest()[:8]}"
    return f",{name}" if name else ""


OmegaConf.register_new_resolver("run_name", run_name, replace=True)


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


def comparison(done: Mapping[str, Mapping[str, Any]]) -> str:
    """A table of finished runs by validation perplexity, the best first."""
    found = {run: _perplexity(results) for run, results in done.items()}
    best_first = sorted(found.items(), key=lambda item: item[1]["valid"])
    lines = [f"{perplexity['valid']:9.2f} {perplexity['test']:9.2f}  {run}" for run, perplexity in best_first]
    return "\n".join([f"{'valid':>9} {'test':>9}  run", *lines])


def _train_in_sweep(options: Mapping[str, Any]) -> dict[str, Any] | None:
    """`train`, where a failure is noted in the run's own folder, and None is returned."""
    print(f"\n[{HydraConfig.get().job.num}] {options['run_dir']}", flush=True)
    try:
        return train(options)
    except Interrupted:
        raise
    except Exception as error:
        _log_failure(Path(str(options["run_dir"])), _reason(error))
        print(f"failed: {one_line(error)}", file=sys.stderr)
        return None


def _log_failure(folder: Path, message: str) -> None:
    """A sweep's failed job says why in its own folder, where it did not come so far as to have one."""
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True)
        with (folder / "train.log").open("a", encoding="utf-8") as file:
            file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} failed: {message}\n")


if __name__ == "__main__":
    run_command(main)
