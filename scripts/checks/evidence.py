"""Evidence for the figures of docs/results.md and docs/labels.md: what the runs behind them wrote, in docs/results/NAME
for language models and docs/labels/NAME for models of labels.

``python scripts/checks/evidence.py keep NAME RUN…`` copies a finished run's results, configuration, provenance and log
there. Of several runs, which are of one model, each gets a folder of its own below.
``python scripts/checks/evidence.py again`` runs every row again that took less than ten minutes, with the code of
today, and writes what came of it beside its evidence, as ``again.json``, which docs/evidence.md shows. What a row
starts from is run first; a row is long where that is, and is left alone where that is neither evidence nor there.
``tests/scripts/test_evidence.py`` compares pages and evidence.
"""

import argparse
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from omegaconf import OmegaConf

import lmzoo
from lmzoo.cli.ending import run_command
from lmzoo.core.configs import CONFIGS, flatten
from lmzoo.core.errors import UserError, one_line
from lmzoo.runs.directory import Run

ROOT = Path(inspect.getfile(lmzoo)).parent.parent
DOCS = ROOT / "docs"
TEACHER = ("teacher", "teacher_weight")
"""Options that were the trainer's, and are the model's."""
KEPT = ("results.json", "config.yaml", "provenance.json", "train.log")
AGAIN = "again.json"

MINUTES = 10
"""A row that took less is run again."""

PATIENCE = 5
"""A run may take so many times the limit, since other machines are slower, and other programs use them."""

TABLE = re.compile(r"\]\((benchmarks/\w+\.csv)\)")
"""A link to a table of a page that is a file."""

INPUT = re.compile(r"outputs/[\w./-]+")
"""A run or a file that an option names."""


@dataclass(frozen=True)
class Page:
    """A page of figures.

    Attributes:
        name: of the page, and of the folder of its evidence.
        kind: the key of ``results.json`` that names what a run is of.
        command: the one that makes such a run.
    """

    name: str
    kind: str
    command: str

    @property
    def file(self) -> Path:
        return DOCS / f"{self.name}.md"

    @property
    def folder(self) -> Path:
        return self.file.with_suffix("")

    @property
    def text(self) -> str:
        return self.file.read_text(encoding="utf-8")

    @property
    def tables(self) -> list[str]:
        """The texts of its tables that are files."""
        return [(DOCS / name).read_text(encoding="utf-8") for name in TABLE.findall(self.text)]

    def linked(self, text: str) -> list["Evidence"]:
        """The evidence that a part of the page links to."""
        names = dict.fromkeys(re.findall(rf"\]\({self.name}/([\w./-]+)\)", text))
        return [Evidence(self, self.folder / name) for name in names]

    @property
    def evidence(self) -> list["Evidence"]:
        """All that the page and its tables link to."""
        return self.linked("\n".join([self.text, *self.tables]))


PAGES = [Page("results", "model", "train"), Page("labels", "labeller", "label")]


@dataclass(frozen=True)
class Kept:
    """What is kept of a run, in a folder."""

    page: Page
    path: Path

    @cached_property
    def results(self) -> dict[str, Any]:
        return json.loads((self.path / "results.json").read_text())

    @cached_property
    def config(self) -> dict[str, Any]:
        """As the run has it, with the teacher where its options are now, and null where a size follows another."""
        config = OmegaConf.to_container(OmegaConf.load(self.path / "config.yaml"))
        teacher = {key: config["trainer"].pop(key) for key in TEACHER if key in config.get("trainer", {})}
        if config.get("model", {}).get("name") == "twolevel_hmm":
            config["model"] |= teacher
        typed = " ".join(self.last_start["argv"])
        if re.search(r"model=(rnn|lstm|gru)\b", typed) and not re.search(r"experiment=|model\.embedding=", typed):
            config["model"]["embedding"] = None  # the default was 200, the size of the layers
        config.get("model", {}).pop("head", None)  # an option of lds_rnn that was 0
        return config

    @cached_property
    def options(self) -> dict[str, Any]:
        """The configuration, flattened."""
        return flatten(self.config)

    @cached_property
    def last_start(self) -> dict[str, Any]:
        return json.loads((self.path / "provenance.json").read_text())[-1]

    @property
    def run_dir(self) -> str:
        return self.options["run_dir"]

    @property
    def seconds(self) -> float:
        return self.results["seconds"] + self.results.get("labelling_seconds", 0)

    @property
    def inputs(self) -> list[str]:
        """The runs and files that it was made of."""
        given = [value for key, value in self.options.items() if key != "run_dir"]
        return [name for value in given for name in INPUT.findall(str(value))]

    @property
    def overrides(self) -> list[str]:
        """What was typed; of a run of a sweep, with the value that it has of each list, a preset's too."""
        typed = [argument.replace("trainer.teacher", "model.teacher") for argument in self.last_start["argv"][1:]]
        if "-m" not in typed:
            return typed
        values = dict(override.split("=", 1) for override in typed if override != "-m")
        lists = {key for key, value in values.items() if re.match(r"[^\[]*,", value)}
        if preset := values.get("experiment"):
            swept = OmegaConf.load(CONFIGS / "experiment" / f"{preset}.yaml")
            lists |= set(OmegaConf.select(swept, "hydra.sweeper.params", default={}))
        chosen = values | {key: self.options[key] for key in lists}
        return [f"{key}={value}" for key, value in chosen.items()]

    @property
    def figures(self) -> dict[str, str]:
        """To two decimals, by split: perplexity; of labels the measure, and the accuracy of unknown words of test."""
        if perplexities := self.results.get("perplexity"):
            return {split: "inf" if value is None else f"{value:.2f}" for split, value in perplexities.items()}
        found = {split: f"{100 * value:.2f}" for split, value in self.results["figures"].items()}
        unknown = self.results["details"]["test"].get("unknown_accuracy")
        return found if unknown is None else found | {"unknown words": f"{100 * unknown:.2f}"}


