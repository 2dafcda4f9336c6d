"""Every figure of a trained language model in docs/results.md, and every one in docs/labels.md that names evidence, is
that of a run whose evidence is kept."""

import csv
import json
import math
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import evidence
import pytest
from command_line import TEXT, command
from evidence import KEPT as FILES
from evidence import PAGES, Evidence, Page, again
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from lmzoo.cli.overrides import fill_groups
from lmzoo.core.configs import CONFIGS
from lmzoo.core.errors import UserError
from lmzoo.runs.configuration import Configuration

RESULTS, LABELS = PAGES
README = (evidence.ROOT / "README.md").read_text(encoding="utf-8")
KEPT = [kept for page in PAGES for kept in page.evidence]


def rows(page: Page) -> list[dict[str, str]]:
    """The rows of the tables of a page, also of those that are files, by their headers."""
    return rows_of(page.text) + [row for table in page.tables for row in csv.DictReader(table.splitlines())]


def rows_of(text: str) -> list[dict[str, str]]:
    """The rows of the tables in a text."""
    found, header = [], None
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else None
        if not cells:
            header = None
        elif header is None:
            header = cells
        elif not set(line) <= set("|-: "):
            found.append(dict(zip(header, cells, strict=True)))
    return found


def figures(row: dict[str, str]) -> dict[str, list[str]]:
    """The perplexities of a row by split, as printed."""
    found: dict[str, list[str]] = {"valid": [], "test": []}
    pairs = "valid / test by order" in row
    for header, cell in row.items():
        shown = re.findall(r"\d+\.\d+|∞", cell)
        if pairs and header.isdigit():
            found["valid"] += shown[::2]
            found["test"] += shown[1::2]
        elif header in found:
            found[header] += shown
    return found


def linked(page: Page, row: dict[str, str]) -> list[Evidence]:
    """The evidence that a row of a page names."""
    return page.linked(" ".join(row.values()))


LABELLED = [row for row in rows(LABELS) if "figure" in row and linked(LABELS, row)]
OURS = [row for row in rows(RESULTS) if any(figures(row).values()) and not next(iter(row.values())).startswith("KenLM")]


@pytest.mark.parametrize("row", OURS, ids=lambda row: next(iter(row.values())))
def test_figures_are_those_of_the_evidence(row: dict[str, str]):
    kept = linked(RESULTS, row)
    assert kept, "the row names no evidence"
    for split, shown in figures(row).items():
        values = [math.inf if value is None else value for each in kept for value in each.perplexities(split)]
        for figure in shown:
            digits = len(figure.partition(".")[2])
            assert figure in {f"{value:.{digits}f}".replace("inf", "∞") for value in values}, (split, figure)


@pytest.mark.parametrize("row", LABELLED, ids=lambda row: f"{row.get('`task=`', '')} {row['`labeller=`']}")
def test_figures_of_labels_are_those_of_the_evidence(row: dict[str, str]):
    """The measure of the task, then accuracy of unknown words, and seconds of training and labelling."""
    (kept,) = linked(LABELS, row)
    (results,) = kept.results
    test = results["details"]["test"]
    shown = re.findall(r"\d+\.\d+", row["figure"])
    keys = [results["measure"], "unknown_accuracy"][: len(shown)]
    assert shown == [f"{100 * test[key]:.2f}" for key in keys]
    assert row["s"] == f"{results['seconds']:.1f} + {results['labelling_seconds']:.1f}"


PUBLISHED = [
    (page, row)
    for page, table in (("README", rows_of(README)), ("results", rows(RESULTS)))
    for row in table
    if any(header.startswith("published") for header in row)
]
SOURCES = {row["key"].strip("[]"): row["figures"] for row in rows(RESULTS) if "figures" in row and "key" in row}


def test_pages_have_published_figures():
    assert {page for page, _ in PUBLISHED} == {"README", "results"}
    assert {"M18", "K18", "Me20", "Me22", "W15", "T17"} <= SOURCES.keys()


