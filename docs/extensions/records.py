"""The page of records: kept runs that reach a perplexity of Penn Treebank's test in the shortest time of training."""

import shlex
from collections.abc import Iterable, Mapping
from functools import cache

from docutils import nodes
from evidence import PAGES, Evidence, Kept
from evidence_of_runs import told
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from tables import table

HMMS = ("hmm", "lowrank_hmm", "neural_hmm", "twolevel_hmm", "vlhmm")

TARGETS: Mapping[int, tuple[str, ...] | None] = {116: HMMS, **dict.fromkeys((141, 100, 80, 75, 70, 60))}
"""Perplexities of test to reach, and the models that may, None for all."""

MACHINES = ("one core", "two cores", "a GPU")

TEST = 82_430
"""The number of tokens of test, which a figure must be of."""


def machine(runs: Iterable[Kept]) -> str | None:
    """The one of `MACHINES` that runs took place on, a GPU if one of them did; None for another."""
    if any("cuda" in run.results["device"] for run in runs):
        return "a GPU"
    threads = max(run.last_start["machine"]["threads"] for run in runs)
    return {1: "one core", 2: "two cores"}.get(threads)


def made_of(run: Kept, known: Mapping[str, Kept]) -> dict[str, Kept] | None:
    """A run and all that it was made from, by their folders; None if no evidence is kept of a part."""
    found: dict[str, Kept] = {}
    for name in run.inputs:
        part = known.get(name)
        if part is None or (parts := made_of(part, known)) is None:
            return None
        found |= parts
    return found | {run.run_dir: run}


@cache
def records() -> dict[tuple[int, str], tuple[Evidence, list[Kept]]]:
    """The fastest run for each target and machine, after the runs that it was made from, whose times count, too.

    A cell without a run has no entry.
    """
    (page,) = (page for page in PAGES if page.kind == "model")
    kept = [(evidence, run) for evidence in page.evidence for run in evidence.runs]
    known = {run.run_dir: run for _, run in kept}
    found: dict[tuple[int, str], tuple[Evidence, list[Kept]]] = {}
    for evidence, run in kept:
        figure = run.results["perplexity"].get("test")
        if run.results["corpus"] != "ptb" or run.results["tokens"].get("test") != TEST or figure is None:
            continue
        parts = made_of(run, known)
        where = parts and machine(parts.values())
        for target, models in TARGETS.items() if where else ():
            if figure <= target and (models is None or run.results["model"] in models):
                best = found.get((target, where))
                if best is None or seconds(parts.values()) < seconds(best[1]):
                    found[target, where] = evidence, [*parts.values()]
    return found


def seconds(runs: Iterable[Kept]) -> float:
    """Of training, of all runs together."""
    return sum(run.seconds for run in runs)


def line(run: Kept) -> str:
    """The command that makes this run alone."""
    return shlex.join(["lmzoo", run.page.command, *run.overrides])


def duration(value: float) -> str:
    """A time of training, with its digits that matter."""
    return f"{value:.1f} s" if value < 10 else f"{value:,.0f} s"


class Records(SphinxDirective):
    """``{records}``: a table of targets by machines, and the commands of its runs."""

    def run(self) -> list[nodes.Node]:
        found = records()
        rows = [
            [[nodes.Text(f"{target}{' (HMM)' if models else ''}")],
             *(self._cell(found.get((target, where))) for where in MACHINES)]
            for target, models in TARGETS.items()
        ]  # fmt: skip
        made: list[nodes.Node] = [table(["test perplexity", *MACHINES], rows, "records")]
        for evidence, runs in {best[1][-1].path: best for best in found.values()}.values():
            last, lines = runs[-1], "\n".join(map(line, runs))
            made.append(nodes.paragraph("", "", self._reference(evidence, last), nodes.Text(f": {told(last)}")))
            made.append(nodes.literal_block(lines, lines, language="sh", classes=["command"]))
        return made

    def _cell(self, best: tuple[Evidence, list[Kept]] | None) -> list[nodes.Node]:
        if best is None:
            return [nodes.Text("no run yet")]
        evidence, runs = best
        text = f"{duration(seconds(runs))}, {runs[-1].figures['test']}: "
        return [nodes.Text(text), self._reference(evidence, runs[-1])]

    def _reference(self, evidence: Evidence, run: Kept) -> nodes.Node:
        """A link to the evidence of a run."""
        name = run.path.relative_to(run.page.folder).as_posix()
        target = f"{run.page.name}-{evidence.path.relative_to(run.page.folder).as_posix()}".replace("/", "-").lower()
        return addnodes.pending_xref(
            "", nodes.inline("", name), refdomain="std", reftype="ref", reftarget=target, refexplicit=True,
            refdoc=self.env.docname, refwarn=True,
        )  # fmt: skip


def setup(app: Sphinx) -> dict[str, bool]:
    """What Sphinx calls."""
    app.add_directive("records", Records)
    return {"parallel_read_safe": True}