@dataclass(frozen=True)
class Evidence:
    """A folder of evidence that a page links to."""

    page: Page
    path: Path

    @property
    def name(self) -> str:
        return self.path.relative_to(DOCS).as_posix()

    @property
    def runs(self) -> list[Kept]:
        """A single run in the folder itself, or those below it."""
        return [Kept(self.page, file.parent) for file in sorted(self.path.rglob("results.json"))]

    @property
    def results(self) -> list[dict[str, Any]]:
        """Of each run."""
        return [run.results for run in self.runs]

    def perplexities(self, split: str) -> list[float | None]:
        """Of each run of a language model, None for infinity."""
        return [results["perplexity"][split] for results in self.results]

    @property
    def second(self) -> str | None:
        """What came of a second run; None where there was none."""
        if not (self.path / AGAIN).exists():
            return None
        again = json.loads((self.path / AGAIN).read_text())
        where = f" in {again['precision']}" if again["precision"] else ""
        return f"{_outcome(again, len(self.runs))} at {again['commit'][:7]}{where}"


def _outcome(again: dict[str, Any], runs: int) -> str:
    """What moved: of one run its figures, of several the most."""
    if again["error"]:
        return f"fails ({again['error'].replace('|', '/')})"
    changes = [(name, *pair) for figures in again["moved"].values() for name, pair in figures.items()]
    if runs == 1 and changes:
        return ", ".join(f"{name} {then} → {now}" for name, then, now in changes)
    most = max((abs(float(now) - float(then)) for _, then, now in changes), default=0.0)
    return f"{len(again['moved'])} of {runs} moved, by {most:.2f} at most," if changes else "same"


@dataclass(frozen=True)
class Again:
    """Runs made again, in folders of their own below one.

    Attributes:
        minutes: that a row may have taken.
        commit: of the code.
    """

    folder: Path
    minutes: float
    commit: str

    @cached_property
    def known(self) -> dict[str, Kept]:
        """The runs of all evidence by the folder that they had."""
        return {run.run_dir: run for page in PAGES for evidence in page.evidence for run in evidence.runs}

    def hindrance(self, run: Kept) -> str | None:
        """Why a run is not made again; None if it is."""
        if run.seconds >= 60 * self.minutes:
            return f"took {run.seconds:,.0f} s"
        if "cuda" in run.results.get("device", "") and not torch.cuda.is_available():
            return "ran on a GPU, and none is here"
        for name in run.inputs:
            if name in self.known:
                if reason := self.hindrance(self.known[name]):
                    return f"is made of {name}, which {reason}"
            elif not Path(name).exists():
                return f"is made of {name}, which is not there"
        return None

    def place(self, run: Kept) -> Path:
        return self.folder / run.path.relative_to(DOCS)

    def made(self, run: Kept) -> Kept:
        """The run made again, unless it is there; what it is made of is made before.

        Raises: UserError where the command fails.
        """
        place, places = self.place(run), {}
        if (place / "results.json").exists():
            return Kept(run.page, place)
        for name in run.inputs:
            if name in self.known:
                self.made(self.known[name])
                places[name] = self.place(self.known[name])
        given = [override for override in run.overrides if not override.startswith("run_dir=")]
        given = [INPUT.sub(lambda found: str(places.get(found[0], found[0])), override) for override in given]
        line = [sys.executable, "-m", "lmzoo", run.page.command, *given, f"run_dir={place}"]
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        limit = 60 * self.minutes * PATIENCE
        try:
            done = subprocess.run(
                line, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=False, timeout=limit
            )
        except subprocess.TimeoutExpired:
            raise UserError(f"took more than {limit:,.0f} s") from None
        if done.returncode:
            raise UserError(done.stderr.strip().rpartition("\n")[2] or f"exit code {done.returncode}")
        return Kept(run.page, place)

    def note(self, evidence: Evidence) -> str | None:
        """Make the runs of some evidence again, and write ``again.json`` -> what came of it."""
        moved, error, precisions, began = {}, None, set(), time.monotonic()
        for run in evidence.runs:
            try:
                now = self.made(run)
            except UserError as problem:
                error = one_line(problem)
                break
            pairs = {name: (then, now.figures[name]) for name, then in run.figures.items()}
            if changes := {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}:
                moved[run.path.relative_to(evidence.path).as_posix()] = changes
            precisions |= {now.results.get("precision")} - {run.results.get("precision")}
        told = {
            "commit": self.commit,
            "time": f"{datetime.now(UTC):%FT%TZ}",
            "seconds": round(time.monotonic() - began, 1),
            "precision": " ".join(filter(None, precisions)),
            "moved": moved,
            "error": error,
        }
        (evidence.path / AGAIN).write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
        return evidence.second


