"""The notebook of the documentation runs."""

import json
from pathlib import Path

import matplotlib as mpl
import pytest
from command_line import ROOT

NOTEBOOK = json.loads((ROOT / "docs/tour.ipynb").read_text(encoding="utf-8"))


@pytest.mark.slow
def test_the_tour_runs_from_top_to_bottom(folder: Path, capsys: pytest.CaptureFixture):
    mpl.use("agg")
    cells = ["".join(cell["source"]) for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]
    usual, quick = (
        ("EPOCHS = 6", '"corpus.context=sentence"'),
        ("EPOCHS = 1", '"corpus.context=sentence", "trainer.first_tokens=6000"'),
    )
    for old, new in zip(usual, quick, strict=True):
        assert cells[0].count(old) == 1
        cells[0] = cells[0].replace(old, new)
    names: dict = {}
    for cell in cells:
        exec(compile(cell, "tour.ipynb", "exec"), names)
    assert capsys.readouterr().out.count("test perplexity") == 10
    tested = {name: lm.results["perplexity"]["test"] for name, lm in names["trained"].items()}
    assert tested["mixture"] < tested["5-gram"] < tested["2-gram"] < tested["unigram"]


def test_the_tour_shows_what_it_computes():
    code = [cell for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]
    outputs = [output for cell in code for output in cell["outputs"]]
    assert not [output for output in outputs if output["output_type"] == "error"]
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 4
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
