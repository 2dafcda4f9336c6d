"""Every figure of a trained language model in docs/results.md, and every one in docs/labels.md that names evidence, is
that of a run whose evidence is kept."""

import json
import math
import re
from pathlib import Path

import evidence
import pytest
from evidence import PAGES, Evidence, Page, code, fingerprint, marked, today
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from lmzoo.core.configs import CONFIGS
from lmzoo.runs.settings import differences, flatten

RESULTS, LABELS = PAGES
README, RECURRENT = ((evidence.ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/recurrent.md"))
KEPT = [(page, file.parent) for page in PAGES for file in sorted(page.folder.rglob("code.json"))]


def rows(text: str) -> list[dict[str, str]]:
    """The rows of the tables of a page, by their headers."""
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
    return [Evidence(page, page.folder / name) for name, _ in page.link.findall(" ".join(row.values()))]


LABELLED = [row for row in rows(LABELS.text) if "figure" in row and linked(LABELS, row)]
OURS = [
    row for row in rows(RESULTS.text) if any(figures(row).values()) and not next(iter(row.values())).startswith("KenLM")
]


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
    for page, text in (("README", README), ("results", RESULTS.text), ("recurrent", RECURRENT))
    for row in rows(text)
    if any(header.startswith("published") and ": " in header for header in row)
]
SOURCES = {row["key"].strip("[]"): row["figures"] for row in rows(RESULTS.text) if "figures" in row and "key" in row}


def test_pages_have_published_figures():
    assert {page for page, _ in PUBLISHED} == {"README", "results", "recurrent"}
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


def test_the_best_of_the_literature_stands_beside_our_best():
    """Nobody shall think that an LSTM of ours beats it."""
    for page, row in PUBLISHED:
        if re.search(r"(?<!of )75\.12", " ".join(row.values())):
            best = next(cell for header, cell in row.items() if "best" in header)
            assert re.findall(r"57\.3|50\.1|47\.9", best) == ["57.3", "50.1", "47.9"], page


def test_rows_of_labels_name_evidence():
    assert len(LABELLED) > 15


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_rows_whose_code_has_changed_say_so(page: Page):
    assert marked(page, page.text) == page.text, "run: python scripts/evidence.py mark"


@pytest.mark.parametrize(("page", "folder"), KEPT, ids=lambda value: value.name)
def test_evidence_is_whole_and_its_configuration_composes(page: Page, folder: Path):
    names = {name.rstrip("/") for name, _ in page.link.findall(page.text)}
    assert folder.relative_to(page.folder).as_posix() in names
    kept = Evidence(page, folder)
    assert kept.runs
    for run in kept.runs:
        assert {file.name for file in run.iterdir()} >= set(evidence.KEPT)
        provenance = json.loads((run / "provenance.json").read_text())
        assert not any(entry["git"]["dirty"] for entry in provenance)
    config = OmegaConf.to_container(OmegaConf.load(run / "config.yaml"))
    overrides = [option for option in provenance[-1]["argv"][1:] if option != "-m"]
    if "-m" in provenance[-1]["argv"]:
        overrides = swept(overrides, run)
    with initialize_config_dir(version_base="1.3", config_dir=str(CONFIGS)):
        command = {"model": "train", "labeller": "label"}[page.kind]
        composed = OmegaConf.to_container(compose(command, [*overrides, "run_dir=anywhere"]), resolve=True)
    known = flatten(config)
    assert not differences(config, {key: value for key, value in flatten(composed).items() if key in known})


def swept(overrides: list[str], run: Path) -> list[str]:
    """The overrides of one run of a sweep: the value that its configuration has for each list, a preset's too."""
    kept = flatten(OmegaConf.to_container(OmegaConf.load(run / "config.yaml")))
    values = dict(override.split("=", 1) for override in overrides)
    lists = {key for key, value in values.items() if re.match(r"[^\[]*,", value)}
    if preset := values.get("experiment"):
        lists |= set(
            OmegaConf.select(
                OmegaConf.load(CONFIGS / "experiment" / f"{preset}.yaml"), "hydra.sweeper.params", default={}
            )
        )
    return [
        f"{key}={kept[key]}" if key in lists else f"{key}={values[key]}" for key in {**values, **dict.fromkeys(lists)}
    ]


def test_a_fingerprint_sees_what_a_module_does():
    source = '"""What it is."""\n\ndef f(x):\n    # why\n    if x < 0:\n        raise ValueError(x)\n    return x + 1\n'
    same = 'def f(x):\n    """Other words."""\n    if x < 0:\n        raise ValueError("no")\n    return x + 1  # so\n'
    assert fingerprint(source) == fingerprint(same) != fingerprint(source.replace("+", "-"))


def test_the_code_of_a_model_is_its_family_and_the_training():
    files = code(RESULTS, "lstm", today)
    assert {"lmzoo/models/neural/recurrent.py", "lmzoo/training/descent.py", "lmzoo/protocol/perplexity.py"} <= set(
        files
    )
    assert not any("hmm" in file or "cli" in file for file in files)
    assert code(RESULTS, "lstm", lambda path: None) == {}
    labels = code(LABELS, "crf", today)
    assert {"lmzoo/labels/crf.py", "lmzoo/labels/templates.py", "lmzoo/models/hmm/inference/dense.py"} <= set(labels)