@pytest.mark.parametrize(("page", "row"), PUBLISHED, ids=lambda value: str(value)[:60])
def test_a_published_figure_is_that_of_a_source(page: str, row: dict[str, str]):
    """Each has a key, and the list has the figure beside it."""
    for header, cell in row.items():
        if not header.startswith("published") or cell in ("", "the same", "none found"):
            continue
        claims = re.findall(r"([^\[\]]*)((?: ?\[\w+\])+)", cell)
        assert "".join(claim + keys for claim, keys in claims) == cell, "a figure has no source"
        for claim, keys in claims:
            figures = re.findall(r"\d+(?:\.\d+)?", re.sub(r"\([^)]*\)|\S*\d-gram|24M", "", claim))
            assert figures, claim
            for key in re.findall(r"\w+", keys):
                told = re.findall(r"\d+(?:\.\d+)?", SOURCES[key])
                assert set(figures) <= set(told), (key, figures)


def strongest(row: dict[str, str], column: str) -> float:
    """The lowest figure in a column of published ones, or in that of comparable ones; infinite where there is none."""
    cells = {header.removeprefix("published: "): cell for header, cell in row.items()}
    cell = cells["comparable" if cells[column].startswith(("the same", "none found; over")) else column]
    return min(map(float, re.findall(r"\d+(?:\.\d+)?", re.sub(r"\(.*?\)|\[.*?\]|± \S+", "", cell))), default=math.inf)


@pytest.mark.parametrize("column", ["comparable", "best of the kind"])
def test_the_strongest_published_figure_stands_everywhere(column: str):
    """The table of models has that of the rows of runs, for each model; the picture is compared with it elsewhere."""
    of_runs = [row for page, row in PUBLISHED if "published: best of the kind" in row]
    models = {row["`model=`"].strip("`"): strongest(row, column) for row in of_runs if "`model=`" in row}
    for row in of_runs:
        if "`model=`" in row:
            continue
        for kept in linked(RESULTS, row):
            model = kept.runs[0].config["model"]["name"]
            assert models[model] <= strongest(row, column), (model, row)


def test_seconds_of_whole_sentences_are_those_of_the_evidence():
    page = (evidence.DOCS / "whole_sentence.md").read_text(encoding="utf-8").partition("## Penn Treebank")[2]
    shown = re.findall(r"([\d,]+)(?: and ([\d,]+))? s\b", page.partition("## Limits")[0])
    kept = [f"{run.seconds:,.0f}" for each in KEPT if each.path.name.startswith("whole_sentence") for run in each.runs]
    assert sorted(filter(None, sum(shown, ()))) == sorted(kept)


def test_the_best_of_the_literature_stands_beside_our_best():
    """Nobody shall think that an LSTM of ours beats it."""
    for page, row in PUBLISHED:
        if re.search(r"(?<!of )75\.12", " ".join(row.values())):
            best = next(cell for header, cell in row.items() if "best" in header)
            assert re.findall(r"57\.3|50\.1|47\.9", best) == ["57.3", "50.1", "47.9"], page


def test_rows_of_labels_name_evidence():
    assert len(LABELLED) > 15


@pytest.mark.parametrize(
    "evidence",
    [pytest.param(kept, id=kept.name, marks=[pytest.mark.slow] if i % 6 else []) for i, kept in enumerate(KEPT)],
)
def test_evidence_is_whole_and_its_configuration_composes(evidence: Evidence):
    assert evidence.runs
    for run in evidence.runs:
        assert {file.name for file in run.path.iterdir()} >= set(FILES)
        provenance = json.loads((run.path / "provenance.json").read_text())
        assert not any(entry["git"]["dirty"] for entry in provenance)
    fill_groups([CONFIGS])
    with initialize_config_dir(version_base="1.3", config_dir=str(CONFIGS)):
        overrides = [*run.overrides, "run_dir=anywhere"]
        composed = OmegaConf.to_container(compose(evidence.page.command, overrides), resolve=True)
    expected = {**Configuration(composed).result_options, "trainer.precision": run.options.get("trainer.precision")}
    given = {override.lstrip("+").partition("=")[0] for override in run.overrides}
    inherited = {key for key in run.options if run.options.get("trainer.from") and key.startswith("model.")} - given
    shared = expected.keys() & run.options.keys() - inherited
    assert {key: run.options[key] for key in shared} == {key: expected[key] for key in shared}


