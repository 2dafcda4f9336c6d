"""Evidence for the figures of docs/results.md and docs/labels.md: what the runs behind them wrote, in docs/results/NAME
for language models and docs/labels/NAME for models of labels.

``python scripts/evidence.py keep NAME RUN…`` copies a finished run's results, configuration, provenance and log there,
with ``code.json``: a digest of each module that can move its figures, as it was at the run's commit. Of several runs,
which are of one model, each gets a folder of its own below.
``python scripts/evidence.py mark`` puts † behind each link to evidence whose code has changed since, and takes it off
where it has not. ``tests/scripts/test_evidence.py`` compares pages and evidence.
"""

import argparse
import ast
import functools
import inspect
import io
import json
import re
import shutil
import subprocess
import tokenize
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import lmzoo.labels
import lmzoo.models
from lmzoo.cli.command import CommandParser
from lmzoo.cli.ending import run_command
from lmzoo.core.errors import UserError
from lmzoo.core.registry import Registry, models
from lmzoo.labels.model import labellers
from lmzoo.runs.directory import Run

ROOT = Path(inspect.getfile(lmzoo)).parent.parent
KEPT = ("results.json", "config.yaml", "provenance.json", "train.log")
CHANGED = "†"

MATTER = tuple(f"lmzoo/{part}" for part in
               ("corpus/", "words/", "protocol/", "models/", "labels/", "training/", "core/averaging.py"))  # fmt: skip
"""The parts of the package that can move a figure, but for downloads, whose texts have checksums."""


@dataclass(frozen=True)
class Page:
    """A page of figures.

    Attributes:
        name: of the page, and of the folder of its evidence.
        kind: the key of ``results.json`` that names what a run is of.
        registry: of those.
        training: the modules that begin such a run.
    """

    name: str
    kind: str
    registry: Registry
    training: Sequence[str]

    @property
    def file(self) -> Path:
        return ROOT / "docs" / f"{self.name}.md"

    @property
    def folder(self) -> Path:
        return self.file.with_suffix("")

    @property
    def text(self) -> str:
        return self.file.read_text(encoding="utf-8")

    @property
    def link(self) -> re.Pattern[str]:
        """A link to evidence: the name, and the mark."""
        return re.compile(rf"\]\({self.name}/([\w./-]+)\)( {CHANGED})?")


PAGES = [
    Page("results", "model", models, ["lmzoo/training/trainer.py", "lmzoo/corpus/entries.py"]),
    Page("labels", "labeller", labellers, ["lmzoo/training/labels.py"]),
]


@functools.cache
def fingerprint(source: str) -> str:
    """A digest of what a module does: without comments, docstrings, blanks and the texts of errors."""
    left_out = set()
    for node in ast.walk(ast.parse(source)):
        text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        if text or isinstance(node, ast.Raise):
            left_out |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = dict(token.start for token in tokens if token.type == tokenize.COMMENT)  # the column by the line
    lines = enumerate(source.splitlines(), 1)
    left = "".join(line[: comments.get(number)] for number, line in lines if number not in left_out)
    return sha256("".join(left.split()).encode()).hexdigest()[:16]


@functools.cache
def imported(source: str) -> list[str]:
    """The modules of the package that a module imports, as files that may be there."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module:
            module = node.module.replace(".", "/")
            found += [f"{module}.py", f"{module}/__init__.py", *(f"{module}/{alias.name}.py" for alias in node.names)]
    return found


def code(page: Page, name: str, read: Callable[[str], str | None]) -> dict[str, str]:
    """The digests of the modules that the figures of a model come from.

    Args:
        name: of the model.
        read: the text of a file of the checkout, by its path; None where there is none.
    """
    entry = inspect.getsourcefile(page.registry.entries[name])
    found: dict[str, str] = {}
    waiting = [Path(entry or "").relative_to(ROOT).as_posix(), *page.training]
    while waiting:
        path = waiting.pop()
        if path in found or not path.startswith(MATTER) or path == "lmzoo/corpus/sources.py":
            continue
        source = read(path)
        if source is not None:
            found[path] = fingerprint(source)
            waiting += imported(source)
    return dict(sorted(found.items()))


def today(path: str) -> str | None:
    """A file of the working tree."""
    file = ROOT / path
    return file.read_text(encoding="utf-8") if file.is_file() else None


@dataclass(frozen=True)
class Evidence:
    """A folder of evidence of a page."""

    page: Page
    path: Path

    @property
    def runs(self) -> list[Path]:
        """The folders of single runs: this one, or those below it."""
        return sorted(file.parent for file in self.path.rglob("results.json"))

    @property
    def results(self) -> list[dict[str, Any]]:
        """Of each run."""
        return [json.loads((run / "results.json").read_text()) for run in self.runs]

    def perplexities(self, split: str) -> list[float | None]:
        """Of each run of a language model, None for infinity."""
        return [results["perplexity"][split] for results in self.results]

    @property
    def changed(self) -> bool:
        """Whether the code is not what it was."""
        name = self.results[0][self.page.kind]
        return json.loads((self.path / "code.json").read_text()) != code(self.page, name, today)


def keep(name: str, runs: Sequence[Path]) -> None:
    """Copy what finished runs say of themselves."""
    origins = {_origin(run) for run in runs}
    if len(origins) > 1:
        of = sorted((name, commit) for _, name, commit in origins)
        raise UserError(f"the runs are of several models or commits: {of}", "keep each by itself")
    kind, model, commit = origins.pop()
    (page,) = (page for page in PAGES if page.kind == kind)

    def then(path: str) -> str | None:
        git = ["git", "show", f"{commit}:{path}"]
        shown = subprocess.run(git, cwd=ROOT, capture_output=True, text=True, check=False)
        return shown.stdout if shown.returncode == 0 else None

    folder = page.folder / name
    shutil.rmtree(folder, ignore_errors=True)
    for run in runs:
        copy = folder / run.name if len(runs) > 1 else folder
        copy.mkdir(parents=True)
        for file in KEPT:
            shutil.copyfile(run / file, copy / file)
    (folder / "code.json").write_text(json.dumps(code(page, model, then), indent=2) + "\n", encoding="utf-8")


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


def marked(page: Page, text: str) -> str:
    """The text of a page, with each link to evidence marked where the code has changed."""

    def mark(link: re.Match[str]) -> str:
        changed = Evidence(page, page.folder / link[1]).changed
        return f"]({page.name}/{link[1]})" + (f" {CHANGED}" if changed else "")

    return page.link.sub(mark, text)


def main() -> int:
    """The command: returns its exit code."""
    parser = CommandParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True, parser_class=argparse.ArgumentParser)
    keeping = commands.add_parser("keep", help="copy what a run says of itself")
    keeping.add_argument("name", help="the folder below docs/results or docs/labels")
    keeping.add_argument("runs", type=Path, nargs="+", help="finished runs of one model")
    commands.add_parser("mark", help="mark the rows whose code has changed")
    arguments = parser.parse_args()
    if arguments.command == "keep":
        keep(arguments.name, arguments.runs)
    else:
        for page in PAGES:
            page.file.write_text(marked(page, page.text), encoding="utf-8")
    return 0


if __name__ == "__main__":
    run_command(main)
