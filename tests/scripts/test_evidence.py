"""docs/results.md: every figure of a trained model is that of a run whose evidence is kept."""

import json
import math
import re
from pathlib import Path

import evidence
import pytest
from evidence import LINK, PAGE, Evidence, code, fingerprint, marked, today
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from lmzoo.core.configs import CONFIGS
from lmzoo.runs.settings import differences, flatten

KEPT = sorted({file.parent for file in PAGE.with_suffix("").rglob("code.json")})
TEXT = PAGE.read_text(encoding="utf-8")


def rows() -> list[dict[str, str]]:
    """The rows of the page's tables, by their headers."""
    found, header = [], None
    for line in TEXT.splitlines():
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


OURS = [row for row in rows() if any(figures(row).values()) and not next(iter(row.values())).startswith("KenLM")]


@pytest.mark.parametrize("row", OURS, ids=lambda row: next(iter(row.values())))
def test_figures_are_those_of_the_evidence(row: dict[str, str]):
    kept = [Evidence(PAGE.with_suffix("") / link[0]) for link in LINK.findall(" ".join(row.values()))]
    assert kept, "the row names no evidence"
    for split, shown in figures(row).items():
        values = [math.inf if value is None else value for each in kept for value in each.perplexities(split)]
        for figure in shown:
            digits = len(figure.partition(".")[2])
            assert figure in {f"{value:.{digits}f}".replace("inf", "∞") for value in values}, (split, figure)


def test_rows_whose_code_has_changed_say_so():
    assert marked(TEXT) == TEXT, "run: python scripts/evidence.py mark"


@pytest.mark.parametrize("folder", KEPT, ids=lambda folder: folder.name)
def test_evidence_is_whole_and_its_configuration_composes(folder: Path):
    assert folder.relative_to(PAGE.with_suffix("")).as_posix() in {link[0].rstrip("/") for link in LINK.findall(TEXT)}
    assert Evidence(folder).runs
    for run in Evidence(folder).runs:
        assert {file.name for file in run.iterdir()} >= set(evidence.KEPT)
        provenance = json.loads((run / "provenance.json").read_text())
        assert not any(entry["git"]["dirty"] for entry in provenance)
    kept = OmegaConf.to_container(OmegaConf.load(run / "config.yaml"))
    overrides = [option for option in provenance[-1]["argv"][1:] if option != "-m"]
    if "-m" in provenance[-1]["argv"]:
        overrides = swept(overrides, run)
    with initialize_config_dir(version_base="1.3", config_dir=str(CONFIGS)):
        composed = OmegaConf.to_container(compose("train", [*overrides, "run_dir=anywhere"]), resolve=True)
    known = flatten(kept)
    assert not differences(kept, {key: value for key, value in flatten(composed).items() if key in known})


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
    files = code("lstm", today)
    assert {"lmzoo/models/neural/recurrent.py", "lmzoo/training/descent.py", "lmzoo/protocol/perplexity.py"} <= set(
        files
    )
    assert not any("hmm" in file or "cli" in file for file in files)
    assert code("lstm", lambda path: None) == {}