def test_all_evidence_is_that_of_a_row():
    linked = {run.path for evidence in KEPT for run in evidence.runs}
    assert linked == {file.parent for page in PAGES for file in page.folder.rglob("results.json")}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_kept_run_is_made_again_or_the_reason_is_reported(page: Page, tmp_path: Path):
    """Runs of earlier versions, too, whose results do not name a device."""
    making = evidence.Again(tmp_path, 10, "c0ffee9c")
    told = [making.hindrance(run) for kept in page.evidence for run in kept.runs]
    assert None in told
    assert any(told)


GROUPS = {
    "all": "",
    "determiner and noun": "^determiner_noun",
    "subject and verb": "subject_verb|^distractor",
    "anaphors": "^anaphor",
    "irregular forms": "^irregular",
    "islands": "island|left_branch|sentential|^coordinate",
}
"""The paradigms of minimal pairs in each column of their table."""


@pytest.mark.parametrize(("model", "place"), [("n-gram", 1), ("LSTM", 4)])
def test_figures_of_minimal_pairs_are_means_over_their_paradigms(model: str, place: int):
    kept = (evidence.DOCS / "benchmarks/minimal_pairs.txt").read_text().splitlines()[1:]
    table = (evidence.DOCS / "benchmarks/minimal_pairs.csv").read_text().splitlines()
    (row,) = (row for row in csv.DictReader(table) if row["model"].startswith(model))
    paradigms = {cells[0]: [int(cell) for cell in cells[place : place + 3]] for cells in map(str.split, kept)}
    for group, pattern in GROUPS.items():
        right = [counts[0] / 10 for name, counts in paradigms.items() if re.search(pattern, name)]
        assert float(row[group]) == pytest.approx(sum(right) / len(right), abs=0.051), group
    for place, header in enumerate(("ties, of 67,000", "decided by `<unk>`"), 1):
        assert int(row[header].replace(",", "")) == sum(counts[place] for counts in paradigms.values())


NGRAM = [*TEXT, "model=ngram", "model.order=2", "model.discount_fallback=true", "device=cpu"]


