"""The page of records, beside a search through the files of evidence."""

import json

import pytest

pytest.importorskip("sphinx")
from command_line import ROOT
from evidence import INPUT
from records import TARGETS, line, records, seconds

RESULTS = ROOT / "docs" / "results"


def test_no_kept_run_of_one_core_is_faster_than_its_record():
    """A run that was made of nothing else, whose time is its own."""
    found = records()
    tried = 0
    for file in RESULTS.rglob("results.json"):
        results, config = json.loads(file.read_text()), (file.parent / "config.yaml").read_text()
        start = json.loads((file.parent / "provenance.json").read_text())[-1]
        run_dir = next(line.removeprefix("run_dir: ") for line in config.splitlines() if line.startswith("run_dir: "))
        alone = not {*INPUT.findall(config)} - {run_dir}
        if results["corpus"] == "ptb" and alone and (start["machine"]["threads"], results["device"]) == (1, "cpu"):
            for target, models in TARGETS.items():
                reached = (results["perplexity"]["test"] or 1e9) <= target
                if reached and (models is None or results["model"] in models):
                    tried += 1
                    assert seconds(found[target, "one core"][1]) <= results["seconds"]
    assert tried > 20


def test_the_time_of_what_a_record_is_made_of_counts():
    _, runs = records()[75, "one core"]
    own = [json.loads((run.path / "results.json").read_text())["seconds"] for run in runs]
    assert [run.path.name for run in runs] == ["lstm_2x512", "lstm_2x512_cache"]
    assert seconds(runs) == pytest.approx(sum(own))
    assert (116, "two cores") not in records()


def test_a_run_of_a_sweep_has_a_command_of_its_own():
    _, runs = records()[141, "one core"]
    assert "model.order=6" in line(runs[-1])
    assert "-m" not in line(runs[-1]).split()