def again(folder: Path, minutes: float, names: Sequence[str], commit: str) -> Iterator[str]:
    """Make rows again, the quickest first; a line for each row. Runs that were made at this commit are there.

    Args:
        names: of evidence, such as ``results/ngram``; all where there are none.

    Raises: UserError for a name that no page links to.
    """
    everything = {evidence.name: evidence for page in PAGES for evidence in page.evidence}
    if unknown := [name for name in names if name not in everything]:
        raise UserError(f"{unknown[0]}: no page links to such evidence", "write it as results/ngram")
    making = Again(folder / commit[:7], minutes, commit)
    chosen = [everything[name] for name in names or everything]
    for evidence in sorted(chosen, key=lambda evidence: max(run.seconds for run in evidence.runs)):
        reasons = [reason for run in evidence.runs if (reason := making.hindrance(run))]
        yield f"{evidence.name}: {f'left alone: {reasons[0]}' if reasons else making.note(evidence)}"


def current_commit() -> str:
    """Of the code; a UserError where it has changes, since nobody could tell what a figure is of."""
    changed = _git("status", "--porcelain", "--", "lmzoo", "configs")
    if changed:
        raise UserError(f"the code has changes ({changed.split()[-1]})", "commit them first")
    return _git("rev-parse", "HEAD")


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def keep(name: str, runs: Sequence[Path]) -> None:
    """Copy what finished runs say of themselves; an outcome of a second run of former ones is gone."""
    origins = {_origin(run) for run in runs}
    if len(origins) > 1:
        of = sorted((name, commit) for _, name, commit in origins)
        raise UserError(f"the runs are of several models or commits: {of}", "keep each by itself")
    ((kind, _, _),) = origins
    (page,) = (page for page in PAGES if page.kind == kind)
    folder = page.folder / name
    if len({run.name for run in runs}) < len(runs) or any(run.resolve().is_relative_to(folder) for run in runs):
        raise UserError("the runs have the same name, or are what they replace", "rename or copy them")
    shutil.rmtree(folder, ignore_errors=True)
    for run in runs:
        copy = folder / run.name if len(runs) > 1 else folder
        copy.mkdir(parents=True)
        for file in KEPT:
            shutil.copyfile(run / file, copy / file)


def _origin(run: Path) -> tuple[str, str, str]:
    """What a finished run is of, ``model`` or ``labeller``, the name of that, and the commit that ended it."""
    results = Run(run).results()
    if results is None:
        raise UserError(f"{run}: is not finished")
    commits = [entry["git"] for entry in json.loads((run / "provenance.json").read_text())]
    if any(commit is None or commit["dirty"] for commit in commits):
        raise UserError(f"{run}: its code was no commit", "run it in a checkout without changes")
    kind = "labeller" if "labeller" in results else "model"
    return kind, results[kind], commits[-1]["commit"]


def main() -> int:
    """The command: returns its exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    keeping = commands.add_parser("keep", help="copy what a run says of itself")
    keeping.add_argument("name", help="the folder below docs/results or docs/labels")
    keeping.add_argument("runs", type=Path, nargs="+", help="finished runs of one model")
    running = commands.add_parser("again", help="run the quick rows again, and write what moved")
    running.add_argument("names", nargs="*", help="evidence, such as results/ngram (default: all)")
    running.add_argument("--minutes", type=float, default=MINUTES, help=f"that a row may have taken ({MINUTES})")
    running.add_argument("--folder", type=Path, default=Path("outputs/again"), help="for the runs (outputs/again)")
    arguments = parser.parse_args()
    if arguments.command == "keep":
        keep(arguments.name, arguments.runs)
    else:
        for line in again(arguments.folder, arguments.minutes, arguments.names, current_commit()):
            print(line, flush=True)
    return 0


if __name__ == "__main__":
    run_command(main)