@pytest.fixture
def pages(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The page ``docs/results.md`` with two rows: an n-gram model, and a cache over it; an empty one of labels."""
    monkeypatch.setattr(evidence, "DOCS", folder / "docs")
    for name, line in {"ngram": NGRAM, "cache": [*TEXT, "model=cache", "model.run=outputs/ngram"]}.items():
        assert command(*line, f"run_dir=outputs/{name}").code == 0
        kept = folder / "docs/results" / name
        kept.mkdir(parents=True)
        for file in FILES:
            shutil.copyfile(f"outputs/{name}/{file}", kept / file)
        started = json.loads((kept / "provenance.json").read_text())
        started[-1]["argv"] = ["train.py", *line, f"run_dir=outputs/{name}"]
        (kept / "provenance.json").write_text(json.dumps(started))
    shutil.rmtree("outputs")
    rows = "".join(f"| [{name}](results/{name}) |\n" for name in ("cache", "ngram"))
    (folder / "docs/results.md").write_text(f"| evidence |\n|---|\n{rows}")
    (folder / "docs/labels.md").write_text("none\n")
    return folder


def change(run: Path, **changes: Any) -> None:
    results = json.loads((run / "results.json").read_text())
    (run / "results.json").write_text(json.dumps(results | changes))


def told(names: Sequence[str] = (), minutes: float = 10) -> dict[str, str]:
    """What is printed of each row, by its evidence."""
    lines = again(Path("again"), minutes, names, "c0ffee9c")
    return dict(line.removeprefix("results/").split(": ", 1) for line in lines)


def test_a_run_that_is_not_finished_is_no_evidence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sys.argv", ["evidence.py", "keep", "none", str(tmp_path)])
    with pytest.raises(UserError, match="is not finished"):
        evidence.main()


def test_quick_rows_are_run_again_with_what_they_are_made_of(pages: Path):
    assert Evidence(RESULTS, pages / "docs/results/ngram").second is None
    assert told() == {"ngram": "same at c0ffee9", "cache": "same at c0ffee9"}
    for name in ("ngram", "cache"):
        kept, made = (json.loads(Path(f"{place}/{name}/results.json").read_text())
                      for place in ("docs/results", "again/c0ffee9/results"))  # fmt: skip
        assert made["perplexity"] == kept["perplexity"]
        assert made["model"] == name
        assert Evidence(RESULTS, pages / f"docs/results/{name}").second == "same at c0ffee9"


def test_a_row_says_what_moved(pages: Path):
    perplexity = json.loads((pages / "docs/results/ngram/results.json").read_text())["perplexity"]
    change(pages / "docs/results/ngram", perplexity=perplexity | {"test": 1234.5678}, precision="bfloat16")
    now = f"{perplexity['test']:.2f}"
    assert told(["results/ngram"]) == {"ngram": f"test 1234.57 → {now} at c0ffee9"}


@pytest.mark.slow
def test_several_runs_of_a_row_say_how_many_moved(pages: Path):
    for name in ("one", "two"):
        shutil.copytree(pages / "docs/results/ngram", pages / f"docs/results/orders/{name}")
        kept = pages / f"docs/results/orders/{name}"
        for file in ("config.yaml", "provenance.json"):
            (kept / file).write_text((kept / file).read_text().replace("outputs/ngram", f"outputs/{name}"))
    perplexity = json.loads((kept / "results.json").read_text())["perplexity"]
    change(kept, perplexity=perplexity | {"test": perplexity["test"] + 0.25})
    RESULTS.file.write_text("| [orders](results/orders) |\n")
    assert told() == {"orders": "1 of 2 moved, by 0.25 at most, at c0ffee9"}


@pytest.mark.slow
@pytest.mark.parametrize("slow", ["ngram", "cache"])
def test_long_rows_and_what_is_made_of_them_are_left_alone(pages: Path, slow: str):
    change(pages / f"docs/results/{slow}", seconds=600)
    lines = told()
    assert lines[slow] == "left alone: took 600 s"
    other = "left alone: is made of outputs/ngram, which took 600 s" if slow == "ngram" else "same at c0ffee9"
    assert lines[{"ngram": "cache", "cache": "ngram"}[slow]] == other
    assert not (pages / f"docs/results/{slow}/again.json").exists()


@pytest.mark.slow
def test_a_row_whose_input_is_gone_is_left_alone(pages: Path):
    RESULTS.file.write_text("| [cache](results/cache) |\n")
    assert told() == {"cache": "left alone: is made of outputs/ngram, which is not there"}
    assert command(*NGRAM, "run_dir=outputs/ngram").code == 0
    assert told() == {"cache": "same at c0ffee9"}


def test_a_row_that_fails_says_so(pages: Path):
    kept = pages / "docs/results/ngram/provenance.json"
    kept.write_text(kept.read_text().replace("model.order=2", "model.oder=2"))
    assert told(["results/ngram"])["ngram"].startswith("fails (error: ")
    assert "did you mean" in told(["results/ngram"])["ngram"]
    with pytest.raises(UserError, match="results/gone: no page links to such evidence"):
        told(["results/gone"])
