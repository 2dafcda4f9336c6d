"""What is kept of the runs behind the figures, told from its files: figures, command, machine, time, commit."""

import shlex

from docutils import nodes
from evidence import KEPT, PAGES, Evidence, Kept, Page
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from tables import table

FOLDERS = {page.name: page for page in (*PAGES, Page("history", "model", "train"))}


def command(run: Kept) -> str:
    """The line that made a run, or the sweep that it is of."""
    return shlex.join(["lmzoo", run.page.command, *run.last_start["argv"][1:]])


def told(run: Kept) -> str:
    """Where and when a run took place."""
    start, results = run.last_start, run.results
    parameters = results.get("parameters")
    parts = [
        f"{parameters:,} parameters" if parameters else "",
        f"{run.seconds:,.0f} s" if run.seconds >= 10 else f"{run.seconds:.1f} s",
        f"seed {results['seed']}",
        f"context {results['context']}" if "context" in results else "",
        results.get("precision") or "",
        f"{results.get('device', 'cpu')}, {start['machine']['cpu']}, threads: {start['machine']['threads']}",
        f"PyTorch {start['versions']['torch']}",
        start["time"][:10],
        f"commit {start['git']['commit'][:7]}",
    ]
    return "; ".join(filter(None, parts))


class EvidenceOf(SphinxDirective):
    """``{evidence} results``: all evidence in a folder of ``docs``."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        page = FOLDERS[self.arguments[0]]
        found = page.evidence if page in PAGES else [Evidence(page, file) for file in sorted(page.folder.iterdir())]
        return [part for evidence in found for part in self._told(page, evidence)]

    def _told(self, page: Page, evidence: Evidence) -> list[nodes.Node]:
        name = evidence.path.relative_to(page.folder).as_posix()
        label = f"{page.name}-{name}".replace("/", "-")
        title = nodes.rubric("", name, ids=[label], names=[label], classes=["evidence"])
        self.state.document.note_explicit_target(title)
        made: list[nodes.Node] = [title]
        if len(evidence.runs) > 1:
            headers = ["run", *evidence.runs[0].figures, "s", "files"]
            rows = [
                [[nodes.Text(run.path.name)], *([nodes.Text(f)] for f in run.figures.values()),
                 [nodes.Text(f"{run.seconds:.1f}")], self._files(run)]
                for run in evidence.runs
            ]  # fmt: skip
            made.append(table(headers, rows, "runs"))
        else:
            (run,) = evidence.runs
            figures = "; ".join(f"{split} {figure}" for split, figure in run.figures.items())
            made.append(nodes.paragraph("", "", nodes.strong("", figures), nodes.Text("; "), *self._files(run)))
        again = f"; run again: {evidence.second}" if evidence.second else ""
        made.append(nodes.paragraph("", told(evidence.runs[0]) + again))
        lines = "\n".join(dict.fromkeys(map(command, evidence.runs)))
        made.append(nodes.literal_block(lines, lines, language="sh", classes=["command"]))
        return made

    def _files(self, run: Kept) -> list[nodes.Node]:
        parts: list[nodes.Node] = []
        for file in KEPT:
            target = f"/{(run.path / file).relative_to(run.page.folder.parent).as_posix()}"
            parts += [addnodes.download_reference("", file, reftarget=target, refdoc=self.env.docname), nodes.Text(" ")]
        return parts


def setup(app: Sphinx) -> dict[str, bool]:
    """What Sphinx calls."""
    app.add_directive("evidence", EvidenceOf)
    return {"parallel_read_safe": True}
